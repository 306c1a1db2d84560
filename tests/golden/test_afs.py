"""AFS-L on schedules worked by hand."""

from baselines import Afs
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, places, play, times, two_nodes


def test_pairwise_comparisons_as_in_the_paper():
    """A: 64 GPU-s, B: 16, both 1 to 8 GPUs, linear scaling.

    One more GPU gains the shorter job, with g GPUs, 1/g, and the longer job 1/(g+1). B, the shorter, is first: B 1.
    Then B's gain is 1 and A's is 1, not more: B 2. 1/2 < 1: A 1. 1/2, 1/2: B 3. 1/3 < 1/2: A 2. 1/3, 1/3: B 4. 1/4 <
    1/3: A 3. 1/4, 1/4: B 5. So B has 5 and A 3: B ends at 16 / 5 = 3.2, and A, with 54.4 left on all 8, at 10.
    """
    result = play(Afs(), jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8)), two_nodes())
    assert times(result) == [(0, 10), (0, 3.2)]
    assert [sum(gpus.values()) for _, gpus in places(result, 1)] == [5]


def test_rigid_jobs_go_by_length():
    """A: 8 GPUs for 3 s. B: 2 for 10 s. Lengths 3 and 10: A 0-3, B 3-13."""
    assert times(play(Afs(), jobs((0, 8, 3), (0, 2, 10)), two_nodes())) == [(0, 3), (3, 13)]


def test_a_newcomer_gets_its_share():
    """t=0: A, 80 GPU-s, alone on 8. t=5: 40 left; B with 40 comes.

    B, as long on one GPU as A, is second: A 1, A 2 (1 is not more than 1), B 1, A 3, B 2, A 4, B 3, then both gain
    1/4: A 5, B 3. A ends at 5 + 8. B has 16 left then and takes all 8: 15.
    """
    result = play(Afs(), jobs((0, 8, 10), (5, 8, 5), elastic=(1, 8)), two_nodes())
    assert places(result, 0)[0] == (0, {0: 4, 1: 4})
    assert times(result) == [(0, 13), (5, 15)]


def test_the_shorter_job_gets_the_faster_type():
    result = play(Afs(), jobs((0, 4, 10), (0, 4, 5)), fast_and_slow(), performance=TwoThroughputs())
    assert places(result, 1) == [(0, {1: 4})]
    assert times(result)[1] == (0, 2.5)
