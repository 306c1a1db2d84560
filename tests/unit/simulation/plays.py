"""Runs told act by act, and runs left to chance."""

from collections.abc import Mapping

import numpy as np

from envs.performance import IdealModel, PerformanceModel
from envs.scheduling import ClusterView
from envs.simulation import EventKind, RunResult, Scenario, Simulator, State, run_episode
from envs.types import Allocation, ClusterSpec, IntArray, JobId, JobSpec, NodeId, NodeSpec, Seconds
from envs.workloads import Workload

Act = Mapping[JobId, Mapping[NodeId, int] | None]  # GPUs by node; None stops the job
Acts = Mapping[Seconds, Act]


class Script:
    """Does what is written for the time of a round, and otherwise lets everything go on."""

    def __init__(self, acts: Acts) -> None:
        self.acts = acts
        self.rounds: list[Seconds] = []  # times at which it was asked

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin to note rounds."""
        self.rounds = []

    def schedule(self, view: ClusterView) -> Allocation:
        """The act of this round: stops first, so that others can have the GPUs."""
        self.rounds.append(view.time)
        wish = view.allocation(keep_running=True)
        act = self.acts.get(view.time, {})
        for job in act:
            wish.stop(job)
        for job, gpus in act.items():
            if gpus:
                wish.place(job, gpus)
        return wish


class Chance:
    """Stops, starts, resizes and scatters at random, on any mix of nodes on which the job runs."""

    def __init__(self, disturb: float = 0.3) -> None:
        self.disturb = disturb  # probability that a running job is touched in a round

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on."""
        self.rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """Something legal."""
        wish = view.allocation(keep_running=True)
        for job in view.running.tolist():
            if self.rng.random() < self.disturb:
                wish.stop(job)
        for job in self.rng.permutation(np.concatenate([view.queued, view.running])).tolist():
            if wish.placement(job) is None and self.rng.random() < 0.8:
                self._scatter(view, wish, job)
        return wish

    def _scatter(self, view: ClusterView, wish: Allocation, job: JobId) -> None:
        able = np.flatnonzero(view.speed(job).max(axis=1) > 0)
        nodes = np.flatnonzero((wish.free_gpus > 0) & np.isin(wish.cluster.node_types, able))
        room = int(wish.free_gpus[nodes].sum())
        least, most = int(view.min_gpus[job]), min(int(view.max_gpus[job]), room)
        if least > most:
            return
        left = int(self.rng.integers(least, most + 1))
        placed: dict[int, int] = {}
        for node in self.rng.permutation(nodes).tolist():
            placed[node] = min(left, int(wish.free_gpus[node]))
            left -= placed[node]
            if left == 0:
                break
        wish.place(job, placed)


def cluster_of(*node_gpus: int, kind: str = "plain") -> ClusterSpec:
    """Nodes of one type with so many GPUs."""
    return ClusterSpec(tuple(NodeSpec(kind, gpus) for gpus in node_gpus), "small")


def jobs_of(*rows: tuple[Seconds, int, float], elastic: tuple[int, int] | None = None) -> Workload:
    """Jobs from (submit time, GPUs, samples)."""
    least, most = elastic or (0, 0)
    return Workload.of([JobSpec(i, *row, "any", min_gpus=least, max_gpus=most) for i, row in enumerate(rows)])


def play(
    acts: Acts,
    workload: Workload,
    cluster: ClusterSpec,
    scenario: Scenario,
    performance: PerformanceModel | None = None,
) -> RunResult:
    """One run by script."""
    return run_episode(Script(acts), Simulator(workload, cluster, performance or IdealModel(), scenario), "script")


def told(result: RunResult) -> list[tuple[Seconds, str, JobId]]:
    """The log as (time, kind, job)."""
    return [(float(row["time"]), EventKind(int(row["kind"])).name, int(row["job"])) for row in result.log.events]


def pool_size(state: State) -> int:
    """Unused share records of episode 0, counted along their list."""
    count, share = 0, int(state.episode[0, 0].free_share)
    while share >= 0:
        count += 1
        assert count <= state.shares.shape[1], "the list of unused shares runs in a circle"
        share = int(state.shares[0, share].next_of_job)
    return count


def held(state: State, job: JobId) -> dict[NodeId, int]:
    """A job's GPUs by node along its list."""
    gpus: dict[NodeId, int] = {}
    share = int(state.jobs[0, job].first_share)
    while share >= 0:
        record = state.shares[0, share]
        assert record.job == job
        gpus[int(record.node)] = int(record.gpus)
        share = int(record.next_of_job)
    return gpus


def tenants_of(state: State, node: NodeId) -> dict[JobId, int]:
    """A node's jobs and their GPUs there along its list."""
    gpus: dict[JobId, int] = {}
    share = int(state.nodes[0, node].first_share)
    while share >= 0:
        record = state.shares[0, share]
        assert record.node == node
        gpus[int(record.job)] = int(record.gpus)
        share = int(record.next_of_node)
    return gpus


def running_jobs(state: State) -> IntArray:
    """Jobs in the heap, ascending."""
    jobs: IntArray = np.sort(state.heap["member"][0, : state.episode[0, 0].num_running])
    return jobs
