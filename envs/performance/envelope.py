"""Monotone envelopes of throughputs over GPUs and nodes: more GPUs never lower the throughput.

A measured or fitted throughput can fall when GPUs are added. A job can avoid this because it may leave GPUs idle. The
throughput of n GPUs on N nodes is therefore that of their best subset. Two steps compute it:

1. With equal GPUs, a placement on more nodes gets at most the throughput of one on fewer nodes. Where a spread
placement
   was measured as faster (noise), it gets the consolidated throughput.
2. n GPUs on N nodes get the best throughput of all m GPUs on the M fullest of these nodes. If N is the fewest nodes of
   `gpus_per_node` GPUs that hold n, the placement is whole nodes and one remainder, as `Allocation.pack` makes it;
   otherwise it is even.

Node counts above 8 are computed at the powers of two and interpolated in log N, which keeps both orders.
"""

import numpy as np

from envs.types import FloatArray, IntArray


def node_grid(max_nodes: int) -> IntArray:
    """Return int64[k]: 1 to 8 and the powers of two up to the first that is at least `max_nodes`."""
    nodes = list(range(1, 9))
    while nodes[-1] < max_nodes:
        nodes.append(nodes[-1] * 2)
    return np.array(nodes, np.int64)


def monotone_envelope(raw: FloatArray, grid: IntArray, gpus_per_node: int, max_nodes: int) -> FloatArray:
    """Compute the envelope of raw throughputs.

    Args:
        raw: float64[max_gpus + 1, len(grid)], samples/s of n GPUs on `grid[k]` nodes, or on n nodes where the grid has
            more; 0 where the job does not run.
        grid: node counts of the columns, from `node_grid`.
        gpus_per_node: of the nodes that jobs are packed on.
        max_nodes: last node count of the result, at most `grid[-1]`.

    Returns:
        float64[max_gpus + 1, max_nodes + 1]: does not fall with more GPUs, neither at a fixed number of nodes nor on
        the fewest nodes; does not rise with more nodes; 0 where there are more nodes than GPUs.
    """
    n = np.arange(raw.shape[0])
    nodes = np.arange(max_nodes + 1)
    ordered = np.minimum.accumulate(raw, axis=1)
    packed = _best_packed_subset(ordered, grid, gpus_per_node)[:, None]
    dense = _between_columns(_best_even_subset(ordered, grid), grid, np.maximum(nodes, 1))
    fewest = -(-n // gpus_per_node)[:, None]
    dense = np.where(nodes < fewest, np.maximum(dense, packed), np.minimum(dense, packed))
    dense = np.where(nodes == fewest, packed, dense)
    return np.asarray(np.where((nodes >= 1) & (nodes <= n[:, None]), dense, 0.0))


def _best_even_subset(ordered: FloatArray, grid: IntArray) -> FloatArray:
    """Return float64[max_gpus + 1, len(grid)]: for n GPUs evenly on N nodes, the best over their M fullest nodes."""
    best_upto = np.maximum.accumulate(ordered, axis=0)
    n = np.arange(ordered.shape[0])[:, None]
    best = np.zeros_like(ordered)
    for column, some in enumerate(grid):
        wide = grid[column:]  # N at least M
        fullest = some * (n // wide) + np.minimum(some, n % wide)
        best[:, column:] = np.maximum(best[:, column:], best_upto[fullest, column])
    return best


def _best_packed_subset(ordered: FloatArray, grid: IntArray, gpus_per_node: int) -> FloatArray:
    """Return float64[max_gpus + 1]: the best of 1 to n GPUs, each number on the fewest nodes."""
    n = np.arange(ordered.shape[0])
    fewest = np.clip(-(-n // gpus_per_node), 1, grid[-1])
    lower, upper, share = _cell(fewest, grid)
    throughputs = (1 - share) * ordered[n, lower] + share * ordered[n, upper]
    return np.maximum.accumulate(throughputs)


def _between_columns(values: FloatArray, grid: IntArray, nodes: IntArray) -> FloatArray:
    """Interpolate values at any node count, linearly in log2 of the nodes."""
    lower, upper, share = _cell(nodes, grid)
    return np.asarray((1 - share) * values[:, lower] + share * values[:, upper])


def _cell(nodes: IntArray, grid: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the grid's columns on both sides of node counts, and the relative position between them in log2."""
    upper = np.searchsorted(grid, nodes)
    lower = np.where(grid[upper] == nodes, upper, upper - 1)
    width = np.log2(grid[upper] / grid[lower])
    share = np.where(upper > lower, np.log2(nodes / grid[lower]) / np.where(width > 0, width, 1.0), 0.0)
    return lower, upper, share
