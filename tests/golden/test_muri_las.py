"""The queues of Muri's simulator on schedules worked by hand."""

import pytest

from baselines import MuriLas
from envs.types import MurmurationError
from tests.golden.playground import jobs, play, times, two_nodes


def test_a_job_falls_when_it_has_executed_long_enough():
    """One limit, 12 GPU-s; both jobs take all 8 GPUs.

    A runs from 0. It reaches 12 GPU-s after 1.5 s, but decisions follow whole seconds of execution: at 2 (16 GPU-s).
    B, which came at 1 and waits in the first queue, runs 2-4; it falls at 4. Now both are in the second queue, where A
    entered first, but at 2 A did not run and no other job was there. At 4 A runs to its end: 4-6. B: 6-7.
    """
    assert times(play(MuriLas(limits=(12,)), jobs((0, 8, 4), (1, 8, 3)), two_nodes())) == [(0, 6), (2, 7)]


def test_jobs_that_do_not_run_move_back():
    """No job reaches the limit. A (6 GPUs) runs 0-3; B (8 GPUs) waits; C (2 GPUs) comes at 1 and runs ahead of B: 1-5.

    Now C is before B in the queue, so at 3 B cannot take all GPUs. D (6 GPUs) comes at 4, behind B: B does not fit
    while C runs, so D runs 4-8 and is then ahead of B too. B: 8-10.
    """
    rows = ((0, 6, 3), (0, 8, 2), (1, 2, 4), (4, 6, 4))
    assert times(play(MuriLas(limits=(1000,)), jobs(*rows), two_nodes())) == [(0, 3), (8, 10), (1, 5), (4, 8)]


def test_nodes_do_not_matter():
    """A and B hold 3 GPUs on one node of 4 each; C wants 2: one is free on either node. It runs on both."""
    assert times(play(MuriLas(), jobs((0, 3, 5), (0, 3, 5), (1, 2, 1)), two_nodes())) == [(0, 5), (0, 5), (1, 2)]


@pytest.mark.parametrize("limits", [(), (0.0, 5.0), (5.0, 5.0)])
def test_wrong_limits(limits):
    with pytest.raises(MurmurationError, match="positive and ascending"):
        MuriLas(limits=limits)
