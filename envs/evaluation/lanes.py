"""Which GPU of its node a job sat on: the log counts GPUs and does not name them, so a drawing must."""

import numpy as np
import numpy.typing as npt

from envs.types import ClusterSpec, FloatArray, IntArray

LANE = np.dtype(
    [
        ("segment", np.int64),  # row of the segments drawn
        ("lane", np.int64),  # GPU, numbered through the cluster from node 0 on
        ("count", np.int64),  # neighbouring lanes from it on
    ]
)


def lanes(held: npt.NDArray[np.void], cluster: ClusterSpec) -> npt.NDArray[np.void]:
    """Give every segment (dtype `SEGMENT`) GPUs of its node, one row (dtype `LANE`) per run of neighbouring ones.

    Lowest free GPUs first; a job that goes on with another count keeps the GPUs that it had, so that its picture does
    not jump. Segments that overlap never share a GPU.

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
    """Runs of neighbouring GPUs of one node as (segment, first GPU, number), for its segments in order of start."""
    until = np.full(num_gpus, -np.inf)  # when each GPU is free again
    owner = np.full(num_gpus, -1)  # the job that had it last
    runs: list[tuple[int, int, int]] = []
    for segment in here:
        row = held[segment]
        free = np.flatnonzero(until <= row["start"])
        if len(free) < row["gpus"]:
            raise ValueError(
                f"node {row['node']}: job {row['job']} holds {row['gpus']} GPUs where {len(free)} are free"
            )
        mine = free[np.lexsort((free, owner[free] != row["job"]))][: row["gpus"]]
        until[mine], owner[mine] = row["end"], row["job"]
        mine = np.sort(mine)
        for run in np.split(mine, np.flatnonzero(np.diff(mine) > 1) + 1):
            runs.append((int(segment), int(run[0]), len(run)))
    return runs


def node_lanes(held: npt.NDArray[np.void], cluster: ClusterSpec) -> tuple[FloatArray, FloatArray, IntArray]:
    """One lane per node, for clusters with more GPUs than lanes fit on a page: thick as the share held.

    Returns:
        float64[n] lower edge, float64[n] thickness, in nodes from node 0 on, and int64[n] the segment; a job on
        GPUs that are not neighbours has several rows.
    """
    rows = lanes(held, cluster)
    node = held["node"][rows["segment"]]
    first = (np.cumsum(cluster.node_gpus) - cluster.node_gpus)[node]
    size = cluster.node_gpus[node]
    return node + (rows["lane"] - first) / size, rows["count"] / size, rows["segment"]
