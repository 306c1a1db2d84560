"""Translation of a scheduler's allocation into options, from which policies learn by imitation.

The plan of a round is led to an allocation option by option: jobs that should stop are evicted; others shrink and move;
those whose placement changes otherwise are evicted too; then jobs grow, start, and further nodes join them. A job is
evicted that only another order of changes would lead to what it should have, for example two jobs that swap their
nodes; it starts anew in the same round.

With `changes="move"`, `distinct_nodes=False` and enough candidates and decisions, this leads to every allocation that
names GPUs only, as far as `envs.options.listing` has the options. Elsewhere the plan comes as near as options lead that
bring a job nearer to what it should have. `scripts/interface.py` measures it.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from envs.options.arrays import OPTION_ROW, OptionArrays
from envs.options.columns import EVICT, JOIN, MOVE, RESIZE, START, WAIT
from envs.options.kernels import list_decision
from envs.simulation.kernels import RUNNING
from envs.types import Allocation, JobId, NodeId

GpusByNode = Mapping[NodeId, int]
WantedGpus = Mapping[JobId, GpusByNode]  # of all jobs that run

# In this order options are chosen.
(
    STOP_JOB,
    SHRINK_JOB,
    MOVE_JOB,
    CLEAR_JOB,  # its placement changes otherwise: it starts anew
    CLEAR_MOVE,  # it could move if its new node had room
    GIVE_GPUS,
    CLEAR_REST,  # a job that could be resized or joined in another order
    GIVE_SOME,  # where not all that the job should have is free
    COME_NEARER,
    DO_NOTHING,
    ANYTHING,
) = range(11)


class ListedOption(NamedTuple):
    """An option, see `OPTION_ACTION`, and its place among those of its decision."""

    place: int
    action: int
    job: JobId
    node: NodeId
    gpus: int


def requested_by_node(allocation: Allocation) -> WantedGpus:
    """Return the GPUs of every job that runs under an allocation; what else its placements name is left out."""
    placements = {job: allocation.placement(job) for job in sorted(allocation.jobs())}
    return {job: placement.gpus for job, placement in placements.items() if placement is not None}


class Demonstration:
    """The way from the plan at the beginning of a round to an allocation.

    Args:
        wanted: GPUs of every job that should run.
        arrays: the environment at the first decision of a round.
        b: the episode.
    """

    def __init__(self, wanted: WantedGpus, arrays: OptionArrays, b: int = 0) -> None:
        self.wanted, self.arrays, self.b = wanted, arrays, b
        held = np.flatnonzero(arrays.world.jobs[b]["status"] == RUNNING).tolist()
        self._open = sorted({*held, *wanted})

    def choose(self) -> int:
        """Return the place of the next option; it lists the options of the present decision."""
        list_decision(self.arrays, self.b)
        plans = {job: planned_gpus(self.arrays, self.b, job) for job in self._open}
        self._open = [job for job in self._open if plans[job] != self.wanted.get(job, {})]
        ranks = [(*self._rank(option, plans.get(option.job, {})), option.place) for option in self._listed()]
        return min(ranks)[-1] if ranks else 0

    def _listed(self) -> Iterator[ListedOption]:
        """Yield waiting and the options of jobs whose plan is not what is wanted."""
        what = self.arrays.what[: self.arrays.rules[self.b, 0].num_options]
        rows = what[:, OPTION_ROW]
        jobs = np.where(rows < 0, -1, self.arrays.job_ids[rows])
        places = np.flatnonzero((rows < 0) | np.isin(jobs, self._open))
        for place, job, (action, _, node, gpus) in zip(
            places.tolist(), jobs[places].tolist(), what[places].tolist(), strict=True
        ):
            yield ListedOption(place, action, job, node, gpus)

    def _has_room(self, plan: GpusByNode, wanted: GpusByNode) -> bool:
        """Whether all that a job still should get is free."""
        free = self.arrays.world.nodes[self.b]["free"]
        return all(gpus - plan.get(node, 0) <= free[node] for node, gpus in wanted.items())

    def _rank(self, option: ListedOption, plan: GpusByNode) -> tuple[int, int, int]:
        """Return a rank; the option with the lowest is chosen."""
        if option.action == WAIT:
            return DO_NOTHING, 0, 0
        wanted = self.wanted.get(option.job, {})
        differing = [node for node in plan if plan[node] != wanted.get(node, 0)]
        reason = ANYTHING
        if option.action == EVICT:
            reason = reason_to_evict(plan, wanted)
        elif option.action == MOVE:
            reason = MOVE_JOB if wanted == {option.node: option.gpus} else ANYTHING
        elif option.action == RESIZE and differing == [option.node] and wanted.get(option.node, 0) == option.gpus:
            reason = SHRINK_JOB if option.gpus < plan[option.node] else GIVE_GPUS
        elif option.action in (START, JOIN) and wanted.get(option.node, 0) == option.gpus and not differing:
            reason = GIVE_GPUS if self._has_room(plan, wanted) else GIVE_SOME
        after = distance(after_option(option, plan), wanted)
        if reason == ANYTHING and after < distance(plan, wanted):
            reason = COME_NEARER
        return reason, after, -option.gpus


def reason_to_evict(plan: GpusByNode, wanted: GpusByNode) -> int:
    """Return why and when a job would be evicted that has one thing and should have another."""
    if not wanted:
        return STOP_JOB
    if len(plan) == len(wanted) == 1 and plan.keys() != wanted.keys() and sum(plan.values()) == sum(wanted.values()):
        return CLEAR_MOVE
    differing = sum(plan[node] != wanted.get(node, 0) for node in plan)
    return CLEAR_REST if differing <= 1 and plan.keys() & wanted.keys() else CLEAR_JOB


def planned_gpus(arrays: OptionArrays, b: int, job: JobId) -> dict[NodeId, int]:
    """Return what a job has in the plan of an episode."""
    found: dict[NodeId, int] = {}
    share = int(arrays.world.jobs[b, job].first_share)
    while share >= 0:
        record = arrays.world.shares[b, share]
        found[int(record.node)] = int(record.gpus)
        share = int(record.next_of_job)
    return found


def after_option(option: ListedOption, plan: GpusByNode) -> dict[NodeId, int]:
    """Return what the job of an option has after it."""
    if option.action == EVICT:
        return {}
    return {option.node: option.gpus} if option.action == MOVE else {**plan, option.node: option.gpus}


def distance(one: GpusByNode, other: GpusByNode) -> int:
    """Number of GPUs in which placements differ, summed over nodes; one more if only one of them is empty."""
    return sum(abs(one.get(node, 0) - other.get(node, 0)) for node in {*one, *other}) + (bool(one) != bool(other))
