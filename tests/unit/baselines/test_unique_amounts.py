"""The best amounts without a solver: equal to enumeration and to HiGHS, and refused where others are as good."""

from itertools import pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from baselines.synergy.mechanisms import GAP, Opt
from baselines.synergy.unique_amounts import MARGIN, unique_amounts


@st.composite
def groups(draw):
    """Draw up to 4 jobs with up to 4 options each, on up to 3 limits: `first`, `worth`, `use` and `room`."""
    count = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(1, 4)))]
    num_limits = draw(st.integers(1, 3))
    whole = st.integers(0, 6)
    use = [[draw(whole) for _ in range(num_limits)] for _ in range(sum(count))]
    worth = [draw(st.integers(1, 50)) / 10 for _ in range(sum(count))]
    room = [draw(st.integers(0, 15)) for _ in range(num_limits)]
    first = np.concatenate([[0], np.cumsum(count)])
    return first, np.array(worth), np.array(use, dtype=np.float64), np.array(room, dtype=np.float64) + 1e-6


def all_worths(first, worth, use, room) -> list[tuple[float, tuple[int, ...]]]:
    """List all choices within the room with their worth, best first."""
    every = product(*(range(begin, end) for begin, end in pairwise(first)))
    fitting = [chosen for chosen in every if (use[list(chosen)].sum(axis=0) <= room).all()]
    return sorted(((float(worth[list(chosen)].sum()), chosen) for chosen in fitting), reverse=True)


@given(group=groups())
def test_the_choice_is_the_best_one_and_is_known_exactly_where_it_is_ahead(group):
    first, worth, use, room = group
    known, chosen = unique_amounts(first, worth, use, room, GAP)
    found = all_worths(*group)
    if not found:
        assert not known
        return
    (best, expected), *others = found
    ahead = best - others[0][0] if others else np.inf
    assert known == (ahead > MARGIN * GAP * max(best, 1.0))
    assert not known or tuple(chosen.tolist()) == expected


@given(group=groups())
def test_it_agrees_with_the_integer_program(group):
    first, worth, use, room = group
    known, chosen = unique_amounts(first, worth, use, room, GAP)
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    solved = Opt(1000)._program(owner, worth, use, room)
    assert not known or chosen.tolist() == solved
    assert bool(solved) == bool(all_worths(*group))


def test_a_choice_that_only_rounding_makes_impossible_is_left_to_the_solver():
    """The better option exceeds the room by less than a solver may tolerate."""
    first, worth, use = np.array([0, 2]), np.array([2.0, 1.0]), np.array([[1.0], [0.5]])
    assert not unique_amounts(first, worth, use, np.array([1.0 - 1e-7]), GAP)[0]
    assert unique_amounts(first, worth, use, np.array([1.0]), GAP)[1].tolist() == [0]
    assert unique_amounts(first, worth, use, np.array([0.9]), GAP)[1].tolist() == [1]


def test_a_search_that_takes_too_long_is_left_to_the_solver():
    jobs, options = 12, 6
    rng = np.random.default_rng(0)
    use = rng.integers(1, 10, (jobs * options, 4)).astype(np.float64)
    first, worth = np.arange(jobs + 1) * options, 1 + use.sum(axis=1) / 1e3 + rng.random(len(use)) / 1e6
    known, _ = unique_amounts(first, worth, use, use.mean(axis=0) * jobs, GAP)
    assert not known
