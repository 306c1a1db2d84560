"""Features and masks in plain Python: the slow twin of `observe` and `masks`, to which it must be equal as float32.

Features are listed in `envs.gpu_cluster.observe`.
"""

import math

import numpy as np

from envs.gpu_cluster.negotiation import Observation
from envs.gpu_cluster.reference_plan import Plan
from envs.gpu_cluster.spec import SCALING_POINTS, EnvSpec
from envs.simulation.reference_objects import Job, Life
from envs.types import JobId, NodeId, Seconds


def log_minutes(seconds: Seconds) -> float:
    """Compress a time: log(1 + minutes) / 10."""
    return math.log1p(max(seconds, 0.0) / 60.0) / 10.0


class Sight:
    """What servers see of a plan, and what they may choose.

    Args:
        plan: who holds what.
        spec: sizes of observation and action.
    """

    def __init__(self, plan: Plan, spec: EnvSpec) -> None:
        self.plan, self.spec, self.simulator = plan, spec, plan.simulator
        self.knows_work = self.simulator.scenario.information.work != "none"
        table = self.simulator.rules.table
        self.levels: list[list[int]] = table.levels.tolist()
        self.reference: list[list[float]] = table.reference().tolist()

    def head(self, waiting: list[JobId]) -> list[JobId]:
        """The first candidates in queue order, ties by id."""
        return sorted(waiting, key=lambda job: (self._key(self.plan.job(job)), job))[: self.spec.num_candidates]

    def _key(self, job: Job) -> float:
        order = self.plan.rules.queue_order
        if order == "fifo":
            return job.spec.submit_time
        if order == "least_service" or not self.knows_work:
            return job.service_at(self.simulator.time)
        return self._estimated_time(job)

    def _speeds(self, job: Job) -> list[float]:
        """By GPUs, on the fewest nodes of the fastest type."""
        return self.reference[job.model]

    def _estimated_time(self, job: Job) -> Seconds:
        speeds = self._speeds(job)
        rate = speeds[min(job.spec.num_gpus, len(speeds) - 1)]
        return job.remaining_at(self.simulator.time) * job.estimate / rate if rate > 0 else 0.0

    def observation(self, heads: list[JobId], num_waiting: int, decision: int) -> Observation:
        """Features and mask by name, float32 and int8, without a batch axis."""
        spec = self.spec
        blank_job, blank_slot = [0.0] * spec.job_features, [0.0] * spec.slot_features
        queue = [self.job_features(job) for job in heads]
        slots = [[self.slot_features(job, node) for job in self.jobs_on(node)] for node in range(spec.num_servers)]
        return {
            "servers": np.array(self.servers(), np.float32),
            "slots": np.array([row + [blank_slot] * (spec.num_slots - len(row)) for row in slots], np.float32),
            "queue": np.array(queue + [blank_job] * (spec.num_candidates - len(queue)), np.float32),
            "cluster": np.array(self.cluster(num_waiting, decision), np.float32),
            "mask": np.array(self.mask(heads), np.int8),
        }

    def jobs_on(self, node: NodeId) -> list[JobId]:
        """The jobs in a server's slots, ascending."""
        return sorted(self.plan.on_node[node])

    def job_features(self, job: JobId) -> list[float]:
        """One job, as listed."""
        one, time, largest = self.plan.job(job), self.simulator.time, self.spec.node_gpus
        running, changed = one.life is Life.RUNNING, job in self.plan.changed
        remaining, left = one.remaining_at(time) * one.estimate, 0.0
        if running and self.knows_work and not changed and one.rate > 0:
            left = log_minutes(remaining / one.rate)
        return [
            1.0,
            log_minutes(self._estimated_time(one)) if self.knows_work else 0.0,
            log_minutes(time - one.spec.submit_time),
            log_minutes(one.service_at(time)),
            one.spec.num_gpus / largest,
            one.spec.min_gpus / largest,
            one.spec.max_gpus / largest,
            self.plan.gpus(job) / largest,
            float(running),
            float(running and one.synced > time),
            float(changed),
            left,
            log_minutes(one.restart_delay),
            *self._scaling(one),
        ]

    def _scaling(self, job: Job) -> list[float]:
        """Speed on the requested GPUs by type relative to the fastest type; efficiency at a few sizes."""
        speeds, rates = self._speeds(job), self.plan.rates[job.model]
        gpus, fastest, by_type = min(job.spec.num_gpus, len(speeds) - 1), 0, []
        for kind in range(len(rates)):
            level = self.levels[kind][gpus]
            rate = rates[kind][gpus][max(level, 0)]
            fastest = kind if rate == speeds[gpus] else fastest
            by_type.append(rate / speeds[gpus] if speeds[gpus] > 0 and level >= 0 else 0.0)
        each = []
        for points in SCALING_POINTS:
            size = min(points, len(speeds) - 1)
            each.append(rates[fastest][size][max(self.levels[fastest][size], 0)] / size)
        single = next((rate for rate in each if rate != 0.0), 0.0)
        return by_type + [rate / single if single > 0 else 0.0 for rate in each]

    def slot_features(self, job: JobId, node: NodeId) -> list[float]:
        """A running job on one server."""
        here, servers = self.plan.on_node[node][job], len(self.plan.held(job))
        return [*self.job_features(job), here / self.spec.node_gpus, math.log2(1.0 + servers) / 3.0]

    def servers(self) -> list[list[float]]:
        """All servers; each knows how many before it have its type and as many free GPUs."""
        count, seen, rows = self.spec.num_servers, dict[tuple[int, int], int](), []
        for node in self.simulator.nodes:
            kind, free = self.simulator.rules.kinds[node.id], self.plan.free(node.id)
            equals = seen.get((kind, free), 0)
            seen[kind, free] = equals + 1
            parts = [free, node.spec.num_gpus, len(self.plan.on_node[node.id])]
            one_hot = [float(kind == other) for other in range(self.spec.num_gpu_types)]
            rows.append([*(part / self.spec.node_gpus for part in parts), node.id / count, equals / count, *one_hot])
        return rows

    def cluster(self, num_waiting: int, decision: int) -> list[float]:
        """What all servers share."""
        total = self.simulator.cluster.num_gpus
        by_type = [0.0] * self.spec.num_gpu_types
        for node in self.simulator.nodes:  # added up as float32, as the observation is
            kind = self.simulator.rules.kinds[node.id]
            by_type[kind] = float(np.float32(by_type[kind] + self.plan.free(node.id) / total))
        return [
            math.log1p(num_waiting) / 5.0,
            math.log1p(len(self.simulator.running())) / 5.0,
            self.plan.num_free / total,
            decision / self.plan.rules.max_decisions,
            float(decision == 0),
            num_waiting / total,
            *by_type,
        ]

    def mask(self, heads: list[JobId]) -> list[list[int]]:
        """By server and action, whether it may be taken."""
        rows = [[1] + [0] * (self.spec.num_actions - 1) for _ in range(self.spec.num_servers)]
        num_free, idle = self.plan.num_free, self.plan.idle
        for choice, job in enumerate(heads):
            is_gang = not self.plan.one_node_holds(job)
            held = self.plan.held(job)
            for node in range(self.spec.num_servers):
                if node in held:
                    continue
                for gpus in range(1, self.plan.free(node) + 1):
                    if self._may_claim(job, node, gpus, is_gang, num_free):
                        self._open(rows[node], choice, gpus)
                        rows[node][0] = 0 if idle else rows[node][0]  # who could begin may not let all jobs wait
        for node, row in enumerate(rows):
            for slot, job in enumerate(self.jobs_on(node)):
                for gpus in range(self.spec.node_gpus + 1):
                    if self._may_change(job, node, gpus):
                        self._open(row, self.spec.num_candidates + slot, gpus)
        return rows

    def _open(self, row: list[int], choice: int, gpus: int) -> None:
        for level in range(self.spec.num_levels):
            row[self.spec.action(choice, gpus, level)] = 1

    def _may_claim(self, job: JobId, node: NodeId, gpus: int, is_gang: bool, num_free: int) -> bool:
        """Below its least GPUs a claim is part of a gang: only where no node holds the job, and the rest is free."""
        total, least = self.plan.gpus(job) + gpus, self.plan.least(job)
        if total > self.plan.most(job):
            return False
        if total < least and (not is_gang or num_free < least - (total - gpus)):
            return False
        return self.plan.runs_on(job, node, max(total, least))

    def _may_change(self, job: JobId, node: NodeId, gpus: int) -> bool:
        """Set the GPUs of a job that runs here to another number, or evict it."""
        rules = self.plan.rules
        if gpus == self.plan.on_node[node][job]:
            return False
        if gpus == 0:
            return rules.preemptive or self.plan.job(job).life is Life.QUEUED
        return rules.elastic and self.plan.change_fits(job, node, gpus)
