"""Which schedulers do not honour which constraints of jobs; `tests/conformance/test_constraints.py` plays the others.

Most schedulers see no throughput where a job may not run, and need no rule of their own. What is not listed here, such
as a user's own scheduler, is played: the engine refuses an allocation that breaks a constraint.
"""

from collections.abc import Collection, Mapping, Sequence

from envs.types import Constraints, constraints_of
from envs.workloads import Workload
from murmuration.config.building import Component
from murmuration.config.errors import ChoiceError

# They spread jobs over several nodes without a look at their number.
IGNORE_MAX_NODES = ("random", "tiresias_pollux")
# No scheduler of this package looks for exactly n nodes, so many GPUs on each, or nodes without other jobs.
CONSOLIDATING = "baselines."


def find_unable(schedulers: Mapping[str, Component], workloads: Sequence[Workload]) -> dict[str, str]:
    """Return the schedulers that do not honour the constraints of some job, each with the reason.

    Args:
        schedulers: the schedulers by name.
        workloads: the jobs that they are to play.
    """
    asked = [each for load in workloads for model in load.models if (each := constraints_of(model))]
    divided = next((each for each in asked if each.shapes), None)
    spread = next((each for each in asked if each.max_nodes), None)
    unable: dict[str, str] = {}
    for name, component in schedulers.items():
        if divided and str(component.values.get("_target_", "")).startswith(CONSOLIDATING):
            unable[name] = _why(divided)
        elif spread and name in IGNORE_MAX_NODES:
            unable[name] = _why(spread)
    return unable


def _why(constraints: Constraints) -> str:
    return f"it does not honour the constraints of some jobs ({constraints}); workload.constraints=none lifts them"


def leave_out_unable(
    schedulers: Mapping[str, Component], workloads: Sequence[Workload], optional: Collection[str]
) -> dict[str, str]:
    """Return `find_unable` of the schedulers that nobody has named.

    Args:
        schedulers: the schedulers by name.
        workloads: the jobs that they are to play.
        optional: names of those that were chosen with all.

    Raises:
        ChoiceError: a scheduler that was named is among them, or all are.
    """
    unable = find_unable(schedulers, workloads)
    for name in unable:
        if name not in optional or len(unable) == len(schedulers):
            raise ChoiceError(f"scheduler {name}: {unable[name]}, or leave it out")
    return unable
