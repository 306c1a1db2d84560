"""Features of a small state, worked by hand, and the numbering of actions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.episodes.candidates import log_minutes
from envs.gpu_cluster import DecisionRules, EnvSpec, GpuClusterBatch
from envs.gpu_cluster.columns import (
    JOB_REMAINING_TIME,
    JOB_REQUESTED_GPUS,
    JOB_RESTART_DELAY,
    JOB_STARTING,
    JOB_THROUGHPUT,
    JOB_TIME_LEFT,
    NODE_TYPE,
)
from envs.performance import CostByTable, IdealModel, default_model
from envs.simulation import Information, Scenario, Setup
from envs.simulation.kernels import DONE
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.golden.playground import TwoThroughputs, fast_and_slow
from tests.unit.gpu_cluster.players import act, jobs_like, table_top
from tests.unit.simulation.plays import cluster_of

MINUTE = np.log1p(1.0) / 10.0  # how one minute is shown
TWO_MINUTES = np.log1p(2.0) / 10.0
HALF_MINUTE = np.log1p(0.5) / 10.0


def at_one_minute(information: Information | None = None, rules: DecisionRules | None = None) -> GpuClusterBatch:
    """Nodes of 4 and 2. Job 0 (2 GPUs, 240 samples) runs on node 0 since 0; job 1 (1 to 2 GPUs, 60 samples) is new."""
    scenario = Scenario(restart_delay=30.0, information=information or Information())
    rules = rules or DecisionRules(num_candidates=3)
    batch = table_top(cluster_of(4, 2), jobs_like((0, 2, 240), (60, 1, 60, 1, 2)), rules, scenario)
    act(batch, {0: ("claim", 0, 2)})
    act(batch)
    assert batch.time.tolist() == [60.0]
    return batch


def shown(batch: GpuClusterBatch, name: str) -> np.ndarray:
    """One part of the observation of the single episode."""
    return np.asarray(batch.observation[name][0], np.float64)


def test_a_waiting_job():
    expected = [1, MINUTE, 0, 0, 1 / 4, 1 / 4, 2 / 4, 0, 0, 0, 0, 0, HALF_MINUTE, 1, 1, 1, 1, 1]
    queue = shown(at_one_minute(), "queue")
    np.testing.assert_allclose(queue[0], expected, rtol=1e-6)
    assert not queue[1:].any()


def test_a_running_job():
    """120 of 240 samples are left, a minute on its two GPUs; it came a minute ago and has had 120 GPU-seconds."""
    expected = [1, MINUTE, MINUTE, TWO_MINUTES, 2 / 4, 2 / 4, 2 / 4, 2 / 4, 1, 0, 0, MINUTE, HALF_MINUTE, 1, 1, 1, 1, 1]
    slots = shown(at_one_minute(), "slots")
    np.testing.assert_allclose(slots[0, 0], [*expected, 2 / 4, np.log2(2) / 3], rtol=1e-6)
    assert not slots[0, 1:].any()
    assert not slots[1].any()


def test_nodes():
    """Free, GPUs, jobs, place, rank among nodes of the same type with as many free GPUs (both have two), type."""
    expected = [[2 / 4, 4 / 4, 1 / 4, 0, 0, 1], [2 / 4, 2 / 4, 0, 1 / 2, 1 / 2, 1]]
    np.testing.assert_allclose(shown(at_one_minute(), "nodes"), expected, rtol=1e-6)


def test_what_all_share():
    one = np.log1p(1) / 5
    batch = at_one_minute()
    np.testing.assert_allclose(shown(batch, "cluster"), [one, one, 4 / 6, 0, 1, 1 / 6, 4 / 6], rtol=1e-6)
    act(batch, {1: ("claim", 1, 2)})
    expected = [0, one, 2 / 6, 1 / 16, 0, 0, 2 / 6]
    np.testing.assert_allclose(shown(batch, "cluster"), expected, rtol=1e-6)


def test_the_plan_shows_before_it_takes_effect():
    """Claimed: two GPUs here, changed in this round, not running yet."""
    batch = at_one_minute()
    act(batch, {1: ("claim", 1, 2)})
    expected = [1, MINUTE, 0, 0, 1 / 4, 1 / 4, 2 / 4, 2 / 4, 0, 0, 1, 0, HALF_MINUTE, 1, 1, 1, 1, 1, 2 / 4, 1 / 3]
    np.testing.assert_allclose(shown(batch, "slots")[1, 0], expected, rtol=1e-6)
    assert not shown(batch, "queue").any()


def test_what_a_job_has_received_does_not_change_by_planning():
    """Evicted in the plan, it has still held two GPUs for a minute, and half of its work is still done."""
    batch = at_one_minute()
    act(batch, {0: ("set", 0, 0)})
    row = shown(batch, "queue")[1]  # both have a minute to go; ties go by id, yet job 0 needs two GPUs
    row = row if row[JOB_REQUESTED_GPUS] == 0.5 else shown(batch, "queue")[0]
    expected = [1, MINUTE, MINUTE, TWO_MINUTES, 2 / 4, 2 / 4, 2 / 4, 0, 1, 0, 1, 0, HALF_MINUTE, 1, 1, 1, 1, 1]
    np.testing.assert_allclose(row, expected, rtol=1e-6)


def test_the_queue_by_service_counts_what_was_received_before_the_plan():
    batch = at_one_minute(rules=DecisionRules(num_candidates=3, queue_order="least_service"))
    act(batch, {0: ("set", 0, 0)})
    assert batch.negotiation.arrays.heads[0].tolist() == [1, 0, -1]


def test_without_information_no_feature_depends_on_the_work():
    """The same rounds with other work left: everything that is shown is equal."""
    scenario = Scenario(restart_delay=30.0, information=Information("none"))
    views = []
    for work in (240, 777):
        batch = table_top(cluster_of(4, 2), jobs_like((0, 2, work), (60, 1, work / 2)), None, scenario)
        act(batch, {0: ("claim", 0, 2)})
        act(batch)
        views.append({name: array.copy() for name, array in batch.observation.items()})
    assert all(np.array_equal(views[0][name], views[1][name]) for name in views[0])
    assert views[0]["queue"][0, 0, JOB_REMAINING_TIME] == views[0]["slots"][0, 0, 0, JOB_TIME_LEFT] == 0


def test_estimates_are_shown_as_misjudged():
    batch = at_one_minute(Information("estimate", 1.0))
    factor = float(batch.state.jobs[0, 1].estimate)
    assert factor != 1.0
    assert shown(batch, "queue")[0, JOB_REMAINING_TIME] == pytest.approx(np.log1p(factor) / 10, rel=1e-6)


def test_a_restarting_job_shows_as_such():
    """Set from 2 to 1 GPU... it restarts for 30 s; the round of the next arrival falls into it."""
    scenario = Scenario(restart_delay=30.0)
    batch = table_top(cluster_of(4), jobs_like((0, 2, 240, 1, 2), (10, 1, 60), (20, 1, 60)), None, scenario)
    act(batch, {0: ("claim", 0, 2)})
    act(batch)
    act(batch, {0: ("set", 0, 1)})
    act(batch)
    assert batch.time.tolist() == [20.0]
    assert shown(batch, "slots")[0, 0, JOB_STARTING] == 1.0


def test_each_job_shows_what_a_restart_would_cost_it():
    """By model: a minute for bert, half a minute for the others. Job 0 runs, the others wait."""
    specs = [JobSpec(job, 0.0, 1, 60.0 + job, model) for job, model in enumerate(("resnet50", "bert", "resnet18"))]
    scenario = Scenario(reconfiguration=CostByTable({"bert": 60.0}, 30.0))
    models = ("resnet50", "bert", "resnet18")
    batch = table_top(cluster_of(4), Workload.of(specs), None, scenario, IdealModel(models))
    act(batch, {0: ("claim", 0, 1)})
    np.testing.assert_allclose(shown(batch, "slots")[0, 0, JOB_RESTART_DELAY], HALF_MINUTE, rtol=1e-6)
    np.testing.assert_allclose(shown(batch, "queue")[:3, JOB_RESTART_DELAY], [MINUTE, HALF_MINUTE, 0], rtol=1e-6)


@pytest.mark.parametrize("delays", [(0.0, 30.0), (600.0, 0.0)])
def test_the_horizon_lets_all_jobs_be_done_one_after_the_other(delays):
    """Three jobs of a minute on one GPU, each with a first start; a policy that never waits is done by then."""
    scenario = Scenario(start_delay=delays[0], restart_delay=delays[1])
    batch = table_top(cluster_of(1), jobs_like((0, 1, 60), (0, 1, 60), (0, 1, 60)), None, scenario)
    for job in range(3):
        act(batch, {0: ("claim", job, 1)})
        act(batch)
    assert batch.ended.all()
    assert batch.time.tolist() == [3 * (60 + delays[0])]
    assert batch.state.jobs["status"][0].tolist() == [DONE] * 3


def test_throughputs_by_type_are_relative_to_the_fastest():
    """Slow GPUs are half as fast; linear scaling; the fast node comes second."""
    batch = table_top(fast_and_slow(), jobs_like((0, 2, 240)), performance=TwoThroughputs())
    np.testing.assert_allclose(shown(batch, "queue")[0, JOB_THROUGHPUT:], [0.5, 1, 1, 1, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(shown(batch, "nodes")[:, NODE_TYPE:], np.eye(2))


def test_scaling_shows_efficiency_at_one_two_four_and_eight_gpus():
    """Curved: n^0.8, and a tenth less over two nodes of four; on "new", which is twice as fast as "old"."""
    cluster = ClusterSpec((NodeSpec("new", 4), NodeSpec("old", 4), NodeSpec("new", 4)))
    batch = table_top(cluster, jobs_like((0, 2, 240)), performance=Curved())
    expected = [1, 0.5, 1, 2**-0.2, 4**-0.2, 0.9 * 8**-0.2]
    np.testing.assert_allclose(shown(batch, "queue")[0, JOB_THROUGHPUT:], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("seconds", "value"), [(-5.0, 0.0), (0.0, 0.0), (60.0, np.log(2) / 10), (3540.0, np.log(60) / 10)]
)
def test_times_are_compressed(seconds, value):
    assert log_minutes(seconds) == pytest.approx(value)


def test_sizes_follow_from_cluster_and_rules():
    spec = EnvSpec.of(HETEROGENEOUS, DecisionRules(num_candidates=7))
    assert (spec.num_nodes, spec.num_gpu_types, spec.node_gpus, spec.num_slots) == (5, 3, 4, 4)
    assert spec.num_choices == 11
    assert spec.num_actions == 1 + 11 * 5
    batch = table_top(HETEROGENEOUS, jobs_like((0, 2, 10)), DecisionRules(num_candidates=7), performance=Curved())
    shapes = {name: array.shape[1:] for name, array in batch.observation.items()}
    assert shapes == {
        "nodes": (5, spec.node_features),
        "slots": (5, 4, spec.slot_features),
        "queue": (7, spec.job_features),
        "cluster": (spec.cluster_features,),
        "mask": (5, spec.num_actions),
    }


@given(choice=st.integers(0, 10), gpus=st.integers(0, 4))
def test_actions_are_numbered_one_to_one(choice, gpus):
    spec = EnvSpec(5, 3, 4, 7, 4)
    action = spec.action(choice, gpus)
    assert 1 <= action < spec.num_actions
    assert [part.tolist() for part in spec.decode(np.array([action, 0]))] == [[choice, -1], [gpus, 4]]


def test_all_actions_decode_to_different_choices():
    spec = EnvSpec(5, 3, 4, 7, 4)
    choice, gpus = spec.decode(np.arange(1, spec.num_actions))
    assert len(set(zip(choice.tolist(), gpus.tolist(), strict=True))) == spec.num_actions - 1
    assert choice.max() == spec.num_choices - 1


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: DecisionRules(num_candidates=0), "num_candidates is 0"),
        (lambda: DecisionRules(max_decisions=0), "max_decisions is 0; both must be at least 1"),
        (lambda: DecisionRules(queue_order="lottery"), "queue_order is 'lottery'; it must be one of shortest, fifo"),  # type: ignore[arg-type]
    ],
)
def test_impossible_rules_are_refused(build, says):
    with pytest.raises(MurmurationError) as error:
        build()
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_effects_worked_by_hand():
    """A node of 4 GPUs and 24 cores; resnet18 can use 9 cores for each GPU. Job 0 holds 2 GPUs, jobs 1 and 2 wait."""
    cluster = ClusterSpec((NodeSpec("V100", 4, 24.0, 500.0),), "one")
    rules = DecisionRules(num_candidates=3, effects=True)
    scenario = Scenario(restart_delay=60.0, cpu_memory="shared", horizon=1e6)
    batch = GpuClusterBatch(Setup(cluster, default_model(), scenario), ("resnet18",), 3, rules=rules, logging=True)
    jobs = Workload.of([JobSpec(i, 0.0, 2, 1e5, "resnet18") for i in range(3)])
    batch.load(0, jobs, np.random.default_rng(0))
    names = batch.spec.effect_columns
    alone = dict(zip(names, batch.observation["effects"][0, 0, 0].tolist(), strict=True))
    assert (alone["present"], alone["fit"], alone["cpu_shortage"], alone["cpu_harm"]) == (1, 1, 0, 0)
    assert alone["cpus_wanted"] == 9 / 16
    batch.step(np.array([[batch.spec.action(0, 2)]]))
    held, beside = (
        dict(zip(names, batch.observation["effects"][0, 0, choice].tolist(), strict=True)) for choice in (3, 0)
    )
    assert (held["cpus"], held["cpu_shortage"], held["move_cost"]) == (0, 0, 0)  # changed by this round's plan
    assert (beside["fit"], beside["cpus"]) == (1, 0)
    third = pytest.approx(1 - 24 / 36)
    assert (beside["cpu_shortage"], beside["cpu_harm"]) == (third, third)
    assert not batch.observation["effects"][0, 0, 4:].any()


def test_effects_of_what_runs_follow_the_plan():
    """Its cores are those that it has; a change would cost a restart, and nothing more once the plan has changed it."""
    cluster = ClusterSpec((NodeSpec("V100", 4, 24.0, 500.0),), "one")
    rules = DecisionRules(num_candidates=3, effects=True)
    scenario = Scenario(restart_delay=60.0, cpu_memory="shared", horizon=1e6)
    batch = GpuClusterBatch(Setup(cluster, default_model(), scenario), ("resnet18",), 2, rules=rules, logging=True)
    jobs = Workload.of([JobSpec(i, 600.0 * i, 2, 1e7, "resnet18", min_gpus=1, max_gpus=4) for i in range(2)])
    batch.load(0, jobs, np.random.default_rng(0))
    batch.step(np.array([[batch.spec.action(0, 4)]]))
    batch.step(np.zeros((1, 1), np.int64))
    assert batch.time.tolist() == [600.0]
    names, slot = batch.spec.effect_columns, 3
    row = dict(zip(names, batch.observation["effects"][0, 0, slot].tolist(), strict=True))
    assert row["cpus"] == 6 / 16
    assert row["cpu_shortage"] == pytest.approx(max(0.0, 1 - 6 / (16 * row["cpus_wanted"])))
    remaining = 60.0 * (1 / row["move_cost"] - 1)
    assert remaining == pytest.approx(60.0 * (np.expm1(10 * batch.observation["slots"][0, 0, 0, 1])), rel=1e-3)
    batch.step(np.array([[batch.spec.action(slot, 2)]]))
    row = dict(zip(names, batch.observation["effects"][0, 0, slot].tolist(), strict=True))
    assert (row["cpus"], row["cpu_shortage"], row["move_cost"]) == (0, 0, 0)
