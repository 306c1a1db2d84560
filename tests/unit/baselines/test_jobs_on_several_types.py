"""Starling beside jobs that another scheduler has put on several GPU types."""

import numpy as np
import pytest

from baselines import Starling
from envs.performance import Contention, default_model
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import Allocation, ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload

CLUSTER = ClusterSpec(tuple(NodeSpec(gpu_type, 4, cpu_cores=12.0, memory=250.0) for gpu_type in ("V100", "P100") * 2))
SHARED = Scenario(cpu_memory="shared", contention=Contention("measured"), batch_sizes="usual")


class InTurn(Scheduler):
    """In every other round, all that runs is a job on one GPU each of two types; in the others Starling decides."""

    name = "in_turn"

    def __init__(self) -> None:
        self.starling, self.rounds = Starling(), 0

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        self.starling.reset(cluster, rng)
        self.rounds = 0

    def schedule(self, view: ClusterView) -> Allocation:
        self.rounds += 1
        present = np.concatenate([view.running, view.queued])
        jobs = present[(view.min_gpus[present] <= 2) & (view.max_gpus[present] >= 2)].tolist()
        if self.rounds % 2 or not jobs:
            return self.starling.schedule(view)
        allocation = view.allocation()
        allocation.place(jobs[0], {2: 1, 3: 1} if self.rounds % 4 else {0: 1, 1: 1})
        return allocation


def elastic_jobs(rng: np.random.Generator) -> Workload:
    """40 jobs that arrive in two hours."""
    rows = []
    for i, submit in enumerate(np.sort(rng.uniform(0, 7200, 40)).tolist()):
        gpus = int(rng.choice([1, 2, 4, 8], p=[0.1, 0.3, 0.3, 0.3]))
        model = str(rng.choice(["resnet50", "alexnet", "bert", "gnmt"]))
        work = float(rng.uniform(2e4, 2e6))
        rows.append(JobSpec(i, submit, gpus, work, model, min_gpus=(gpus + 1) // 2, max_gpus=2 * gpus))
    return Workload.of(rows)


@pytest.mark.parametrize("seed", [0, 1, 15, 27, 57])
def test_starling_plans_around_a_job_on_several_types(seed):
    """Its candidates must fit: a job that stays occupies GPUs of all its types."""
    workload = elastic_jobs(np.random.default_rng(seed))
    result = run_episode(InTurn(), Simulator(workload, Setup(CLUSTER, default_model(), SHARED)))
    assert result.num_unfinished == 0
