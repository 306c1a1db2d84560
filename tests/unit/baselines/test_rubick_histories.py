"""History of jobs for Rubick: changes, waiting, and the reconfiguration gate."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.rubick.histories import JobHistories, same
from envs.types import ExecutionPlan, Placement

HERE, THERE = Placement({0: 4}), Placement({1: 4})


class Past:
    """Views and allocations over time for one job submitted at 5."""

    def __init__(self, gate=0.9, restart=10.0):
        self.histories = JobHistories(gate)
        self.place = None
        self.restart = restart

    def view(self, time):
        runs = [0] if self.place else []
        return SimpleNamespace(
            time=time,
            submit_time=np.array([5.0]),
            restart_delay=np.array([self.restart]),
            running=np.array(runs, np.int64),
            queued=np.array([0] if not runs else [], np.int64),
            placement=lambda job: self.place,
        )

    def change(self, time, place):
        """Place the job, or stop it."""
        view = self.view(time)
        self.histories.see(view)
        allocation: Any = SimpleNamespace(changes={0: place})
        self.histories.remember(view, allocation)
        self.place = place

    def fail(self):
        """Its node goes down."""
        self.place = None


def test_the_first_start_is_not_a_change():
    past = Past()
    past.change(10, HERE)
    assert past.histories.changes(0) == 0
    past.change(20, THERE)
    assert past.histories.changes(0) == 1
    past.change(30, THERE)
    assert past.histories.changes(0) == 1


def test_another_plan_on_the_same_gpus_is_a_change():
    past = Past()
    past.change(10, HERE)
    past.change(20, Placement({0: 4}, plan=ExecutionPlan(data=4)))
    assert past.histories.changes(0) == 1


def test_waiting_counts_from_the_submission_or_the_last_stop():
    past = Past()
    assert past.histories.waits_since(past.view(7), 0) == 5
    past.change(10, HERE)
    past.change(40, None)
    assert past.histories.waits_since(past.view(50), 0) == 40
    past.change(60, HERE)
    past.change(70, None)
    assert past.histories.waits_since(past.view(80), 0) == 70


def test_a_job_whose_node_failed_waits_from_then_on():
    past = Past()
    past.change(10, HERE)
    past.fail()
    past.histories.see(past.view(33))
    past.histories.see(past.view(44))
    assert past.histories.waits_since(past.view(50), 0) == 33


def test_stopping_a_waiting_job_is_not_a_stop():
    past = Past()
    past.change(6, None)
    assert past.histories.waits_since(past.view(7), 0) == 5


@pytest.mark.parametrize(("time", "opens"), [(10, False), (109, False), (110, True), (500, True)])
def test_the_gate_opens_when_one_more_change_is_a_tenth_of_the_run_time(time, opens):
    past = Past()
    past.change(10, HERE)
    assert past.histories.passes_gate(past.view(time), 0) is opens


def test_run_time_excludes_waiting():
    """From 10 to 40 and from 100 on; a failure at 150 is noticed at 160."""
    past = Past()
    assert past.histories.ran(past.view(9), 0) == 0
    past.change(10, HERE)
    past.change(40, None)
    assert past.histories.ran(past.view(90), 0) == 30
    past.change(100, THERE)
    assert past.histories.ran(past.view(130), 0) == 60
    past.fail()
    past.histories.see(past.view(160))
    past.histories.see(past.view(170))
    assert past.histories.ran(past.view(200), 0) == 90


def test_the_history_of_a_job_started_elsewhere_begins_now():
    """First seen running at 50: treated as started then."""
    past = Past()
    past.place = HERE
    past.histories.see(past.view(50))
    assert (past.histories.ran(past.view(60), 0), past.histories.changes(0)) == (10, 0)
    assert not past.histories.passes_gate(past.view(149), 0)
    assert past.histories.passes_gate(past.view(150), 0)


def test_waiting_does_not_open_the_gate():
    """Stopped at 20 for a thousand seconds: two changes, the next included, are a tenth of 200 s of running."""
    past = Past()
    past.change(10, HERE)
    past.change(20, None)
    past.change(1020, THERE)
    assert not past.histories.passes_gate(past.view(1209), 0)
    assert past.histories.passes_gate(past.view(1210), 0)


def test_every_change_closes_the_gate_for_as_long_again():
    """Changed at 110: two changes are a tenth of the run time at 210."""
    past = Past()
    past.change(10, HERE)
    past.change(110, THERE)
    assert not past.histories.passes_gate(past.view(209), 0)
    assert past.histories.passes_gate(past.view(210), 0)


def test_the_last_change_must_be_two_restarts_ago():
    """A job with a long run time may be changed, but not right after another change."""
    past = Past()
    past.change(10, HERE)
    past.change(1000, THERE)
    assert not past.histories.passes_gate(past.view(1019), 0)
    assert past.histories.passes_gate(past.view(1020), 0)


def test_free_changes_always_pass_the_gate():
    past = Past(restart=0.0)
    past.change(10, HERE)
    assert past.histories.passes_gate(past.view(10), 0)
    assert past.histories.pays_off(past.view(10), 0, 1.01)


@given(st.floats(1.0, 100.0), st.floats(0.0, 1e4), st.floats(0.0, 100.0))
def test_growth_pays_off_if_the_job_runs_as_long_again(factor, since, restart):
    """Continuing for t yields t; changing yields factor x (t - restart)."""
    past = Past(restart=restart)
    past.change(0.0, HERE)
    assert past.histories.pays_off(past.view(since), 0, factor) == (factor * (since - restart) >= since)


@given(st.floats(0.0, 0.99), st.lists(st.floats(1.0, 1e4), min_size=1, max_size=6), st.floats(0.1, 100.0))
def test_restarts_never_take_more_than_the_gate_leaves(gate, gaps, restart):
    """Changing whenever the gate is open: restarts are at most a share of 1 - gate of the run time."""
    past, time, changes = Past(gate, restart), 0.0, 0
    past.change(0.0, HERE)
    for gap in gaps:
        time += gap
        if past.histories.passes_gate(past.view(time), 0):
            past.change(time, THERE if past.place == HERE else HERE)
            changes += 1
            assert changes * restart <= (1 - gate) * time * (1 + 1e-9)
    assert past.histories.changes(0) == changes


def test_same_compares_gpus_and_plan():
    plan = ExecutionPlan(data=4)
    assert same(HERE, Placement({0: 4}, cpus={0: 8.0}))
    assert not same(HERE, THERE)
    assert not same(HERE, Placement({0: 4}, plan=plan))
    assert same(Placement({0: 4}, plan=plan), Placement({0: 4}, plan=plan))
