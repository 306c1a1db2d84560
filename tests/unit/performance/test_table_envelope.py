"""Envelopes are monotone for any raw throughputs, and equal those of the best subset."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from envs.performance.envelope import monotone_envelope, node_grid

MAX_GPUS = 24


def raw_throughputs(columns):
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


@given(raw_throughputs(10), st.integers(1, 8))
def test_more_is_never_slower(raw, gpus_per_node):
    grid = node_grid(MAX_GPUS)
    assert len(grid) == 10
    raw[0] = 0
    assert_monotone(monotone_envelope(raw, grid, gpus_per_node, MAX_GPUS), gpus_per_node)


@given(raw_throughputs(8))
def test_the_envelope_lies_between_raw_and_the_fastest_subset(raw):
    """On up to 8 nodes every column is computed, and all smaller placements bound the envelope of a row."""
    raw[0] = 0
    dense = monotone_envelope(raw, node_grid(8), 8, 8)
    ordered = np.minimum.accumulate(raw, axis=1)
    for gpus in range(1, MAX_GPUS + 1):
        for nodes in range(1, min(8, gpus) + 1):
            value = dense[gpus, nodes]
            assert value >= ordered[gpus, nodes - 1] - 1e-9
            assert value <= raw[: gpus + 1, 0].max() + 1e-9


@given(raw_throughputs(8))
def test_an_even_spread_has_the_throughput_of_its_best_subset(raw):
    """8 GPUs on 2 nodes, 4 and 4: all subsets by hand are up to 4 on one node and up to 8 on two."""
    raw[0] = 0
    dense = monotone_envelope(raw, node_grid(8), 8, 8)
    ordered = np.minimum.accumulate(raw, axis=1)
    assert dense[8, 2] == pytest.approx(max(ordered[:5, 0].max(), ordered[:9, 1].max()))


@given(raw_throughputs(8))
def test_a_packed_placement_is_at_least_as_fast_as_its_whole_node(raw):
    """9 GPUs on the fewest nodes are 8 and 1, so they are at least as fast as 8 on one node."""
    raw[0] = 0
    dense = monotone_envelope(raw, node_grid(8), 8, 8)
    ordered = np.minimum.accumulate(raw, axis=1)
    assert dense[9, 2] == pytest.approx(max(ordered[:9, 0].max(), ordered[9, 1]))


def test_monotone_throughputs_are_unchanged():
    n = np.arange(MAX_GPUS + 1)[:, None]
    grid = node_grid(8)
    raw = n / (1.0 + 0.1 * np.log2(grid))
    dense = monotone_envelope(raw, grid, 1, 8)
    for gpus in range(8, MAX_GPUS + 1):
        assert dense[gpus, 8] == pytest.approx(raw[gpus, 7])


def test_throughput_is_zero_on_more_nodes_than_gpus():
    dense = monotone_envelope(np.ones((9, 8)), node_grid(8), 8, 8)
    assert dense[3, 3] == 1
    assert (dense[3, 4:] == 0).all()
    assert (dense[0] == 0).all()
    assert (dense[:, 0] == 0).all()


@pytest.mark.parametrize(("wanted", "last"), [(1, 8), (8, 8), (9, 16), (16, 16), (100, 128)])
def test_the_grid_reaches_as_far_as_needed(wanted, last):
    grid = node_grid(wanted)
    assert grid[-1] == last
    assert grid[:8].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
