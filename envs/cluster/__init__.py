"""What there is: GPU types, and clusters built from groups of equal nodes."""

from envs.cluster.build import NodeGroup, build
from envs.cluster.gpus import GPUS, GpuType, gpu

__all__ = ["GPUS", "GpuType", "NodeGroup", "build", "gpu"]
