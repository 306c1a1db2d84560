"""Columns of the observation: their names, the kernels' arrays and the spec agree, and each value has its meaning."""

import numpy as np
import pytest

from envs.episodes import coupling
from envs.gpu_cluster import DecisionRules, EnvSpec, GpuClusterBatch, columns
from envs.simulation import Scenario
from envs.types import ClusterSpec, NodeSpec
from tests.conformance.worlds import CLUSTERS, HETEROGENEOUS, Curved
from tests.golden.playground import TwoThroughputs, fast_and_slow
from tests.unit.gpu_cluster.players import act, jobs_like, table_top

COUPLING = {
    value: name.removeprefix("COUPLING_").lower()
    for name, value in vars(coupling).items()
    if name.startswith("COUPLING_")
}
PARTS = {"nodes": "node", "slots": "slot", "queue": "job", "cluster": "cluster"}


def log_minutes(minutes: float) -> float:
    """How columns show a time."""
    return float(np.log1p(minutes) / 10.0)


def played() -> GpuClusterBatch:
    """A node of 4 slow and one of 2 fast GPUs, after a minute; by then four jobs have come.

    Job 0 (2 GPUs, 240 samples) runs on the slow node at 2 samples/s. Job 1 has just been claimed by the fast node in
    this round. Jobs 2 and 3 wait.
    """
    cluster = ClusterSpec((NodeSpec("slow", 4), NodeSpec("fast", 2)), "mixed")
    jobs = jobs_like((0, 2, 240), (60, 1, 60, 1, 2), (60, 2, 480), (60, 4, 960, 2, 4))
    scenario = Scenario(restart_delay=30.0)
    batch = table_top(cluster, jobs, DecisionRules(num_candidates=3), scenario, TwoThroughputs())
    act(batch, {0: ("claim", 0, 2)})
    act(batch)
    act(batch, {1: ("claim", 1, 1)})
    assert batch.time.tolist() == [60.0]
    return batch


def row_of(batch: GpuClusterBatch, part: str, *index: int) -> dict[str, float]:
    """One row of the observation by column name."""
    names = getattr(batch.spec, f"{PARTS[part]}_columns")
    return dict(zip(names, batch.observation[part][(0, *index)].tolist(), strict=True))


@pytest.mark.parametrize("name", sorted(CLUSTERS))
def test_names_sizes_and_kernel_outputs_agree(name):
    batch = table_top(CLUSTERS[name], jobs_like((0, 2, 10)), performance=Curved())
    for part, prefix in PARTS.items():
        names = getattr(batch.spec, f"{prefix}_columns")
        assert len(set(names)) == len(names) == getattr(batch.spec, f"{prefix}_features")
        assert batch.observation[part].shape[-1] == len(names)


@pytest.mark.parametrize("gpu_types", [1, 3])
def test_constants_are_the_places_of_their_names(gpu_types):
    spec = EnvSpec(5, gpu_types, 4, 7, 4)
    assert spec.job_columns[columns.JOB_PRESENT] == "present"
    assert spec.job_columns[columns.JOB_RESTART_DELAY] == "restart_delay"
    assert spec.job_columns[columns.JOB_THROUGHPUT] == "throughput_0"
    assert spec.job_columns[columns.efficiency_column(gpu_types) :] == tuple(
        f"efficiency_{gpus}" for gpus in columns.SCALING_POINTS
    )
    own = columns.slot_column(gpu_types)
    assert spec.slot_columns[:own] == spec.job_columns
    assert spec.slot_columns[own + columns.SLOT_GPUS] == "gpus"
    assert spec.slot_columns[own + columns.SLOT_NUM_NODES] == "num_nodes"
    assert spec.node_columns[columns.NODE_TYPE :] == tuple(f"type_{i}" for i in range(gpu_types))
    assert spec.cluster_columns[columns.CLUSTER_FREE_BY_TYPE :] == tuple(f"free_by_type_{i}" for i in range(gpu_types))
    assert spec.effect_columns == ()
    effects = EnvSpec(5, gpu_types, 4, 7, 4, effects=True).effect_columns
    first = columns.EFFECT_CPU_SHORTAGE
    assert effects[first : first + 8] == tuple(name for _, name in sorted(COUPLING.items()))


def test_every_constant_names_one_column_in_order():
    """By the prefix, so that a new column cannot be left out of its list."""
    for part in (*PARTS.values(), "effect"):
        prefix = f"{part.upper()}_"
        values = [value for name, value in vars(columns).items() if name.startswith(prefix) and name != "EFFECT_LIMIT"]
        assert values == list(range(len(values)))


def test_a_running_job():
    """120 of 240 samples are left: a minute at 1 sample/s per slow GPU, half a minute on two fast ones."""
    row = row_of(played(), "slots", 0, 0)
    expected = {
        "present": 1,
        "remaining_time": log_minutes(0.5),
        "age": log_minutes(1),
        "attained_service": log_minutes(2),
        "requested_gpus": 2 / 4,
        "min_gpus": 2 / 4,
        "max_gpus": 2 / 4,
        "planned_gpus": 2 / 4,
        "running": 1,
        "starting": 0,
        "changed": 0,
        "time_left": log_minutes(1),
        "restart_delay": log_minutes(0.5),
        "gpus": 2 / 4,
        "num_nodes": np.log2(2) / 3,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-6)


def test_a_job_that_the_plan_has_just_given_gpus():
    """Changed, with its planned GPUs, but not running, without service, and its time left is unknown."""
    row = row_of(played(), "slots", 1, 0)
    expected = {"planned_gpus": 1 / 4, "running": 0, "changed": 1, "attained_service": 0, "time_left": 0, "gpus": 1 / 4}
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-6)


def test_waiting_jobs():
    batch = played()
    first, second, empty = (row_of(batch, "queue", place) for place in range(3))
    assert (first["requested_gpus"], first["min_gpus"], first["max_gpus"]) == (2 / 4, 2 / 4, 2 / 4)
    assert (second["requested_gpus"], second["min_gpus"], second["max_gpus"]) == (4 / 4, 2 / 4, 4 / 4)
    assert (first["throughput_0"], first["throughput_1"]) == tuple(
        {"slow": 0.5, "fast": 1.0}[name] for name in batch.cluster.gpu_types
    )
    assert first["remaining_time"] == pytest.approx(log_minutes(2), rel=1e-6)  # 480 samples, 2 samples/s a fast GPU
    assert set(empty.values()) == {0.0}


def test_nodes_and_cluster():
    batch = played()
    slow, fast = (row_of(batch, "nodes", n) for n in range(2))
    order = [batch.cluster.gpu_types.index(name) for name in ("slow", "fast")]
    assert (slow["free_gpus"], slow["gpus"], slow["jobs"], slow["position"]) == (2 / 4, 4 / 4, 1 / 4, 0)
    assert (fast["free_gpus"], fast["gpus"], fast["jobs"], fast["position"]) == (1 / 4, 2 / 4, 1 / 4, 1 / 2)
    assert [slow[f"type_{i}"] for i in order] == [1, 0]
    assert [fast[f"type_{i}"] for i in order] == [0, 1]
    shared = row_of(batch, "cluster")
    expected = {
        "waiting": np.log1p(2) / 5,
        "running": np.log1p(1) / 5,
        "free_gpus": 3 / 6,
        "decision": 1 / 16,
        "first_decision": 0,
        "waiting_per_gpu": 2 / 6,
        f"free_by_type_{order[0]}": 2 / 6,
        f"free_by_type_{order[1]}": 1 / 6,
    }
    assert shared == pytest.approx(expected, rel=1e-6)


def test_equals_before_counts_lower_nodes_of_one_type_with_as_many_free_gpus():
    """The playground has one node of each type; the heterogeneous cluster has several of some."""
    lone = table_top(fast_and_slow(), jobs_like((0, 2, 240)), performance=TwoThroughputs())
    assert [row_of(lone, "nodes", n)["equals_before"] for n in range(2)] == [0, 0]
    batch = table_top(HETEROGENEOUS, jobs_like((0, 1, 240)), performance=Curved())
    seen: dict[tuple[str, int], int] = {}
    for n, node in enumerate(HETEROGENEOUS.nodes):
        before = seen.get((node.gpu_type, node.num_gpus), 0)
        seen[node.gpu_type, node.num_gpus] = before + 1
        assert row_of(batch, "nodes", n)["equals_before"] == pytest.approx(before / HETEROGENEOUS.num_nodes)


def test_passing_is_the_first_action_and_choices_follow():
    spec = EnvSpec(5, 3, 4, 7, 4)
    assert spec.decode(np.array([columns.PASS]))[0].tolist() == [-1]
    assert spec.action(0, 0) == columns.FIRST_CHOICE == columns.PASS + 1
