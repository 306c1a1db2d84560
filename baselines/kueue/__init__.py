"""Queues with quotas as Kueue has them: admission, borrowing, fair sharing and preemption before any placement."""

from baselines.kueue.objects import behind_kueue
from baselines.kueue.queue_tree import QueueSettings, QueueTree
from baselines.kueue.scheduler import Kueue

__all__ = ["Kueue", "QueueSettings", "QueueTree", "behind_kueue"]
