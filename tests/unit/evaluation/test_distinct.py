"""Drawing without replacement."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.evaluation.distinct import PATIENCE, distinct
from tests.golden.playground import jobs


def workload(length, **changes):
    """A workload of one job; equal lengths give equal workloads that are different objects."""
    return replace(jobs((0.0, 1, float(length))), **changes)


def lengths(found):
    return [float(one.jobs["work"][0]) for one in found]


def test_each_workload_is_returned_once_in_the_order_of_the_draws():
    assert lengths(distinct(map(workload, (3, 3, 1, 3, 2, 1, 4)), 3)) == [3, 1, 2]


def test_no_more_is_drawn_than_needed():
    drawn = map(workload, itertools.count(1))
    assert lengths(distinct(drawn, 4)) == [1, 2, 3, 4]
    assert lengths([next(drawn)]) == [5]


def test_endless_repetitions_end():
    drawn = itertools.count()
    found = distinct((workload(1 + next(drawn) % 2) for _ in itertools.count()), 8)
    assert lengths(found) == [1, 2]
    assert next(drawn) == 2 + PATIENCE


@pytest.mark.parametrize(
    "changes",
    [{"models": ("other",)}, {"window": (0.0, 1.0)}, {"tenants": ("somebody",)}],
    ids=["models", "window", "tenants"],
)
def test_workloads_that_run_differently_are_distinct(changes):
    assert len(distinct([workload(1), workload(1, **changes)], 2)) == 2


def test_names_do_not_make_workloads_distinct():
    assert len(distinct([workload(1, name="a"), workload(1, name="b", notes=("noted",))], 2)) == 1


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 12))
def test_the_result_equals_that_of_sets(drawn, count):
    assert lengths(distinct(map(workload, drawn), count)) == list(dict.fromkeys(drawn))[:count]


def test_submit_times_make_workloads_distinct():
    rng = np.random.default_rng(0)
    submits = rng.random(5)
    assert len(distinct((jobs((float(at), 1, 1.0)) for at in submits), 5)) == 5
