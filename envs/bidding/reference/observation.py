"""Reference implementation of `listing` and `observe` in plain Python, from the objects of the reference engine.

`envs.bidding.columns` names and explains every feature.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from envs.bidding import columns
from envs.bidding.spec import BiddingRules, BiddingSpec
from envs.episodes.candidates import SCALING_POINTS
from envs.episodes.reference import Coupling
from envs.simulation.reference import Job, JobStatus, Node, ReferenceSimulator
from envs.types import JobId, NodeId, Seconds

Proposed = Mapping[JobId, Mapping[NodeId, int]]  # GPUs by node of the jobs that the proposal changes; empty for a stop
BidFeatures = dict[str, float]


def _log_minutes(seconds: Seconds) -> float:
    return math.log1p(max(seconds, 0.0) / 60.0) / 10.0


def _log_count(count: float) -> float:
    return math.log2(1.0 + count) / 8.0


def _delay_share(delay: Seconds, remaining: Seconds) -> float:
    return delay / (delay + remaining) if delay > 0 else 0.0


def _vector(row: BidFeatures, names: Sequence[str]) -> list[np.float32]:
    """Return a row's values in the order of the columns, limited."""
    assert set(row) == set(names), set(row) ^ set(names)
    limit = columns.LIMIT
    return [np.float32(min(max(float(np.float32(row[name])), -limit), limit)) for name in names]


class BidObserver:
    """What nodes observe in one round.

    Args:
        engine: the reference engine in its round.
        rules: which jobs are candidates.
        proposed: the market's proposal.
    """

    def __init__(self, engine: ReferenceSimulator, rules: BiddingRules, proposed: Proposed) -> None:
        self.engine, self.rules, self.proposed = engine, rules, proposed
        self.spec = BiddingSpec.of(engine.cluster, rules, engine.scenario)
        self.knows_work = engine.scenario.information.work != "none"
        self.coupling = Coupling(engine)
        self.listed = self._listed()
        self.type_throughput = [
            sum(self.coupling.relative(job, t) for job in self.jobs) / max(len(self.jobs), 1)
            for t in range(len(engine.cluster.gpu_types))
        ]

    @property
    def jobs(self) -> list[Job]:
        """The listed jobs in the order of their rows."""
        return [job for job in self.listed if job is not None]

    def _listed(self) -> list[Job | None]:
        """Return the job of each row: the candidates and empty rows up to their number, then other running jobs."""
        room = self.spec.num_candidates
        waiting = sorted(self._waiting(), key=lambda job: (self._queue_key(job), job.id))[:room]
        running = self.engine.running()
        by_need = sorted(running, key=lambda job: (self._present_fraction(job), job.id))
        candidates = waiting + by_need[: room - len(waiting)]
        others = [job for job in running if job not in candidates]
        return [*candidates, *[None] * (room - len(candidates)), *others]

    def _waiting(self) -> list[Job]:
        return [job for job in self.engine.active if job.status is JobStatus.QUEUED]

    def _queue_key(self, job: Job) -> float:
        if self.rules.queue_order == "fifo":
            return job.spec.submit_time
        if self.rules.queue_order == "least_service" or not self.knows_work:
            return job.service_at(self.engine.time)
        return self._remaining_time(job)

    def _present_fraction(self, job: Job) -> float:
        best = self.coupling.best(job)
        return job.throughput / best if best > 0 else 0.0

    def _remaining_time(self, job: Job) -> Seconds:
        reference = self.coupling.reference[job.model]
        throughput = reference[min(job.spec.num_gpus, len(reference) - 1)]
        return job.remaining_at(self.engine.time) * job.estimate / throughput if throughput > 0 else 0.0

    def after(self, job: Job) -> Mapping[NodeId, int]:
        """Return the GPUs of a job by node under the proposal."""
        return self.proposed[job.id] if job.id in self.proposed else self.coupling.held(job)

    def job_rows(self) -> np.ndarray:
        """float32[num_job_rows, F_job]: `jobs` of the observation."""
        rows = np.zeros((self.spec.num_job_rows, len(columns.JOB_COLUMNS)), np.float32)
        for row, job in enumerate(self.listed):
            if job is not None:
                rows[row] = _vector(self._job(job, row < self.spec.num_candidates), columns.JOB_COLUMNS)
        return rows

    def _job(self, job: Job, candidate: bool) -> BidFeatures:
        after, spec = self.after(job), job.spec
        return {
            "present": 1.0,
            "candidate": float(candidate),
            "waiting": float(not job.shares),
            "requested_gpus": _log_count(spec.num_gpus),
            "min_gpus": _log_count(spec.min_gpus),
            "max_gpus": _log_count(spec.max_gpus),
            "held_gpus": _log_count(job.gpus),
            "proposed_gpus": _log_count(sum(after.values())),
            "held_nodes": _log_count(len(job.shares)),
            "proposed_nodes": _log_count(len(after)),
            **self._times(job),
            **self._present(job),
            **self._needs(job),
        }

    def _times(self, job: Job) -> BidFeatures:
        now = self.engine.time
        remaining = self._remaining_time(job) if self.knows_work else 0.0
        service = job.service_at(now)
        return {
            "work_known": float(self.knows_work),
            "remaining_time": _log_minutes(remaining),
            "age": _log_minutes(now - job.spec.submit_time),
            "attained_service": _log_minutes(service),
            "begun": float(service > 0),
            "starting": float(job.status is JobStatus.RUNNING and job.synced > now),
            "restart_delay": _log_minutes(job.restart_delay),
            "restart_share": _delay_share(job.restart_delay, remaining) if self.knows_work else 0.0,
        }

    def _present(self, job: Job) -> BidFeatures:
        if job.status is not JobStatus.RUNNING:
            return dict.fromkeys(("throughput", "contention", "cpu_shortage", "memory_shortage"), 0.0)
        return {
            "throughput": self._present_fraction(job),
            "contention": 1.0 - job.throughput / job.alone if job.alone > 0 else 0.0,
            "cpu_shortage": 1.0 - job.cpu_factor,
            "memory_shortage": 1.0 - job.memory_factor,
        }

    def _needs(self, job: Job) -> BidFeatures:
        coupling, size = self.coupling, self.coupling.size(job)
        fastest = coupling.fastest_type(job)
        by_type = [coupling.throughput(job, t) for t in range(len(self.type_gpus))]
        running = [throughput for throughput in by_type if throughput > 0]
        slowest, best = min(running, default=math.inf), coupling.best(job)
        runnable = sum(self.type_gpus[t] for t in range(len(by_type)) if coupling.runs_on(job, t))
        per_gpu = coupling.per_gpu(job, fastest)
        single = next((each for each in per_gpu if each != 0.0), 0.0)
        efficiency = [each / single if single > 0 else 0.0 for each in per_gpu]
        return {
            "type_spread": 1.0 - slowest / best if best > 0 else 0.0,
            "runnable": runnable / self.engine.cluster.num_gpus,
            "cpus_wanted": coupling.wanted(job, fastest, size, "cpus") / size / 16.0,
            "memory_wanted": coupling.wanted(job, fastest, size, "memory") / size / 256.0,
            "cpu_stage": coupling.stage(job),
            "traffic": _log_count(coupling.traffic(job, min(size, 2))),
            **{f"efficiency_{n}": value for n, value in zip(SCALING_POINTS, efficiency, strict=True)},
        }

    @property
    def type_gpus(self) -> list[int]:
        """GPUs of each type."""
        cluster = self.engine.cluster
        return [int(cluster.node_gpus[cluster.node_types == t].sum()) for t in range(len(cluster.gpu_types))]

    def node_rows(self) -> np.ndarray:
        """float32[num_nodes, F_node]: `nodes` of the observation."""
        return np.array([_vector(self._node(node), columns.NODE_COLUMNS) for node in self.engine.nodes], np.float32)

    def _node(self, node: Node) -> BidFeatures:
        coupling, gpus, jobs = self.coupling, node.spec.num_gpus, [share.job for share in node.shares]
        own_type, shared = coupling.node_types[node.id], coupling.rules.shared
        of_type = [other for other in self.engine.nodes if coupling.node_types[other.id] == own_type]
        after = {job.id: self.after(job).get(node.id, 0) for job in self.engine.active}
        now = {share.job.id: share.gpus for share in node.shares}
        return {
            "up": float(node.up),
            "gpus": _log_count(gpus),
            "free": node.free_gpus / gpus,
            "jobs": len(jobs) / gpus,
            "cpus_per_gpu": node.cpus / gpus / 16.0,
            "memory_per_gpu": node.memory / gpus / 256.0,
            "link": _log_count(node.spec.inter_node_bandwidth),
            "cpu_demand": coupling.demand(node, "cpus") / node.cpus if shared else 0.0,
            "memory_demand": coupling.demand(node, "memory") / node.memory if shared else 0.0,
            "link_load": coupling.load(node),
            "cpu_stage_demand": coupling.stages(node),
            "spanning": sum(len(job.shares) > 1 for job in jobs) / gpus,
            "type_throughput": self.type_throughput[own_type],
            "type_gpus": self.type_gpus[own_type] / self.engine.cluster.num_gpus,
            "type_free": sum(other.free_gpus for other in of_type) / self.type_gpus[own_type],
            "proposed_free": (node.capacity - sum(after.values())) / gpus,
            "proposed_change": sum(abs(here - now.get(job, 0)) for job, here in after.items()) / gpus,
        }

    def pair_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """`pairs` float32[num_nodes, num_pairs, F_pair] and `pair_jobs` int32[num_nodes, num_pairs]."""
        spec = self.spec
        features = np.zeros((spec.num_nodes, spec.num_pairs, len(columns.PAIR_COLUMNS)), np.float32)
        jobs = np.full((spec.num_nodes, spec.num_pairs), -1, np.int32)
        for node in self.engine.nodes:
            seen = dict(enumerate(share.job for share in node.shares))
            for row, job in enumerate(self.listed[: spec.num_candidates]):
                if job is not None and node.id not in self.coupling.held(job):
                    seen[spec.num_slots + row] = job
            for pair, job in seen.items():
                jobs[node.id, pair] = self.listed.index(job)
                features[node.id, pair] = _vector(self._pair(job, node), columns.PAIR_COLUMNS)
        return features, jobs

    def _pair(self, job: Job, node: Node) -> BidFeatures:
        coupling, size, gpus = self.coupling, self.coupling.size(job), node.spec.num_gpus
        held = coupling.held(job).get(node.id, 0)
        here, free = held or min(size, gpus), node.free_gpus
        cost = 0.0
        if not held and self.knows_work:
            delay = job.restart_delay if job.service_at(self.engine.time) > 0 else job.start_delay
            cost = _delay_share(delay, self._remaining_time(job))
        return {
            "present": 1.0,
            "holds": float(held > 0),
            "gpus": _log_count(held),
            "proposed_gpus": _log_count(self.after(job).get(node.id, 0)),
            "throughput": coupling.relative(job, coupling.node_types[node.id]),
            "fit": min((free + held) / size, 1.0),
            "room": (free + held - here) / gpus,
            "spans": float(len(job.shares) > 1 or size > gpus),
            "move_cost": cost,
            **coupling.effects(job, node, here),
        }

    def cluster_row(self) -> np.ndarray:
        """float32[F_cluster]: `cluster` of the observation."""
        engine, total = self.engine, self.engine.cluster.num_gpus
        waiting = [job for job in self.jobs if not job.shares]
        backlog = 0.0
        for job in self.jobs if self.knows_work else []:
            backlog += self._remaining_time(job) * job.spec.num_gpus
        row = {
            "waiting": math.log1p(len(self._waiting())) / 5.0,
            "running": math.log1p(len(engine.running())) / 5.0,
            "free": sum(node.idle_gpus for node in engine.nodes) / total,
            "down": 1.0 - sum(node.capacity for node in engine.nodes) / total,
            "nodes": _log_count(len(engine.nodes)),
            "gpus": _log_count(total),
            "waiting_gpus": sum(job.spec.num_gpus for job in waiting) / total,
            "backlog": _log_minutes(backlog / total),
            "changed": sum(job.id in self.proposed for job in self.jobs) / max(len(engine.active), 1),
            "shares_cpu_memory": float(self.coupling.rules.shared),
            "contention": float(self.coupling.mode != "off"),
            "worst_case": float(self.coupling.mode == "worst_case"),
            "knows_work": float(self.knows_work),
        }
        return np.array(_vector(row, columns.CLUSTER_COLUMNS), np.float32)
