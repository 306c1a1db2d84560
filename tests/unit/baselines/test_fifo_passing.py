"""Backfilling in crowded rounds, compared with trying every job in turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import Fifo
from envs.types import ClusterSpec, NodeSpec
from tests.unit.baselines.rounds import CROWDED, busy_round
from tests.unit.baselines.slow import pass_the_head_slowly, start_slowly

PLAIN = ClusterSpec(tuple(NodeSpec("new", size) for size in (8, 8, 4, 4, 2)))


def placed(allocation):
    """Return the GPUs by node of every job that the round starts."""
    return {job: dict(place.gpus) for job, place in allocation.changes.items()}


@pytest.mark.parametrize("placement", ["best_fit", "first_fit"])
@pytest.mark.parametrize("cluster", [CROWDED, PLAIN], ids=["three types", "one type"])
@given(seed=st.integers(0, 10_000))
def test_easy_equals_trying_every_job(placement, cluster, seed):
    view = busy_round(seed, cluster, shapes=True)
    scheduler = Fifo("easy", placement)
    slow = view.allocation(keep_running=True)
    pass_the_head_slowly(view, slow, view.queued.tolist(), scheduler.find)
    assert placed(scheduler.schedule(view)) == placed(slow)


@pytest.mark.parametrize("placement", ["best_fit", "first_fit"])
@given(seed=st.integers(0, 10_000))
def test_skipping_equals_trying_every_job(placement, seed):
    view = busy_round(seed, shapes=True)
    scheduler = Fifo("skip", placement)
    slow = view.allocation(keep_running=True)
    start_slowly(view, slow, view.queued.tolist(), scheduler.find)
    assert placed(scheduler.schedule(view)) == placed(slow)


def test_the_rounds_contain_both_cases():
    """In many rounds a job passes a blocked head, and in many a job that would fit must not pass."""
    passed = refused = 0
    for seed in range(60):
        view = busy_round(seed, PLAIN, shapes=True)
        easy, skip = Fifo("easy").schedule(view).jobs(), Fifo("skip").schedule(view).jobs()
        strict = Fifo("none").schedule(view).jobs()
        passed += easy > strict
        refused += bool(skip - easy)
    assert min(passed, refused) >= 3
