"""Runs told act by act on either engine, and runs left to chance."""

from collections.abc import Mapping

import numpy as np

from envs.performance import PerformanceModel
from envs.scheduling import ClusterView
from envs.simulation import EventKind, Rounds, RunResult, Scenario, Simulator, State, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import Allocation, ClusterSpec, IntArray, JobId, JobSpec, NodeId, NodeSpec, Placement, Seconds
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.simulation.bench import Bench

Engine = Simulator | ReferenceSimulator
Build = type[Simulator] | type[ReferenceSimulator]  # what the fixture `engine` gives
Act = Mapping[JobId, Placement | Mapping[NodeId, int] | None]  # by node if GPUs are all; None stops the job
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
        for job, placement in act.items():
            if placement:
                wish.place(job, placement)
        return wish


class Play:
    """One run by script.

    Attributes:
        engine: at the end of the run.
        asked: when the script was asked.
        result: what the run left behind, with its log and its records.
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
    ) -> None:
        script = Script(acts)
        self.engine: Engine = build(workload, cluster, performance or Bench(), scenario, seed)
        self.result = run_episode(script, self.engine, "script")
        self.asked = script.rounds
        self.log, self.records = self.result.log, self.result.records

    @property
    def told(self) -> list[tuple[Seconds, str, JobId]]:
        """The log as (time, kind, job)."""
        return [(float(row["time"]), EventKind(int(row["kind"])).name, int(row["job"])) for row in self.log.events]

    @property
    def finish(self) -> list[Seconds]:
        """When each job came to its end; NaN if it did not."""
        finish: list[Seconds] = self.records["finish_time"].tolist()
        return finish

    def placement(self, kind: str, job: JobId) -> Placement:
        """The placement that the last event of a kind gave a job."""
        rows = [row for row, (_, name, who) in enumerate(self.told) if (name, who) == (kind, job)]
        return self.log.placement(rows[-1])


def at_five(build: Build) -> Engine:
    """Nodes of 4 plain, 4 plain and 2 slow GPUs. Job 0 (4 GPUs) runs on node 0, 1 (2 to 4) waits, 2 comes at 9."""
    specs = [
        JobSpec(0, 0, 4, 40, "vgg16"),
        JobSpec(1, 5, 2, 40, "bert", min_gpus=2, max_gpus=4),
        JobSpec(2, 9, 1, 1, "vgg16"),
    ]
    cluster = ClusterSpec((NodeSpec("plain", 4), NodeSpec("plain", 4), NodeSpec("slow", 2)))
    engine: Engine = build(Workload.of(specs), cluster, Bench(), Scenario(restart_delay=0.0))
    rounds = engine.rounds()
    wish = next(rounds).allocation()
    wish.place(0, {0: 4})
    engine.apply(wish)
    assert next(rounds).time == 5
    return engine


def words(build: Build, compiled: str, reference: str) -> str:
    """What an engine says: both name the same fault, each in its own words."""
    return compiled if build is Simulator else reference


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


def cluster_of(*node_gpus: int, kind: str = "plain", cores: float = 32.0, memory: float = 256.0) -> ClusterSpec:
    """Nodes of one type with so many GPUs."""
    return ClusterSpec(tuple(NodeSpec(kind, gpus, cores, memory) for gpus in node_gpus), "small")


def jobs_of(*rows: tuple[Seconds, int, float], model: str = "any", elastic: tuple[int, int] | None = None) -> Workload:
    """Jobs from (submit time, GPUs, samples)."""
    least, most = elastic or (0, 0)
    return Workload.of([JobSpec(i, *row, model, min_gpus=least, max_gpus=most) for i, row in enumerate(rows)])


def burst_run(build: Build, rounds: Rounds | None = None, seed: int = 1) -> RunResult:
    """Forty jobs, five at a time, pushed around at random on unequal nodes."""
    workload = jobs_of(*((float(i // 5), 1 + i % 3, 20.0 + i) for i in range(40)), elastic=(1, 6))
    scenario = Scenario(restart_delay=0.5, rounds=rounds or Rounds())
    return run_episode(Chance(), build(workload, HETEROGENEOUS, Curved(), scenario, seed))


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
