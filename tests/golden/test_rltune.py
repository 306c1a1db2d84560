"""RLTune's program on schedules worked by hand: the highest weights start, on the fewest and fullest nodes."""

import numpy as np
import pytest

from baselines.rltune import Rltune
from envs.types import ClusterSpec, MurmurationError, NodeSpec
from tests.golden.playground import fast_and_slow, jobs, places, play, times, two_nodes


class Fixed:
    """Priorities that never change: the weight of each job by its number; a job without one does not start."""

    def __init__(self, *weights: float) -> None:
        self.weights = np.array(weights)

    def reset(self) -> None:
        """Do nothing."""

    def rank(self, view):
        """Return the waiting jobs by falling weight."""
        order = view.queued[np.argsort(-self.weights[view.queued], kind="stable")]
        order = order[self.weights[order] > 0]
        return order, self.weights[order]


def test_the_largest_sum_of_weights_starts():
    """A holds node 0 until 10. On node 1, B (4 GPUs, 0.4) or C and D (2 GPUs, 0.3 each): the two count more."""
    rows = jobs((0, 4, 10), (1, 4, 5), (1, 2, 5), (1, 2, 5))
    assert times(play(Rltune(Fixed(1, 0.4, 0.3, 0.3)), rows, two_nodes())) == [(0, 10), (6, 11), (1, 6), (1, 6)]
    assert times(play(Rltune(Fixed(1, 0.7, 0.3, 0.3)), rows, two_nodes())) == [(0, 10), (1, 6), (6, 11), (6, 11)]


def test_a_job_takes_the_node_that_it_fills_best():
    """A leaves one GPU of node 0, B two of node 1. C goes beside B, so that D finds room too."""
    result = play(Rltune(Fixed(4, 3, 2, 1)), jobs((0, 3, 20), (0, 2, 20), (1, 2, 5), (1, 1, 5)), two_nodes())
    assert places(result, 2) == [(1, {1: 2})]
    assert places(result, 3) == [(1, {0: 1})]


def test_a_gang_takes_whole_nodes_of_one_type_and_is_not_spread_otherwise():
    """A needs six GPUs: the two nodes of type "b". B needs four, and no node has so many until A ends."""
    cluster = ClusterSpec((NodeSpec("a", 3), NodeSpec("b", 4), NodeSpec("b", 4)))
    result = play(Rltune(Fixed(2, 1)), jobs((0, 6, 10), (1, 4, 5)), cluster)
    assert sorted(places(result, 0)[0][1].values()) == [2, 4]
    assert 0 not in places(result, 0)[0][1]
    assert times(result) == [(0, 10), (10, 15)]


def test_a_gang_larger_than_every_type_spans_both():
    assert places(play(Rltune(Fixed(1)), jobs((0, 8, 10)), fast_and_slow()), 0) == [(0, {0: 4, 1: 4})]


def test_a_job_without_priority_waits():
    """Priorities name no job but A; at the end of the episode B has never started."""
    result = play(Rltune(Fixed(1, 0)), jobs((0, 4, 10), (0, 4, 10)), two_nodes())
    assert result.num_unfinished == 1


def test_beyond_the_limit_jobs_are_placed_in_order(monkeypatch):
    monkeypatch.setattr("baselines.rltune.solve", lambda *_: None)
    scheduler = Rltune(Fixed(2, 1))
    assert times(play(scheduler, jobs((0, 8, 10), (0, 4, 10)), two_nodes())) == [(0, 10), (10, 20)]
    assert scheduler.counters == {"programs": 2, "stopped_programs": 2}


@pytest.mark.parametrize("name", ["most_jobs", "node_limit"])
def test_limits_must_be_positive(name):
    with pytest.raises(MurmurationError, match=f"Rltune: {name} is 0; it must be at least 1"):
        Rltune(Fixed(), **{name: 0})
