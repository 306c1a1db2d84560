"""Gavel: shares of time on each GPU type from linear programs, realised in rounds (OSDI'20)."""

from baselines.gavel.scheduler import Gavel

__all__ = ["Gavel"]
