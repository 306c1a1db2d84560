"""The envelopes: whatever the raw speeds, more is never slower; and they are the best subset, no more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from envs.performance.envelope import monotone, node_grid

MAX_GPUS = 24


def raw_speeds(columns):
    return hnp.arrays(np.float64, (MAX_GPUS + 1, columns), elements=st.floats(0, 100, width=32))


def assert_monotone(dense, gpus_per_node):
    n = np.arange(dense.shape[0])
    for nodes in range(1, dense.shape[1]):
        assert (np.diff(dense[nodes:, nodes]) >= -1e-9).all(), f"GPUs, on {nodes} nodes"
    for gpus in range(1, dense.shape[0]):
        row = dense[gpus, 1 : min(gpus, dense.shape[1] - 1) + 1]
        assert (np.diff(row) <= 1e-9).all(), f"nodes, with {gpus} GPUs"
    fewest = np.maximum(-(-n // gpus_per_node), 1)
    packed = dense[n[1:], fewest[1:]][fewest[1:] < dense.shape[1]]
    assert (np.diff(packed) >= -1e-9).all(), "GPUs, on the fewest nodes"


@given(raw_speeds(10), st.integers(1, 8))
def test_more_is_never_slower(raw, gpus_per_node):
    grid = node_grid(MAX_GPUS)
    assert len(grid) == 10
    raw[0] = 0
    assert_monotone(monotone(raw, grid, gpus_per_node, MAX_GPUS), gpus_per_node)


@given(raw_speeds(8))
def test_nothing_is_faster_than_the_fastest_subset_and_consolidated_is_no_slower_than_raw(raw):
    """On up to 8 nodes every column is computed: the envelope of a row is bounded by all smaller placements."""
    raw[0] = 0
    dense = monotone(raw, node_grid(8), 8, 8)
    ordered = np.minimum.accumulate(raw, axis=1)
    for gpus in range(1, MAX_GPUS + 1):
        for nodes in range(1, min(8, gpus) + 1):
            value = dense[gpus, nodes]
            assert value >= ordered[gpus, nodes - 1] - 1e-9
            assert value <= raw[: gpus + 1, 0].max() + 1e-9


@given(raw_speeds(8))
def test_an_even_spread_is_worth_its_best_subset(raw):
    """8 GPUs on 2 nodes, 4 and 4, against all subsets by hand: up to 4 on one node, up to 8 on two."""
    raw[0] = 0
    dense = monotone(raw, node_grid(8), 8, 8)
    ordered = np.minimum.accumulate(raw, axis=1)
    assert dense[8, 2] == pytest.approx(max(ordered[:5, 0].max(), ordered[:9, 1].max()))


@given(raw_speeds(8))
def test_a_packed_placement_is_worth_its_whole_node(raw):
    """9 GPUs on the fewest nodes are 8 and 1: as good as 8 on one node."""
    raw[0] = 0
    dense = monotone(raw, node_grid(8), 8, 8)
    ordered = np.minimum.accumulate(raw, axis=1)
    assert dense[9, 2] == pytest.approx(max(ordered[:9, 0].max(), ordered[9, 1]))


def test_speeds_that_are_in_order_pass_unchanged():
    n = np.arange(MAX_GPUS + 1)[:, None]
    grid = node_grid(8)
    raw = n / (1.0 + 0.1 * np.log2(grid))
    dense = monotone(raw, grid, 1, 8)
    for gpus in range(8, MAX_GPUS + 1):
        assert dense[gpus, 8] == pytest.approx(raw[gpus, 7])


def test_more_nodes_than_gpus_do_not_exist():
    dense = monotone(np.ones((9, 8)), node_grid(8), 8, 8)
    assert dense[3, 3] == 1
    assert (dense[3, 4:] == 0).all()
    assert (dense[0] == 0).all()
    assert (dense[:, 0] == 0).all()


@pytest.mark.parametrize(("wanted", "last"), [(1, 8), (8, 8), (9, 16), (16, 16), (100, 128)])
def test_the_grid_reaches_as_far_as_needed(wanted, last):
    grid = node_grid(wanted)
    assert grid[-1] == last
    assert grid[:8].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
