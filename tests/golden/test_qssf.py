"""QSSF on schedules worked by hand: the least GPU time first, nothing passes, nothing is preempted."""

from baselines import Qssf
from tests.golden.playground import jobs, play, restarts, times, two_nodes


def test_the_least_gpu_time_goes_first_and_nothing_is_preempted():
    """A (8 GPUs) runs until 10. B needs 4 x 10 GPU-seconds, C 1 x 30, D 2 x 5: at 10 D, C and B start."""
    result = play(Qssf(), jobs((0, 8, 10), (1, 4, 10), (2, 1, 30), (3, 2, 5)), two_nodes())
    assert times(result) == [(0, 10), (10, 20), (10, 40), (10, 15)]
    assert restarts(result) == [0, 0, 0, 0]


def test_no_job_passes_one_that_does_not_fit():
    """A holds node 0 until 10. B wants both nodes for 2 s, 16 GPU-seconds; C, 4 x 10, waits behind it until 12."""
    result = play(Qssf(), jobs((0, 4, 10), (1, 8, 2), (2, 4, 10)), two_nodes())
    assert times(result) == [(0, 10), (10, 12), (12, 22)]
