"""Clusters built from groups of equal nodes."""

from envs.cluster.build import NodeGroup, build_cluster, groups_of

__all__ = ["NodeGroup", "build_cluster", "groups_of"]
