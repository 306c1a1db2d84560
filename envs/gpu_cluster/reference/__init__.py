"""The reference environment: the decision step in plain Python, with which the compiled environment is compared."""

from envs.gpu_cluster.reference.environment import ReferenceEnvironment

__all__ = ["ReferenceEnvironment"]
