"""Reference implementation of `envs.gpu_cluster.effects` in plain Python."""

from collections.abc import Mapping, Sequence

import numpy as np

from envs.episodes.reference import Coupling
from envs.gpu_cluster.columns import CORES_PER_GPU, EFFECT_LIMIT, GIGABYTES_PER_GPU
from envs.gpu_cluster.reference.plan import JointPlan
from envs.gpu_cluster.spec import EnvSpec
from envs.simulation.reference import Job, JobStatus, Node
from envs.types import JobId, NodeId, Seconds


class PlannedCoupling(Coupling):
    """What jobs do to each other under the plan of a round."""

    def __init__(self, plan: JointPlan) -> None:
        super().__init__(plan.simulator)
        self.plan = plan

    def held(self, job: Job) -> Mapping[NodeId, int]:
        """GPUs of a job by node."""
        return self.plan.held(job.id)

    def jobs_on(self, node: Node) -> list[tuple[Job, int]]:
        """Return the jobs on a node, ascending, and their GPUs there."""
        return [(self.plan.job(job), gpus) for job, gpus in sorted(self.plan.on_node[node.id].items())]

    def traffic(self, job: Job, nodes: int) -> float:
        """GB/s between nodes: at present, or on so many nodes if the plan changes the job."""
        unchanged = job.status is JobStatus.RUNNING and job.id not in self.plan.changed
        return job.traffic if unchanged and job.traffic > 0 else self.spread_traffic(job, nodes)

    def sends(self, job: Job) -> float:
        """GB/s of a job that count towards the load of its nodes."""
        return self.traffic(job, len(self.held(job)))

    def nodes_with(self, job: Job, node: Node) -> int:
        """Nodes of the job if it is on a node: one more for a job on others."""
        held = self.held(job)
        return len(held) + 1 if held and node.id not in held else super().nodes_with(job, node)


class ReferenceEffects:
    """Rows of `effects`.

    Args:
        plan: the plan of the round.
        spec: sizes of the observation.
    """

    def __init__(self, plan: JointPlan, spec: EnvSpec) -> None:
        self.plan, self.spec, self.coupling = plan, spec, PlannedCoupling(plan)
        self.knows_work = plan.simulator.scenario.information.work != "none"

    def rows(self, heads: Sequence[JobId]) -> np.ndarray:
        """float32[num_nodes, num_choices, F_effect]."""
        rows = np.zeros((self.spec.num_nodes, self.spec.num_choices, self.spec.effect_features), np.float32)
        for node in self.plan.simulator.nodes:
            here = sorted(self.plan.on_node[node.id])
            choices = {choice: job for choice, job in enumerate(heads) if job not in here}
            choices |= {self.spec.num_candidates + slot: job for slot, job in enumerate(here)}
            for choice, job in choices.items():
                row = self._row(self.plan.job(job), node)
                for column, name in enumerate(self.spec.effect_columns):
                    value = float(np.float32(row[name]))
                    rows[node.id, choice, column] = min(max(value, -EFFECT_LIMIT), EFFECT_LIMIT)
        return np.nan_to_num(rows)

    def _row(self, job: Job, node: Node) -> dict[str, float]:
        coupling, size = self.coupling, self.coupling.size(job)
        held, own_type = coupling.held(job).get(node.id, 0), coupling.node_types[node.id]
        gpus, running = held or min(size, node.spec.num_gpus), job.status is JobStatus.RUNNING
        cpus, memory = self.plan.amounts_on(job.id, node.id) if held and coupling.rules.shared else (0.0, 0.0)
        return {
            "present": 1.0,
            "throughput": coupling.relative(job, own_type),
            "fit": min((self.plan.free(node.id) + held) / size, 1.0),
            **coupling.effects(job, node, gpus),
            "move_cost": self._change_cost(job),
            "contention": 1.0 - job.throughput / job.alone if running and job.alone > 0 else 0.0,
            "lacks_cpus": 1.0 - job.cpu_factor if running else 0.0,
            "lacks_memory": 1.0 - job.memory_factor if running else 0.0,
            "cpus_wanted": coupling.wanted(job, own_type, gpus, "cpus") / gpus / CORES_PER_GPU,
            "memory_wanted": coupling.wanted(job, own_type, gpus, "memory") / gpus / GIGABYTES_PER_GPU,
            "cpus": cpus / gpus / CORES_PER_GPU,
            "memory": memory / gpus / GIGABYTES_PER_GPU,
        }

    def _change_cost(self, job: Job) -> float:
        """Delay of a start or change / (delay + remaining time)."""
        if not self.knows_work or job.id in self.plan.changed:
            return 0.0
        now = self.plan.simulator.time
        delay = job.restart_delay if job.service_at(now) > 0 else job.start_delay
        return delay / (delay + self._remaining_time(job, now)) if delay > 0 else 0.0

    def _remaining_time(self, job: Job, now: Seconds) -> Seconds:
        reference = self.coupling.reference[job.model]
        throughput = reference[min(job.spec.num_gpus, len(reference) - 1)]
        return job.remaining_at(now) * job.estimate / throughput if throughput > 0 else 0.0
