"""Both engines refuse invalid allocations, name the error and change nothing."""

import pytest

from envs.performance import IdealModel, model_profile
from envs.simulation import Scenario, Setup
from envs.types import (
    AllocationError,
    ClusterError,
    ClusterSpec,
    Configuration,
    ExecutionPlan,
    JobSpec,
    NodeSpec,
    PerformanceError,
    Placement,
)
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.simulation.plays import at_five, cluster_of, jobs_of, words
from tests.unit.simulation.snapshots import snapshot

ABSENT = "is not in the system at t = 5 s; place queued or running jobs"
COMPILED_UNLIMITED = "which this scenario does not limit; leave it None or set scenario.cpu_memory=shared"
REFERENCE_UNLIMITED = "which the scenario does not limit; leave it None"


@pytest.mark.parametrize(
    ("job", "placement", "compiled", "reference"),
    [
        (
            1,
            Placement({1: 1}),
            "job 1: is given 1 GPUs; its range is 2 to 4",
            "job 1: is given 1 GPUs; its range is 2 to 4",
        ),
        (
            1,
            Placement({1: 4, 0: 1}),
            "job 1: asks for 1 GPUs on node 0, where 0 are free",
            "job 1: is given 5 GPUs; its range is 2 to 4",
        ),
        (2, Placement({1: 1}), f"job 2 {ABSENT}", f"job 2 {ABSENT}"),
        (7, Placement({1: 2}), f"job 7 {ABSENT}", f"job 7 {ABSENT}"),
        (-1, Placement({1: 2}), f"job -1 {ABSENT}", f"job -1 {ABSENT}"),
        (
            1,
            Placement({0: 2}),
            "job 1: asks for 2 GPUs on node 0, where 0 are free",
            "node 0: 2 GPUs are asked for, 0 are free",
        ),
        (
            1,
            Placement({2: 2}),
            "job 1: bert does not run on 2 GPUs with node 2 (slow) among them; place it elsewhere",
            "job 1: bert does not run on {2: 2}; place it elsewhere",
        ),
        (
            1,
            Placement({1: 2}, plan=ExecutionPlan(data=3)),
            "job 1: the plan is for 3 GPUs",
            "job 1: the plan is for 3 GPUs",
        ),
        (
            1,
            Placement({1: 2}, cpus={1: 2.0}),
            f"job 1: its placement sets cpus, {COMPILED_UNLIMITED}",
            f"job 1: names cpus, {REFERENCE_UNLIMITED}",
        ),
        (
            1,
            Placement({1: 2}, memory={1: 1.0}),
            f"job 1: its placement sets memory, {COMPILED_UNLIMITED}",
            f"job 1: names memory, {REFERENCE_UNLIMITED}",
        ),
    ],
)
def test_an_allocation_that_does_not_fit_is_refused_and_changes_nothing(engine, job, placement, compiled, reference):
    """`changes` can be edited directly, so the engines check it. The corrected allocation fits."""
    simulator = at_five(engine)
    view, before = simulator.view, snapshot(simulator)
    allocation = view.allocation(keep_running=True)
    allocation.changes[job] = placement
    with pytest.raises(AllocationError) as error:
        simulator.apply(allocation)
    assert str(error.value) == words(engine, compiled, reference)
    assert snapshot(simulator) == before
    assert len(simulator.result("").log) == 3
    assert view.queued.tolist() == [1]
    assert view.free_gpus.tolist() == [0, 4, 2]
    allocation.changes = {1: Placement({1: 2})}
    simulator.apply(allocation)
    assert view.running.tolist() == [0, 1]
    assert snapshot(simulator) != before


def test_a_refused_allocation_stops_no_job(engine):
    """Job 0 is stopped for job 1, which is given too many GPUs: job 0 continues."""
    simulator = at_five(engine)
    before = snapshot(simulator)
    allocation = simulator.view.allocation(keep_running=True)
    allocation.stop(0)
    allocation.place(1, {1: 4, 0: 1})
    with pytest.raises(AllocationError) as error:
        simulator.apply(allocation)
    assert str(error.value) == "job 1: is given 5 GPUs; its range is 2 to 4"
    assert snapshot(simulator) == before


def test_an_allocation_from_another_round_is_checked_against_the_current_one(engine):
    """Job 1 holds node 1, which is full: the error names the node and the count."""
    simulator = at_five(engine)
    allocation = simulator.view.allocation(keep_running=True)
    allocation.place(1, {1: 4})
    simulator.apply(allocation)
    assert simulator.advance()  # job 2 has arrived
    stale = simulator.view.allocation()
    stale.place(2, {1: 1})
    stale.keep_running = True
    before = snapshot(simulator)
    says = words(
        engine, "job 2: asks for 1 GPUs on node 1, where 0 are free", "node 1: 1 GPUs are asked for, 0 are free"
    )
    with pytest.raises(AllocationError, match=says):
        simulator.apply(stale)
    assert snapshot(simulator) == before


def test_a_run_with_a_corrected_allocation_finishes(engine):
    simulator = at_five(engine)
    wrong = simulator.view.allocation(keep_running=True)
    wrong.place(1, {1: 1})
    with pytest.raises(AllocationError):
        simulator.apply(wrong)
    right = simulator.view.allocation(keep_running=True)
    right.place(1, {1: 4})
    simulator.apply(right)
    while simulator.advance():
        allocation = simulator.view.allocation(keep_running=True)
        for job in simulator.view.queued.tolist():
            allocation.pack(job)
        simulator.apply(allocation)
    assert simulator.result("corrected").finished.all()


def test_a_finished_job_cannot_be_placed(engine):
    simulator = at_five(engine)
    simulator.apply(simulator.view.allocation(keep_running=True))
    while simulator.view.time < 10:
        simulator.advance()
    allocation = simulator.view.allocation(keep_running=True)
    allocation.place(0, {0: 4})
    with pytest.raises(AllocationError, match="job 0 is not in the system at t = 10 s"):
        simulator.apply(allocation)


def test_a_model_that_does_not_run_on_a_node_is_refused_with_its_name(engine):
    """ "large" does not run on "small" GPUs, not even as part of a gang."""
    simulator = engine(Workload.of([JobSpec(0, 0, 4, 10, "large")]), Setup(HETEROGENEOUS, Curved()))
    view = next(simulator.rounds())
    before = snapshot(simulator)
    allocation = view.allocation()
    allocation.place(0, {2: 2, 3: 2})
    with pytest.raises(AllocationError) as error:
        simulator.apply(allocation)
    assert str(error.value) == words(
        engine,
        "job 0: large does not run on 4 GPUs with node 3 (small) among them; place it elsewhere",
        "job 0: large does not run on {2: 2, 3: 2}; place it elsewhere",
    )
    assert snapshot(simulator) == before


def test_stopping_a_waiting_job_changes_nothing(engine):
    simulator = at_five(engine)
    allocation = simulator.view.allocation(keep_running=True)
    allocation.stop(1)
    simulator.apply(allocation)
    assert simulator.result("").records["num_preemptions"].tolist() == [0, 0]
    assert simulator.view.queued.tolist() == [1]


def test_a_workload_that_does_not_fit_the_cluster_is_refused_at_construction(engine):
    with pytest.raises(ClusterError, match=r"job 1 needs 9 GPUs, cluster small has 8; .*max_gpus=8"):
        engine(jobs_of((0, 4, 1), (0, 9, 1)), Setup(cluster_of(4, 4), IdealModel()))


def test_a_model_that_runs_on_no_gpu_type_is_refused(engine):
    small = ClusterSpec((NodeSpec("small", 4),), "tiny")
    with pytest.raises(ClusterError, match=r"job 0 \(large\) runs on none of small with 2 to 2 GPUs"):
        engine(Workload.of([JobSpec(0, 0, 2, 10, "large")]), Setup(small, Curved()))


def test_an_unknown_model_is_refused(engine):
    with pytest.raises(PerformanceError, match="'alexnet' is unknown"):
        engine(Workload.of([JobSpec(0, 0, 2, 10, "alexnet")]), Setup(cluster_of(4), IdealModel()))


def test_an_elastic_job_may_request_more_gpus_than_the_cluster_has(engine):
    """4 to 32 GPUs, 16 requested, on 8: it runs, and its ideal duration is that on all 8."""
    workload = Workload.of([JobSpec(0, 0, 16, 80, "any", min_gpus=4, max_gpus=32)])
    simulator = engine(workload, Setup(cluster_of(4, 4), IdealModel()))
    for view in simulator.rounds():
        assert view.remaining_time(view.queued).tolist() == [10.0]
        allocation = view.allocation()
        allocation.place(0, {0: 4, 1: 4})
        simulator.apply(allocation)
    assert simulator.result("wide").records["ideal_duration"].tolist() == [10.0]
    assert simulator.result("wide").finished.all()


@pytest.mark.parametrize(
    ("least", "most", "size", "range_of"),
    [(64, 256, 63, "64 to 256"), (64, 256, 257, "64 to 256"), (64, 0, 63, "64 to any"), (0, 256, 512, "1 to 256")],
)
def test_a_batch_size_out_of_the_jobs_own_range_is_refused(engine, least, most, size, range_of):
    """The bounds themselves are valid."""
    job = JobSpec(0, 0, 2, 10, "bert", min_batch=least, max_batch=most)
    every_sample = Scenario(statistical_efficiency="every_sample")
    simulator = engine(Workload.of([job]), Setup(cluster_of(4), IdealModel(("bert",)), every_sample))
    view = next(simulator.rounds())
    allocation, before = view.allocation(), snapshot(simulator)
    allocation.place(0, Placement({0: 2}, batch_size=size))
    with pytest.raises(AllocationError) as error:
        simulator.apply(allocation)
    says = words(engine, "its placement sets batch size", "names batch size")
    assert str(error.value) == f"job 0: {says} {size}; its range is {range_of}"
    assert snapshot(simulator) == before
    for end in (end for end in (least, most) if end):
        allocation.place(0, Placement({0: 2}, batch_size=end))
    simulator.apply(allocation)
    assert view.running.tolist() == [0]


@pytest.mark.parametrize(
    ("model", "setting", "size", "offer"),
    [
        ("bert", "measured", 256, None),  # its noise scale is not measured
        ("any", "assumed", 8, None),  # not in the zoo: its usual batch size is not known
        ("resnet18", "measured", 127, (128, 4096)),  # on two GPUs the usual one is 128
        ("resnet18", "assumed", 4097, (128, 4096)),
        ("bert", "assumed", 513, (32, 512)),
    ],
)
def test_a_batch_size_at_which_nothing_was_measured_is_refused(engine, model, setting, size, offer):
    """The ends of the range and the usual batch size are valid."""
    scenario = Scenario(statistical_efficiency=setting)
    simulator = engine(Workload.of([JobSpec(0, 0, 2, 10, model)]), Setup(cluster_of(4), IdealModel((model,)), scenario))
    view = next(simulator.rounds())
    assert view.batch_range(0, "plain", 2) == offer
    allocation, before = view.allocation(), snapshot(simulator)
    allocation.place(0, Placement({0: 2}, batch_size=size))
    with pytest.raises(AllocationError, match=f"batch size {size} is not offered"):
        simulator.apply(allocation)
    assert snapshot(simulator) == before
    with pytest.raises(PerformanceError, match=f"batch size {size} is not offered"):
        view.goodput(0, Configuration("plain", 2, batch_size=size))
    for valid in (*(offer or ()), *(() if model == "any" else (model_profile(model).usual_batch(2),)), None):
        allocation.place(0, Placement({0: 2}, batch_size=valid))
    simulator.apply(allocation)
    assert view.running.tolist() == [0]


@pytest.mark.parametrize(
    ("job", "placement", "says"),
    [
        (1, Placement({5: 2}), "job 1: asks for 2 GPUs on node 5; nodes are 0 to 2"),
        (1, Placement({-1: 2}), "job 1: asks for 2 GPUs on node -1; nodes are 0 to 2"),
        (1, Placement({1: 4, 0: -1}), "job 1: asks for -1 GPUs on node 0; nodes are 0 to 2"),
        (1, Placement({1: 2, 0: 0}), "job 1: asks for 0 GPUs on node 0; nodes are 0 to 2"),
        (1, Placement({}), "job 1: is given 0 GPUs; its range is 2 to 4"),
        (7, Placement({}), "job 7 is not in the system at t = 5 s; place queued or running jobs"),
        (7, Placement({1: 2}, batch_size=3), "job 7 is not in the system at t = 5 s; place queued or running jobs"),
    ],
)
def test_changes_written_directly_are_checked(engine, job, placement, says):
    """`Allocation.place` refuses most of them already, but `changes` can be edited directly."""
    simulator = at_five(engine)
    before = snapshot(simulator)
    allocation = simulator.view.allocation(keep_running=True)
    allocation.changes[job] = placement
    with pytest.raises(AllocationError) as error:
        simulator.apply(allocation)
    assert str(error.value) == says
    assert snapshot(simulator) == before
