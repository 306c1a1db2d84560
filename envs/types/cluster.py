"""Nodes and clusters."""

from dataclasses import dataclass, field

import numpy as np

from envs.types.constraints import plain_type, pools_of
from envs.types.errors import ClusterError
from envs.types.units import Gigabytes, IntArray

MAX_NODES = 1_000_000
MAX_NODE_GPUS = 1024


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node. Bandwidths are in gigabytes per second per direction."""

    gpu_type: str
    num_gpus: int
    cpu_cores: float = 32.0
    memory: Gigabytes = 256.0
    intra_node_bandwidth: float = 12.0  # GPU to GPU within the node; the default is PCIe 3 x16, not NVLink
    inter_node_bandwidth: float = 1.25  # to other nodes; the default is 10 Gbit/s
    rack: int = 0

    def __post_init__(self) -> None:
        if not self.gpu_type:
            raise ClusterError("node: gpu_type is empty; name a GPU type, for example V100")
        if isinstance(self.num_gpus, bool) or not isinstance(self.num_gpus, int | np.integer):
            raise ClusterError(f"node of {self.gpu_type}: num_gpus is {self.num_gpus!r}; it must be a whole number")
        if not 1 <= self.num_gpus <= MAX_NODE_GPUS:
            raise ClusterError(
                f"node of {self.gpu_type}: num_gpus is {self.num_gpus}; it must be from 1 to {MAX_NODE_GPUS:,}"
            )
        for name in ("cpu_cores", "memory", "intra_node_bandwidth", "inter_node_bandwidth"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise ClusterError(f"node of {self.gpu_type}: {name} is {value!r}; it must be a number")
            if not value > 0 or not np.isfinite(value):
                raise ClusterError(f"node of {self.gpu_type}: {name} is {value}; it must be positive and finite")


@dataclass(frozen=True)
class ClusterSpec:
    """An ordered set of heterogeneous nodes; a node's position is its `NodeId`."""

    nodes: tuple[NodeSpec, ...]
    name: str = "cluster"
    gpu_types: tuple[str, ...] = field(init=False)  # in order of first appearance
    _gpus: bytes = field(init=False, repr=False, compare=False)  # of the arrays below
    _types: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.nodes:
            raise ClusterError(f"cluster {self.name}: has no nodes; give at least one")
        if len(self.nodes) > MAX_NODES:
            raise ClusterError(f"cluster {self.name}: has {len(self.nodes):,} nodes; at most {MAX_NODES:,} are allowed")
        types = tuple(dict.fromkeys(node.gpu_type for node in self.nodes))
        gpus = np.array([node.num_gpus for node in self.nodes], dtype=np.int64)
        index = np.array([types.index(node.gpu_type) for node in self.nodes], dtype=np.int64)
        object.__setattr__(self, "gpu_types", types)
        object.__setattr__(self, "_gpus", gpus.tobytes())
        object.__setattr__(self, "_types", index.tobytes())

    @property
    def node_gpus(self) -> IntArray:
        """int64[num_nodes]: GPUs of each node; a new array each time, so that changing its shape changes no other."""
        return np.frombuffer(self._gpus, np.int64)

    @property
    def node_types(self) -> IntArray:
        """int64[num_nodes]: index into `gpu_types`; a new array each time."""
        return np.frombuffer(self._types, np.int64)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def num_gpus(self) -> int:
        """GPUs of all types together."""
        return int(self.node_gpus.sum())

    @property
    def gpus_by_type(self) -> dict[str, int]:
        """GPUs of each type, in the order of `gpu_types`."""
        return {name: int(self.node_gpus[self.node_types == i].sum()) for i, name in enumerate(self.gpu_types)}

    def describe_gpus(self) -> str:
        """Return the GPUs by type and pools, such as "96 A100 (batch), 64 H100 (debug)"."""
        said = []
        for name, count in self.gpus_by_type.items():
            pools = ", ".join(pools_of(name))
            said.append(f"{count:,} {plain_type(name)}" + (f" ({pools})" if pools else ""))
        return ", ".join(said)
