"""Synergy's mechanisms: divide cores and memory among the jobs chosen to run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import coo_array, csr_array

from baselines.parts.highs import milp
from baselines.parts.placing import Gpus
from baselines.synergy.cpu_memory import AMOUNT_ROUNDING, PART, Amount, JobSensitivities, NodeResources
from baselines.synergy.unique_amounts import unique_amounts
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId, NodeId

GAP = 1e-4  # relative gap at which the amounts of an integer program count as optimal


@dataclass
class OpenRound:
    """A round under construction: GPUs in `allocation`, cores and memory in `resources`."""

    view: ClusterView
    allocation: Allocation
    resources: NodeResources
    sensitivities: JobSensitivities

    def demand(self, job: JobId, gpus: Mapping[NodeId, int]) -> Amount:
        """The least amount that saturates a job here; for a gang over several types, the proportional share."""
        if not self.of_one_type(gpus):
            return self.resources.share(gpus)
        return self.sensitivities.of(self.view, self.resources, job, gpus).demand

    def of_one_type(self, gpus: Mapping[NodeId, int]) -> bool:
        """Whether the GPUs are of one type, so that the job's sensitivity is known."""
        nodes = self.view.cluster.nodes
        return len({nodes[node].gpu_type for node in gpus}) == 1

    def places(self, planned: Mapping[NodeId, int]) -> Iterator[Gpus]:
        """Yield places for a gang on one type: nodes that fit it, fullest first; if none fits, the planned GPUs."""
        free, cluster = self.allocation.free_gpus, self.view.cluster
        size, gpu_type = sum(planned.values()), cluster.node_types[min(planned)]
        nodes = np.flatnonzero((cluster.node_types == gpu_type) & (free >= size))
        for node in nodes[np.argsort(free[nodes], kind="stable")].tolist():
            yield {node: size}
        if not nodes.size and all(free[node] >= count for node, count in planned.items()):
            yield dict(planned)

    def settle(self, job: JobId, gpus: Mapping[NodeId, int], amount: Amount) -> None:
        """Place a job on these GPUs with this amount of cores and memory."""
        self.resources.take(job, gpus, amount)
        self.allocation.place(job, dict(gpus))


class Mechanism(Protocol):
    """A way to give cores and memory to jobs that continue and to jobs that start."""

    def keep(self, open_round: OpenRound, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """Set the amounts of a job that stays on its GPUs, or stop it."""
        ...

    def start(self, open_round: OpenRound, job: JobId, planned: Gpus) -> None:
        """Place a starting job on a better node than planned or as planned, or leave it out."""
        ...

    def finish(self, open_round: OpenRound, jobs: Sequence[JobId]) -> None:
        """Adjust the amounts of all running jobs at the end of the round."""
        ...


class Proportional:
    """Give cores and memory in proportion to GPUs, as GPU schedulers do."""

    def keep(self, open_round: OpenRound, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """Give the proportional share."""
        open_round.settle(job, gpus, open_round.resources.share(gpus))

    def start(self, open_round: OpenRound, job: JobId, planned: Gpus) -> None:
        """Place the job on the fullest node that fits, with its proportional share."""
        for gpus in open_round.places(planned):
            open_round.settle(job, gpus, open_round.resources.share(gpus))
            return

    def finish(self, open_round: OpenRound, jobs: Sequence[JobId]) -> None:
        """Do nothing: all amounts are set."""


class Greedy:
    """Give a job all that it can use, or do not run it; GPUs may stay idle on nodes without free cores."""

    def keep(self, open_round: OpenRound, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """Give the demand, or stop the job if it is no longer available."""
        demand = open_round.demand(job, gpus)
        if open_round.resources.lacking(gpus, demand):
            open_round.allocation.stop(job)
        else:
            open_round.settle(job, gpus, demand)

    def start(self, open_round: OpenRound, job: JobId, planned: Gpus) -> None:
        """Place the job at the first place that has its whole demand."""
        for gpus in open_round.places(planned):
            demand = open_round.demand(job, gpus)
            if not open_round.resources.lacking(gpus, demand):
                open_round.settle(job, gpus, demand)
                return

    def finish(self, open_round: OpenRound, jobs: Sequence[JobId]) -> None:
        """Do nothing: all amounts are set."""


class Tune:
    """Give the demand where it fits, else the proportional share, for which jobs that hold more are cut."""

    def keep(self, open_round: OpenRound, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """Give the demand, or else the proportional share, cutting other jobs if needed."""
        demand = open_round.demand(job, gpus)
        if open_round.resources.lacking(gpus, demand):
            demand = demand.within(open_round.resources.share(gpus))
            _make_room(open_round.resources, gpus, demand)
        open_round.settle(job, gpus, demand)

    def start(self, open_round: OpenRound, job: JobId, planned: Gpus) -> None:
        """Take the fullest node with the whole demand, else with the proportional share, else with free GPUs."""
        places = list(open_round.places(planned))
        for gpus in places:
            demand = open_round.demand(job, gpus)
            if not open_round.resources.lacking(gpus, demand):
                open_round.settle(job, gpus, demand)
                return
        cut = [(gpus, open_round.demand(job, gpus).within(open_round.resources.share(gpus))) for gpus in places]
        for gpus, amount in sorted(cut, key=lambda place: bool(open_round.resources.lacking(*place))):
            _make_room(open_round.resources, gpus, amount)
            open_round.settle(job, gpus, amount)
            return

    def finish(self, open_round: OpenRound, jobs: Sequence[JobId]) -> None:
        """Give what is left to the jobs in order of priority, to each the most that it can use."""
        for job in jobs:
            place, before = open_round.allocation.placement(job), open_round.resources.held(job)
            if place is None or before is None or not open_round.of_one_type(place.gpus):
                continue
            open_round.resources.release(job)
            sensitivity = open_round.sensitivities.of(open_round.view, open_round.resources, job, place.gpus)
            fits = [one for one in sensitivity.worthwhile if not open_round.resources.lacking(place.gpus, one[0])]
            best = max(fits, key=lambda one: one[1], default=(before, 0.0))
            open_round.resources.take(job, place.gpus, best[0])


@dataclass
class Opt:
    """Maximise the sum of throughputs relative to the proportional share; no job falls below that share.

    Jobs that share no node, directly or through other jobs, do not compete, so each such group has its own program. Its
    solution holds as long as the group does not change.

    Attributes:
        node_limit: nodes of the search tree for each integer program; a stopped program gives the best amounts found,
            or the proportional shares if there are none. A limit of work instead of time gives the same amounts on any
            machine.
        counters: programs started (also those that need no solver, see `baselines.synergy.unique_amounts`), programs
            stopped by the limit, programs without a solution, and the largest relative gap in parts per million.
    """

    node_limit: int
    counters: dict[str, int] = field(
        default_factory=lambda: {"programs": 0, "stopped_programs": 0, "proportional_groups": 0, "worst_gap_ppm": 0}
    )
    _solved: dict[tuple[object, ...], dict[JobId, Amount]] = field(default_factory=dict)  # of the last division

    def keep(self, open_round: OpenRound, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """Give the proportional share until `finish`."""
        open_round.settle(job, gpus, open_round.resources.share(gpus))

    def start(self, open_round: OpenRound, job: JobId, planned: Gpus) -> None:
        """Place the job as `Proportional` does."""
        Proportional().start(open_round, job, planned)

    def finish(self, open_round: OpenRound, jobs: Sequence[JobId]) -> None:
        """Divide the cores and memory of all nodes by an integer program for each group of jobs."""
        running = {job: place.gpus for job in jobs if (place := open_round.allocation.placement(job))}
        places = {job: gpus for job, gpus in running.items() if open_round.of_one_type(gpus)}
        for job in places:
            open_round.resources.release(job)
        solved = self._solved
        self._solved = {}
        for group in groups_by_nodes(places):
            key = _state(open_round.resources, group)
            self._solved[key] = solved[key] if key in solved else self._divide(open_round, group)
            for job, gpus in group.items():
                open_round.resources.take(job, gpus, self._solved[key].get(job, open_round.resources.share(gpus)))

    def _divide(self, open_round: OpenRound, places: Mapping[JobId, Mapping[NodeId, int]]) -> dict[JobId, Amount]:
        """Return an amount for each job of a group; empty if its program has no solution.

        No program is needed if all jobs can have the amounts on which they are fastest.
        """
        by_job = {job: self._options(open_round, job, gpus) for job, gpus in places.items()}
        if not all(by_job.values()):  # a job that would not run here, whatever its amounts
            return {}
        fastest = {job: max(options, key=lambda one: one[1])[0] for job, options in by_job.items()}
        if fit_together(open_round.resources, places, fastest):
            return fastest
        self.counters["programs"] += 1
        options = [(job, amount, throughput) for job, those in by_job.items() for amount, throughput in those]
        return self._solve(open_round.resources, list(places), places, options)

    def _options(self, open_round: OpenRound, job: JobId, gpus: Mapping[NodeId, int]) -> list[tuple[Amount, float]]:
        sensitivity = open_round.sensitivities.of(open_round.view, open_round.resources, job, gpus)
        fair = sensitivity.fair_throughput or float(sensitivity.throughput.max())  # a job may not run on its share
        return [(amount, throughput / fair) for amount, throughput in sensitivity.worthwhile]

    def _solve(
        self,
        resources: NodeResources,
        jobs: Sequence[JobId],
        places: Mapping[JobId, Mapping[NodeId, int]],
        options: Sequence[tuple[JobId, Amount, float]],
    ) -> dict[JobId, Amount]:
        """Return an amount for every job; empty if no solution was found within the limit."""
        nodes = sorted({node for gpus in places.values() for node in gpus})
        row = {node: at for at, node in enumerate(nodes)}
        use = np.zeros((len(options), 2 * len(nodes)))
        for column, (job, amount, _) in enumerate(options):
            for node, count in places[job].items():
                use[column, row[node]] = count * (amount.cpus - PART)
                use[column, len(nodes) + row[node]] = count * (amount.memory - PART)
        free = np.concatenate([resources.free_cpus[nodes], resources.free_memory[nodes]]) + AMOUNT_ROUNDING
        place = {job: place for place, job in enumerate(jobs)}
        owner = np.array([place[job] for job, _, _ in options])
        worth = np.array([throughput for _, _, throughput in options])
        first = np.searchsorted(owner, np.arange(len(jobs) + 1))
        known, best = unique_amounts(first, worth, use, free, GAP)
        picked = best.tolist() if known else self._program(owner, worth, use, free)
        return {options[at][0]: options[at][1] for at in picked}

    def _program(self, owner: IntArray, worth: FloatArray, use: FloatArray, room: FloatArray) -> list[int]:
        """List the options that an integer program chooses, one for each job; empty if it finds none.

        Args:
            owner: int64[num_options], place of each option's job.
            worth: float64[num_options], to be maximised.
            use: float64[num_options, num_limits], the cores and memory of nodes that each option takes.
            room: float64[num_limits].
        """
        columns = np.arange(len(worth))
        once = coo_array((np.ones(len(worth)), (owner, columns)), shape=(int(owner[-1]) + 1, len(worth)))
        found = milp(
            -worth,
            integrality=np.ones(len(worth), np.int64),
            bounds=Bounds(0.0, 1.0),
            constraints=[
                LinearConstraint(once.tocsr(), 1.0, 1.0),
                LinearConstraint(csr_array(use.T), -np.inf, room),
            ],
            options={"node_limit": self.node_limit, "mip_rel_gap": GAP},
        )
        self.counters["stopped_programs"] += found.status != 0
        if found.x is None:
            self.counters["proportional_groups"] += 1
            return []
        if found.status != 0 and found.mip_gap is not None:
            self.counters["worst_gap_ppm"] = max(self.counters["worst_gap_ppm"], round(1e6 * float(found.mip_gap)))
        return np.flatnonzero(found.x > 0.5).tolist()


def groups_by_nodes(places: Mapping[JobId, Mapping[NodeId, int]]) -> list[dict[JobId, Mapping[NodeId, int]]]:
    """Group jobs that share nodes, directly or through other jobs; jobs keep their order.

    Args:
        places: GPUs by node of each job.
    """
    groups: list[tuple[set[NodeId], dict[JobId, Mapping[NodeId, int]]]] = []
    for job, gpus in places.items():
        nodes, members = set(gpus), {job}
        apart = []
        for group in groups:
            if nodes.isdisjoint(group[0]):
                apart.append(group)
            else:
                nodes |= group[0]
                members |= group[1].keys()
        groups = [*apart, (nodes, {one: places[one] for one in places if one in members})]
    return [members for _, members in groups]


def fit_together(
    resources: NodeResources, places: Mapping[JobId, Mapping[NodeId, int]], amounts: Mapping[JobId, Amount]
) -> bool:
    """Whether all of these jobs can have these amounts at once."""
    left_cpus, left_memory = resources.free_cpus.copy(), resources.free_memory.copy()
    for job, gpus in places.items():
        for node, count in gpus.items():
            left_cpus[node] -= count * (amounts[job].cpus - PART)
            left_memory[node] -= count * (amounts[job].memory - PART)
    return bool(min(left_cpus.min(), left_memory.min()) >= -AMOUNT_ROUNDING)


def _state(resources: NodeResources, places: Mapping[JobId, Mapping[NodeId, int]]) -> tuple[object, ...]:
    """Return what the division of a group depends on: its jobs on their nodes, and the free amounts there."""
    nodes = sorted({node for gpus in places.values() for node in gpus})
    free = resources.free_cpus[nodes].tobytes(), resources.free_memory[nodes].tobytes()
    return tuple((job, tuple(gpus.items())) for job, gpus in places.items()), free


def _make_room(resources: NodeResources, gpus: Mapping[NodeId, int], amount: Amount) -> None:
    """Cut jobs that hold more than their proportional share until an amount within its share fits on its nodes."""
    for node in list(gpus):
        rich = resources.above_share(node)
        while rich and node in resources.lacking(gpus, amount):
            resources.cut(rich.pop(0))
