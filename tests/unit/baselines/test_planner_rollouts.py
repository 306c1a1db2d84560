"""Values of allocations worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from baselines.planner.rollouts import Rest, Rollouts, prolong_restarts, queue_seconds
from baselines.starling.scheduler import Starling
from envs.performance import IdealModel
from envs.simulation import Information, Rounds, Scenario, Setup, SimulatedEpisode, Simulator
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


def rest_of(copy: SimulatedEpisode, horizon: float = 1e6) -> float:
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
