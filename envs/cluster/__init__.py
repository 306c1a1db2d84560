"""Clusters built from groups of equal nodes."""

from envs.cluster.build import NodeGroup, build_cluster

__all__ = ["NodeGroup", "build_cluster"]
