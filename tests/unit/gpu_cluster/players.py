"""Small negotiations choice by choice, and players that choose at random."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.gpu_cluster import DecisionRules, GpuClusterBatch, GpuClusterEnv, Reward
from envs.performance import IdealModel, PerformanceModel
from envs.simulation import Scenario, Setup
from envs.types import ClusterSpec, IntArray, JobId, JobSpec, NodeId
from envs.workloads import Workload
from envs.workloads.source import check_split
from tests.unit.simulation.plays import held

FREE_OF_CHARGE = Scenario(restart_delay=0.0)
PATIENT = Scenario(restart_delay=0.0, horizon=1e6)  # no horizon that follows from the jobs' own lengths


class Fixed:
    """A source that plays given workloads: one of them at random, or all of them."""

    name = "fixed"

    def __init__(self, *workloads: Workload) -> None:
        self.workloads = workloads
        self.models = tuple(dict.fromkeys(model for workload in workloads for model in workload.models))
        self.num_jobs = max(len(workload) for workload in workloads)

    def episode(self, rng: np.random.Generator, split: str = "train") -> Workload:
        """One of them."""
        check_split(self.name, split, ("train",))
        return self.workloads[int(rng.integers(len(self.workloads)))]

    def evaluation(self, split: str | None = None) -> tuple[Workload, ...]:
        """All of them."""
        return self.workloads


def table_top(
    cluster: ClusterSpec,
    workload: Workload,
    rules: DecisionRules | None = None,
    scenario: Scenario = FREE_OF_CHARGE,
    performance: PerformanceModel | None = None,
    reward: Reward | None = None,
) -> GpuClusterBatch:
    """One logged episode at its first decision."""
    batch = GpuClusterBatch(
        Setup(cluster, performance or IdealModel(), scenario),
        workload.models,
        len(workload),
        rules=rules,
        reward=reward,
        logging=True,
    )
    batch.load(0, workload, np.random.default_rng(0))
    return batch


def jobs_like(*rows: tuple[float, int, float] | tuple[float, int, float, int, int]) -> Workload:
    """Jobs from (submit time, GPUs, samples) or (submit time, GPUs, samples, least, most GPUs)."""
    specs = []
    for i, (submit, gpus, work, *elastic) in enumerate(rows):
        least, most = elastic or (0, 0)
        specs.append(JobSpec(i, submit, gpus, work, "any", min_gpus=int(least), max_gpus=int(most)))
    return Workload.of(specs)


Choice = tuple[str, JobId, int]  # ("claim" or "set", job, GPUs)


def joint(batch: GpuClusterBatch, choices: Mapping[NodeId, Choice]) -> IntArray:
    """Joint action int64[1, num_nodes] by the names of jobs; nodes left out pass."""
    actions = np.zeros((1, batch.spec.num_nodes), np.int64)
    for node, (action, job, gpus) in choices.items():
        if action == "claim":
            choice = batch.negotiation.arrays.heads[0].tolist().index(job)
        else:
            choice = batch.spec.num_candidates + slots(batch, node).index(job)
        actions[0, node] = batch.spec.action(choice, gpus)
    return actions


def act(batch: GpuClusterBatch, choices: Mapping[NodeId, Choice] | None = None) -> float:
    """Take a joint decision that the mask allows (but for passing while idle); return the reward."""
    actions = joint(batch, choices or {})
    legal = batch.legal(actions[0])
    assert legal[actions[0] > 0].all(), f"masked out: {choices}"
    return float(batch.step(actions)[0][0])


def slots(batch: GpuClusterBatch, node: NodeId) -> list[JobId]:
    """Jobs in the plan on a node, as its slots show them."""
    jobs: list[JobId] = []
    share = int(batch.state.nodes[0, node].first_share)
    while share >= 0:
        jobs.append(int(batch.state.shares[0, share].job))
        share = int(batch.state.shares[0, share].next_of_node)
    return jobs


def amounts(batch: GpuClusterBatch, node: NodeId, action: str, job: JobId) -> list[int]:
    """GPUs that the mask lets a node set or claim for a job; empty if the job is not shown."""
    spec, mask = batch.spec, batch.observation["mask"][0, node]
    shown = batch.negotiation.arrays.heads[0].tolist() if action == "claim" else slots(batch, node)
    if job not in shown:
        return []
    choice = shown.index(job) + (0 if action == "claim" else spec.num_candidates)
    return [gpus for gpus in range(spec.node_gpus + 1) if mask[spec.action(choice, gpus)]]


def plan(batch: GpuClusterBatch) -> dict[JobId, dict[NodeId, int]]:
    """GPUs by job and node, in the present plan."""
    jobs = {job: held(batch.state, job) for job in range(batch.state.jobs.shape[1])}
    return {job: gpus for job, gpus in jobs.items() if gpus}


def chance(mask: npt.NDArray[Any], rng: np.random.Generator, passing: float = 0.8) -> IntArray:
    """A legal action for each row of `mask` [..., num_actions]: nothing with this probability if it may, else any."""
    flat = mask.reshape(-1, mask.shape[-1]) > 0
    actions = np.zeros(len(flat), np.int64)
    for row, legal in enumerate(flat):
        options = np.flatnonzero(legal)
        if not (legal[0] and rng.random() < passing):
            actions[row] = rng.choice(options)
    return actions.reshape(mask.shape[:-1])


def play_env(
    env: GpuClusterEnv, seed: int, workload: Workload | None = None, most_steps: int = 5000
) -> tuple[list[dict[str, dict[str, npt.NDArray[np.generic]]]], list[float], list[dict[str, Any]]]:
    """Play one episode at random: observations, rewards and infos of every step, the first observation included."""
    rng = np.random.default_rng(seed)
    observations, infos = env.reset(seed=seed, options={"workload": workload} if workload else None)
    seen, paid, told = [observations], [], [infos["node_0"]]
    while env.agents:
        actions = {agent: int(chance(seen[-1][agent]["action_mask"], rng)) for agent in env.agents}
        observations, rewards, _, _, infos = env.step(actions)
        seen.append(observations)
        paid.append(rewards["node_0"])
        told.append(infos["node_0"])
        assert len(paid) < most_steps, "the episode does not end"
    return seen, paid, told


def equal_observations(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether nested dicts of arrays are equal to the bit."""
    if one.keys() != other.keys():
        return False
    for key, value in one.items():
        if isinstance(value, Mapping):
            if not equal_observations(value, other[key]):  # type: ignore[arg-type]
                return False
        elif not np.array_equal(value, other[key]):  # type: ignore[arg-type]
            return False
    return True


def bursts(seed: int, num_jobs: int = 12, most_gpus: int = 6, models: Sequence[str] = ("any",)) -> Workload:
    """A drawn workload: jobs a few at a time, half of them elastic."""
    rng = np.random.default_rng(seed)
    specs = []
    for i in range(num_jobs):
        gpus = int(rng.integers(1, most_gpus + 1))
        elastic = bool(rng.integers(2))
        specs.append(
            JobSpec(
                i,
                float(rng.integers(0, 60)),
                gpus,
                float(rng.uniform(5, 120)),
                str(rng.choice(models)),
                min_gpus=int(rng.integers(1, gpus + 1)) if elastic else 0,
                max_gpus=int(rng.integers(gpus, most_gpus + 1)) if elastic else 0,
            )
        )
    return Workload.of(specs)
