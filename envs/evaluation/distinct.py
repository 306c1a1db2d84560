"""Workloads drawn without replacement."""

from collections.abc import Hashable, Iterable

from envs.workloads import Workload

PATIENCE = 64  # draws in a row that bring nothing new, after which there is taken to be nothing new


def distinct(drawn: Iterable[Workload], count: int) -> list[Workload]:
    """The first `count` workloads with different jobs, in the order drawn; fewer where the draws hold no more.

    A split that is no longer than an episode gives the same jobs at every draw; played eight times they would still be
    one observation.

    Args:
        drawn: draws from a split, without end where there may be repetitions.
        count: how many are wanted.
    """
    found: dict[Hashable, Workload] = {}
    repetitions = 0
    for workload in drawn:
        before = len(found)
        found.setdefault(_content(workload), workload)
        repetitions = 0 if len(found) > before else repetitions + 1
        if len(found) == count or repetitions == PATIENCE:
            break
    return list(found.values())


def _content(workload: Workload) -> Hashable:
    """All that makes a difference to a run."""
    return workload.jobs.tobytes(), workload.models, workload.tenants, tuple(workload.plans), workload.window
