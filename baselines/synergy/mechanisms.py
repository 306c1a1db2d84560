"""Synergy's ways to divide cores and memory among jobs that have been chosen to run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import coo_array

from baselines.parts.highs import milp
from baselines.parts.placing import Gpus
from baselines.synergy.hosts import PART, ROUNDING, Amount, Hosts, Sensitivities
from envs.scheduling import ClusterView
from envs.types import Allocation, JobId, NodeId, Seconds


@dataclass
class Plan:
    """A round under construction: GPUs in the wish, cores and memory in the hosts."""

    view: ClusterView
    wish: Allocation
    hosts: Hosts
    sensitivities: Sensitivities

    def demand(self, job: JobId, gpus: Mapping[NodeId, int]) -> Amount:
        """What saturates a job on these nodes; the proportional share of a gang over several types."""
        if not self.of_one_type(gpus):
            return self.hosts.share(gpus)
        return self.sensitivities.of(self.view, self.hosts, job, gpus).demand

    def of_one_type(self, gpus: Mapping[NodeId, int]) -> bool:
        """Whether GPUs are of one type, so that sensitivities are known."""
        kinds = self.view.cluster.node_types[list(gpus)]
        return bool((kinds == kinds[0]).all())

    def places(self, planned: Mapping[NodeId, int]) -> Iterator[Gpus]:
        """Free GPUs of one type for a gang: every node that holds it, fullest first; if there is none, as planned."""
        free, cluster = self.wish.free_gpus, self.view.cluster
        size, kind = sum(planned.values()), cluster.node_types[min(planned)]
        nodes = np.flatnonzero((cluster.node_types == kind) & (free >= size))
        for node in nodes[np.argsort(free[nodes], kind="stable")].tolist():
            yield {node: size}
        if not nodes.size and all(free[node] >= count for node, count in planned.items()):
            yield dict(planned)

    def settle(self, job: JobId, gpus: Mapping[NodeId, int], amount: Amount) -> None:
        """Let a job run on these GPUs with so much of cores and memory."""
        self.hosts.take(job, gpus, amount)
        self.wish.place(job, dict(gpus))


class Mechanism(Protocol):
    """How a job that runs on, or is to start, comes to its cores and memory."""

    def keep(self, plan: Plan, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """Amounts for a job that goes on where it is; or stop it."""
        ...

    def start(self, plan: Plan, job: JobId, planned: Gpus) -> None:
        """GPUs and amounts for a job that is to start, as planned if on no better node; or leave it out."""
        ...

    def finish(self, plan: Plan, jobs: Sequence[JobId]) -> None:
        """Look at all jobs that run once more."""
        ...


class Proportional:
    """Cores and memory in proportion to GPUs: what GPU schedulers do."""

    def keep(self, plan: Plan, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """The proportional share."""
        plan.settle(job, gpus, plan.hosts.share(gpus))

    def start(self, plan: Plan, job: JobId, planned: Gpus) -> None:
        """The fullest node with room, and the proportional share of it."""
        for gpus in plan.places(planned):
            plan.settle(job, gpus, plan.hosts.share(gpus))
            return

    def finish(self, plan: Plan, jobs: Sequence[JobId]) -> None:
        """Nothing is left to do."""


class Greedy:
    """All that a job can use, or nothing: GPUs stand idle beside cores that are gone."""

    def keep(self, plan: Plan, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """The demand; a job for which it is not there any more is stopped."""
        demand = plan.demand(job, gpus)
        if plan.hosts.lacking(gpus, demand):
            plan.wish.stop(job)
        else:
            plan.settle(job, gpus, demand)

    def start(self, plan: Plan, job: JobId, planned: Gpus) -> None:
        """The first place with the whole demand."""
        for gpus in plan.places(planned):
            demand = plan.demand(job, gpus)
            if not plan.hosts.lacking(gpus, demand):
                plan.settle(job, gpus, demand)
                return

    def finish(self, plan: Plan, jobs: Sequence[JobId]) -> None:
        """Nothing is left to do."""


class Tune:
    """The demand where it fits, else the proportional share, for which those who hold more make room."""

    def keep(self, plan: Plan, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """The demand, the proportional share, or the proportional share at the cost of others."""
        demand = plan.demand(job, gpus)
        if plan.hosts.lacking(gpus, demand):
            demand = demand.within(plan.hosts.share(gpus))
            _make_room(plan.hosts, gpus, demand)
        plan.settle(job, gpus, demand)

    def start(self, plan: Plan, job: JobId, planned: Gpus) -> None:
        """The fullest node with the whole demand; else with the proportional share; else the fullest with GPUs."""
        places = list(plan.places(planned))
        for gpus in places:
            demand = plan.demand(job, gpus)
            if not plan.hosts.lacking(gpus, demand):
                plan.settle(job, gpus, demand)
                return
        cut = [(gpus, plan.demand(job, gpus).within(plan.hosts.share(gpus))) for gpus in places]
        for gpus, amount in sorted(cut, key=lambda place: bool(plan.hosts.lacking(*place))):
            _make_room(plan.hosts, gpus, amount)
            plan.settle(job, gpus, amount)
            return

    def finish(self, plan: Plan, jobs: Sequence[JobId]) -> None:
        """What is left goes to those who were cut, in order of priority: to each the most that it can use."""
        for job in jobs:
            place, before = plan.wish.placement(job), plan.hosts.held(job)
            if place is None or before is None or not plan.of_one_type(place.gpus):
                continue
            plan.hosts.release(job)
            sensitivity = plan.sensitivities.of(plan.view, plan.hosts, job, place.gpus)
            fits = [one for one in sensitivity.worthwhile if not plan.hosts.lacking(place.gpus, one[0])]
            best = max(fits, key=lambda one: one[1], default=(before, 0.0))
            plan.hosts.take(job, place.gpus, best[0])


@dataclass
class Opt:
    """The largest sum of speeds, each over that on the proportional share, below which nobody falls.

    Attributes:
        time_limit: wall-clock seconds for the integer program; beyond it the best amounts found are taken, or the
            proportional shares if none were.
        counters: programs solved, those stopped by the limit, those without any answer, and the largest relative gap in
            parts per million.
    """

    time_limit: Seconds
    counters: dict[str, int] = field(
        default_factory=lambda: {"programs": 0, "stopped_programs": 0, "proportional_rounds": 0, "worst_gap_ppm": 0}
    )

    def keep(self, plan: Plan, job: JobId, gpus: Mapping[NodeId, int]) -> None:
        """For the time being the proportional share."""
        plan.settle(job, gpus, plan.hosts.share(gpus))

    def start(self, plan: Plan, job: JobId, planned: Gpus) -> None:
        """As proportional shares."""
        Proportional().start(plan, job, planned)

    def finish(self, plan: Plan, jobs: Sequence[JobId]) -> None:
        """Divide all cores and memory of each node anew, by one integer program for the whole cluster."""
        running = {job: place.gpus for job in jobs if (place := plan.wish.placement(job))}
        places = {job: gpus for job, gpus in running.items() if plan.of_one_type(gpus)}
        options = [
            (job, amount, speed) for job, gpus in places.items() for amount, speed in self._options(plan, job, gpus)
        ]
        if not options:
            return
        self.counters["programs"] += 1
        for job in places:
            plan.hosts.release(job)
        chosen = self._solve(plan.hosts, list(places), places, options)
        for job, gpus in places.items():
            plan.hosts.take(job, gpus, chosen.get(job, plan.hosts.share(gpus)))

    def _options(self, plan: Plan, job: JobId, gpus: Mapping[NodeId, int]) -> list[tuple[Amount, float]]:
        sensitivity = plan.sensitivities.of(plan.view, plan.hosts, job, gpus)
        return [(amount, speed / sensitivity.fair_speed) for amount, speed in sensitivity.worthwhile]

    def _solve(
        self,
        hosts: Hosts,
        jobs: Sequence[JobId],
        places: Mapping[JobId, Mapping[NodeId, int]],
        options: Sequence[tuple[JobId, Amount, float]],
    ) -> dict[JobId, Amount]:
        """An amount for every job; none if no answer was found in time."""
        rows, columns, values = [], [], []
        num_nodes = len(hosts.cpus)
        for column, (job, amount, _) in enumerate(options):
            for node, count in places[job].items():
                rows += [node, num_nodes + node]
                columns += [column, column]
                values += [count * (amount.cpus - PART), count * (amount.memory - PART)]
        room = coo_array((values, (rows, columns)), shape=(2 * num_nodes, len(options)))
        place = {job: place for place, job in enumerate(jobs)}
        owner = [place[job] for job, _, _ in options]
        once = coo_array((np.ones(len(options)), (owner, np.arange(len(options)))), shape=(len(jobs), len(options)))
        found = milp(
            -np.array([speed for _, _, speed in options]),
            integrality=np.ones(len(options), np.int64),
            bounds=Bounds(0.0, 1.0),
            constraints=[
                LinearConstraint(once.tocsr(), 1.0, 1.0),
                LinearConstraint(
                    room.tocsr(), -np.inf, np.concatenate([hosts.free_cpus, hosts.free_memory]) + ROUNDING
                ),
            ],
            options={"time_limit": self.time_limit, "mip_rel_gap": 1e-4},
        )
        self.counters["stopped_programs"] += found.status != 0
        if found.x is None:
            self.counters["proportional_rounds"] += 1
            return {}
        if found.status != 0 and found.mip_gap is not None:
            self.counters["worst_gap_ppm"] = max(self.counters["worst_gap_ppm"], round(1e6 * float(found.mip_gap)))
        return {job: amount for (job, amount, _), x in zip(options, found.x.tolist(), strict=True) if x > 0.5}


def _make_room(hosts: Hosts, gpus: Mapping[NodeId, int], amount: Amount) -> None:
    """Cut jobs that hold more than their proportional share until an amount within its share fits on its nodes."""
    for node in list(gpus):
        rich = hosts.above_share(node)
        while rich and node in hosts.lacking(gpus, amount):
            hosts.cut(rich.pop(0))
