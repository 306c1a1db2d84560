"""Elastic scaling by dynamic programming, which chooses GPUs and batch sizes of all jobs at once."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from baselines.elastic_dp.optimizer import best_shares
from baselines.elastic_dp.placing import held_by, place_over_types, place_shares
from baselines.elastic_dp.types import TypeCapacity
from baselines.parts.grants import Grant
from baselines.parts.scalability import BATCH_RULES, AnalysedJobs, Analyser, BatchRule
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, IntArray, JobId, MurmurationError, NodeId, Seconds


class ElasticDp:
    """The autoscaler of Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020.

    Each decision considers the running jobs and those submitted since. Jobs are admitted in order of submission as
    long as the least sizes of all fit. Then GPUs are shared out so that the sum of scaling factors T_j(b*_j(k), k) is
    largest (`optimizer`), each job at its best batch size for that many GPUs (`baselines.parts.scalability`). A job
    whose share changed is restarted with it, whatever that costs; remaining work is ignored. With a rule other than
    "best" the same program scales GPUs at a fixed batch size: the paper's baseline.

    A reconstruction from the paper's abstract and first page, the patent of the same authors (US 11,586,475) and Voda,
    which contains an independent reconstruction (its "FfDL optimizer"). Not public are the interval, whether rejected
    jobs are dropped or wait, the order of those that wait, and the batch size of the baseline. Additions to the paper,
    so that it runs in this world:
    - Order, ours: a job for which there is no room is passed by later ones that fit, but only until it has waited for
      `patience`. From then on GPUs that become free are kept for it, so no job starves.
    - A job's GPUs are of one type. Running jobs keep theirs. A new job goes to the type where an equal share of the
      GPUs is worth most to it, and a running job moves to a type that is worth `move_gain` times as much. Then each
      type is shared out separately.
    - GPUs of a type are one pool to the program. A share that does not fit on few nodes is spread over more nodes or
      made smaller, whichever is faster.
    - A gang larger than any one type runs on several, at its least possible size, when no other job runs before it.
    - A job that a failed node stopped waits and is never dropped.

    In the paper every sample counts alike at every batch size of the range, as in scenarios with
    `statistical_efficiency="every_sample"`. In others, the scaling factors are ratios of goodput, and a fixed batch
    size gives way to the usual one where it is not offered.

    Schedulers that leave batch sizes to the world run at usual ones. In a comparison with them a part of this
    scheduler's gain is due to batch sizes; with batch "usual" it is due to the GPUs alone.

    Args:
        batch: "best" chooses a batch size for each number of GPUs; "least", "usual" and "most" fix it for the whole
            life of a job, see `baselines.parts.scalability.Analyser`.
        overload: what happens to a job for which there is no room. With "queue" it waits. "drop" rejects it
            for good, so it stays unfinished (`counters["dropped"]`).
        interval: least seconds from one decision to the next; in between no allocation changes. The interval gets
            longer if rounds (`scenario.rounds.interval`) are less frequent. 0 decides at every round.
        measured_only: whether a GPU takes at most as many samples as were measured on one.
        move_gain: factor by which another GPU type must be worth more to a running job.
        patience: seconds for which a waiting job may be passed. With 0, as in the reproductions of the paper, the order
            of submission is strict.

    Attributes:
        counters: decisions taken; decisions in which the bound proved all shares without the program; jobs dropped.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(
        self,
        batch: BatchRule = "best",
        overload: Literal["queue", "drop"] = "queue",
        interval: Seconds = 0.0,
        measured_only: bool = True,
        move_gain: float = 1.5,
        patience: Seconds = 3600.0,
    ) -> None:
        if batch not in BATCH_RULES:
            raise MurmurationError(f"ElasticDp: batch is {batch!r}; it must be one of {', '.join(BATCH_RULES)}")
        if overload not in ("queue", "drop"):
            raise MurmurationError(f"ElasticDp: overload is {overload!r}; it must be queue or drop")
        if not (interval >= 0 and math.isfinite(interval)):
            raise MurmurationError(f"ElasticDp: interval is {interval} s; it must be finite and not negative")
        if not (move_gain >= 1 and math.isfinite(move_gain)):
            raise MurmurationError(f"ElasticDp: move_gain is {move_gain}; it must be finite and at least 1")
        if not patience >= 0:
            raise MurmurationError(f"ElasticDp: patience is {patience} s; it must not be negative (.inf: no limit)")
        self.analyser = Analyser(batch, measured_only)
        self.overload = overload
        self.interval = interval
        self.move_gain = move_gain
        self.patience = patience
        self.counters: dict[str, int] = {}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self.counters = {"decisions": 0, "proved": 0, "dropped": 0}
        self._analysed = AnalysedJobs(self.analyser, cluster)
        self._dropped: set[JobId] = set()
        self._next = -math.inf  # no decision yet
        self._settled: tuple[bytes, ...] = ()  # the state after the last decision

    def schedule(self, view: ClusterView) -> Allocation:
        """Choose new shares for all jobs if the state has changed and the interval is over; else change nothing."""
        allocation = view.allocation(keep_running=True)
        waiting = np.array([job for job in view.queued.tolist() if job not in self._dropped], dtype=np.int64)
        running = np.sort(view.running)
        idle = not waiting.size and not running.size
        unchanged = bool(running.size) and self._settled == _world(view, running, waiting)
        if view.time < self._next or idle or unchanged:
            return allocation
        self._next = view.time + self.interval
        self.counters["decisions"] += 1
        self._analysed.look_up(view)
        held = {job: grant for job in running.tolist() if (grant := held_by(view, job))}
        room = self._admitted(view, allocation, running.tolist(), held)
        self._admit_waiting(view, allocation, room, waiting.tolist())
        room.rebalance(held, self.move_gain)
        place_shares(view, allocation, self._analysed, self._shares(room), held)
        left = np.array([job for job in waiting.tolist() if not allocation.placement(job)], dtype=np.int64)
        self._settled = _world(view, np.sort(np.array(list(allocation.jobs()), dtype=np.int64)), left)
        return allocation

    def _admitted(
        self, view: ClusterView, allocation: Allocation, running: Sequence[JobId], held: Mapping[JobId, Grant]
    ) -> TypeCapacity:
        """Admit running jobs to the room by GPU type; stop those for which the GPUs no longer suffice."""
        cluster = view.cluster
        room = TypeCapacity(self._analysed, by_type(cluster, view.capacity))
        for job in running:
            if job not in held:  # over several types: it continues unchanged
                room.take(by_type(cluster, _on_nodes(cluster, view.placement(job).gpus)))
        for job in running:
            if job in held and not room.admit(job, held[job].gpu_type):
                allocation.stop(job)
        return room

    def _admit_waiting(
        self, view: ClusterView, allocation: Allocation, room: TypeCapacity, waiting: Sequence[JobId]
    ) -> None:
        """Admit jobs in order of submission; those without room wait or are dropped, and hold up others in the end."""
        for job in waiting:
            if room.admit(job):
                continue
            if not room.gpu_types and not room.of_one_type(job) and place_over_types(view, allocation, job):
                placement = allocation.placement(job)
                assert placement is not None
                room.take(by_type(view.cluster, _on_nodes(view.cluster, placement.gpus)))
            elif self.overload == "queue":
                if view.time - view.submit_time[job] >= self.patience:
                    return
            elif not view.attained_service(np.array([job]))[0]:
                self._dropped.add(job)
                self.counters["dropped"] += 1

    def _shares(self, room: TypeCapacity) -> dict[JobId, Grant]:
        """Share out each type's GPUs among the jobs on it."""
        grants: dict[JobId, Grant] = {}
        proved = True
        for gpu_type, capacity in enumerate(room.capacity):
            jobs = np.array(sorted(job for job, its in room.gpu_types.items() if its == gpu_type), dtype=np.int64)
            if jobs.size:
                shares = best_shares(self._analysed.factors[self._analysed.table[jobs], gpu_type], capacity)
                proved &= shares.cells == 0
                grants |= {
                    job: Grant(gpu_type, size) for job, size in zip(jobs.tolist(), shares.sizes.tolist(), strict=True)
                }
        self.counters["proved"] += proved
        return grants


def by_type(cluster: ClusterSpec, gpus: IntArray) -> IntArray:
    """int64[num_gpu_types]: GPUs of each type, from GPUs of each node."""
    return np.bincount(cluster.node_types, gpus, len(cluster.gpu_types)).astype(np.int64)


def _on_nodes(cluster: ClusterSpec, gpus: Mapping[NodeId, int]) -> IntArray:
    """int64[num_nodes]: a placement's GPUs on every node."""
    nodes = np.zeros(cluster.num_nodes, np.int64)
    nodes[list(gpus)] = list(gpus.values())
    return nodes


def _world(view: ClusterView, running: IntArray, waiting: IntArray) -> tuple[bytes, ...]:
    """Return what a decision depends on: equal states get equal shares."""
    return running.tobytes(), waiting.tobytes(), view.capacity.tobytes()
