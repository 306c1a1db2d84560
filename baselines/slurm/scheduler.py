"""Slurm's own policy: what a cluster runs today, beside what it could run."""

import functools
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from baselines.parts.arrays import gang_sizes
from baselines.parts.placing import Gpus, best_fit, constraints_at
from baselines.slurm.accounting import make_qos, read_accounting
from baselines.slurm.compiled import play_whole
from baselines.slurm.conf import ConfReader
from baselines.slurm.job_table import JobTable
from baselines.slurm.nodes import Site, choose_nodes, site_of
from baselines.slurm.plan import Plan
from baselines.slurm.preemption import find_victims
from baselines.slurm.reservations import Calendar, make_reservation
from baselines.slurm.settings import Association, SlurmSettings
from baselines.slurm.usage import Usage
from envs.scheduling import ClusterView
from envs.simulation import SimulatedEpisode
from envs.types import (
    Allocation,
    BoolArray,
    ClusterSpec,
    IntArray,
    JobId,
    MurmurationError,
    NodeId,
    Seconds,
)
from envs.types.limits import find_shaped


class Slurm:
    """Multifactor priority, and backfill by time limits (man slurm.conf, slurm.schedmd.com; sched/backfill of 22.05).

    The main pass runs in every round: jobs start in order of priority, and one that finds no room blocks its partition
    and the nodes of it. At every multiple of `bf_interval` after something has changed, a backfill pass plans a start
    for each waiting job by the limits of all, and starts those that can start now. It knows only limits and the clock.

    Simplified: decisions take no time, so `batch_sched_delay`, `bf_max_time` and `bf_yield_interval` have no meaning. A
    job of several partitions is in one of them. Of the limits of associations and QoS, those on GPUs and jobs at once
    count (`limits`); a job that they hold back blocks no other. Reservations keep nodes free of all jobs; jobs that run
    in one are not modelled, nor are cores, memory, licenses, topology and arrays. A job gets its GPUs on as few
    nodes as possible, of one GPU type where that is possible. A preempted job keeps its progress, also with
    PreemptMode=CANCEL, and only the main pass preempts. `describe` lists what the files ask for beyond that.

    Args:
        conf: a `slurm.conf`; Slurm's defaults if empty.
        accounting: what `sacctmgr --parsable2 show assoc tree` and `show qos` print, in one file; may be empty.
        settings: Slurm's names of settings and their values, such as {PriorityWeightAge: 1000, bf_window: 2880}, which
            override those of the file.
        partitions: by name, settings of a `PartitionName` line, such as {debug: {PriorityTier: 10}}.
        qos: by name, columns of `sacctmgr show qos`, such as {high: {Priority: 100, Preempt: "low"}}.
        shares: by account, or by account/user, its share.
        reservations: by name, nodes (by number) that are kept free from start until end, in seconds, such as
            {maintenance: {nodes: [0, 1], start: 86400, end: 93600}}. Such runs are not compiled.
        ends: how plans look at the ends of running jobs: "exact", each, or "grouped", as Slurm does, which makes plans
            later (man slurm.conf, bf_window_linear). Such runs are not compiled.
        cores: of a job, for its fair share and size, as the simulator has none: "gpus", one with each GPU, or "nodes",
            one on each node, which Slurm gives jobs that ask for none.
    """

    information = "none"
    elastic = False

    def __init__(
        self,
        conf: str = "",
        accounting: str = "",
        settings: Mapping[str, Any] | None = None,
        partitions: Mapping[str, Mapping[str, Any]] | None = None,
        qos: Mapping[str, Mapping[str, Any]] | None = None,
        shares: Mapping[str, float] | None = None,
        reservations: Mapping[str, Mapping[str, Any]] | None = None,
        ends: str = "exact",
        cores: str = "gpus",
    ) -> None:
        for name, value, allowed in (("ends", ends, ("exact", "grouped")), ("cores", cores, ("gpus", "nodes"))):
            if value not in allowed:
                raise MurmurationError(f"scheduler.{name} is {value!r}; it must be one of {', '.join(allowed)}")
        self._forms = {"ends": ends, "cores": cores}
        self._conf, self._accounting = conf, accounting
        self._settings, self._partitions = dict(settings or {}), dict(partitions or {})
        self._qos, self._shares, self._reservations = dict(qos or {}), dict(shares or {}), dict(reservations or {})
        self._round: _Rounds | None = None

    @cached_property
    def in_force(self) -> SlurmSettings:
        """The settings in force; reads the files at first.

        Raises:
            MurmurationError: a file or a setting is wrong.
        """
        reader = ConfReader()
        if self._conf:
            reader.read(Path(self._conf))
        reader.set(self._settings)
        reader.set_partitions(self._partitions)
        found = reader.settings
        associations, qos, left_out = read_accounting(Path(self._accounting)) if self._accounting else ((), {}, ())
        qos |= {name.lower(): make_qos(f"scheduler.qos.{name}", name, row) for name, row in self._qos.items()}
        values = {name: getattr(found, name) for name in SlurmSettings.__dataclass_fields__}
        values |= self._forms | {"qos": qos, "not_modelled": (*found.not_modelled, *left_out)}
        values["associations"] = (*associations, *(_share(*each) for each in self._shares.items()))
        values["reservations"] = tuple(make_reservation(*each) for each in self._reservations.items())
        return SlurmSettings(**values)

    @property
    def preemptive(self) -> bool:
        """Whether the settings allow preemption."""
        return self.in_force.preempts

    def describe(self) -> list[str]:
        """Return the settings in force, as short lines."""
        return self.in_force.describe()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode. Nothing is random.

        Raises:
            MurmurationError: a file or a setting is wrong.
        """
        self._round = _Rounds(self.in_force, cluster)

    def play(self, simulator: SimulatedEpisode) -> bool:
        """Play a whole episode in compiled code; return False where settings or jobs ask for more than it can."""
        rules = self.in_force
        plain = not (rules.preempts or rules.reservations or rules.ends != "exact")
        return plain and play_whole(simulator, rules)

    def schedule(self, view: ClusterView) -> Allocation:
        """Start waiting jobs; running ones stay, unless they are preempted.

        Raises:
            MurmurationError: a job asks for more than its partition allows.
        """
        if self._round is None:
            self._round = _Rounds(self.in_force, view.cluster)
        return self._round.decide(view)


def _share(name: str, shares: float) -> Association:
    account, _, user = name.partition("/")
    if not (isinstance(shares, int | float) and shares >= 0):
        raise MurmurationError(f"scheduler.shares.{name} is {shares!r}; it must be a number from 0 on")
    return Association(account, user, shares=float(shares))


class _Rounds:
    """The rounds of one episode: the plain form of `baselines.slurm.compiled`."""

    def __init__(self, settings: SlurmSettings, cluster: ClusterSpec) -> None:
        self.rules = settings
        self.table = JobTable(settings, cluster)
        self.site: Site = site_of(cluster, self.table.node_weights)
        self.calendar = Calendar(settings.reservations, cluster.num_nodes)
        self.usage = Usage(settings, self.table)
        self.priority: dict[JobId, int] = {}  # of waiting jobs
        self.began: dict[JobId, Seconds] = {}  # of running jobs
        self.held: dict[JobId, None] = {}  # have held GPUs since usage was last brought up to date
        self.sizes: list[int] = []
        self.types: list[BoolArray] = []
        self.calculated = self.tested_all = -1  # periods
        self.due = math.inf  # of the next backfill pass
        self.seen = (0, 0, 0)  # jobs submitted, jobs running, GPUs up
        self.counted: dict[int, tuple[int, int]] = {}  # GPUs and jobs that run, by number of their limit

    def decide(self, view: ClusterView) -> Allocation:
        """Decide one round."""
        self._look(view)
        allocation = view.allocation(keep_running=True)
        order = self._order(view)
        changed = self.seen != (len(view.num_gpus), len(view.running), int(view.capacity.sum()))
        self._start_in_order(view, allocation, order)
        waiting = [job for job in order if allocation.placement(job) is None]
        on_time = math.floor(view.time / self.rules.bf_interval) * self.rules.bf_interval == view.time
        if self.rules.backfill and (view.time >= self.due or (changed and on_time)):
            self.due = math.inf
            self._backfill(view, allocation, waiting)
            waiting = [job for job in waiting if allocation.placement(job) is None]
            changed = False
        self._ask_again(view.time, bool(waiting), changed)
        allocation.next_decision = min(self.due, self.calendar.next_end(view.time))
        self.seen = (len(view.num_gpus), len(list(allocation.jobs())), int(view.capacity.sum()))
        return allocation

    def _look(self, view: ClusterView) -> None:
        """Take in new jobs, what has begun and ended, and the time."""
        known = len(self.table)
        for job in range(known, len(view.num_gpus)):
            self.table.add(view.job(job))
            size = int(gang_sizes(view, np.array([job]))[0])
            self.sizes.append(size)
            self.types.append(self.table.may_use(job, view.throughputs(job)[:, size] > 0))
        running = view.running.tolist()
        self.began = {job: self.began.get(job, view.time) for job in running}
        self.held |= dict.fromkeys(running)
        self.counted = {}
        for job in running:
            self._count(job)
        if self.rules.multifactor and self.rules.weight_fairshare > 0:
            every = list(self.table.associations)
            if len(self.usage.factors) < len(every):
                self.usage.add(every[len(self.usage.factors) :])

    def _count(self, job: JobId, sign: int = 1) -> None:
        """Count a job that runs where limits hold for it."""
        for number in self.table.limits_of[job]:
            gpus, jobs = self.counted.get(number, (0, 0))
            self.counted[number] = gpus + sign * self.sizes[job], jobs + sign

    def _may_start(self, job: JobId) -> bool:
        """Return whether the limits of QoS and associations allow a job to start."""
        return self.table.limits.allow(self.table.limits_of[job], self.sizes[job], self.counted)

    def _order(self, view: ClusterView) -> list[JobId]:
        """Return waiting jobs, first the one to start first."""
        period = math.floor(view.time / self.rules.calc_period)
        if period > self.calculated:
            self.calculated = period
            self.priority.clear()
            if self.rules.multifactor and self.rules.weight_fairshare > 0:
                self.held = dict.fromkeys(self.usage.update(view, list(self.held)))
        queued = view.queued.tolist()
        for job in queued:
            if math.isnan(self.table.eligible[job]):
                self.table.eligible[job] = view.time
        self.priority = {job: self._priority(view.time, job) for job in queued}
        table = self.table
        return sorted(queued, key=lambda job: (not table.preempts[job], -table.tier[job], -self.priority[job], job))

    def _priority(self, now: Seconds, job: JobId) -> int:
        if job in self.priority:
            return self.priority[job]
        factors = self.usage.factors
        return self.table.priority(job, now, factors[self.table.association[job]] if factors else 0.0)

    def _find(self, view: ClusterView, job: JobId, free: IntArray) -> Gpus:
        """Return nodes for a job among free GPUs; empty if there is no room."""
        types, size, asked = self.types[job], self.sizes[job], constraints_at(view, job)
        if not types.any():
            return best_fit(view, free, job, size, ())
        if not asked.shapes:
            return choose_nodes(self.site, types, self.table.lln(job), size, free)

        def find(free: IntArray, cluster: ClusterSpec, size: int, gpu_type: int) -> Gpus:
            only = np.arange(len(types)) == gpu_type
            return choose_nodes(self.site, only, self.table.lln(job), size, free)

        able = [gpu_type for gpu_type in self.site.by_weight.tolist() if types[gpu_type]]
        return next(filter(None, (find_shaped(asked, free, view.cluster, size, each, find) for each in able)), {})

    def _find_open(self, view: ClusterView, job: JobId, shut: BoolArray, free: IntArray) -> Gpus:
        return self._find(view, job, np.where(shut, 0, free))

    def _taken(self, view: ClusterView, job: JobId, gpus: Mapping[NodeId, int]) -> Mapping[NodeId, int]:
        """Return the GPUs that a job with these GPUs keeps from others: all of its nodes if they are its alone."""
        return {node: int(self.site.total[node]) for node in gpus} if constraints_at(view, job).exclusive else gpus

    def _start(self, allocation: Allocation, job: JobId, gpus: Gpus, now: Seconds) -> None:
        allocation.place(job, gpus)
        self.began[job] = now
        self.held[job] = None
        self._count(job)

    def _start_in_order(self, view: ClusterView, allocation: Allocation, order: list[JobId]) -> None:
        """Start jobs in order of priority; one without room blocks its partition, and its nodes for all others."""
        period = math.floor(view.time / self.rules.sched_interval)
        depth = len(order) if period > self.tested_all else self.rules.default_queue_depth
        self.tested_all = max(period, self.tested_all)
        blocked: set[int] = set()
        closed = np.zeros(len(view.cluster.gpu_types), np.bool_)
        for job in order:
            partition = self.table.partition[job]
            if partition in blocked:
                continue
            if depth == 0:
                break
            depth -= 1
            if not self._may_start(job):
                continue
            shut = closed[self.site.gpu_types] | self.calendar.closed(view.time, view.time + self.table.limit[job])
            free = np.where(shut, 0, allocation.free_gpus)
            gpus = self._find(view, job, free)
            if not gpus and self.rules.preempts:
                gpus = self._preempt(view, allocation, job, shut)
            if gpus:
                self._start(allocation, job, gpus, view.time)
            else:
                blocked.add(partition)
                closed |= self.table.partition_types[partition]

    def _preempt(self, view: ClusterView, allocation: Allocation, job: JobId, shut: BoolArray) -> Gpus:
        """Stop jobs that this one may preempt, if that makes room on nodes that are not shut; return its nodes."""
        held = {
            other: self._taken(view, other, placement.gpus)
            for other in view.running.tolist()
            if (placement := allocation.placement(other))
        }

        def find(free: IntArray) -> Gpus:
            return self._find(view, job, np.where(shut, 0, free))

        victims = find_victims(self.rules, self.table, self.began, job, held, allocation.free_gpus, find)
        for other in victims:
            allocation.stop(other)
            self._count(other, -1)
        return find(allocation.free_gpus) if victims else {}

    def _backfill(self, view: ClusterView, allocation: Allocation, waiting: list[JobId]) -> None:
        """Plan a start for waiting jobs in order of priority; those that can start now do."""
        rules, table = self.rules, self.table
        if not allocation.free_gpus.any():  # no plan could start a job now, and none is kept
            return
        plan = Plan(view.time, rules, allocation.free_gpus)
        for each in self.calendar.reservations:
            if each.overlaps(view.time, plan.until):
                last = math.ceil(each.end / rules.bf_resolution) * rules.bf_resolution  # plans round ends down
                plan.reserve(each.start, last - each.start, dict.fromkeys(each.nodes, 0))
        for job in allocation.jobs():
            if placement := allocation.placement(job):
                plan.run(self.began[job] + table.limit[job], self._taken(view, job, placement.gpus))
        tested, reserved = 0, dict.fromkeys(range(len(table.partitions)), 0)
        by_user: dict[int, int] = {}
        by_part = dict(reserved)
        for job in waiting:
            user, part, limit = table.user[job], table.partition[job], table.limit[job]
            if tested >= rules.bf_max_job_test:
                break
            if not self._may_start(job):
                continue
            if 0 < rules.bf_max_job_user <= by_user.get(user, 0) or 0 < rules.bf_max_job_part <= by_part[part]:
                continue
            tested, by_user[user], by_part[part] = tested + 1, by_user.get(user, 0) + 1, by_part[part] + 1
            shut = self.calendar.closed(view.time, view.time + limit, after=plan.until)
            find = functools.partial(self._find_open, view, job, shut)
            found = plan.find(limit, find)
            if found is None:
                continue
            start, gpus = found
            if start <= view.time:
                self._start(allocation, job, gpus, view.time)
                plan.start(limit, self._taken(view, job, gpus))
                continue
            if start > plan.until or 0 < rules.bf_job_part_count_reserve <= reserved[part]:
                continue
            if len(plan.spans) >= rules.bf_max_job_test:  # bf_node_space_size, by default
                break
            reserved[part] += 1
            plan.reserve(start, limit, gpus)

    def _ask_again(self, now: Seconds, waiting: bool, changed: bool) -> None:
        """Ask for the next backfill pass, if one could do something: after a change, or when priorities change."""
        step = self.rules.bf_interval
        if not waiting or not self.rules.backfill:
            self.due = math.inf
            return
        soon = (math.floor(now / step) + 1) * step
        period = self.rules.calc_period
        later = math.ceil((math.floor(now / period) + 1) * period / step) * step
        self.due = min(self.due, soon if changed else max(later, soon))
