"""Whether schedulers rank alike under measured throughputs and under the default model that has not seen them.

Where the default model plays a source's own rows, its ranking is that of the source by construction. So a whole source,
or all rows of a GPU type, is left out; the rule of `envs.performance.scaling` fills in what is missing; and ten
schedulers play the same workloads under the modelled and under the measured throughputs. ElasticFlow's and
DeepLearningExamples' rows are in no fit anyway; there the model is asked for their batch sizes.

Both sides draw the same jobs, in GPU-hours, from the same seeds, and are loaded alike. A model that is wrong by one
factor for all jobs is thus not punished; one that is wrong about scaling, or about which jobs a GPU type suits, is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, rankdata

from baselines import Afs, Fifo, Gavel, Las, Optimus, Pollux, Sia, Srtf, Themis, Tiresias
from envs.cluster import build_cluster
from envs.evaluation.compare import compare_schedulers
from envs.performance import CostBySize
from envs.performance.measurements import TESTBEDS, priors
from envs.performance.scaling import surface
from envs.performance.step_time import StepPoints, StepTime, fit_step_time
from envs.performance.table_model import SurfaceOf, TableModel, raw_throughputs
from envs.performance.zoo import ModelProfile, model_profile
from envs.scheduling import Scheduler
from envs.simulation import Scenario, Setup
from envs.types import FloatArray, IntArray, MurmurationError
from envs.workloads import SyntheticSource
from envs.workloads.mix import JobMix
from experiments.performance.held_out import find_step_batch, play_rows, read_held_out
from experiments.performance.reproduction import Reproduction

EPISODES = 16
RESAMPLES = 2000
BASELINE = "fifo"
SCHEDULERS: Mapping[str, Callable[[], Scheduler]] = {
    "fifo": Fifo,
    "srtf": Srtf,
    "las": Las,
    "tiresias": Tiresias,
    "optimus": Optimus,
    "afs": Afs,
    "gavel": Gavel,
    "themis": Themis,
    "pollux": Pollux,
    "sia": Sia,
}
GAVEL = ("resnet18", "resnet50", "transformer", "lm", "recommendation")
POLLUX = ("resnet18_cifar10", "resnet50_imagenet", "deepspeech2", "bert_squad", "yolov3")
NVIDIA = ("TensorFlow ResNet-50 v1.5", "PyTorch BERT-large SQuAD", "PyTorch NCF")
"""Programs and models of DeepLearningExamples that were measured on V100 and A100 with 1 and 8 GPUs."""


@dataclass(frozen=True)
class OtherCurves(TableModel):
    """The default model with other surfaces, or at other batch sizes.

    Args:
        surface_of: the surface of a model on a GPU type.
        profiles: of models with other batch sizes than the zoo's.
    """

    surface_of: SurfaceOf = surface
    profiles: tuple[ModelProfile, ...] = ()

    def raw(
        self, model: str, profile: ModelProfile, gpu_type: str, max_gpus: int, nodes: IntArray, batch_size: int | None
    ) -> FloatArray:
        """Return the raw throughputs; see `TableModel.raw`."""
        own = next((each for each in self.profiles if each.name == profile.name), profile)
        return raw_throughputs(own, gpu_type, max_gpus, nodes, batch_size, self.surface_of)


class HeldOutTable(NamedTuple):
    """A measured table, what is modelled without it, and a cluster of 16 GPUs."""

    title: str
    gpu_types: tuple[str, ...]
    gpus_per_node: int
    models: tuple[str, ...]
    modelled: SurfaceOf
    measured: SurfaceOf = surface
    profiles: tuple[ModelProfile, ...] = ()

    def sides(self) -> dict[str, TableModel]:
        """Return the performance models "modelled" and "measured"."""
        found = {"modelled": self.modelled, "measured": self.measured}
        return {name: OtherCurves(self.gpus_per_node, each, self.profiles) for name, each in found.items()}


def list_tables() -> list[HeldOutTable]:
    """Return the tables, each held out as a whole."""
    elastic = [with_batch(name, "strong", 256) for name in ("resnet50_imagenet", "vgg16")]
    elastic.append(with_batch("deepspeech2", "strong", 64))
    nvidia = [with_batch("resnet50", "weak", 256), with_batch("bert_large", "weak", 12)]
    nvidia.append(with_batch("ncf", "strong", 1 << 20))
    played = play_rows(read_held_out())
    chosen = (played["program"] + " " + played["model"]).isin(NVIDIA) & (played["precision"] == "mixed")
    held = {
        "ElasticFlow": (("A100",), elastic, played[played["source"] == "ElasticFlow"]),
        "NVIDIA": (("V100", "A100"), nvidia, played[chosen]),
    }
    return [
        HeldOutTable("Sia", ("V100", "A100"), 8, POLLUX, partial(surface, without="sia")),
        HeldOutTable("Pollux", ("T4", "V100"), 4, POLLUX, partial(surface, without="pollux")),
        HeldOutTable("Gavel P100", ("V100", "P100"), 4, GAVEL, partial(surface, without="P100")),
        HeldOutTable("Gavel K80", ("V100", "K80"), 4, GAVEL, partial(surface, without="K80")),
        *(
            HeldOutTable(title, types, 8, tuple(each.name for each in at), surface, fit_rows(rows), tuple(at))
            for title, (types, at, rows) in held.items()
        ),
    ]


def with_batch(name: str, scaling: str, batch: int) -> ModelProfile:
    """Return a model's profile at another usual batch size, with no limits to it."""
    return replace(model_profile(name), scaling=scaling, batch=batch, min_batch=1, max_batch=1 << 30)


def fit_rows(played: pd.DataFrame) -> SurfaceOf:
    """Return surfaces through held-out rows, as from `play_rows`; the default model's form connects them."""
    found: dict[tuple[str, str], StepTime] = {}
    bed = TESTBEDS["elasticflow"]
    known = played[(played["lacks"] == "") & (played["batch"] != "not stated")]
    known = known.drop_duplicates(["zoo_model", "gpu_type", "num_gpus", "num_nodes", "batch_per_gpu"])
    for (name, gpu_type), rows in known.groupby(["zoo_model", "gpu_type"]):
        samples = rows["measured"] / rows["samples_per_second"]
        batch = np.array([find_step_batch(row) for row in rows.to_dict("records")]) * samples
        columns = (rows["num_gpus"], rows["num_nodes"], batch / rows["num_gpus"], batch / rows["measured"])
        points = StepPoints(*(np.array(column, np.float64) for column in columns))
        found[str(name), str(gpu_type)] = fit_step_time(
            points, priors(model_profile(str(name)), str(gpu_type), bed), bed.gpus_per_node
        )
    return lambda profile, gpu_type: found.get((profile.name, gpu_type)) or surface(profile, gpu_type)


def play_table(table: HeldOutTable, *, seed: int = 0, episodes: int = EPISODES) -> dict[str, FloatArray]:
    """Play the schedulers under both sides of a table.

    Returns:
        By side, float64[schedulers, episodes]: mean JCT in seconds.

    Raises:
        MurmurationError: a scheduler failed.
    """
    found = {}
    nodes = 16 // (table.gpus_per_node * len(table.gpu_types))
    group = {"num_nodes": nodes, "num_gpus": table.gpus_per_node, "cpu_cores": 8 * table.gpus_per_node}
    links = {"memory": 500, "intra_node_bandwidth": 150.0, "inter_node_bandwidth": 12.5}
    cluster = build_cluster(table.title, [{"gpu_type": name, **group, **links} for name in table.gpu_types])
    for side, model in table.sides().items():
        source = SyntheticSource(
            cluster,
            model,
            num_jobs=60,
            warm_up=10,
            measured=30,
            max_gpus=8,
            load_definition="efficient",
            stream="bursty",
            mix=JobMix(table.models),
            seed=seed,
            num_evaluation=episodes,
        )
        setup = Setup(cluster, model, Scenario(reconfiguration=CostBySize()))
        schedulers = {name: make() for name, make in SCHEDULERS.items()}
        played = compare_schedulers(schedulers, source.evaluation("test"), setup, seed)
        if played.failures or played.inapplicable:
            raise MurmurationError(f"{table.title}, {side}: {dict(played.failures) | dict(played.inapplicable)}")
        found[side] = np.array([[each.mean_jct for each in played.summaries[name]] for name in SCHEDULERS])
    return found


def compare_ranks(modelled: FloatArray, measured: FloatArray, *, seed: int = 0) -> dict[str, float]:
    """Compare the rankings of schedulers under two tables.

    Args:
        modelled: float64[schedulers, episodes], mean JCT.
        measured: the same, of the same episodes.
        seed: of the bootstrap.

    Returns:
        Spearman's correlation of the mean JCTs with its 95 % interval over episodes, and Kendall's; `repeated`, the
        median of Spearman's between two drawings of as many episodes, both measured, which no model can be expected to
        exceed; and the number of pairs of schedulers, of those in another order, and of those where both orders are
        clear (`find_reversed`).
    """
    draws = _draw_episodes(measured.shape[1], seed)
    drawn = [rankdata(side[:, draws].mean(axis=2), axis=0) for side in (modelled, measured)]
    low, high = np.percentile(_correlate(*drawn), (2.5, 97.5))
    means = modelled.mean(axis=1), measured.mean(axis=1)
    swapped = find_reversed(modelled, measured, seed=seed)
    return {
        "Spearman": float(_correlate(*map(rankdata, means))),
        "low": float(low),
        "high": float(high),
        "Kendall": float(kendalltau(*means).statistic),
        "repeated": float(np.median(_correlate(drawn[1], np.roll(drawn[1], 1, axis=1)))),
        "pairs": len(measured) * (len(measured) - 1) // 2,
        "reversed": len(swapped),
        "clearly": sum(clear for *_, clear in swapped),
    }


def _draw_episodes(episodes: int, seed: int) -> IntArray:
    return np.random.default_rng(seed).integers(episodes, size=(RESAMPLES, episodes))


def _correlate(first: FloatArray, second: FloatArray) -> FloatArray:
    """Pearson's correlation along the first axis."""
    x, y = first - first.mean(axis=0), second - second.mean(axis=0)
    return np.asarray((x * y).sum(axis=0) / np.sqrt((x**2).sum(axis=0) * (y**2).sum(axis=0)))


def find_reversed(
    modelled: FloatArray, measured: FloatArray, *, seed: int = 0
) -> list[tuple[int, int, float, float, bool]]:
    """Return the pairs of schedulers in another order under two tables; arguments as of `compare_ranks`.

    Returns:
        Both schedulers, the faster one of the measured first; the first's mean JCT over the second's, modelled and
        measured; and whether both orders are clear: no 95 % interval of the ratio has 1 in it.
    """
    draws = _draw_episodes(measured.shape[1], seed)
    found = []
    for pair in combinations(range(len(measured)), 2):
        a, b = sorted(pair, key=measured.mean(axis=1).__getitem__)
        ratios = [float(side[a].mean() / side[b].mean()) for side in (modelled, measured)]
        if ratios[0] <= 1.0 or ratios[1] >= 1.0:
            continue
        drawn = [side[a][draws].mean(axis=1) / side[b][draws].mean(axis=1) for side in (modelled, measured)]
        clear = np.percentile(drawn[0], 2.5) > 1.0 and np.percentile(drawn[1], 97.5) < 1.0
        found.append((a, b, ratios[0], ratios[1], bool(clear)))
    return found


def validate_conclusions(
    *, seed: int = 0, episodes: int | None = None, tables: Sequence[HeldOutTable] | None = None
) -> tuple[pd.DataFrame, Reproduction]:
    """Rank schedulers under every table, modelled and measured.

    Args:
        seed: of workloads and of the bootstrap.
        episodes: of each table and side; None for `EPISODES`.
        tables: None for `list_tables`.

    Returns:
        The mean JCT of each table, side, scheduler and episode; and the tables that the command prints.
    """
    rows, ranks, swaps, names = [], [], [], list(SCHEDULERS)
    relative = pd.DataFrame({"scheduler": names})
    for table in list_tables() if tables is None else tables:
        played = play_table(table, seed=seed, episodes=episodes or EPISODES)
        for side, jct in played.items():
            for name, of_scheduler in zip(names, jct.tolist(), strict=True):
                rows += [(table.title, side, name, episode, mean) for episode, mean in enumerate(of_scheduler)]
            relative[f"{table.title}, {side}"] = jct.mean(axis=1) / jct[names.index(BASELINE)].mean()
        ranks.append({"table": table.title, **compare_ranks(played["modelled"], played["measured"], seed=seed)})
        swaps += [
            (table.title, names[a], names[b], modelled, measured, "yes" if clear else "no")
            for a, b, modelled, measured, clear in find_reversed(played["modelled"], played["measured"], seed=seed)
        ]
    printed = (
        (f"Mean JCT over that of {BASELINE}", relative),
        ("Rank correlation of the schedulers, modelled and measured", pd.DataFrame(ranks)),
        (
            "Pairs in another order: mean JCT of the first over that of the second",
            pd.DataFrame(swaps, columns=["table", "first", "second", "modelled", "measured", "clear"]),
        ),
    )
    columns = ["table", "side", "scheduler", "episode", "mean_jct"]
    return pd.DataFrame(rows, columns=columns), Reproduction(printed)
