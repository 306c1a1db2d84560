"""Estimates of remaining work and time."""

import numpy as np
import pytest

from baselines.parts.estimates import as_long_again, remaining_time, remaining_time_on, require_remaining_work
from envs.simulation import Information
from envs.types import MurmurationError, Placement
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, two_nodes
from tests.unit.baselines.rounds import round_at

BOTH = np.array([0, 1])


def slow_and_fast_round(**options):
    """t=2: job 0 (2 GPUs, 40 samples) has run on the slow node, job 1 (4 GPUs, 80) on the fast one."""
    return round_at(
        2,
        jobs((0, 2, 20), (0, 4, 20)),
        fast_and_slow(),
        place=[(0, {0: {0: 2}, 1: {1: 4}})],
        performance=TwoThroughputs(),
        **options,
    )


def test_work_and_time_left():
    """Job 0 did 2 s x 2 samples/s, job 1 2 s x 8. Time counts on the fast type: 36 / 4 and 64 / 8."""
    view = slow_and_fast_round()
    assert require_remaining_work(view, BOTH, "X").tolist() == [36, 64]
    assert remaining_time(view, BOTH, "X").tolist() == [9, 8]


def test_time_left_where_they_are():
    view = slow_and_fast_round()
    places = [view.placement(0), view.placement(1)]
    assert remaining_time_on(view, BOTH, places, "X").tolist() == [18, 8]


def test_a_gang_over_types_has_no_known_end():
    """The view has no throughput for 6 GPUs of one type if each type has 4."""
    view = round_at(0, jobs((0, 6, 1)), fast_and_slow())
    assert remaining_time_on(view, np.array([0]), [Placement({0: 4, 1: 2})], "X").tolist() == [np.inf]


def test_as_long_again_is_time_run():
    view = slow_and_fast_round()
    assert as_long_again(view, BOTH).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("ask", [require_remaining_work, remaining_time])
def test_hidden_work_raises_a_clear_error(ask):
    view = slow_and_fast_round(information=Information("none"))
    with pytest.raises(MurmurationError) as error:
        ask(view, BOTH, "Thinker")
    assert str(error.value).startswith("Thinker: needs remaining work")
    assert "\n" not in str(error.value)


def test_a_round_without_jobs_raises_no_error():
    """With hidden work, a round without jobs raises no error."""
    view = round_at(0, jobs((0, 1, 1)), two_nodes(), information=Information("none"))
    assert require_remaining_work(view, np.array([], dtype=np.int64), "X").size == 0
