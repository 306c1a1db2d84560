"""Build clusters from groups of equal nodes, as conf/cluster/*.yaml describe them, and check them."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from envs.types import (
    MAX_NODES,
    ClusterError,
    ClusterSpec,
    Gigabytes,
    NodeSpec,
    did_you_mean,
    features_of,
    name_of_nodes,
    plain_type,
    pools_of,
)

BITS_OF_BYTE = 8
RESOURCES = ("cpu_cores", "memory", "intra_node_bandwidth", "inter_node_bandwidth")
_USUAL = NodeSpec("V100", 1)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A group of equal nodes. None means the default of `NodeSpec`. Bandwidths are in GB/s per direction."""

    gpu_type: str
    num_nodes: int
    num_gpus: int  # of each node
    cpu_cores: float | None = None  # of each node
    memory: Gigabytes | None = None  # CPU memory of each node
    intra_node_bandwidth: float | None = None
    inter_node_bandwidth: float | None = None
    pools: Sequence[str] = ()  # such as Slurm's partitions; jobs may ask for one of them
    features: Sequence[str] = ()  # jobs may ask for all of some

    def __post_init__(self) -> None:
        for name in ("num_nodes", "num_gpus"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ClusterError(
                    f"node group of {self.gpu_type}: {name} is {value!r}; it must be a whole number and at least 1"
                )
        if self.num_nodes > MAX_NODES:  # before a list of them is made
            raise ClusterError(
                f"node group of {self.gpu_type}: num_nodes is {self.num_nodes:,}; it may be at most {MAX_NODES:,}"
            )
        if not isinstance(self.gpu_type, str):
            raise ClusterError(f"node group: gpu_type is {self.gpu_type!r}; it must be the name of a GPU type")
        for name in ("pools", "features"):
            labels = getattr(self, name)
            if isinstance(labels, str) or not isinstance(labels, Sequence):
                raise ClusterError(f"node group of {self.gpu_type}: {name} is {labels!r}; give a list of names")
            name_of_nodes(self.gpu_type, labels)
        for name in RESOURCES:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ClusterError(f"node group of {self.gpu_type}: {name} is {value!r}; it must be a number")

    def nodes(self, rack: int = 0) -> tuple[NodeSpec, ...]:
        """Return the nodes, with the group's number as their rack: nothing reads it but hashes of tasks."""
        given = {name: float(value) for name in RESOURCES if (value := getattr(self, name)) is not None}
        gpu_type = name_of_nodes(self.gpu_type, self.pools, self.features)
        return (NodeSpec(gpu_type, self.num_gpus, rack=rack, **given),) * self.num_nodes


def build_cluster(
    name: str, groups: Sequence[NodeGroup | Mapping[str, Any]], network_gbps: float | None = None
) -> ClusterSpec:
    """Build a cluster from groups of equal nodes, in the given order.

    Args:
        name: name shown in results.
        groups: each a `NodeGroup` or a mapping with its fields.
        network_gbps: bandwidth of every node's link to other nodes in gigabits per second, in place of the groups'
            `inter_node_bandwidth`, which is in gigabytes per second; the name says so. None keeps theirs.

    Raises:
        ClusterError: there is no group, a field is unknown or missing, or a value is impossible.
    """
    if network_gbps is not None and not (network_gbps > 0 and math.isfinite(network_gbps)):
        raise ClusterError(
            f"cluster {name}: network_gbps is {network_gbps!r}; it must be positive and finite, in gigabits per second"
        )
    if not groups:
        raise ClusterError(
            f"cluster {name}: has no node groups; give at least one with gpu_type, num_nodes and num_gpus"
        )
    if isinstance(groups, str | Mapping) or not isinstance(groups, Sequence):
        raise ClusterError(f"cluster {name}: groups is {groups!r}; it must be a list of node groups")
    nodes: list[NodeSpec] = []
    for index, group in enumerate(groups):
        made = group if isinstance(group, NodeGroup) else _group(f"cluster {name}: group {index}", group)
        nodes += made.nodes(index)
    if network_gbps is None:
        return ClusterSpec(tuple(nodes), name)
    linked = tuple(replace(node, inter_node_bandwidth=network_gbps / BITS_OF_BYTE) for node in nodes)
    return ClusterSpec(linked, f"{name}, {network_gbps:g} Gb/s")


def node_groups(cluster: ClusterSpec) -> list[dict[str, Any]]:
    """Return the groups of equal nodes in a row from which `build_cluster` builds a cluster again."""
    groups = []
    for node, row in itertools.groupby(replace(node, rack=0) for node in cluster.nodes):
        group: dict[str, Any] = {"gpu_type": plain_type(node.gpu_type), "num_nodes": len(list(row))}
        group["num_gpus"] = node.num_gpus
        group |= {name: value for name in RESOURCES if (value := getattr(node, name)) != getattr(_USUAL, name)}
        labels = {"pools": list(pools_of(node.gpu_type)), "features": list(features_of(node.gpu_type))}
        groups.append(group | {name: each for name, each in labels.items() if each})
    return groups


def _group(where: str, given: Mapping[str, Any]) -> NodeGroup:
    if not isinstance(given, Mapping):
        raise ClusterError(f"{where}: is {given!r}; it must have gpu_type, num_nodes and num_gpus")
    known = {field.name for field in fields(NodeGroup)}
    for key in given:
        if key == "nodes_per_rack":
            raise ClusterError(f"{where}: nodes_per_rack is {given[key]!r}; racks have no effect yet, so remove it")
        if key not in known:
            hint = did_you_mean(str(key), known) or f"; known: {', '.join(sorted(known))}"
            raise ClusterError(f"{where}: there is no field {key!r}{hint}")
    for key in ("gpu_type", "num_nodes", "num_gpus"):
        if key not in given:
            raise ClusterError(f"{where}: {key} is missing; a group needs gpu_type, num_nodes and num_gpus")
    return NodeGroup(**{str(key): value for key, value in given.items()})
