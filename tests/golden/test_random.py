"""Random on schedules worked by hand."""

from baselines import Random
from tests.golden.playground import fast_and_slow, jobs, places, play, times, two_nodes


def test_jobs_that_fill_the_cluster_run_one_by_one_in_either_order():
    """A 0-10; then B and C, 5 s each, in an order that depends on the seed alone."""
    trio = jobs((0, 8, 10), (1, 8, 5), (2, 8, 5))
    seen = {tuple(times(play(Random(), trio, two_nodes(), seed=seed))) for seed in range(20)}
    assert seen == {((0, 10), (10, 15), (15, 20)), ((0, 10), (15, 20), (10, 15))}


def test_nothing_is_preempted():
    """B arrives at 1 and waits for A, with any seed."""
    for seed in range(5):
        assert times(play(Random(), jobs((0, 5, 10), (1, 5, 1)), two_nodes(), seed=seed)) == [(0, 10), (10, 11)]


def test_sizes_are_drawn_from_the_range():
    """A job of 1 to 8 GPUs, 8 GPU-s of work, alone: it ends at 8 / n, and each n is drawn."""
    alone = jobs((0, 4, 2), elastic=(1, 8))
    ends = {times(play(Random(), alone, two_nodes(), seed=seed))[0][1] for seed in range(60)}
    assert ends == {round(8 / n, 6) for n in range(1, 9)}


def test_no_job_is_spread_over_types_without_need():
    """Two jobs of 3 leave one GPU on each of two types of 4; a third one of 2 waits until they end at 5."""
    for seed in range(10):
        result = play(Random(), jobs((0, 3, 5), (0, 3, 5), (1, 2, 1)), fast_and_slow(), seed=seed)
        assert times(result) == [(0, 5), (0, 5), (5, 6)]


def test_gangs_are_scattered():
    """A job of 2 beside one of 3: over many seeds it runs on node 0, on node 1 and split over both."""
    starts = {
        tuple(sorted(places(play(Random(), jobs((0, 3, 1), (0, 2, 1)), two_nodes(), seed=seed), 1)[0][1].items()))
        for seed in range(40)
    }
    assert {((0, 2),), ((1, 2),), ((0, 1), (1, 1))} == starts
