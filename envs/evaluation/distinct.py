"""Draw workloads without replacement."""

from collections.abc import Hashable, Iterable

from envs.workloads import Workload

PATIENCE = 64  # consecutive repetitions after which the split is assumed to be exhausted


def distinct(drawn: Iterable[Workload], count: int) -> list[Workload]:
    """Return the first `count` workloads with different jobs, in the order drawn; fewer if the draws have no more.

    A split that is no longer than an episode gives the same jobs at every draw. Eight runs of it would still be one
    observation.

    Args:
        drawn: draws from a split; endless if it may repeat workloads.
        count: number of workloads to return.
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
    """Everything of a workload that affects a run."""
    return workload.jobs.tobytes(), workload.models, workload.tenants, tuple(workload.plans), workload.window
