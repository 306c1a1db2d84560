"""The knee of a scaling curve, against its definition, and looked up for submitted jobs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.starling.knee import Knees, knee
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import Curved
from tests.unit.baselines.rounds import round_at

curves = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 4.5, 7.0, 8.0]), min_size=1, max_size=10)


def hull(throughput):
    """Find the points of the rising upper concave hull from the origin: no chord between other points is above them."""
    points = [(0, 0.0)] + [(n, s) for n, s in enumerate(throughput) if n and s > 0]
    corners = []
    for n, s in points:
        left = [(m, r) for m, r in points if m < n]
        right = [(m, r) for m, r in points if m > n]
        above = any(r + (t - r) * (n - m) / (k - m) >= s for m, r in left for k, t in right)
        if not above and all(r < s for _, r in left):
            corners.append((n, s))
    return corners


def knee_slowly(throughput, threshold):
    """Find the last corner before the slope falls below the share of the first."""
    corners = hull(throughput)
    if len(corners) < 2:
        return 0
    slopes = [(s - r) / (n - m) for (m, r), (n, s) in pairwise(corners)]
    last = 0
    for (n, _), slope in zip(corners[1:], slopes, strict=True):
        if last and slope < threshold * slopes[0]:
            break
        last = n
    return last


def top(throughput):
    """Return the least size with the greatest throughput; corners beyond it do not rise."""
    return int(np.argmax(throughput)) if max(throughput) > 0 else 0


@given(curve=curves, threshold=st.sampled_from([0.0, 0.25, 0.4, 0.7, 0.99]))
def test_the_knee_is_the_last_corner_that_pays(curve, threshold):
    """Points on a chord are not corners: a straight line is one step, to its end."""
    throughput = np.array([0.0, *curve])
    found = knee(throughput, threshold)
    expected = knee_slowly(throughput, threshold)
    assert throughput[found] == pytest.approx(throughput[expected])
    assert found <= expected  # on a straight part the kernel goes step by step


@given(curve=curves)
def test_without_a_threshold_the_knee_is_the_fastest_size(curve):
    throughput = np.array([0.0, *curve])
    assert knee(throughput, 0.0) == top(throughput)


@given(curve=curves, low=st.floats(0, 1), high=st.floats(0, 1))
def test_a_higher_threshold_gives_fewer_gpus(curve, low, high):
    throughput = np.array([0.0, *curve])
    low, high = sorted((low, high))
    assert knee(throughput, high) <= knee(throughput, low)


@pytest.mark.parametrize(
    ("throughput", "threshold", "found"),
    [
        ([0, 2, 3, 3.5, 3.7], 0.6, 1),  # steps 2, 1, 0.5, 0.2
        ([0, 2, 3, 3.5, 3.7], 0.5, 2),
        ([0, 2, 3, 3.5, 3.7], 0.1, 4),
        ([0, 1, 1.1, 1.2, 8], 0.9, 4),  # slow in between, and best at 4: one step of 2 a GPU
        ([0, 0, 0, 0, 4], 0.9, 4),  # rigid
        ([0, 1, 2, 3, 4], 1.0, 4),  # linear
        ([0, 3, 2, 1], 0.0, 1),
        ([0, 0], 0.5, 0),
        ([0], 0.5, 0),
    ],
)
def test_knees_by_hand(throughput, threshold, found):
    assert knee(np.array(throughput, dtype=float), threshold) == found


def test_submitted_jobs_are_looked_up_once():
    """Curved: 2 n^0.8 on "new", n^0.8 on "old" GPUs. Steps relative to the first: 0.74, 0.67, 0.62, 0.59, ..."""
    cluster = ClusterSpec((NodeSpec("old", 4), NodeSpec("new", 8)))
    specs = [
        JobSpec(0, 0.0, 2, 50.0, "any", min_gpus=1, max_gpus=8),
        JobSpec(1, 0.0, 3, 50.0, "any"),
        JobSpec(2, 1.0, 6, 50.0, "any"),
        JobSpec(3, 1.0, 10, 50.0, "any", min_gpus=10, max_gpus=12),
    ]
    knees = Knees([0.6, 1.0])
    knees.look_up(round_at(0, Workload.of(specs), cluster, performance=Curved()))
    assert knees.by_group.sizes[:, knees.group].tolist() == [[[4, 4], [3, 3]], [[1, 1], [3, 3]]]
    knees.look_up(round_at(1, Workload.of(specs), cluster, performance=Curved()))
    groups = knees.by_group
    assert knees.group.tolist() == [0, 1, 2, 3]
    assert groups.sizes[:, knees.group].tolist() == [
        [[4, 4], [3, 3], [0, 6], [0, 0]],
        [[1, 1], [3, 3], [0, 6], [0, 0]],
    ]
    assert groups.gpus.tolist() == [4, 3, 6, 0]
    assert groups.least.tolist() == [1, 3, 6, 0]
    assert groups.throughput == pytest.approx([2 * 4**0.8, 2 * 3**0.8, 2 * 6**0.8, 0.0])
    assert knees.requested_throughput[:3] == pytest.approx([2 * 2**0.8, 2 * 3**0.8, 2 * 6**0.8])
