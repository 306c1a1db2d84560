"""Published heuristics, one idea per file or folder, each a `Scheduler` of `envs.scheduling`. Imports `envs` only.

`parts` holds what several schedulers share; `compiled` plays whole episodes inside the engine.

All of them are work-conserving over GPU types: a job whose fastest type is taken starts on a slower one on which
it runs, rather than wait. Only `SamplingMatching` spreads one job over two GPU types by choice.

| class | idea | paper |
|---|---|---|
| `Fifo` | order of arrival, with or without backfilling | EASY: Lifka, JSSPP'95 |
| `Srtf` | shortest remaining time (or GPU-time) first | Muri, SIGCOMM'22, section 6 |
| `Las` | least attained service first | Tiresias, NSDI'19, section 3.2 |
| `Tiresias` | discretised two-dimensional least attained service | Tiresias, NSDI'19, section 3.2 |
| `Lucid` | least GPU time first, without preemption; light jobs beside others | Lucid, ASPLOS'23 |
| `Muri` | pairs of jobs by a matching of largest weight, where GPUs are scarce | Muri, SIGCOMM'22, sections 4 and 5 |
| `MuriLas` | the same with the queues of Muri's simulator | Muri, SIGCOMM'22, artifact |
| `Random` | any job, anywhere | the lower bound of every comparison |
| `Afs` | a GPU to the shorter of two jobs, unless the longer gains far more | AFS, NSDI'21, section 4 |
| `HeSrpt` | shares by rank of remaining time, for one power law of speedup | heSRPT, PEVA 2020 |
| `Starling` | shortest first, sized at the knee, look-ahead, batch sizes if asked: the one to beat | ours |
| `StarlingMakespan` | the same with the longest first: for a short makespan | ours; order: Graham 1969 |
| `RolloutPlanner` | Starling's candidate and others, played ahead on copies of the cluster | Chang et al., DEDS 2004 |
| `Gavel` | shares of time on every GPU type by linear programs, also of pairs | Gavel, OSDI'20 |
| `ElasticDp` | GPUs and batch sizes by a dynamic program over scaling | Saxena et al., MASCOTS'20 |
| `Synergy` | cores and memory beside GPUs, by sensitivity | Synergy, OSDI'22, section 4 |
| `Themis` | auctions by finish-time fairness | Themis, NSDI'20, section 3 |
| `Pollux` | the power mean of speedups over fair shares | Pollux, OSDI'21, section 4 |
| `Qssf` | least expected GPU time first, without preemption | Helios, SC'21, section 4.2 |
| `SamplingMatching` | sampled categories, assignments at prices, gangs over several GPU types | TPDS'24 |
| `Rubick` | GPUs and execution plans by sensitivity curves, with guarantees | MLSys'25, sections 5 and 6 |
| `RubickArtifact` | what Rubick's public artifact runs | MLSys'25, artifact |
| `Slurm` | multifactor priority, and backfill by time limits: what clusters run today | slurm.conf(5), 22.05 |
| `Sia` | GPU type and size together, by an integer program | Sia, SOSP'23, section 3 |
| `Optimus` | GPUs by marginal reduction of the remaining time | Optimus, EuroSys'18, section 4 |
| `Kueue` | any of these that keeps numbers of GPUs, behind queues with quotas | Kueue; DRF, NSDI'11 |
| `Packing` | any of these, with waiting jobs beside running ones on the same GPUs | ours, after Gavel, Lucid and Muri |
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from baselines.afs import Afs
    from baselines.elastic_dp import ElasticDp
    from baselines.fifo import Fifo
    from baselines.gavel import Gavel
    from baselines.hesrpt import HeSrpt
    from baselines.kueue import Kueue
    from baselines.las import Las
    from baselines.lucid import Lucid
    from baselines.muri import Muri
    from baselines.muri_las import MuriLas
    from baselines.optimus import Optimus
    from baselines.packing import Packing
    from baselines.planner import RolloutPlanner
    from baselines.pollux import Pollux
    from baselines.qssf import Qssf
    from baselines.random_scheduler import Random
    from baselines.rubick import Rubick, RubickArtifact
    from baselines.sampling_matching import SamplingMatching
    from baselines.sia import Sia
    from baselines.slurm import Slurm
    from baselines.srtf import Srtf
    from baselines.starling import Starling, StarlingMakespan
    from baselines.synergy import Synergy
    from baselines.themis import Themis
    from baselines.tiresias import Tiresias

_HOMES = {
    "Afs": "baselines.afs",
    "ElasticDp": "baselines.elastic_dp",
    "Fifo": "baselines.fifo",
    "Gavel": "baselines.gavel",
    "HeSrpt": "baselines.hesrpt",
    "Kueue": "baselines.kueue",
    "Las": "baselines.las",
    "Lucid": "baselines.lucid",
    "Muri": "baselines.muri",
    "MuriLas": "baselines.muri_las",
    "Optimus": "baselines.optimus",
    "Packing": "baselines.packing",
    "Pollux": "baselines.pollux",
    "Qssf": "baselines.qssf",
    "Random": "baselines.random_scheduler",
    "RolloutPlanner": "baselines.planner",
    "Rubick": "baselines.rubick",
    "RubickArtifact": "baselines.rubick",
    "SamplingMatching": "baselines.sampling_matching",
    "Sia": "baselines.sia",
    "Slurm": "baselines.slurm",
    "Srtf": "baselines.srtf",
    "Starling": "baselines.starling",
    "StarlingMakespan": "baselines.starling",
    "Synergy": "baselines.synergy",
    "Themis": "baselines.themis",
    "Tiresias": "baselines.tiresias",
}

__all__ = ["Afs", "ElasticDp", "Fifo", "Gavel", "HeSrpt", "Kueue", "Las", "Lucid", "Muri", "MuriLas", "Optimus"]
__all__ += ["Packing", "Pollux", "Qssf", "Random", "RolloutPlanner", "Rubick"]
__all__ += ["RubickArtifact", "SamplingMatching", "Sia"]
__all__ += ["Slurm", "Srtf", "Starling", "StarlingMakespan", "Synergy", "Themis", "Tiresias"]


def __getattr__(name: str) -> object:
    """Load a scheduler on first use: some import solvers that take longer to load than a small run takes."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
