"""AFS: apathetic future share (NSDI'21), on one pool of GPUs as published, or with a choice of GPU types."""

from baselines.afs.scheduler import Afs

__all__ = ["Afs"]
