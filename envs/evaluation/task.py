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
from envs.simulation.scenario import LATER
from envs.types import ClusterSpec, Configuration, MurmurationError, PerformanceError
from envs.workloads import Workload

HASH_DIGITS = 12  # hexadecimal digits of a hash that are shown and kept
DRAWN_MODELS = 8  # of the first episode, whose throughputs show the spreads of a performance model that draws them
ARRAY_FORM = "{:.6g}"  # rounding errors differ between machines and versions of NumPy; six digits hide them
NUMBER_FORM = "{:.12g}"


# Clusters whose tasks were hashed with racks, which have no effect: nodes in each. Goes with the next world version.
NODES_PER_RACK = {"a800_64": 8, "homogeneous_64": 4, "three_types_1024": 32}


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
        hashes: version -> hash of the unmodified task, for this version and all earlier ones.
        slow_episodes: the number of test episodes that slow schedulers play, the first ones; at least 5.
        slowest_episodes: the same for the slowest ones.

    Raises:
        MurmurationError: the version is below 1, or slow schedulers would play too few episodes.
    """

    name: str
    version: int
    objective: Objective = field(default_factory=Objective)
    hashes: Mapping[int, str] = field(default_factory=dict)
    slow_episodes: int = 20
    slowest_episodes: int = 5

    def __post_init__(self) -> None:
        if self.version < 1:
            raise MurmurationError(f"task.version is {self.version}; it must be at least 1")
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
    the machine or on NumPy's version.
    Names and notes of workloads do not enter, nor does the location of a trace's file.

    Args:
        configuration: the resolved configuration as plain values.
        setup: the setup.
        models: models of the jobs.
        episodes: the test episodes.
        task: the task.

    Returns:
        `HASH_DIGITS` hexadecimal digits.
    """
    most = max(int(episode.jobs["max_gpus"].max()) for episode in episodes)
    configuration, cluster = _with_racks(configuration, setup.cluster)
    drawn = [name for name in episodes[0].models if name not in models][:DRAWN_MODELS]
    parts = {
        "world": WORLD_VERSION,
        "configuration": _without_paths(configuration),
        "objective": task.objective,
        "cluster": cluster,
        "scenario": setup.scenario,
        "table": ThroughputTable.build(setup, (*models, *drawn), most),
        "batches": dict(_throughputs_of_batches(setup.performance, setup.cluster, models)),
        "episodes": [[episode.jobs, episode.models, episode.tenants, episode.window] for episode in episodes],
        "plans": [list(episode.plans) for episode in episodes],
    }
    if users := [[episode.users, episode.names] for episode in episodes if episode.users]:
        parts["users"] = users
    return hash_text(json.dumps(to_hashable(parts), sort_keys=True, separators=(",", ":")))


def hash_text(text: str) -> str:
    """Return `HASH_DIGITS` hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def to_hashable(value: Any) -> Any:
    """Convert nested values to lists, texts, whole numbers and mappings with text keys, and round their numbers.

    An object of another class, such as a user's own restart cost, enters with its `name_object`.
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
        fields = [each for each in dataclasses.fields(value) if each.compare and not _is_left_out(value, each)]
        kept = {each.name: to_hashable(getattr(value, each.name)) for each in fields}
        return {"type": type(value).__name__, **kept}
    return {"type": type(value).__name__, "object": name_object(value)}


def _is_left_out(value: Any, field: "dataclasses.Field[Any]") -> bool:
    """Return whether a field was added after tasks had been hashed, and has its default; see `scenario.LATER`.

    The default of an array is an empty one.
    """
    if field.metadata != LATER:
        return False
    found = getattr(value, field.name)
    return not found.size if isinstance(found, np.ndarray) else bool(found == field.default)


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


def _with_racks(configuration: Mapping[str, Any], cluster: ClusterSpec) -> tuple[Mapping[str, Any], ClusterSpec]:
    """Return both with the racks that the hashes of `NODES_PER_RACK` hold."""
    described = configuration.get("cluster", {})
    number = NODES_PER_RACK.get(described.get("name", ""))
    if number is None or "groups" not in described:
        return configuration, cluster
    groups = [{**group, "nodes_per_rack": number} for group in described["groups"]]
    nodes = tuple(dataclasses.replace(node, rack=i // number) for i, node in enumerate(cluster.nodes))
    racked = {**configuration, "cluster": {**described, "groups": groups}}
    return racked, dataclasses.replace(cluster, nodes=nodes)


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
