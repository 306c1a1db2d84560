"""Scripted runs and random runs on either engine."""

from collections.abc import Mapping

import numpy as np

from envs.performance import PerformanceModel
from envs.scheduling import ClusterView
from envs.simulation import (
    EventKind,
    Rounds,
    RunResult,
    Scenario,
    Setup,
    SimulatedEpisode,
    Simulator,
    State,
    run_episode,
)
from envs.simulation.reference import ReferenceSimulator
from envs.types import Allocation, ClusterSpec, IntArray, JobId, JobSpec, NodeId, NodeSpec, Placement, Seconds
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.simulation.bench import Bench

Engine = SimulatedEpisode | ReferenceSimulator
Build = type[Simulator] | type[ReferenceSimulator]  # value of the fixture `engine`
Act = Mapping[JobId, Placement | Mapping[NodeId, int] | None]  # GPUs by node, or a placement; None stops the job
Acts = Mapping[Seconds, Act]


class Script:
    """A scheduler that applies the act given for the time of a round, and otherwise changes nothing."""

    def __init__(self, acts: Acts, decisions: Mapping[Seconds, Seconds] | None = None) -> None:
        self.acts = acts
        self.decisions = decisions or {}  # the instant of the next decision that a round names
        self.rounds: list[Seconds] = []  # times of its rounds

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Clear the times of rounds."""
        self.rounds = []

    def schedule(self, view: ClusterView) -> Allocation:
        """Apply the act of this round: stops first, so that other jobs can take the GPUs."""
        self.rounds.append(view.time)
        allocation = view.allocation(keep_running=True)
        allocation.next_decision = self.decisions.get(view.time, np.inf)
        act = self.acts.get(view.time, {})
        for job in act:
            allocation.stop(job)
        for job, placement in act.items():
            if placement:
                allocation.place(job, placement)
        return allocation


class Play:
    """One scripted run.

    Attributes:
        engine: the engine after the run.
        asked: the times of all rounds.
        result: the result of the run, with its log and records.
    """

    def __init__(
        self,
        build: Build,
        acts: Acts,
        workload: Workload,
        cluster: ClusterSpec,
        scenario: Scenario | None = None,
        performance: PerformanceModel | None = None,
        *,
        seed: int = 0,
        decisions: Mapping[Seconds, Seconds] | None = None,
    ) -> None:
        script = Script(acts, decisions)
        self.engine: Engine = build(workload, Setup(cluster, performance or Bench(), scenario or Scenario()), seed)
        self.result = run_episode(script, self.engine, "script")
        self.asked = script.rounds
        self.log, self.records = self.result.log, self.result.records

    @property
    def told(self) -> list[tuple[Seconds, str, JobId]]:
        """The log as (time, kind, job)."""
        return [(float(row["time"]), EventKind(int(row["kind"])).name, int(row["job"])) for row in self.log.events]

    @property
    def finish(self) -> list[Seconds]:
        """Completion time of each job; NaN if it did not finish."""
        finish: list[Seconds] = self.records["finish_time"].tolist()
        return finish

    def placement(self, kind: str, job: JobId) -> Placement:
        """Placement of a job after its last event of a kind."""
        rows = [row for row, (_, name, who) in enumerate(self.told) if (name, who) == (kind, job)]
        return self.log.placement(rows[-1])


def at_five(build: Build) -> Engine:
    """Nodes of 4 plain, 4 plain and 2 slow GPUs. Job 0 (4 GPUs) runs on node 0, 1 (2 to 4) waits, 2 arrives at 9."""
    specs = [
        JobSpec(0, 0, 4, 40, "vgg16"),
        JobSpec(1, 5, 2, 40, "bert", min_gpus=2, max_gpus=4),
        JobSpec(2, 9, 1, 1, "vgg16"),
    ]
    cluster = ClusterSpec((NodeSpec("plain", 4), NodeSpec("plain", 4), NodeSpec("slow", 2)))
    engine: Engine = build(Workload.of(specs), Setup(cluster, Bench(), Scenario(restart_delay=0.0)))
    rounds = engine.rounds()
    allocation = next(rounds).allocation()
    allocation.place(0, {0: 4})
    engine.apply(allocation)
    assert next(rounds).time == 5
    return engine


def words(build: Build, compiled: str, reference: str) -> str:
    """Select the message of an engine: both report the same fault, in different words."""
    return compiled if build is Simulator else reference


class Chance:
    """A scheduler that stops, starts and resizes jobs at random, on any mix of nodes on which they run."""

    def __init__(self, disturb: float = 0.3) -> None:
        self.disturb = disturb  # probability that a running job is stopped in a round

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on."""
        self.rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """Return a random allocation that fits."""
        allocation = view.allocation(keep_running=True)
        for job in view.running.tolist():
            if self.rng.random() < self.disturb:
                allocation.stop(job)
        for job in self.rng.permutation(np.concatenate([view.queued, view.running])).tolist():
            if allocation.placement(job) is None and self.rng.random() < 0.8:
                self._scatter(view, allocation, job)
        return allocation

    def _scatter(self, view: ClusterView, allocation: Allocation, job: JobId) -> None:
        able = np.flatnonzero(view.throughputs(job).max(axis=1) > 0)
        nodes = np.flatnonzero((allocation.free_gpus > 0) & np.isin(allocation.cluster.node_types, able))
        room = int(allocation.free_gpus[nodes].sum())
        least, most = int(view.min_gpus[job]), min(int(view.max_gpus[job]), room)
        if least > most:
            return
        left = int(self.rng.integers(least, most + 1))
        placed: dict[int, int] = {}
        for node in self.rng.permutation(nodes).tolist():
            placed[node] = min(left, int(allocation.free_gpus[node]))
            left -= placed[node]
            if left == 0:
                break
        allocation.place(job, placed)


def cluster_of(*node_gpus: int, gpu_type: str = "plain", cores: float = 32.0, memory: float = 256.0) -> ClusterSpec:
    """One node of one GPU type for each number of GPUs."""
    return ClusterSpec(tuple(NodeSpec(gpu_type, gpus, cores, memory) for gpus in node_gpus), "small")


def jobs_of(*rows: tuple[Seconds, int, float], model: str = "any", elastic: tuple[int, int] | None = None) -> Workload:
    """Jobs from (submit time, GPUs, samples)."""
    least, most = elastic or (0, 0)
    return Workload.of([JobSpec(i, *row, model, min_gpus=least, max_gpus=most) for i, row in enumerate(rows)])


def burst_run(build: Build, rounds: Rounds | None = None, seed: int = 1) -> RunResult:
    """Run forty jobs, five per second, under a random scheduler on unequal nodes."""
    workload = jobs_of(*((float(i // 5), 1 + i % 3, 20.0 + i) for i in range(40)), elastic=(1, 6))
    scenario = Scenario(restart_delay=0.5, rounds=rounds or Rounds())
    return run_episode(Chance(), build(workload, Setup(HETEROGENEOUS, Curved(), scenario), seed))


def pool_size(state: State) -> int:
    """Unused share records of episode 0, counted along their lists."""
    count = 0
    for node in state.nodes[0]:
        share = int(node.free_share)
        while share >= 0:
            count += 1
            assert count <= state.shares.shape[1], "the list of unused shares has a cycle"
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
