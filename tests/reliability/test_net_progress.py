"""Runs that would never end do end, on both engines; slow but healthy runs do not end early."""

import math
from dataclasses import replace

import numpy as np
import pytest

from baselines import Las
from envs.evaluation import compare_schedulers
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import EndReason, Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.simulation.scenario import Failures
from envs.types import Allocation, ClusterSpec, MurmurationError
from envs.workloads import Workload
from tests.unit.simulation.bench import Bench
from tests.unit.simulation.plays import cluster_of, jobs_of

FOUR_GPUS = cluster_of(4)
TURNS = Rounds(interval=20.0)  # shorter than the restart delay of 30 s


class Turns:
    """Two jobs take turns: whichever has waited longest runs, for as many rounds as a turn has."""

    def __init__(self, rounds: int = 1) -> None:
        self.rounds = rounds

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin with the first job."""
        self.round = 0

    def schedule(self, view: ClusterView) -> Allocation:
        """Stop the running job at the end of its turn and start the next one."""
        allocation = view.allocation(keep_running=True)
        jobs = np.sort(np.concatenate([view.queued, view.running])).tolist()
        chosen = jobs[self.round // self.rounds % len(jobs)]
        self.round += 1
        for job in view.running.tolist():
            if job != chosen:
                allocation.stop(job)
        allocation.place(chosen, {0: int(view.num_gpus[chosen])})
        return allocation


class Mover:
    """Runs one job at a time; moves it from node to node at the rounds of the given numbers, and otherwise keeps it."""

    def __init__(self, moves: range) -> None:
        self.moves = moves

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin on node 0."""
        self.round, self.node = 0, 0

    def schedule(self, view: ClusterView) -> Allocation:
        """Place the job, if its node is up."""
        if self.round in self.moves:
            self.node = 1 - self.node
        self.round += 1
        allocation = view.allocation(keep_running=True)
        for job in view.running.tolist():
            allocation.stop(job)
        for job in [*view.running.tolist(), *view.queued.tolist()]:
            if allocation.free_gpus[self.node] >= 4:
                allocation.place(job, {self.node: 4})
        return allocation


class Hasty(Mover):
    """Asks for the next decision at the next instant that a float64 can tell from the present one."""

    def schedule(self, view: ClusterView) -> Allocation:
        """Place the job and ask again."""
        allocation = super().schedule(view)
        allocation.next_decision = math.nextafter(view.time, math.inf)
        return allocation


def play(
    scheduler: Scheduler, workload: Workload, scenario: Scenario, cluster: ClusterSpec = FOUR_GPUS, seed: int = 0
) -> RunResult:
    """Run on both engines, check that the runs are equal, and return the compiled engine's."""
    setup = Setup(cluster, Bench(), scenario)
    one, other = (
        run_episode(scheduler, build(workload, setup, seed), "s", compiled=False)
        for build in (Simulator, ReferenceSimulator)
    )
    assert one.log == other.log
    assert (one.end_reason, one.progress_time, one.num_rounds, one.end_time) == (
        (other.end_reason, other.progress_time, other.num_rounds, other.end_time)
    )
    assert one.why_cut_short == other.why_cut_short
    return one


def test_las_with_rounds_shorter_than_restarts_ends():
    """Once two equal jobs displace each other at every tick, neither processes a sample: the run would never end."""
    result = play(Las(protection=0), jobs_of((0, 4, 4000), (5, 4, 4000)), Scenario(rounds=TURNS))
    assert result.end_reason is EndReason.NO_PROGRESS
    assert result.num_unfinished == 2
    assert 0 < result.progress_time <= 20 * 1000 + 20
    assert "unfinished: jobs 0, 1" in result.why_cut_short
    assert f"after t = {result.progress_time:g} s" in result.why_cut_short


def test_the_same_turns_finish_when_restarts_are_short():
    result = play(Las(protection=0), jobs_of((0, 4, 4000), (5, 4, 4000)), Scenario(restart_delay=5.0, rounds=TURNS))
    assert result.end_reason is EndReason.DONE
    assert result.finished.all()
    assert result.why_cut_short == ""


@pytest.mark.parametrize(("rounds", "reason"), [(1, EndReason.NO_PROGRESS), (2, EndReason.DONE)])
def test_turns_longer_than_a_restart_make_progress(rounds, reason):
    """A turn of 20 s ends before the restart does; one of 40 s leaves 10 s to work in."""
    scenario = Scenario(rounds=replace(TURNS, max_futile_rounds=50))
    assert play(Turns(rounds), jobs_of((0, 4, 8000), (0, 4, 8000)), scenario).end_reason is reason


@pytest.mark.parametrize(
    ("checkpoints", "reason"), [(math.inf, EndReason.NO_PROGRESS), (20.0, EndReason.DONE), (0.0, EndReason.DONE)]
)
def test_rare_checkpoints_with_frequent_failures(checkpoints, reason):
    """A job of 20,000 s on a node that fails every 100 s never ends without checkpoints, and does with them."""
    failures = Failures(mtbf=100.0, repair_time=5.0, checkpoint_interval=checkpoints)
    scenario = Scenario(restart_delay=1.0, failures=failures, rounds=Rounds(interval=50.0, max_futile_rounds=200))
    result = play(Mover(range(0)), jobs_of((0, 4, 80000)), scenario)
    assert result.end_reason is reason
    assert result.records["num_interruptions"][0] > 100


def test_a_restart_delay_of_a_day_is_waited_for():
    """8,640 rounds pass without a sample, since the job moves once, ten seconds after its start. Nothing is endless."""
    scenario = Scenario(start_delay=86400.0, restart_delay=86400.0, rounds=Rounds(interval=10.0))
    setup = Setup(cluster_of(4, 4), Bench(), scenario)
    result = run_episode(Mover(range(1, 2)), Simulator(jobs_of((0, 4, 40)), setup))
    assert result.end_reason is EndReason.DONE
    assert result.records["finish_time"].tolist() == [10 + 86400 + 10]


def test_many_restarts_in_a_short_time_are_not_held_against_a_run():
    """300 moves in 300 s, all within one restart delay of an hour; then the job is left alone and ends."""
    scenario = Scenario(restart_delay=3600.0, rounds=Rounds(interval=1.0, max_futile_rounds=50))
    result = play(Mover(range(1, 300)), jobs_of((0, 4, 400)), scenario, cluster_of(4, 4))
    assert result.end_reason is EndReason.DONE
    assert result.records["num_restarts"].tolist() == [299]


def test_moves_without_end_are_ended():
    """The same moves for ever: ten restart delays after the first check, the job is given up."""
    scenario = Scenario(restart_delay=3600.0, rounds=Rounds(interval=600.0, max_futile_rounds=50))
    result = play(Mover(range(1, 10**9)), jobs_of((0, 4, 40000)), scenario, cluster_of(4, 4))
    assert result.end_reason is EndReason.NO_PROGRESS
    assert result.end_time - result.progress_time >= 36000.0


def test_waiting_for_arrivals_and_long_outages_are_healthy():
    """Ticks pass by the thousand: a job that runs for weeks, one that arrives after it, and a node that is down."""
    failures = Failures(mtbf=40000.0, repair_time=300000.0, checkpoint_interval=0.0)
    scenario = Scenario(failures=failures, rounds=Rounds(interval=600.0, max_futile_rounds=20))
    result = play(Mover(range(0)), jobs_of((0, 4, 4e6), (9e6, 4, 40)), scenario, cluster_of(4, 4), seed=3)
    assert result.end_reason is EndReason.DONE
    assert result.num_rounds > 1000


def test_a_clock_that_stands_still_ends_the_run():
    """Decisions without number in the first nanosecond."""
    result = play(Hasty(range(0)), jobs_of((0, 4, 40)), Scenario())
    assert (result.end_reason, result.num_rounds) == (
        EndReason.NO_PROGRESS,
        2000,
    )  # the arrival is in the first thousand
    assert result.end_time < 1e-6


def test_a_finite_horizon_is_charged_in_full():
    """Giving up must not be cheaper than going on: time advances to the horizon."""
    scenario = Scenario(rounds=TURNS, horizon=1e6)
    result = play(Las(protection=0), jobs_of((0, 4, 4000), (5, 4, 4000)), scenario)
    assert (result.end_reason, result.end_time) == (EndReason.NO_PROGRESS, 1e6)


def test_an_episode_that_has_ended_stays_ended():
    setup = Setup(FOUR_GPUS, Bench(), Scenario(rounds=TURNS))
    for build in (Simulator, ReferenceSimulator):
        engine = build(jobs_of((0, 4, 4000), (5, 4, 4000)), setup)
        run_episode(Las(protection=0), engine, compiled=False)
        assert not engine.advance()


def test_jobs_that_nobody_starts_are_named():
    waiting = Simulator(jobs_of(*[(0, 4, 40)] * 12), Setup(FOUR_GPUS, Bench()))
    for view in waiting.rounds():
        waiting.apply(view.allocation(keep_running=True))
    said = waiting.result("idle").why_cut_short
    assert said.endswith("unfinished: jobs 0, 1, 2, 3, 4, 5, 6, 7 and 4 more")
    assert "left jobs waiting" in said


def test_a_comparison_names_scheduler_and_jobs():
    setup = Setup(FOUR_GPUS, Bench(), Scenario(rounds=TURNS))
    workload = jobs_of((0, 4, 4000), (5, 4, 4000))
    caption = compare_schedulers({"turns": Turns(), "las": Las()}, [workload], setup).caption
    assert "Cut short: turns: " in caption
    assert "unfinished: jobs 0, 1." in caption
    assert "Cut short: las" not in caption


def test_a_snapshot_ends_too_and_knows_no_hidden_work():
    """A planner that lets time pass on a snapshot meets the same rule."""
    setup = Setup(FOUR_GPUS, Bench(), Scenario(rounds=TURNS))
    engine = Simulator(jobs_of((0, 4, 4000), (0, 4, 4000)), setup)
    assert engine.advance()
    copy = engine.view.snapshot()
    turns = Turns()
    turns.reset(FOUR_GPUS, np.random.default_rng(0))
    while copy.advance():
        copy.apply(turns.schedule(copy.view))
    assert EndReason(copy.state.episode[0, 0].ended) is EndReason.NO_PROGRESS


def test_the_number_of_rounds_is_checked():
    with pytest.raises(MurmurationError, match="max_futile_rounds is 0; it must be at least 1"):
        Rounds(max_futile_rounds=0)
