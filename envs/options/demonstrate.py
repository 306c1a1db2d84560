"""Translation of a scheduler's allocation into options, from which policies learn by imitation.

The draft of a round is led to an allocation option by option: jobs that should stop are evicted; others shrink and
move; those whose placement changes otherwise are evicted too; then jobs grow, start, and further nodes join them. Jobs
that have their GPUs are tuned last, to what comes nearest to the batch size, cores and memory that they should have. A
job is evicted that only another order of changes would lead to what it should have, for example two jobs that swap
their nodes; it starts anew in the same round.

With `changes="move"`, `distinct_nodes=False` and enough candidates and decisions, this leads to every allocation that
names GPUs only, and with `tune=True` to those that name what `envs.options.tuning` has, as far as
`envs.options.listing` has the options. Elsewhere the draft comes as near as options lead that bring a job nearer to
what it should have. `scripts/interface.py` measures it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from envs.options.arrays import OPTION_ROW, OptionArrays
from envs.options.columns import EVICT, JOIN, MOVE, RESIZE, SHARE, START, TUNE, WAIT
from envs.options.kernels import list_decision
from envs.simulation.world.exact import PARTS
from envs.simulation.world.kernels import RUNNING
from envs.simulation.world.shares import NAMED_CPUS, NAMED_MEMORY
from envs.types import Allocation, JobId, NodeId, Placement

GpusByNode = Mapping[NodeId, int]
WantedPlacements = Mapping[JobId, Placement]  # of all jobs that run
Amounts = tuple[float, float, float]  # a batch size, and 64ths of cores and of GB for each GPU; 0 for what is not named

# In this order options are chosen.
(
    STOP_JOB,
    SHRINK_JOB,
    MOVE_JOB,
    CLEAR_JOB,  # its placement changes otherwise: it starts anew
    CLEAR_MOVE,  # it could move if its new node had room
    GIVE_GPUS,
    TUNE_JOB,
    CLEAR_REST,  # a job that could be resized or joined in another order
    GIVE_SOME,  # where not all that the job should have is free
    COME_NEARER,
    DO_NOTHING,
    ANYTHING,
) = range(12)


class ListedOption(NamedTuple):
    """An option, see `OPTION_ACTION`, and its place among those of its decision; for tuning, `gpus` is a number."""

    place: int
    action: int
    job: JobId
    node: NodeId
    gpus: int


def requested_placements(allocation: Allocation) -> WantedPlacements:
    """Return the placement of every job that runs under an allocation."""
    placements = {job: allocation.placement(job) for job in sorted(allocation.jobs())}
    return {job: placement for job, placement in placements.items() if placement is not None}


class Demonstration:
    """The way from the draft at the beginning of a round to an allocation.

    Args:
        wanted: placements of all jobs that should run.
        arrays: the environment at the first decision of a round.
        b: the episode.
    """

    def __init__(self, wanted: WantedPlacements, arrays: OptionArrays, b: int = 0) -> None:
        self.wanted: Mapping[JobId, GpusByNode] = {job: placement.gpus for job, placement in wanted.items()}
        self.arrays, self.b = arrays, b
        self._beside = {job: placement.beside for job, placement in wanted.items() if placement.beside is not None}
        self._tunes = bool(arrays.rules[b, 0].tune)
        self._amounts = {job: wanted_amounts(placement) for job, placement in wanted.items()} if self._tunes else {}
        held = np.flatnonzero(arrays.world.jobs[b]["status"] == RUNNING).tolist()
        self._open = sorted({*held, *wanted})

    def choose(self) -> int:
        """Return the place of the next option; it lists the options of the present decision."""
        list_decision(self.arrays, self.b)
        drafts = {job: planned_gpus(self.arrays, self.b, job) for job in self._open}
        self._open = [job for job in self._open if drafts[job] != self.wanted.get(job, {}) or self._lacks_tuning(job)]
        ranks = [(*self._rank(option, drafts.get(option.job, {})), option.place) for option in self._listed()]
        return min(ranks)[-1] if ranks else 0

    def _listed(self) -> Iterator[ListedOption]:
        """Yield waiting and the options of jobs whose draft is not what is wanted."""
        what = self.arrays.what[: self.arrays.rules[self.b, 0].num_options]
        rows = what[:, OPTION_ROW]
        jobs = np.where(rows < 0, -1, self.arrays.job_ids[rows])
        places = np.flatnonzero((rows < 0) | np.isin(jobs, self._open))
        for place, job, (action, _, node, gpus) in zip(
            places.tolist(), jobs[places].tolist(), what[places].tolist(), strict=True
        ):
            yield ListedOption(place, action, job, node, gpus)

    def _lacks_tuning(self, job: JobId) -> bool:
        """Whether a job should have another batch size, or other cores or memory, than in the draft."""
        return job in self._amounts and planned_amounts(self.arrays, self.b, job) != self._amounts[job]

    def _rank_tuning(self, option: ListedOption) -> tuple[int, float, int]:
        """Return the rank of a tuning of a job that has the GPUs that it should have."""
        model, gpus = (int(self.arrays.world.jobs[self.b, option.job][name]) for name in ("model", "gpus"))
        tunings, wanted = self.arrays.tunings, self._amounts[option.job]
        usual, saturating = int(tunings.usual[model, gpus]), tunings.saturating[model].tolist()
        sizes = float(tunings.batch_size[option.gpus, model, gpus]), *tunings.parts[option.gpus, model].tolist()
        now = planned_amounts(self.arrays, self.b, option.job)
        after = difference(sizes, wanted, usual, saturating)
        nearer = after < difference(now, wanted, usual, saturating)
        return TUNE_JOB if nearer else ANYTHING, after, 0

    def _has_room(self, draft: GpusByNode, wanted: GpusByNode) -> bool:
        """Whether all that a job still should get is free."""
        free = self.arrays.world.nodes[self.b]["free"]
        return all(gpus - draft.get(node, 0) <= free[node] for node, gpus in wanted.items())

    def _rank(self, option: ListedOption, draft: GpusByNode) -> tuple[int, float, int]:
        """Return a rank; the option with the lowest is chosen."""
        if option.action == WAIT:
            return DO_NOTHING, 0, 0
        wanted = self.wanted.get(option.job, {})
        if option.action == TUNE or draft == wanted:
            return self._rank_tuning(option) if option.action == TUNE and draft == wanted else (ANYTHING, 0, 0)
        if option.action == SHARE:
            return (GIVE_GPUS if self._beside.get(option.job) == option.gpus else ANYTHING), 0, 0
        if not draft and option.job in self._beside:
            return ANYTHING, 0, 0  # its own GPUs are not what it should have
        differing = [node for node in draft if draft[node] != wanted.get(node, 0)]
        reason = ANYTHING
        if option.action == EVICT:
            reason = reason_to_evict(draft, wanted)
        elif option.action == MOVE:
            reason = MOVE_JOB if wanted == {option.node: option.gpus} else ANYTHING
        elif option.action == RESIZE and differing == [option.node] and wanted.get(option.node, 0) == option.gpus:
            reason = SHRINK_JOB if option.gpus < draft[option.node] else GIVE_GPUS
        elif option.action in (START, JOIN) and wanted.get(option.node, 0) == option.gpus and not differing:
            reason = GIVE_GPUS if self._has_room(draft, wanted) else GIVE_SOME
        after = distance(after_option(option, draft), wanted)
        if reason == ANYTHING and after < distance(draft, wanted):
            reason = COME_NEARER
        return reason, after, -option.gpus


def reason_to_evict(draft: GpusByNode, wanted: GpusByNode) -> int:
    """Return why and when a job would be evicted that has one thing and should have another."""
    if not wanted:
        return STOP_JOB
    if len(draft) == len(wanted) == 1 and draft.keys() != wanted.keys() and sum(draft.values()) == sum(wanted.values()):
        return CLEAR_MOVE
    differing = sum(draft[node] != wanted.get(node, 0) for node in draft)
    return CLEAR_REST if differing <= 1 and draft.keys() & wanted.keys() else CLEAR_JOB


def planned_gpus(arrays: OptionArrays, b: int, job: JobId) -> dict[NodeId, int]:
    """Return what a job has in the draft of an episode."""
    found: dict[NodeId, int] = {}
    share = int(arrays.world.jobs[b, job].first_share)
    while share >= 0:
        record = arrays.world.shares[b, share]
        found[int(record.node)] = int(record.gpus)
        share = int(record.next_of_job)
    return found


def wanted_amounts(placement: Placement) -> Amounts:
    """Return what a placement names; of cores and memory the least for each GPU."""
    cpus, memory = (
        min(np.floor(amounts[node] * PARTS) / gpus for node, gpus in placement.gpus.items()) if amounts else 0.0
        for amounts in (placement.cpus, placement.memory)
    )
    return float(placement.batch_size or 0), float(cpus), float(memory)


def planned_amounts(arrays: OptionArrays, b: int, job: JobId) -> Amounts:
    """Return what a job's placement in the draft names; of cores and memory the least for each GPU."""
    record = arrays.world.jobs[b, job]
    share, named = int(record.first_share), int(record.named)
    cpus = memory = np.inf
    while share >= 0:
        part = arrays.world.shares[b, share]
        cpus, memory = min(cpus, part.cpus * PARTS / part.gpus), min(memory, part.memory * PARTS / part.gpus)
        share = int(part.next_of_job)
    return (
        float(record.batch_size),
        float(cpus) if named & NAMED_CPUS else 0.0,
        float(memory) if named & NAMED_MEMORY else 0.0,
    )


def difference(one: Amounts, other: Amounts, usual: int, saturating: Sequence[int]) -> float:
    """Return how far apart two tunings are: in doublings of the batch size, and of cores and memory in saturations.

    Cores or memory that only one of them names count 2.
    """
    found = abs(np.log2((one[0] or usual) / (other[0] or usual))) if usual else float(one[0] != other[0])
    for mine, its, most in zip(one[1:], other[1:], saturating, strict=True):
        if bool(mine) != bool(its):
            found += 2.0
        elif mine:
            found += abs(mine - its) / max(most, 1)
    return float(found)


def after_option(option: ListedOption, draft: GpusByNode) -> dict[NodeId, int]:
    """Return what the job of an option has after it."""
    if option.action == EVICT:
        return {}
    return {option.node: option.gpus} if option.action == MOVE else {**draft, option.node: option.gpus}


def distance(one: GpusByNode, other: GpusByNode) -> int:
    """Number of GPUs in which placements differ, summed over nodes; one more if only one of them is empty."""
    return sum(abs(one.get(node, 0) - other.get(node, 0)) for node in {*one, *other}) + (bool(one) != bool(other))
