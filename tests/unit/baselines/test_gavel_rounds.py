"""Gavel's rounds: received time, priorities, choice of jobs and placement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Gavel
from baselines.gavel.rounds import (
    NEVER_RAN,
    TimeReceived,
    choose_grants,
    order_types_by_throughput,
    place_combinations,
)
from baselines.parts.grants import held_grants
from envs.scheduling import ClusterView
from envs.simulation import Rounds, Scenario, Setup, Simulator
from envs.types import MurmurationError
from tests.conformance.worlds import Curved
from tests.golden.playground import EVERY_SECOND, TwoThroughputs, fast_and_slow, jobs, play, two_nodes
from tests.unit.baselines.rounds import busy_round, round_at


def test_priority_is_share_over_the_fraction_received():
    """Head starts of 5 s each; A runs 10 s on the fast node, B on the slow one."""
    pair = jobs((0, 4, 100), (0, 4, 100))
    running = {0: {1: 4}, 1: {0: 4}}
    before = round_at(0, pair, fast_and_slow(), performance=TwoThroughputs())
    received = TimeReceived(5.0)
    received.advance(before)
    received.renew(0.0, [(0,), (1,)], np.array([[0.25, 0.5], [0.75, 0.0]]))
    allocation = before.allocation()
    for job, gpus in running.items():
        allocation.place(job, gpus)
    received.begin(before, allocation)
    received.advance(round_at(10, pair, fast_and_slow(), place=[(0, running)], performance=TwoThroughputs()))
    priority, owed, share = received.ranks([(0,), (1,)], 2)
    assert priority == pytest.approx(np.array([[0.25 / (5 / 20), 0.5 / (15 / 20)], [0.75 / (15 / 20), 0.0]]))
    assert (owed == 0).all()
    assert share.tolist() == [[0.25, 0.5], [0.75, 0.0]]


def test_time_not_received_is_owed_under_the_next_shares():
    """A was due 4 and 8 s of 20 and had 10 on the second type; a new job is owed nothing."""
    pair = jobs((0, 4, 100), (0, 4, 100))
    received = TimeReceived(5.0)
    first = round_at(0, pair, fast_and_slow(), performance=TwoThroughputs())
    received.advance(first)
    received.renew(0.0, [(0,)], np.array([[0.2, 0.4]]))
    allocation = first.allocation()
    allocation.place(0, {1: 4})
    received.begin(first, allocation)
    received.advance(round_at(10, pair, fast_and_slow(), place=[(0, {0: {1: 4}})], performance=TwoThroughputs()))
    received.renew(20.0, [(0,), (1,)], np.array([[0.5, 0.5], [0.5, 0.5]]))
    _, owed, _ = received.ranks([(0,), (1,)], 2)
    assert owed.tolist() == [[4.0, -2.0], [0.0, 0.0]]


def test_priority_is_zero_without_a_share_and_large_without_received_time():
    received = TimeReceived(0.0)
    received.renew(0.0, [(3,)], np.array([[0.5]]))
    priority, _, _ = received.ranks([(3,), (4,)], 1)
    assert priority.tolist() == [[0.5 * NEVER_RAN], [0.0]]


def test_types_are_ordered_by_throughput_of_the_jobs():
    assert order_types_by_throughput(np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 4.0]])) == [1, 0, 2]
    assert order_types_by_throughput(np.zeros((0, 2))) == []


def requested_throughputs(view: ClusterView, present: np.ndarray) -> np.ndarray:
    return np.array([view.throughputs(job)[:, view.num_gpus[job]] for job in present.tolist()])


@given(seed=st.integers(0, 10_000), keep=st.booleans())
@settings(max_examples=40)
def test_a_round_fits_and_leaves_out_no_job_that_could_run(seed, keep):
    """Every chosen job gets its GPUs of its type, and no type has room for a job that was left out."""
    view = busy_round(seed)
    present = np.sort(np.concatenate([view.queued, view.running]))
    throughput = requested_throughputs(view, present)
    spread = {job for job in view.running.tolist() if len(set(view.placement(job).gpus)) > 1}
    typed = throughput.max(axis=1) > 0
    allocation = view.allocation(keep_running=True)
    received = TimeReceived(1.0)
    received.advance(view)
    rng = np.random.default_rng(seed)
    received.renew(view.time, [(job,) for job in present[typed].tolist()], rng.random(throughput[typed].shape))
    gpu_types = list(range(len(view.cluster.gpu_types)))
    sizes = view.num_gpus[present[typed]]
    runs = throughput[typed] > 0
    chosen = choose_grants(view, allocation, present[typed], sizes, runs, gpu_types, received, keep=keep)
    place_combinations(view, allocation, chosen, present[~typed].tolist())
    held = held_grants(view)
    for (job,), grant in chosen.items():
        place = allocation.placement(job)
        assert place is not None
        assert place.num_gpus == view.num_gpus[job]
        assert {int(view.cluster.node_types[node]) for node in place.gpus} == {grant.gpu_type}
    if keep:
        assert {(job,): grant for job, grant in held.items() if typed[present == job]}.items() <= chosen.items()
    left = np.bincount(view.cluster.node_types, allocation.free_gpus, len(gpu_types))
    for job in set(present[typed].tolist()) - {job for (job,) in chosen}:
        runs = throughput[np.searchsorted(present, job)] > 0
        assert (view.num_gpus[job] > left[runs]).all()
    assert allocation.jobs() >= spread & set(present[~typed].tolist())


def test_received_time_approaches_the_shares():
    """Three jobs of 4 GPUs on a fast and a slow node: each gets about a third of both after 60 rounds."""
    workload = jobs(*[(0.0, 4, 1000.0)] * 3)
    scenario = Scenario(restart_delay=0.0, rounds=Rounds(on_events=False, interval=1.0), horizon=61.0)
    simulator = Simulator(workload, Setup(fast_and_slow(), TwoThroughputs(), scenario))
    scheduler = Gavel(round_length=1.0, reset_interval=1000.0)
    scheduler.reset(simulator.cluster, simulator.rng)
    fast = np.zeros(3)
    for view in simulator.rounds():
        allocation = scheduler.schedule(view)
        for job in range(3):
            place = allocation.placement(job)
            fast[job] += bool(place and 1 in place.gpus)
        simulator.apply(allocation)
    assert fast.sum() >= 60
    assert (np.abs(fast - fast.mean()) <= 1.5).all()


def test_shares_are_recomputed_only_after_arrivals_or_departures_and_the_interval():
    """Arrivals at 0, 1, 2 and 30: three programs at 0, 10 (the interval) and 30, none at 20."""
    workload = jobs((0, 1, 100), (1, 1, 100), (2, 1, 100), (30, 1, 100))
    scheduler = Gavel(round_length=1.0, reset_interval=10.0)
    scenario = Scenario(restart_delay=0.0, rounds=EVERY_SECOND, horizon=40.0)
    simulator = Simulator(workload, Setup(two_nodes(), TwoThroughputs(), scenario))
    scheduler.reset(simulator.cluster, simulator.rng)
    programs = {}
    for view in simulator.rounds():
        simulator.apply(scheduler.schedule(view))
        programs[view.time] = scheduler.counters["linear_programs"]
    assert [programs[time] for time in (0.0, 2.0, 9.0, 10.0, 20.0, 30.0)] == [3, 3, 3, 6, 6, 9]


def test_result_has_counters():
    result = play(Gavel(), jobs((0, 1, 5), (0, 8, 5)), two_nodes(), performance=Plain())
    assert result.counters["linear_programs"] > 0
    assert result.counters["unsolved_programs"] == 0


class Plain(TwoThroughputs):
    """Equal throughput on all types."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "fair"}, ("objective", "'fair'", "max_min, makespan")),
        ({"round_length": -1.0}, ("round_length", "-1.0", "not negative")),
        ({"reset_interval": float("inf")}, ("reset_interval", "inf", "finite")),
        ({"iteration_limit": 0}, ("iteration_limit", "0", "positive")),
        ({"pairs": True, "aware": False}, ("pairs is True", "aware False", "need aware=True")),
        ({"least_together": float("nan")}, ("least_together is nan", "at most 2")),
        ({"most_partners": 0}, ("most_partners 0", "at least 1")),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(MurmurationError) as error:
        Gavel(**options)
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in ("Gavel", *words))


def test_information_depends_on_the_objective():
    assert Gavel("max_min").information == Gavel("total_throughput").information == "none"
    assert Gavel("makespan").information == Gavel("finish_time").information == "estimate"


@given(seed=st.integers(0, 500))
@settings(max_examples=15)
def test_all_jobs_finish_on_a_crowded_cluster(seed):
    """Nonlinear throughputs, three types, and models that do not run on every type."""
    rng = np.random.default_rng(seed)
    rows = [(float(rng.integers(0, 50)), int(rng.integers(1, 5)), float(rng.integers(5, 50))) for _ in range(12)]
    scheduler = [Gavel("max_min", True, 5.0, 20.0), Gavel("makespan", True, 5.0), Gavel("finish_time")][seed % 3]
    result = play(scheduler, jobs(*rows), busy_round(0).cluster, performance=Curved(), restart_delay=1.0)
    assert result.finished.all()
