"""Values of allocations worked out by hand, and the model of arrivals."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from baselines.planner.arrivals import LEAST_JOBS, ArrivalModel
from baselines.planner.futures import DrawnFutures, Futures
from baselines.planner.rollouts import Rest, Rollouts, prolong_restarts, queue_seconds
from baselines.starling.scheduler import Starling
from envs.performance import IdealModel
from envs.simulation import Information, Rounds, Scenario, Setup, Simulator, Snapshot
from envs.types import Allocation, ClusterSpec
from envs.workloads import Workload
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, two_nodes
from tests.golden.test_starling import PLAIN

THREE = jobs((0, 4, 10), (0, 4, 20), (0, 8, 5))
FREE = Scenario(restart_delay=0.0)


def round_of(workload: Workload = THREE, cluster: ClusterSpec | None = None) -> Simulator:
    """A simulator in its first round."""
    performance = TwoThroughputs() if cluster is not None else IdealModel()
    simulator = Simulator(workload, Setup(cluster or two_nodes(), performance, FREE))
    assert simulator.advance()
    return simulator


def placed(simulator: Simulator, gpus: dict[int, dict[int, int]]) -> Allocation:
    """An allocation with these GPUs by job and node."""
    allocation = simulator.view.allocation()
    for job, nodes in gpus.items():
        allocation.place(job, nodes)
    return allocation


def rollouts(rounds: int | None) -> Rollouts:
    """Rollouts that Starling continues with plain parameters."""
    made = Rollouts(Starling(PLAIN, PLAIN, look_ahead=0, variants=()), rounds, Rest(PLAIN.knee, 1e6))
    made.reset(two_nodes(), np.random.default_rng(0))
    made.begin(later_jobs=False)
    return made


def test_values_at_a_common_horizon():
    """A 4 GPUs for 10 s, B 4 for 20 s, C 8 for 5 s; a horizon of one round.

    A and B first: the next round is at 10, after 3 x 10 job-seconds, and B stays. B ends 10 s later, then C takes 5 s:
    30 + 10 + 15. C first, up to 10: 3 x 5 + 2 x 5, and A and B run: A ends 5 s later, B 15 s.
    """
    simulator, ahead = round_of(), rollouts(1)
    snapshot = simulator.view.snapshot()
    kept = ahead.play(snapshot, placed(simulator, {0: {0: 4}, 1: {1: 4}}))
    assert kept == pytest.approx(55.0)
    assert ahead.until == pytest.approx(10.0)
    wide = simulator.view.snapshot()
    assert ahead.play(wide, placed(simulator, {2: {0: 4, 1: 4}})) == pytest.approx(45.0)
    assert wide.view.time == pytest.approx(10.0)
    assert ahead.count == 2


def test_rounds_of_an_interval_alone_do_not_shorten_the_horizon():
    """As above, but a decision is asked for every 3 s too; A still sets the horizon, at 10."""
    scenario = replace(FREE, rounds=Rounds(interval=3.0))
    simulator = Simulator(THREE, Setup(two_nodes(), IdealModel(), scenario))
    assert simulator.advance()
    ahead = rollouts(1)
    assert ahead.play(simulator.view.snapshot(), placed(simulator, {0: {0: 4}, 1: {1: 4}})) == pytest.approx(55.0)
    assert ahead.until == pytest.approx(10.0)
    wide = simulator.view.snapshot()
    assert ahead.play(wide, placed(simulator, {2: {0: 4, 1: 4}})) == pytest.approx(45.0)
    assert wide.view.time == pytest.approx(10.0)


def test_to_the_end_there_is_nothing_to_estimate():
    """A and B first: ends at 10, 20 and 25. C first: ends at 5, 15 and 25."""
    simulator, ahead = round_of(), rollouts(None)
    first = ahead.play(simulator.view.snapshot(), placed(simulator, {0: {0: 4}, 1: {1: 4}}))
    second = ahead.play(simulator.view.snapshot(), placed(simulator, {2: {0: 4, 1: 4}}))
    assert [first, second] == pytest.approx([55.0, 45.0])


def test_a_refused_allocation_has_no_value():
    """Job 3 does not exist. The horizon is still open, so the next rollout sets it."""
    simulator, ahead = round_of(), rollouts(1)
    assert ahead.play(simulator.view.snapshot(), placed(simulator, {3: {0: 4}})) is None
    assert ahead.count == 0
    assert ahead.play(simulator.view.snapshot(), placed(simulator, {0: {0: 4}, 1: {1: 4}})) == pytest.approx(55.0)


def test_playing_leaves_the_round_as_it_was():
    simulator = round_of()
    before = simulator.state.jobs.tobytes(), simulator.state.episode.tobytes()
    rollouts(3).play(simulator.view.snapshot(), placed(simulator, {0: {0: 4}}))
    assert (simulator.state.jobs.tobytes(), simulator.state.episode.tobytes()) == before


def test_restarts_of_jobs_that_have_not_ended_take_longer():
    """A ends at 10 s. B, 20 s of work, is moved then and begins again 4 x 5 s later: it ends at 40."""
    simulator = Simulator(jobs((0, 4, 10), (0, 4, 20)), Setup(two_nodes(), IdealModel(), Scenario(restart_delay=5.0)))
    assert simulator.advance()
    simulator.apply(placed(simulator, {0: {0: 4}, 1: {1: 4}}))
    assert simulator.advance()
    snapshot, again = simulator.view.snapshot(), simulator.view.snapshot()
    for copy in (snapshot, again):
        prolong_restarts(copy, 4.0)
    assert snapshot.state.jobs["restart_delay"][0, :2].tolist() == [5.0, 20.0]
    assert again.view.restart_delay[:2].tolist() == [5.0, 20.0]
    snapshot.apply(placed(simulator, {1: {0: 4}}))
    while snapshot.advance():
        snapshot.apply(snapshot.view.allocation(keep_running=True))
    assert snapshot.state.jobs["finish"][0, 1] == pytest.approx(10.0 + 20.0 + 10.0)


def rest_of(copy: Simulator, horizon: float = 1e6) -> float:
    """The estimate for a copy, with knees as in `PLAIN`."""
    return Rest(PLAIN.knee, horizon).job_seconds(copy)


def test_jobs_that_wait_start_in_a_queue_for_all_gpus():
    """On 4 GPUs each of 8, 8 samples/s on fast ones: A takes 5 s, B and C 10 s. C starts when A ends."""
    two = round_of(jobs((0, 4, 10), (0, 4, 20)), fast_and_slow())
    assert rest_of(two.view.snapshot()) == pytest.approx(5.0 + 10.0)
    three = round_of(jobs((0, 4, 10), (0, 4, 20), (0, 4, 20)), fast_and_slow())
    assert rest_of(three.view.snapshot()) == pytest.approx(5.0 + 10.0 + 15.0)


def test_jobs_that_run_stay_as_they_are_for_a_while():
    """A: 400 samples on slow GPUs, 4 samples/s of 8. B: 80 on fast ones, 8 of 8. Efficiency: 3/4 on average.

    B ends in 10 s. A ends in 100 s; with a horizon of 60 s it has 160 samples left then, and 6 samples/s.
    """
    simulator = round_of(jobs((0, 4, 100), (0, 4, 20)), fast_and_slow())
    snapshot = simulator.view.snapshot()
    snapshot.apply(placed(simulator, {0: {0: 4}, 1: {1: 4}}))
    assert rest_of(snapshot) == pytest.approx(100.0 + 10.0)
    assert rest_of(snapshot, 60.0) == pytest.approx(60.0 + 160.0 / 6.0 + 10.0)


def test_a_waiting_job_is_as_inefficient_as_those_that_run():
    """A: on slow GPUs for 100 s, at half the samples/s of fast ones. B: 80 samples, 10 s on fast ones; free: 4 GPUs."""
    simulator = round_of(jobs((0, 4, 100), (0, 4, 20)), fast_and_slow())
    snapshot = simulator.view.snapshot()
    snapshot.apply(placed(simulator, {0: {0: 4}}))
    assert rest_of(snapshot) == pytest.approx(100.0 + 20.0)


def test_all_copies_of_a_round_have_the_efficiency_of_the_first():
    """A alone, at half: C takes 20 s. A and B: 3/4 on average, but still a half until the next round."""
    simulator = round_of(jobs((0, 4, 100), (0, 4, 20), (0, 4, 20)), fast_and_slow())
    first, second, rest = simulator.view.snapshot(), simulator.view.snapshot(), Rest(PLAIN.knee, 1e6)
    first.apply(placed(simulator, {0: {0: 4}}))
    second.apply(placed(simulator, {0: {0: 4}, 1: {1: 4}}))
    assert rest.job_seconds(first) == pytest.approx(100.0 + 20.0 + 40.0)
    assert rest.job_seconds(second) == pytest.approx(100.0 + 10.0 + 30.0)
    rest.begin()
    assert rest.job_seconds(second) == pytest.approx(100.0 + 10.0 + 10.0 + 80.0 / 6.0)


def test_a_restart_is_part_of_the_rest():
    """A: 10 s of work on 4 GPUs, but it begins to work 30 s after its start."""
    setup = Setup(two_nodes(), IdealModel(), Scenario(start_delay=30.0))
    simulator = Simulator(jobs((0, 4, 10)), setup)
    assert simulator.advance()
    snapshot = simulator.view.snapshot()
    snapshot.apply(placed(simulator, {0: {0: 4}}))
    assert rest_of(snapshot) == pytest.approx(40.0)


def test_a_job_that_makes_no_progress_stays_so_for_the_horizon():
    """A: 40 samples, no throughput for 60 s, then 4 samples/s on 4 GPUs at an efficiency of at least 5 %."""
    simulator = round_of(jobs((0, 4, 10)))
    snapshot = simulator.view.snapshot()
    snapshot.apply(placed(simulator, {0: {0: 4}}))
    snapshot.state.jobs["throughput"] = 0.0
    assert rest_of(snapshot, 60.0) == pytest.approx(60.0 + 40.0 / (4.0 * 0.05))


def test_a_job_that_wants_more_than_there_is_takes_all():
    view = round_of().view
    assert queue_seconds([(7.0, 8)], [(2.0, 99), (1.0, 1)], view) == pytest.approx(9.0 + 10.0)


def test_the_rest_uses_what_is_assumed_of_hidden_work():
    setup = Setup(two_nodes(), IdealModel(), Scenario(information=Information("none")))
    simulator = Simulator(jobs((0, 4, 10), (0, 4, 20)), setup)
    assert simulator.advance()
    assert rest_of(simulator.view.snapshot(np.array([16.0, 48.0]))) == pytest.approx(4.0 + 12.0)


def test_a_gang_over_both_types_counts_as_linear():
    """8 GPUs on no one type, at the best throughput per GPU: 80 samples at 16/s."""
    simulator = round_of(jobs((0, 8, 10)), fast_and_slow())
    assert rest_of(simulator.view.snapshot()) == pytest.approx(80.0 / 16.0)


def at_hundred(num_jobs: int, information: Literal["exact", "none"] = "exact") -> Simulator:
    """A simulator at t = 100, with jobs submitted since 0."""
    rows = [(100.0 * i / (num_jobs - 1), 1 + i % 3, 5.0 + i) for i in range(num_jobs)]
    setup = Setup(two_nodes(), IdealModel(), Scenario(information=Information(information)))
    simulator = Simulator(jobs(*rows, (1e6, 7, 1.0)), setup)
    while simulator.advance() and simulator.view.time < 100.0:
        simulator.apply(simulator.view.allocation(keep_running=True))
    return simulator


def test_arrivals_are_as_frequent_and_mixed_as_so_far():
    """21 jobs in 100 s: 2,000 s bring 420 +-21, of which 200 are drawn at most; 500 s bring 105 +-10."""
    view, model = at_hundred(21).view, ArrivalModel()
    model.observe(view, None)
    rng = np.random.default_rng(0)
    drawn = [model.draw(view, 600.0, rng) for _ in range(50)]
    assert np.mean([len(one) for one in drawn]) == pytest.approx(105.0, abs=5.0)
    assert len(model.draw(view, 2100.0, rng)) == 200
    known = {(job.num_gpus, job.work) for job in (view.job(j) for j in range(21))}
    for one in drawn:
        times = [job.submit_time for job in one]
        assert times == sorted(times)
        assert 100.0 <= times[0] <= times[-1] <= 600.0
        assert {(job.num_gpus, job.work) for job in one} <= known
    assert {job.num_gpus for job in drawn[0]} == {1, 2, 3}


def futures_at_hundred(num_futures: int, rounds: int = 3) -> tuple[Futures, Simulator]:
    """Futures of a round in which 21 jobs have come in 100 s, and its simulator."""
    simulator = at_hundred(21)
    made = Futures(rollouts(rounds), DrawnFutures(num_futures))
    made.reset(simulator.cluster, np.random.default_rng(0))
    return made, simulator


def test_all_plans_meet_the_same_arrivals_and_futures_differ():
    """The arrivals of a future add to the value of each plan, by another amount in each."""
    futures, simulator = futures_at_hundred(4)
    view = simulator.view
    kept = view.allocation(keep_running=True)
    copies = view.snapshot(), view.snapshot()
    base = futures.begin(view, kept, copies, None, np.random.default_rng(1), 9)
    assert base is not None
    assert len(set(base.tolist())) == 4
    assert futures.count == 1 + 4
    again = futures.values(kept)
    np.testing.assert_array_equal(again, base)
    alone = futures_at_hundred(1)[0].begin(view, kept, copies, None, np.random.default_rng(1), 9)
    assert alone is not None
    assert len(alone) == 1


def test_a_plan_that_is_behind_in_the_first_half_is_not_played_on():
    futures, simulator = futures_at_hundred(4)
    view = simulator.view
    copies = view.snapshot(), view.snapshot()
    kept, idle = view.allocation(keep_running=True), view.allocation()
    best = futures.begin(view, kept, copies, None, np.random.default_rng(1), 9)
    assert best is not None
    before = futures.count
    assert futures.values(idle, best=best) is None
    assert futures.count == before + 2
    assert futures.values(idle) is not None


def test_a_small_budget_draws_fewer_futures_and_too_little_knowledge_none():
    futures, simulator = futures_at_hundred(8)
    view = simulator.view
    copies = view.snapshot(), view.snapshot()
    few = futures.begin(view, view.allocation(keep_running=True), copies, None, np.random.default_rng(1), 3)
    assert few is not None
    assert len(few) == 3
    new = at_hundred(LEAST_JOBS - 1)
    futures.reset(new.cluster, new.rng)
    copies = new.view.snapshot(), new.view.snapshot()
    one = futures.begin(new.view, new.view.allocation(keep_running=True), copies, None, np.random.default_rng(1), 3)
    assert one is not None
    assert len(one) == 1
    assert futures.count == 1


def test_nothing_is_drawn_from_too_little():
    few, model = at_hundred(LEAST_JOBS - 1).view, ArrivalModel()
    model.observe(few, None)
    assert model.draw(few, 1e4, np.random.default_rng(0)) == []
    view = at_hundred(21).view
    model.reset()
    model.observe(view, None)
    assert model.draw(view, float("inf"), np.random.default_rng(0)) == []


def test_hidden_work_of_arrivals_is_what_the_caller_assumed_when_it_saw_the_job():
    view, model = at_hundred(21, "none").view, ArrivalModel()
    model.observe(view, np.full(21, 33.0))
    model.observe(view, np.full(21, 99.0))
    drawn = model.draw(view, 1000.0, np.random.default_rng(0))
    assert {job.work for job in drawn} == {33.0}
    snapshot = view.snapshot(np.full(21, 33.0))
    assert isinstance(snapshot, Snapshot)
    snapshot.add_arrivals(drawn)
    assert len(snapshot.workload) == 21 + len(drawn)
