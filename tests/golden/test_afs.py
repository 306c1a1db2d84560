"""AFS-L on schedules worked by hand."""

import pytest

from baselines import Afs
from envs.types import JobSpec
from envs.workloads import Workload
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, places, play, restarts, times, two_nodes


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


def test_a_long_job_moves_to_the_faster_type_when_that_pays():
    """20 and 40 samples. A is on the fast node until 2.5, B on the slow one. t=2.5: B has 30 left: 7.5 s where it is,
    3.75 s on the fast node. After a restart of 2 s it ends at 8.25. A restart of 5 s does not pay: 10.
    """
    pair = jobs((0, 4, 5), (0, 4, 10))
    moved = play(Afs(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=2)
    assert (times(moved), restarts(moved)) == ([(0, 2.5), (0, 8.25)], [0, 1])
    assert places(moved, 1) == [(0, {0: 4}), (2.5, {1: 4})]
    stayed = play(Afs(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=5)
    assert times(stayed) == [(0, 2.5), (0, 10)]


def test_the_literal_form_leaves_a_long_job_on_the_slow_type():
    result = play(Afs(literal=True), jobs((0, 4, 5), (0, 4, 10)), fast_and_slow(), performance=TwoThroughputs())
    assert times(result) == [(0, 2.5), (0, 10)]


def test_a_resize_must_pay_for_its_restart():
    """As in the first test until B ends at 3.2. A has 54.4 left: 18.13 s on its 3 GPUs, 6.8 s on 8. A restart of 5 s
    pays (3.2 + 5 + 6.8 = 15), one of 12 s does not (21.33). The literal form resizes all the same (22).
    """
    pair = jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8))
    paid = play(Afs(), pair, two_nodes(), restart_delay=5)
    assert (times(paid), restarts(paid)) == ([(0, 15), (0, 3.2)], [1, 0])
    kept = play(Afs(), pair, two_nodes(), restart_delay=12)
    assert (times(kept), restarts(kept)) == ([(0, 21.333333), (0, 3.2)], [0, 0])
    literal = play(Afs(literal=True), pair, two_nodes(), restart_delay=12)
    assert (times(literal), restarts(literal)) == ([(0, 22), (0, 3.2)], [1, 0])


def test_a_move_must_pay_within_the_payback():
    """B has 4,000 samples: 4 samples/s on the slow node, 8 on the fast one. In 60 s, a restart of 60 s leaves 4 too, in
    200 s it leaves 6.15. So B moves at 2.5 with the longer payback: 3,990 samples in 498.75 s after the restart.
    """
    pair = jobs((0, 4, 5), (0, 4, 1000))
    for payback, end in ((60.0, 1000), (200.0, 2.5 + 60 + 498.75)):
        result = play(Afs(payback=payback), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=60)
        assert times(result)[1] == (0, end)


def test_gpus_given_up_by_a_move_are_shared_out_again():
    """As above with free restarts, and C of 400 samples from 1 on. t=2.5: B moves to the fast node and ends at 6.25. C
    starts on the slow node that it leaves. t=6.25: C has 385 left and moves too: 48.125 s.
    """
    result = play(Afs(), jobs((0, 4, 5), (0, 4, 10), (1, 4, 100)), fast_and_slow(), performance=TwoThroughputs())
    assert times(result) == [(0, 2.5), (0, 6.25), (2.5, 54.375)]
    assert places(result, 2) == [(2.5, {0: 4}), (6.25, {1: 4})]


@pytest.mark.parametrize(("protection", "changes"), [(0.0, [3, 8, 4]), (2.0, [3, 8])])
def test_a_restarted_job_keeps_its_gpus_for_a_while(protection, changes):
    """As in the first test: A, with 54.4 samples left, takes all 8 GPUs at 3.2 and restarts for 1 s. C comes at 4 and
    wants 4 GPUs for 1 s. It takes them at once, or waits for the next decision, which is at A's end: 3.2 + 1 + 6.8.
    """
    rows = [
        JobSpec(0, 0.0, 4, 64.0, "any", min_gpus=1, max_gpus=8),
        JobSpec(1, 0.0, 4, 16.0, "any", min_gpus=1, max_gpus=8),
        JobSpec(2, 4.0, 4, 4.0, "any"),
    ]
    result = play(Afs(protection=protection), Workload.of(rows), two_nodes(), restart_delay=1)
    sizes = [sum(gpus.values()) for _, gpus in places(result, 0)]
    assert sizes[: len(changes)] == changes
    assert times(result)[2] == ((4, 5) if protection == 0 else (11, 12))
