"""Reference implementation of `observe` and `masks` in plain Python; its features must be equal as float32.

`envs.gpu_cluster.columns` names and explains every feature.
"""

import math

import numpy as np

from envs.gpu_cluster.columns import FIRST_CHOICE, PASS, SCALING_POINTS
from envs.gpu_cluster.negotiation import Observation
from envs.gpu_cluster.reference.effects import ReferenceEffects
from envs.gpu_cluster.reference.plan import JointPlan
from envs.gpu_cluster.spec import EnvSpec
from envs.simulation.reference import Job, JobStatus
from envs.types import JobId, NodeId, Seconds


def _log_minutes(seconds: Seconds) -> float:
    return math.log1p(max(seconds, 0.0) / 60.0) / 10.0


class ReferenceObserver:
    """Observation and mask of a plan.

    Args:
        plan: the GPUs of every job in the round.
        spec: sizes of observation and action.
    """

    def __init__(self, plan: JointPlan, spec: EnvSpec) -> None:
        self.plan, self.spec, self.simulator = plan, spec, plan.simulator
        self.knows_work = self.simulator.scenario.information.work != "none"
        table = self.simulator.rules.table
        self.consolidated: list[list[list[float]]] = table.consolidated().tolist()
        self._levels: list[list[int]] = table.levels.tolist()
        self._on_one_node: list[list[list[float]]] = table.throughputs[:, :, :, 0].tolist()
        self.reference: list[list[float]] = table.reference().tolist()
        self.effects = ReferenceEffects(plan, spec)
        self._job_columns = spec.job_columns
        self._slot_columns = spec.slot_columns[len(self._job_columns) :]

    def head(self, waiting: list[JobId]) -> list[JobId]:
        """Return the first candidates in queue order, ties by id."""
        return sorted(waiting, key=lambda job: (self._key(self.plan.job(job)), job))[: self.spec.num_candidates]

    def _key(self, job: Job) -> float:
        order = self.plan.rules.queue_order
        if order == "fifo":
            return job.spec.submit_time
        if order == "least_service" or not self.knows_work:
            return job.service_at(self.simulator.time)
        return self._estimated_time(job)

    def _throughputs(self, job: Job) -> list[float]:
        """Throughput by number of GPUs, on the fewest nodes of the fastest type."""
        return self.reference[job.model]

    def _estimated_time(self, job: Job) -> Seconds:
        throughputs = self._throughputs(job)
        throughput = throughputs[min(job.spec.num_gpus, len(throughputs) - 1)]
        return job.remaining_at(self.simulator.time) * job.estimate / throughput if throughput > 0 else 0.0

    def observation(self, heads: list[JobId], num_waiting: int, decision: int) -> Observation:
        """Return features (float32) and mask (int8) by name, without a batch axis."""
        spec = self.spec
        blank_job, blank_slot = [0.0] * spec.job_features, [0.0] * spec.slot_features
        queue = [self.job_features(job) for job in heads]
        slots = [[self.slot_features(job, node) for job in self.jobs_on(node)] for node in range(spec.num_nodes)]
        return {
            "nodes": np.array(self.nodes(), np.float32),
            "slots": np.array([row + [blank_slot] * (spec.num_slots - len(row)) for row in slots], np.float32),
            "queue": np.array(queue + [blank_job] * (spec.num_candidates - len(queue)), np.float32),
            "cluster": np.array(self.cluster(num_waiting, decision), np.float32),
            **({"effects": self.effects.rows(heads)} if spec.effects else {}),
            "mask": np.array(self.mask(heads), np.int8),
        }

    def jobs_on(self, node: NodeId) -> list[JobId]:
        """Return the jobs in a node's slots, ascending."""
        return sorted(self.plan.on_node[node])

    def job_features(self, job: JobId) -> list[float]:
        """Return the columns of one job."""
        one, time, largest = self.plan.job(job), self.simulator.time, self.spec.node_gpus
        running, changed = one.status is JobStatus.RUNNING, job in self.plan.changed
        remaining, left = one.remaining_at(time) * one.estimate, 0.0
        if running and self.knows_work and not changed and one.throughput > 0:
            left = _log_minutes(remaining / one.throughput)
        values = {
            "present": 1.0,
            "remaining_time": _log_minutes(self._estimated_time(one)) if self.knows_work else 0.0,
            "age": _log_minutes(time - one.spec.submit_time),
            "attained_service": _log_minutes(one.service_at(time)),
            "requested_gpus": one.spec.num_gpus / largest,
            "min_gpus": one.spec.min_gpus / largest,
            "max_gpus": one.spec.max_gpus / largest,
            "planned_gpus": self.plan.gpus(job) / largest,
            "running": float(running),
            "starting": float(running and one.synced > time),
            "changed": float(changed),
            "time_left": left,
            "restart_delay": _log_minutes(one.restart_delay),
            **self._scaling(one),
        }
        return [values[name] for name in self._job_columns]

    def _scaling(self, job: Job) -> dict[str, float]:
        """Throughput on the requested GPUs by type, relative to the fastest type; efficiency at a few sizes."""
        best, throughputs = self._throughputs(job), self.consolidated[job.model]
        gpus, fastest, values = min(job.spec.num_gpus, len(best) - 1), 0, dict[str, float]()
        for gpu_type in range(len(throughputs)):
            throughput = throughputs[gpu_type][gpus]
            fastest = gpu_type if throughput == best[gpus] else fastest
            values[f"throughput_{gpu_type}"] = throughput / best[gpus] if best[gpus] > 0 else 0.0
        per_gpu = {}
        for gpus in SCALING_POINTS:
            size = min(gpus, len(best) - 1)
            enough = self._levels[fastest][size] >= 0  # of this type in the cluster
            on_fewest = throughputs[fastest][size] if enough else self._on_one_node[job.model][fastest][size]
            per_gpu[gpus] = on_fewest / size
        single = next((each for each in per_gpu.values() if each != 0.0), 0.0)
        return values | {f"efficiency_{n}": each / single if single > 0 else 0.0 for n, each in per_gpu.items()}

    def slot_features(self, job: JobId, node: NodeId) -> list[float]:
        """Return the columns of a job on one node."""
        here, nodes = self.plan.on_node[node][job], len(self.plan.held(job))
        values = {"gpus": here / self.spec.node_gpus, "num_nodes": math.log2(1.0 + nodes) / 3.0}
        return self.job_features(job) + [values[name] for name in self._slot_columns]

    def nodes(self) -> list[list[float]]:
        """Return the columns of all nodes."""
        count, largest = self.spec.num_nodes, self.spec.node_gpus
        seen, rows = dict[tuple[int, int], int](), []
        for node in self.simulator.nodes:
            own_type, free = self.simulator.rules.node_types[node.id], self.plan.free(node.id)
            equals = seen.get((own_type, free), 0)
            seen[own_type, free] = equals + 1
            values = {
                "free_gpus": free / largest,
                "gpus": node.spec.num_gpus / largest,
                "jobs": len(self.plan.on_node[node.id]) / largest,
                "position": node.id / count,
                "equals_before": equals / count,
                **{f"type_{other}": float(own_type == other) for other in range(self.spec.num_gpu_types)},
            }
            rows.append([values[name] for name in self.spec.node_columns])
        return rows

    def cluster(self, num_waiting: int, decision: int) -> list[float]:
        """Return the columns that all nodes share."""
        total = self.simulator.cluster.num_gpus
        by_type = [0.0] * self.spec.num_gpu_types
        for node in self.simulator.nodes:  # summed as float32, like the kernel's output
            gpu_type = self.simulator.rules.node_types[node.id]
            by_type[gpu_type] = float(np.float32(by_type[gpu_type] + self.plan.free(node.id) / total))
        values = {
            "waiting": math.log1p(num_waiting) / 5.0,
            "running": math.log1p(len(self.simulator.running())) / 5.0,
            "free_gpus": self.plan.num_free / total,
            "decision": decision / self.plan.rules.max_decisions,
            "first_decision": float(decision == 0),
            "waiting_per_gpu": num_waiting / total,
            **{f"free_by_type_{gpu_type}": share for gpu_type, share in enumerate(by_type)},
        }
        return [values[name] for name in self.spec.cluster_columns]

    def mask(self, heads: list[JobId]) -> list[list[int]]:
        """Return for each node and action whether it may be taken."""
        rows = [[1] + [0] * (self.spec.num_actions - FIRST_CHOICE) for _ in range(self.spec.num_nodes)]
        num_free, idle = self.plan.num_free, self.plan.idle
        for choice, job in enumerate(heads):
            is_gang = not self.plan.one_node_holds(job)
            held = self.plan.held(job)
            for node in range(self.spec.num_nodes):
                if node in held:
                    continue
                for gpus in range(1, self.plan.free(node) + 1):
                    if self._may_claim(job, node, gpus, is_gang, num_free):
                        rows[node][self.spec.action(choice, gpus)] = 1
                        rows[node][PASS] = 0 if idle else rows[node][PASS]  # a node that can start a job must
        for node, row in enumerate(rows):
            for slot, job in enumerate(self.jobs_on(node)):
                for gpus in range(self.spec.node_gpus + 1):
                    if self._may_change(job, node, gpus):
                        row[self.spec.action(self.spec.num_candidates + slot, gpus)] = 1
        return rows

    def _may_claim(self, job: JobId, node: NodeId, gpus: int, is_gang: bool, num_free: int) -> bool:
        """Below the minimum GPUs a claim is part of a gang: only if no node holds the job and the rest is free."""
        total, least = self.plan.gpus(job) + gpus, self.plan.least(job)
        if total > self.plan.most(job):
            return False
        if total < least and (not is_gang or num_free < least - (total - gpus)):
            return False
        return self.plan.runs_on(job, node, max(total, least))

    def _may_change(self, job: JobId, node: NodeId, gpus: int) -> bool:
        """Whether a node may set the GPUs of a job that runs there to another number, or evict it."""
        rules = self.plan.rules
        if gpus == self.plan.on_node[node][job]:
            return False
        if gpus == 0:
            return rules.preemptive or self.plan.job(job).status is JobStatus.QUEUED
        return rules.elastic and self.plan.change_fits(job, node, gpus)
