"""Assign GPUs of a node to jobs for drawing, because the event log has only counts of GPUs."""

import numpy as np
import numpy.typing as npt

from envs.types import ClusterSpec, FloatArray, IntArray

LANE = np.dtype(
    [
        ("segment", np.int64),  # row of the segments drawn
        ("lane", np.int64),  # first GPU, numbered across the cluster from node 0
        ("count", np.int64),  # consecutive lanes, the first included
    ]
)


def lanes(held: npt.NDArray[np.void], cluster: ClusterSpec) -> npt.NDArray[np.void]:
    """Assign GPUs to every segment (dtype `SEGMENT`): one row (dtype `LANE`) per run of consecutive GPUs of a node.

    The lowest free GPUs come first, but a job that continues with another count keeps its GPUs where possible, so that
    its boxes stay in their lanes. Segments that overlap never share a GPU, except of two jobs that hold the same ones.

    Raises:
        ValueError: a node's segments hold more GPUs at once than it has.
    """
    first = np.cumsum(cluster.node_gpus) - cluster.node_gpus
    rows: list[tuple[int, int, int]] = []
    for node in np.unique(held["node"]):
        here = np.flatnonzero(held["node"] == node)
        here = here[np.argsort(held["start"][here], kind="stable")]
        rows += [(int(s), int(first[node]) + gpu, n) for s, gpu, n in on_node(held, here, int(cluster.node_gpus[node]))]
    return np.array(rows, LANE)


def on_node(held: npt.NDArray[np.void], here: IntArray, num_gpus: int) -> list[tuple[int, int, int]]:
    """Assign the GPUs of one node: runs of consecutive GPUs as (segment, first GPU, number), in order of start."""
    until = np.full(num_gpus, -np.inf)  # the time from which each GPU is free
    owner = np.full((2, num_gpus), -1)  # the last job on each GPU, and the last one beside it
    runs: list[tuple[int, int, int]] = []
    # A job beside another starts with it at the earliest, and counts after it.
    for segment in here[np.lexsort((held["beside"][here] >= 0, held["start"][here]))]:
        row = held[segment]
        if row["beside"] >= 0:
            mine = np.flatnonzero(owner[0] == row["beside"])[: row["gpus"]]
            owner[1, mine] = row["job"]
            runs += [(int(segment), first, count) for first, count in _consecutive(mine)]
            continue
        free = np.flatnonzero(until <= row["start"])
        if len(free) < row["gpus"]:
            raise ValueError(
                f"node {row['node']}: job {row['job']} holds {row['gpus']} GPUs where {len(free)} are free"
            )
        strange = (owner[:, free] != row["job"]).all(axis=0)
        mine = free[np.lexsort((free, strange))][: row["gpus"]]
        until[mine], owner[0, mine], owner[1, mine] = row["end"], row["job"], -1
        runs += [(int(segment), first, count) for first, count in _consecutive(np.sort(mine))]
    return runs


def _consecutive(gpus: IntArray) -> list[tuple[int, int]]:
    """Return the runs of consecutive numbers in an ascending array: (first, how many)."""
    return [(int(run[0]), len(run)) for run in np.split(gpus, np.flatnonzero(np.diff(gpus) > 1) + 1) if len(run)]


def node_lanes(held: npt.NDArray[np.void], cluster: ClusterSpec) -> tuple[FloatArray, FloatArray, IntArray]:
    """Compute boxes with one lane per node, for clusters with too many GPUs for one lane each.

    Returns:
        float64[n] lower edge and float64[n] thickness (the share of the node's GPUs), both in nodes from node 0, and
        int64[n] the segment. A job on GPUs that are not consecutive has several rows.
    """
    rows = lanes(held, cluster)
    node = held["node"][rows["segment"]]
    first = (np.cumsum(cluster.node_gpus) - cluster.node_gpus)[node]
    size = cluster.node_gpus[node]
    return node + (rows["lane"] - first) / size, rows["count"] / size, rows["segment"]
