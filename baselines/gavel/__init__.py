"""Shares of time on every GPU type by linear programs, and the rounds that realise them (OSDI'20)."""

from baselines.gavel.scheduler import Gavel

__all__ = ["Gavel"]
