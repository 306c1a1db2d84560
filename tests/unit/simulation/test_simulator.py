"""Features of the compiled engine alone: a growing log and running sums."""

import numpy as np
import pytest
from numba.core.event import trigger_event

from envs.performance import IdealModel
from envs.simulation import Rounds, Scenario, Setup, Simulator, State, run_episode
from envs.simulation.entries import next_round
from envs.simulation.world import state as state_module
from envs.simulation.world.kernels import LOG_FULL
from envs.types import AllocationError, Placement
from tests.unit.simulation.plays import Play, burst_run, cluster_of, jobs_of


def grow_by_one(rows: np.ndarray) -> np.ndarray:
    """Grow by one row instead of doubling, so that the log is full at every event."""
    grown = np.zeros((rows.shape[0], rows.shape[1] + 1), rows.dtype)
    grown[:, :-1] = rows
    return grown


@pytest.mark.parametrize("rounds", [Rounds(), Rounds(on_events=False, interval=2.0), Rounds(interval=0.5)])
def test_a_log_that_is_always_full_holds_the_same_events(monkeypatch, rounds):
    """Several events share an instant, so the log is also full within an instant."""
    expected = burst_run(Simulator, rounds)
    monkeypatch.setattr(state_module, "_doubled", grow_by_one)
    assert burst_run(Simulator, rounds).log == expected.log


def test_time_stops_within_an_instant_when_the_log_is_full():
    """Three jobs arrive at 0 and the log has room for two: the third arrives after the log has grown, still at 0."""
    simulator = Simulator(jobs_of((0, 1, 5), (0, 1, 5), (0, 1, 5)), Setup(cluster_of(4), IdealModel()))
    state = simulator.state
    state.events = state.events[:, :2].copy()
    assert next_round(simulator.world) == LOG_FULL
    assert state.episode[0, 0].log_events == state.episode[0, 0].num_active == 2
    assert simulator.advance()
    assert simulator.view.queued.tolist() == [0, 1, 2]
    assert simulator.view.time == 0.0
    assert simulator.state.episode[0, 0].num_rounds == 1


def test_growth_keeps_the_events():
    state = State.allocate(cluster_of(4), 3)
    state.grow_log()
    assert state.events.shape == (1, 1024)
    state.events["job"][0] = np.arange(1024)
    state.grow_log()
    assert state.events.shape == state.log_shares.shape == (1, 2048)
    assert state.events["job"][0, :1024].tolist() == list(range(1024))
    assert not state.events["job"][0, 1024:].any()


def test_a_job_that_never_starts_counts_up_to_the_horizon():
    """A job that arrives at 5 and never starts counts until the horizon of 500."""
    play = Play(
        Simulator, {}, jobs_of((5, 4, 40)), cluster_of(4, 4), Scenario(horizon=500.0, rounds=Rounds(max_stalls=2))
    )
    assert isinstance(play.engine, Simulator)
    assert play.engine.state.episode[0, 0].job_seconds == 495.0


class Wrong:
    """A scheduler that fails in its second round."""

    information, preemptive, elastic = "none", False, False

    def __init__(self, answer):
        self.answer = answer

    def reset(self, cluster, rng):
        """Do nothing."""

    def schedule(self, view):
        """Change nothing in the first round, then return the given answer."""
        return view.allocation(keep_running=True) if view.time == 0 else self.answer(view)


def overcommitted(view):
    """An allocation with too many GPUs, written without `place`."""
    allocation = view.allocation()
    allocation.changes[0] = Placement({0: 9})
    return allocation


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda view: None, r"schedule\(\) returned NoneType; return what view.allocation\(\) gave you"),
        (lambda view: {0: {0: 4}}, r"schedule\(\) returned dict; return"),
        (lambda view: view.allocation().place(0, {7: 1}), "job 0: node 7 does not exist"),
        (overcommitted, "job 0: asks for 9 GPUs on node 0, where 4 are free"),
    ],
)
def test_an_invalid_allocation_is_reported_with_scheduler_and_time(engine, answer, says):
    simulator = engine(jobs_of((0, 4, 10), (5, 4, 10)), Setup(cluster_of(4), IdealModel()))
    says = says if "free" not in says else "job 0: |node 0: |is given 9 GPUs"
    with pytest.raises(AllocationError, match=f"scheduler mine at t = 5 s: .*({says})"):
        run_episode(Wrong(answer), simulator, "mine")


def test_an_exception_in_a_scheduler_keeps_its_type_and_names_the_scheduler():
    simulator = Simulator(jobs_of((0, 4, 10), (5, 4, 10)), Setup(cluster_of(4), IdealModel()))
    with pytest.raises(ZeroDivisionError) as error:
        run_episode(Wrong(lambda view: 1 // 0), simulator, "mine")
    assert error.value.__notes__ == ["in scheduler mine at t = 5 s"]


class Compiling:
    """A scheduler whose every decision takes a quarter of a second, after seven seconds for a kernel."""

    def __init__(self, clock):
        self.clock = clock

    def reset(self, cluster, rng):
        """Keep nothing."""

    def schedule(self, view):
        """Compile as numba does, then let all jobs wait or run."""
        with trigger_event("numba:compile"):
            self.clock[0] += 7.0
        self.clock[0] += 0.25
        allocation = view.allocation(keep_running=True)
        for job in view.queued:
            allocation.pack(int(job))
        return allocation


def test_decision_times_leave_out_compiling(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    result = run_episode(Compiling(clock), Simulator(jobs_of((0, 1, 5), (9, 1, 5)), Setup(cluster_of(4), IdealModel())))
    assert result.num_rounds > 1
    assert result.decision_seconds == pytest.approx(0.25 * result.num_rounds)
