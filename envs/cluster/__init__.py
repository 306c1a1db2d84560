"""Clusters built from groups of equal nodes."""

from envs.cluster.build import NodeGroup, build_cluster, node_groups

__all__ = ["NodeGroup", "build_cluster", "node_groups"]
