"""All schedulers where nodes fail, cores are shared, and gangs are larger than a type or than the cluster."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from baselines import (
    Afs,
    ElasticDp,
    Fifo,
    Gavel,
    HeSrpt,
    Las,
    Optimus,
    Pollux,
    Random,
    SamplingMatching,
    Sia,
    Srtf,
    Starling,
    Synergy,
    Themis,
    Tiresias,
)
from envs.scheduling import Scheduler
from envs.simulation import Failures, Rounds, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import Curved

CLUSTER = ClusterSpec(
    (
        NodeSpec("new", 4, cpu_cores=12.0, memory=250.0),
        NodeSpec("old", 8, cpu_cores=24.0),
        NodeSpec("small", 2),
        NodeSpec("new", 4),
    )
)
FIELD: Mapping[str, Callable[[], Scheduler]] = {
    "afs": Afs,
    "afs_literal": lambda: Afs(literal=True),
    "elastic_dp": ElasticDp,
    "elastic_dp_strict": lambda: ElasticDp(patience=0.0),
    "fifo": Fifo,
    "fifo_easy": lambda: Fifo("easy"),
    "fifo_skip": lambda: Fifo("skip"),
    "las": Las,
    "optimus": Optimus,
    "optimus_literal": lambda: Optimus(restart_cost=0.0, shortness=0.0),
    "random": Random,
    "sampling_matching": SamplingMatching,
    "srtf": Srtf,
    "srtf_gpu_time": lambda: Srtf("gpu_time"),
    "starling": Starling,
    "tiresias": Tiresias,
    "hesrpt": HeSrpt,
    "gavel_max_min": lambda: Gavel("max_min", True, 5.0, 20.0),
    "gavel_makespan": lambda: Gavel("makespan", True, 5.0, 20.0),
    "gavel_finish_time": lambda: Gavel("finish_time", True, 5.0, 20.0),
    "gavel_unaware": lambda: Gavel("max_min", False, 5.0, 20.0),
    "pollux": lambda: Pollux(round_length=5.0, growth=2.0),
    "sia": lambda: Sia(round_length=5.0),
    "synergy_greedy": lambda: Synergy("greedy", round_length=5.0),
    "synergy_literal": lambda: Synergy("tune", round_length=5.0, literal=True),
    "synergy_opt": lambda: Synergy("opt", round_length=5.0),
    "synergy_tune": lambda: Synergy("tune", round_length=5.0),
    "themis": lambda: Themis(lease=9.0),
}


def mixture(rng: np.random.Generator) -> Workload:
    """12 jobs of 1 to 12 GPUs, half of them elastic, of two models."""
    rows: list[JobSpec] = []
    for i in range(12):
        gpus = int(rng.integers(1, 13))
        least, most = (int(rng.integers(1, gpus + 1)), int(rng.integers(gpus, 17))) if rng.random() < 0.5 else (0, 0)
        submit, work = float(rng.integers(0, 50)), float(rng.integers(5, 200))
        rows.append(JobSpec(i, submit, gpus, work, str(rng.choice(["any", "large"])), min_gpus=least, max_gpus=most))
    return Workload.of(rows)


@pytest.mark.parametrize("name", sorted(FIELD))
@pytest.mark.parametrize("seed", [0, 3])
def test_all_jobs_end_and_nothing_is_refused(name, seed):
    """Nodes fail every minute on average; some runs have a round every three seconds too, and half shared cores."""
    scenario = Scenario(
        restart_delay=1.0,
        rounds=Rounds(interval=3.0 if seed % 2 else None),
        failures=Failures(mtbf=60.0, repair_time=10.0, checkpoint_interval=5.0),
        cpu_memory="shared" if seed // 2 % 2 else "unlimited",
        horizon=20_000.0,
    )
    workload = mixture(np.random.default_rng(seed))
    result = run_episode(FIELD[name](), Simulator(workload, Setup(CLUSTER, Curved(), scenario), seed))
    assert result.finished.all()
    assert result.counters.get("stopped_programs", 0) == result.counters.get("unsolved_programs", 0) == 0


@pytest.mark.parametrize("name", sorted(FIELD))
@pytest.mark.parametrize("shared", ["unlimited", "shared"])
def test_a_job_that_asks_for_more_than_there_is_runs_on_less(name, shared):
    """The requests are 30 and 50 of 18 GPUs, the least sizes 2 and 12; nodes fail meanwhile."""
    rows = [
        JobSpec(0, 0.0, 30, 100.0, "any", min_gpus=2, max_gpus=40),
        JobSpec(1, 1.0, 2, 50.0, "any"),
        JobSpec(2, 2.0, 50, 50.0, "large", min_gpus=12, max_gpus=50),
    ]
    failures = Failures(mtbf=60.0, repair_time=10.0, checkpoint_interval=5.0)
    world = {"cpu_memory": shared, "failures": failures, "horizon": 20_000.0}
    scenario = Scenario(restart_delay=1.0, rounds=Rounds(interval=3.0), **world)
    result = run_episode(FIELD[name](), Simulator(Workload.of(rows), Setup(CLUSTER, Curved(), scenario), 0))
    assert result.finished.all()
