"""Slurm's own policy: multifactor priority and backfill by time limits."""

from baselines.slurm.scheduler import Slurm

__all__ = ["Slurm"]
