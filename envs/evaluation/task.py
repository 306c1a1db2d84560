"""Tasks: named, versioned benchmark problems whose hash tells whether two results belong to the same problem."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.evaluation.plain_values import name_object
from envs.evaluation.statistics import MIN_WORKLOADS
from envs.performance import PerformanceModel, find_throughput
from envs.performance.batch_size import batch_sizes
from envs.simulation import WORLD_VERSION, Setup, ThroughputTable
from envs.types import ClusterSpec, Configuration, MurmurationError, PerformanceError
from envs.workloads import Workload
from envs.workloads.workload import used_columns

HASH_DIGITS = 12  # hexadecimal digits of a hash that are shown and kept
DRAWN_MODELS = 8  # of the first episode, whose throughputs show the spreads of a performance model that draws them
ARRAY_FORM = "{:.6g}"  # rounding errors differ between machines and versions of NumPy; six digits hide them
NUMBER_FORM = "{:.12g}"
# Fields of a workload that only messages show, and its jobs, of which those columns enter that are used.
NOT_HASHED = frozenset({"name", "notes", "ids", "jobs", "recorded"})


@dataclass(frozen=True, slots=True)
class Objective:
    """The quantity to minimise: jct * total JCT + makespan * makespan, both in seconds.

    The weights are those of `envs.episodes.TeamReward`.

    Raises:
        MurmurationError: a weight is negative, or both are 0.
    """

    jct: float = 1.0
    makespan: float = 0.0

    def __post_init__(self) -> None:
        if min(self.jct, self.makespan) < 0 or self.jct + self.makespan <= 0:
            raise MurmurationError(
                f"task.objective: jct is {self.jct} and makespan {self.makespan}; neither may be negative, nor both 0"
            )

    def __str__(self) -> str:
        if not self.makespan:
            return "mean JCT"
        return f"{self.jct:g} x total JCT + {self.makespan:g} x makespan" if self.jct else "makespan"


@dataclass(frozen=True)
class Task:
    """The name and the version of a benchmark problem; its setup and its workload are chosen by its configuration.

    Args:
        name: the name of the task, such as full-64.
        version: raised whenever the hash changes.
        objective: what is minimised.
        hashes: version -> hash of the unmodified task, for the version that this release plays.
        earlier: version -> release that plays it, for versions before.
        slow_episodes: the number of test episodes that slow schedulers play, the first ones; at least 5.
        slowest_episodes: the same for the slowest ones.

    Raises:
        MurmurationError: the version is below 1 or an earlier one, or slow schedulers would play too few episodes.
    """

    name: str
    version: int
    objective: Objective = field(default_factory=Objective)
    hashes: Mapping[int, str] = field(default_factory=dict)
    earlier: Mapping[int, str] = field(default_factory=dict)
    slow_episodes: int = 20
    slowest_episodes: int = 5

    def __post_init__(self) -> None:
        if self.version < 1:
            raise MurmurationError(f"task.version is {self.version}; it must be at least 1")
        if self.version < (newest := max(self.hashes, default=0)) and self.version not in self.hashes:
            release = f"murmuration {self.earlier[self.version]}" if self.version in self.earlier else "no release"
            raise MurmurationError(
                f"task.version is {self.version}: {self.title} is played by {release}; this one plays version {newest}"
            )
        for name in ("slow_episodes", "slowest_episodes"):
            if getattr(self, name) < MIN_WORKLOADS:
                raise MurmurationError(f"task.{name} is {getattr(self, name)}; it must be at least {MIN_WORKLOADS}")

    @property
    def title(self) -> str:
        """Name and version, such as full-64-v1."""
        return f"{self.name}-v{self.version}"

    def identify(self, found: str, note: str = "") -> dict[str, Any]:
        """Return what results say of their task, as plain values.

        Args:
            found: the hash of the problem that was played.
            note: how the episodes differ from all test episodes; empty if they do not.
        """
        modified = self.hashes.get(self.version) != found
        label = ", ".join([f"{self.title}{' modified' if modified else ''} ({found})", *([note] if note else [])])
        return {
            "name": self.name,
            "version": self.version,
            "hash": found,
            "modified": modified,
            "complete": not note,
            "objective": str(self.objective),
            "label": label,
        }


def hash_problem(
    configuration: Mapping[str, Any],
    setup: Setup,
    models: Sequence[str],
    episodes: Sequence[Workload],
    task: Task,
) -> str:
    """Return the hash of a problem: equal hashes mean that results can be compared.

    It covers the resolved configuration, the cluster, the scenario, the tables of throughputs that the engine uses, the
    throughputs at other batch sizes, the jobs of the test episodes, the task's objective and
    `WORLD_VERSION`. Figures that are computed enter with six significant digits, so that the hash does not depend on
    the machine or on NumPy's version. What is not used does not enter: fields of objects at their defaults and columns
    of jobs at their neutral values. A rule that is added later, and that a problem does not use, keeps its hash.
    Names and notes of workloads do not enter, nor does the location of a trace's file.

    Args:
        configuration: options of the problem's parts as plain values, without those at their defaults.
        setup: the setup.
        models: models of the jobs.
        episodes: the test episodes.
        task: the task.

    Returns:
        `HASH_DIGITS` hexadecimal digits.
    """
    most = max(int(episode.jobs["max_gpus"].max()) for episode in episodes)
    drawn = [name for name in episodes[0].models if name not in models][:DRAWN_MODELS]
    parts = {
        "world": WORLD_VERSION,
        "configuration": _without_paths(configuration),
        "objective": task.objective,
        "cluster": setup.cluster,
        "scenario": setup.scenario,
        "table": ThroughputTable.build(setup, (*models, *drawn), most),
        "batches": dict(_throughputs_of_batches(setup.performance, setup.cluster, models)),
        "episodes": [_describe_episode(episode) for episode in episodes],
    }
    return hash_text(json.dumps(to_hashable(parts), sort_keys=True, separators=(",", ":")))


def hash_text(text: str) -> str:
    """Return `HASH_DIGITS` hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def to_hashable(value: Any) -> Any:
    """Convert nested values to lists, texts, whole numbers and mappings with text keys, and round their numbers.

    A data class becomes its fields, by name, without those that have their defaults. An object of another class, such
    as a user's own restart cost, enters with its `name_object`.
    """
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return NUMBER_FORM.format(value)
        case np.ndarray():
            return _array(value)
        case np.generic():
            return to_hashable(value.item())
        case Mapping():
            return {str(key): to_hashable(item) for key, item in value.items()}
        case list() | tuple():
            return [to_hashable(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__, **_used_fields(value)}
    return {"type": type(value).__name__, "object": name_object(value)}


def _used_fields(value: Any, beside: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the fields of a data class that differ from their defaults, by name, as hashable values.

    Args:
        value: an instance of it.
        beside: fields that are left out in any case.
    """
    used: dict[str, Any] = {}
    for each in dataclasses.fields(value):
        if not each.compare or each.name in beside:
            continue
        given = getattr(value, each.name)
        default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
        kept = to_hashable(given)
        same = given == default if isinstance(given, int | float) else kept == to_hashable(default)
        if default is dataclasses.MISSING or not same:
            used[each.name] = kept
    return used


def _describe_episode(episode: Workload) -> dict[str, Any]:
    """Return what an episode uses, by name: columns of its jobs, and fields that say more about them."""
    return {**_used_fields(episode, NOT_HASHED), "jobs": to_hashable(episode.jobs[used_columns(episode.jobs)])}


def _array(array: npt.NDArray[Any]) -> Any:
    if array.dtype.names:
        return {name: _array(array[name]) for name in array.dtype.names}
    flat = array.ravel().tolist()
    if array.dtype.kind == "f":  # rounding leaves a zero's sign, which has no meaning
        flat = [ARRAY_FORM.format(x + 0.0) for x in flat]
    return [list(array.shape), " ".join(map(str, flat))]


def _without_paths(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _without_paths(item) for key, item in node.items() if key != "path"}
    return [_without_paths(item) for item in node] if isinstance(node, list | tuple) else node


def _throughputs_of_batches(
    performance: PerformanceModel, cluster: ClusterSpec, models: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """Throughputs on 1, 4 and 16 GPUs at the batch sizes that may be chosen; none for models without a profile."""
    for model in models:
        for gpus in (1, 4, 16):
            try:
                sizes = batch_sizes(model, gpus)
            except PerformanceError:
                continue
            for gpu_type in cluster.gpu_types:
                configurations = [Configuration(gpu_type, gpus, -(-gpus // 8), batch_size=size) for size in sizes]
                found = np.array([find_throughput(performance, model, each) for each in configurations])
                yield f"{model} on {gpus} {gpu_type}", found
