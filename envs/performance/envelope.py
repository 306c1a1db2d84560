"""More is never slower: monotone envelopes over GPUs and nodes.

A measured or fitted speed can fall when GPUs are added. A job need not follow it there, since it may leave GPUs idle;
so the speed that n GPUs on N nodes are worth is that of the best subset of them. Two steps:

1. At equal GPUs, more nodes are at most as fast as fewer (where a spread placement was measured faster by noise, the
   consolidated speed holds).
2. n GPUs on N nodes are worth the best of all m GPUs on the M fullest of these nodes. Where N is the fewest nodes of
   `gpus_per_node` GPUs that hold n, the placement is whole nodes and one remainder, as `Allocation.pack` leaves it;
   elsewhere it is even.

Node counts above 8 are computed at the powers of two and interpolated in log N, which keeps both orders.
"""

import numpy as np

from envs.types import FloatArray, IntArray


def node_grid(max_nodes: int) -> IntArray:
    """int64[k]: 1 to 8 and the powers of two up to the first that reaches `max_nodes`."""
    nodes = list(range(1, 9))
    while nodes[-1] < max_nodes:
        nodes.append(nodes[-1] * 2)
    return np.array(nodes, np.int64)


def monotone(raw: FloatArray, grid: IntArray, gpus_per_node: int, max_nodes: int) -> FloatArray:
    """The envelope of raw speeds.

    Args:
        raw: float64[max_gpus + 1, len(grid)], samples/s of n GPUs on `grid[k]` nodes, or on n nodes where the grid has
            more; 0 where it does not run.
        grid: node counts of the columns, from `node_grid`.
        gpus_per_node: of the nodes that jobs are packed on.
        max_nodes: last node count of the result, at most `grid[-1]`.

    Returns:
        float64[max_gpus + 1, max_nodes + 1]: ascends with GPUs, falls with the nodes from 1 on, and ascends with GPUs
        on the fewest nodes; 0 where there are more nodes than GPUs.
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
    """float64[max_gpus + 1, len(grid)]: the best of the M fullest of N nodes with n GPUs evenly, over M in the grid."""
    best_upto = np.maximum.accumulate(ordered, axis=0)
    n = np.arange(ordered.shape[0])[:, None]
    best = np.zeros_like(ordered)
    for column, some in enumerate(grid):
        wide = grid[column:]  # N at least M
        fullest = some * (n // wide) + np.minimum(some, n % wide)
        best[:, column:] = np.maximum(best[:, column:], best_upto[fullest, column])
    return best


def _best_packed_subset(ordered: FloatArray, grid: IntArray, gpus_per_node: int) -> FloatArray:
    """float64[max_gpus + 1]: the best of all m up to n GPUs, each on the fewest nodes."""
    n = np.arange(ordered.shape[0])
    fewest = np.clip(-(-n // gpus_per_node), 1, grid[-1])
    lower, upper, share = _cell(fewest, grid)
    speeds = (1 - share) * ordered[n, lower] + share * ordered[n, upper]
    return np.maximum.accumulate(speeds)


def _between_columns(values: FloatArray, grid: IntArray, nodes: IntArray) -> FloatArray:
    """Values at any node count, linear in log2 of nodes between the grid's."""
    lower, upper, share = _cell(nodes, grid)
    return np.asarray((1 - share) * values[:, lower] + share * values[:, upper])


def _cell(nodes: IntArray, grid: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """The grid's columns on both sides of node counts, and how far from the lower to the upper in log2."""
    upper = np.searchsorted(grid, nodes)
    lower = np.where(grid[upper] == nodes, upper, upper - 1)
    width = np.log2(grid[upper] / grid[lower])
    share = np.where(upper > lower, np.log2(nodes / grid[lower]) / np.where(width > 0, width, 1.0), 0.0)
    return lower, upper, share
