"""What the engine refuses: by name, and without a trace."""

import pytest

from envs.performance import IdealModel
from envs.scheduling import ClusterView
from envs.simulation import Scenario, Simulator
from envs.simulation.state import JOB
from envs.types import (
    AllocationError,
    ClusterError,
    ClusterSpec,
    JobSpec,
    NodeSpec,
    PerformanceError,
    Placement,
)
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.simulation.plays import cluster_of, jobs_of, pool_size


def at_five() -> tuple[Simulator, ClusterView]:
    """Two nodes of 4. Job 0 (4 GPUs) runs on node 0 since 0, job 1 (2 to 4 GPUs) waits since 5, job 2 comes at 9."""
    specs = [
        JobSpec(0, 0, 4, 40, "any"),
        JobSpec(1, 5, 2, 40, "any", min_gpus=2, max_gpus=4),
        JobSpec(2, 9, 1, 1, "any"),
    ]
    simulator = Simulator(Workload.of(specs), cluster_of(4, 4), IdealModel(), Scenario(restart_delay=0))
    rounds = simulator.rounds()
    view = next(rounds)
    wish = view.allocation()
    wish.place(0, {0: 4})
    simulator.apply(wish)
    view = next(rounds)
    assert view.time == 5
    return simulator, view


def snapshot(simulator: Simulator) -> list[object]:
    """All that time, jobs and nodes are, to the bit; share records may lie elsewhere in their pool."""
    state, view = simulator.state, simulator.view
    jobs, nodes, episode = state.jobs[0].copy(), state.nodes[0].copy(), state.episode[0].copy()
    nodes["first_share"] = nodes["planned"] = episode["free_share"] = 0
    for field in JOB.names or ():
        if field == "first_share" or field.startswith("before_"):
            jobs[field] = 0
    placements = [(job, view.placement(job)) for job in view.running.tolist()]
    arrays = (jobs, nodes, episode, state.heap, state.queued, state.running, state.room, state.events, state.log_shares)
    return [*placements, pool_size(state), *(array.tobytes() for array in arrays)]


@pytest.mark.parametrize(
    ("job", "placement", "says"),
    [
        (1, {1: 1}, "job 1: is given 1 GPUs; its range is 2 to 4"),
        (1, {1: 4, 0: 1}, "job 1: is given 5 GPUs; its range is 2 to 4"),
        (2, {1: 1}, "job 2 is not in the system at t = 5 s; place queued or running jobs"),
        (7, {1: 2}, "job 7 is not in the system at t = 5 s; place queued or running jobs"),
        (-1, {1: 2}, "job -1 is not in the system at t = 5 s; place queued or running jobs"),
    ],
)
def test_a_wish_that_does_not_fit_names_the_job_and_changes_nothing(job, placement, says):
    simulator, view = at_five()
    before = snapshot(simulator)
    wish = view.allocation(keep_running=True)
    if 0 in placement:
        wish.stop(0)
    wish.place(job, placement)
    with pytest.raises(AllocationError) as error:
        simulator.apply(wish)
    assert str(error.value) == says
    assert snapshot(simulator) == before


def test_a_wish_made_for_another_round_is_checked_against_this_one():
    """Built when node 1 was free, applied when job 1 has it: refused by node and count."""
    simulator, view = at_five()
    wish = view.allocation(keep_running=True)
    wish.place(1, {1: 4})
    simulator.apply(wish)
    assert simulator.advance()  # job 2 is here
    stale = simulator.view.allocation()
    stale.place(2, {1: 1})
    stale.keep_running = True
    before = snapshot(simulator)
    with pytest.raises(AllocationError, match="job 2: asks for 1 GPUs on node 1, where 0 are free"):
        simulator.apply(stale)
    assert snapshot(simulator) == before


def test_the_same_gpus_cannot_be_given_twice_by_hand():
    """`changes` is open to everybody; the engine believes nobody."""
    simulator, view = at_five()
    wish = view.allocation(keep_running=True)
    wish.changes[1] = Placement({0: 2})
    with pytest.raises(AllocationError, match="job 1: asks for 2 GPUs on node 0, where 0 are free"):
        simulator.apply(wish)


def test_a_refused_wish_can_be_corrected():
    simulator, view = at_five()
    wrong = view.allocation(keep_running=True)
    wrong.place(1, {1: 1})
    with pytest.raises(AllocationError):
        simulator.apply(wrong)
    right = view.allocation(keep_running=True)
    right.place(1, {1: 4})
    simulator.apply(right)
    while simulator.advance():
        view = simulator.view
        wish = view.allocation(keep_running=True)
        for job in view.queued.tolist():
            wish.pack(job)
        simulator.apply(wish)
    assert simulator.result("corrected").finished.all()


def test_a_finished_job_cannot_be_placed():
    simulator, view = at_five()
    simulator.apply(view.allocation(keep_running=True))
    while simulator.view.time < 10:
        simulator.advance()
    wish = simulator.view.allocation(keep_running=True)
    wish.place(0, {0: 4})
    with pytest.raises(AllocationError, match="job 0 is not in the system at t = 10 s"):
        simulator.apply(wish)


def test_a_model_that_does_not_run_on_a_node_is_refused_by_name():
    """ "large" does not run on "small" GPUs, not even as a part of a gang."""
    workload = Workload.of([JobSpec(0, 0, 4, 10, "large")])
    simulator = Simulator(workload, HETEROGENEOUS, Curved())
    view = next(simulator.rounds())
    before = snapshot(simulator)
    wish = view.allocation()
    wish.place(0, {2: 2, 3: 2})
    with pytest.raises(AllocationError) as error:
        simulator.apply(wish)
    assert str(error.value) == (
        "job 0: large does not run on 4 GPUs with node 3 (small) among them; place it elsewhere"
    )
    assert snapshot(simulator) == before


def test_stopping_who_waits_changes_nothing():
    simulator, view = at_five()
    wish = view.allocation(keep_running=True)
    wish.stop(1)
    simulator.apply(wish)
    assert simulator.state.jobs[0, 1].num_preemptions == 0
    assert view.queued.tolist() == [1]


def test_a_workload_that_the_cluster_cannot_hold_is_refused_before_time_begins():
    with pytest.raises(ClusterError, match=r"job 1 needs 9 GPUs, cluster small has 8; .*max_gpus=8"):
        Simulator(jobs_of((0, 4, 1), (0, 9, 1)), cluster_of(4, 4), IdealModel())


def test_a_model_that_runs_nowhere_here_is_refused():
    small = ClusterSpec((NodeSpec("small", 4),), "tiny")
    with pytest.raises(ClusterError, match=r"job 0 \(large\) runs on none of small with 2 to 2 GPUs"):
        Simulator(Workload.of([JobSpec(0, 0, 2, 10, "large")]), small, Curved())


def test_an_unknown_model_is_refused():
    with pytest.raises(PerformanceError, match="'alexnet' is unknown"):
        Simulator(Workload.of([JobSpec(0, 0, 2, 10, "alexnet")]), cluster_of(4), IdealModel())


def test_an_elastic_job_may_ask_for_more_than_there_is():
    """4 to 32 GPUs, 16 requested, on 8: it runs, its ideal is counted on all 8, and nobody trips over its size."""
    workload = Workload.of([JobSpec(0, 0, 16, 80, "any", min_gpus=4, max_gpus=32)])
    simulator = Simulator(workload, cluster_of(4, 4), IdealModel())
    for view in simulator.rounds():
        assert view.remaining_time(view.queued).tolist() == [10.0]
        wish = view.allocation()
        wish.place(0, {0: 4, 1: 4})
        simulator.apply(wish)
    assert simulator.result("wide").records["ideal_duration"].tolist() == [10.0]


@pytest.mark.parametrize(
    ("name", "placement"),
    [
        ("cpus", Placement({1: 2}, cpus={1: 1.0})),
        ("memory", Placement({1: 2}, memory={1: 1.0})),
    ],
)
def test_what_the_scenario_does_not_hand_out_is_refused(name: str, placement: Placement) -> None:
    simulator, view = at_five()
    wish = view.allocation(keep_running=True)
    wish.place(1, placement)
    with pytest.raises(AllocationError, match=f"job 1: its placement sets {name}"):
        simulator.apply(wish)
