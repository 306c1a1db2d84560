"""Which schedulers do not honour the constraints of jobs; `tests/conformance/test_constraints.py` plays the others.

Most schedulers see no throughput where a job may not run, and place by `baselines.parts.placing`, which divides jobs
among nodes as they ask. What is not listed here, such as a user's own scheduler, is played: the engine refuses an
allocation that breaks a constraint.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from envs.scheduling import Scheduler
from envs.types import constraints_of
from envs.workloads import Workload
from murmuration.config.building import Component, import_target
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_schedulers

# They place jobs node by node, each in a way of its own, and look for no number of nodes, so many GPUs on each, or
# nodes without other jobs: by the beginning of the import path.
IGNORE_SHAPES = {
    "baselines.planner.": "it plans GPUs for jobs on any nodes",
    "murmuration.runs.policies.load_planner": "it plans GPUs for jobs on any nodes",
    "baselines.rubick.": "it moves single GPUs between nodes",
    "baselines.sampling_matching.": "it samples GPUs for jobs on any nodes",
    "baselines.synergy.": "it divides cores and memory of nodes that jobs share",
}


def find_unable(schedulers: Mapping[str, Component], workloads: Sequence[Workload]) -> dict[str, str]:
    """Return the schedulers that do not honour the constraints of some job, each with the reason.

    Args:
        schedulers: the schedulers by name.
        workloads: the jobs that they are to play.
    """
    asked = (constraints_of(model) for load in workloads for model in load.models)
    example = next((each for each in asked if each.shapes), None)
    unable: dict[str, str] = {}
    for name, component in schedulers.items() if example else ():
        target = str(component.values.get("_target_", ""))
        if target.startswith("baselines."):  # perhaps a shorter name of the class
            found: Any = import_target(f"scheduler.{name}", target)
            target = f"{found.__module__}.{found.__qualname__}"
        for path, why in IGNORE_SHAPES.items():
            if target.startswith(path):
                unable[name] = (
                    f"{why}, and some jobs ask for a division among nodes ({example}); workload.constraints=none "
                    "lifts that"
                )
    return unable


def leave_out_unable(
    schedulers: Mapping[str, Component], workloads: Sequence[Workload], optional: Collection[str] = ()
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


def build_able(
    schedulers: Mapping[str, Component], workloads: Sequence[Workload], optional: Collection[str] = ()
) -> dict[str, Scheduler]:
    """Build the schedulers that honour the constraints of jobs, and print which others are left out.

    Args:
        schedulers, workloads, optional: as for `leave_out_unable`.

    Raises:
        ChoiceError: as for `leave_out_unable`, and a component has an option that its class does not have.
    """
    left_out = leave_out_unable(schedulers, workloads, optional)
    for name, reason in left_out.items():
        print(f"left out: {name}: {reason}")
    return build_schedulers({name: each for name, each in schedulers.items() if name not in left_out})
