"""The whole Philly trace on a cluster of a given load."""

from pathlib import Path

from envs.cluster import NodeGroup, build
from envs.performance import default_model
from envs.types import ClusterSpec
from envs.workloads import TraceSource, Workload
from envs.workloads.readers import Philly

FILE = Path("traces") / "philly" / "philly_jobs.csv.gz"
NODES = 100  # on which the load is counted first


def philly(path: Path, load: float) -> tuple[Workload, ClusterSpec]:
    """All jobs of all virtual clusters, and nodes of 8 P100, as many as make the offered load."""
    workload, cluster = on_nodes(path, NODES)
    return on_nodes(path, round(NODES * workload.offered_load(cluster, default_model())["all"] / load))


def on_nodes(path: Path, num_nodes: int) -> tuple[Workload, ClusterSpec]:
    """The trace on so many nodes."""
    cluster = build(f"{8 * num_nodes} P100", [NodeGroup("P100", num_nodes, 8)])
    return TraceSource(cluster, default_model(), Philly(), path=str(path), elastic=1.0).workload, cluster
