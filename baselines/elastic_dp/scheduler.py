"""Elastic scaling by dynamic programming: GPUs and batch sizes of all jobs at once."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from baselines.elastic_dp.optimizer import best_shares
from baselines.elastic_dp.placing import held_by, place, place_over_types
from baselines.elastic_dp.types import Grant, Room
from baselines.parts.scalability import BATCH_RULES, AnalysedJobs, Analyser, BatchRule
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, IntArray, JobId, MurmurationError, NodeId, Seconds


class ElasticDp:
    """The autoscaler of Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020.

    Each decision begins with the jobs that run and those that have come since. They are admitted in order of
    submission as long as the least sizes of all fit; then GPUs are shared out so that the sum of scaling factors
    T_j(b*_j(k), k) is largest (`optimizer`), each job at its best batch size for that many GPUs
    (`baselines.parts.scalability`). Jobs whose share changed are restarted with it, whatever that costs; how much work
    a job has left plays no part. With a rule other than "best" the same program scales GPUs at a fixed batch size: the
    paper's baseline.

    A reconstruction: read were the paper's abstract and first page, the patent of the same authors (US 11,586,475) and
    Voda, which contains an independent one (its "FfDL optimizer"). Neither the interval nor whether rejected jobs are
    dropped or wait is public, nor which batch size the baseline has. Beyond the paper, so that it runs in this world:
    - A job's GPUs are of one type. Running jobs keep theirs; a newcomer goes where an equal share of the GPUs is worth
      most to it, and a job moves where it is worth `move_gain` times as much. Then each type is shared out by itself.
    - GPUs of a type are one heap to the program. A share for which there is no room on few nodes is spread over more,
      or made smaller, whichever is faster.
    - A gang larger than any one type runs on several, at the least size it can have, once nobody runs before it.
    - What a failed node threw out waits and is never dropped.

    Schedulers that leave batch sizes to the world run at usual ones. Beside them a part of what this gains is due to
    the batch sizes; with batch "usual" it is due to the GPUs alone.

    Args:
        batch: "best" chooses a batch size for each number of GPUs; "least", "usual" and "most" fix it for good, see
            `baselines.parts.scalability.Analyser`.
        overload: what becomes of a job for which there is no room: in the "queue" it waits, and all behind it; "drop"
            gives it up at once and for ever, so it stays unfinished (`counters["dropped"]`).
        interval: seconds from one decision to the next at the least; in between jobs come and go and nothing else
            happens. Rounds at least as often (`scenario.rounds.interval`) keep it from being longer. 0 decides at
            every round.
        measured_only: whether a GPU takes no more samples than were measured on one.
        move_gain: factor by which another GPU type must be worth more to a running job.

    Attributes:
        counters: decisions taken; those in which the bound proved every share without the program; jobs dropped.
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
    ) -> None:
        if batch not in BATCH_RULES:
            raise MurmurationError(f"ElasticDp: batch is {batch!r}; it must be one of {', '.join(BATCH_RULES)}")
        if overload not in ("queue", "drop"):
            raise MurmurationError(f"ElasticDp: overload is {overload!r}; it must be queue or drop")
        if not (interval >= 0 and math.isfinite(interval)):
            raise MurmurationError(f"ElasticDp: interval is {interval} s; it must be finite and not negative")
        if not (move_gain >= 1 and math.isfinite(move_gain)):
            raise MurmurationError(f"ElasticDp: move_gain is {move_gain}; it must be finite and at least 1")
        self.analyser = Analyser(batch, measured_only)
        self.overload = overload
        self.interval = interval
        self.move_gain = move_gain
        self.counters: dict[str, int] = {}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self.counters = {"decisions": 0, "proved": 0, "dropped": 0}
        self._analysed = AnalysedJobs(self.analyser, cluster)
        self._dropped: set[JobId] = set()
        self._next = -math.inf  # no decision before
        self._settled: tuple[bytes, ...] = ()  # the world as the last decision left it

    def schedule(self, view: ClusterView) -> Allocation:
        """New shares for all jobs if anything has changed and the interval is over; else everything as it is."""
        wish = view.allocation(keep_running=True)
        waiting = np.array([job for job in view.queued.tolist() if job not in self._dropped], dtype=np.int64)
        running = np.sort(view.running)
        idle = not waiting.size and not running.size
        unchanged = bool(running.size) and self._settled == _world(view, running, waiting)
        if view.time < self._next or idle or unchanged:
            return wish
        self._next = view.time + self.interval
        self.counters["decisions"] += 1
        self._analysed.look_up(view)
        held = {job: grant for job in running.tolist() if (grant := held_by(view, job))}
        room = self._admitted(view, wish, running.tolist(), held)
        self._admit_waiting(view, wish, room, waiting.tolist())
        room.rebalance(held, self.move_gain)
        place(view, wish, self._analysed, self._shares(room), held)
        left = np.array([job for job in waiting.tolist() if not wish.placement(job)], dtype=np.int64)
        self._settled = _world(view, np.sort(np.array(list(wish.jobs()), dtype=np.int64)), left)
        return wish

    def _admitted(
        self, view: ClusterView, wish: Allocation, running: Sequence[JobId], held: Mapping[JobId, Grant]
    ) -> Room:
        """The room that running jobs leave, and they in it; those for which GPUs no longer suffice are stopped."""
        cluster = view.cluster
        room = Room(self._analysed, by_type(cluster, view.capacity))
        for job in running:
            if job not in held:  # over several types: it goes on as it is
                room.take(by_type(cluster, _on_nodes(cluster, view.placement(job).gpus)))
        for job in running:
            if job in held and not room.admit(job, held[job].gpu_type):
                wish.stop(job)
        return room

    def _admit_waiting(self, view: ClusterView, wish: Allocation, room: Room, waiting: Sequence[JobId]) -> None:
        """Admit jobs in order of submission while there is room; the others wait or are dropped."""
        for job in waiting:
            if room.admit(job):
                continue
            if not room.kinds and not room.of_one_type(job) and place_over_types(view, wish, job):
                placement = wish.placement(job)
                assert placement is not None
                room.take(by_type(view.cluster, _on_nodes(view.cluster, placement.gpus)))
            elif self.overload == "queue":
                return
            elif not view.attained_service(np.array([job]))[0]:
                self._dropped.add(job)
                self.counters["dropped"] += 1

    def _shares(self, room: Room) -> dict[JobId, Grant]:
        """Each type's GPUs shared out among the jobs on it."""
        grants: dict[JobId, Grant] = {}
        proved = True
        for kind, capacity in enumerate(room.capacity):
            jobs = np.array(sorted(job for job, its in room.kinds.items() if its == kind), dtype=np.int64)
            if jobs.size:
                shares = best_shares(self._analysed.factors[self._analysed.table[jobs], kind], capacity)
                proved &= shares.cells == 0
                grants |= {
                    job: Grant(kind, size) for job, size in zip(jobs.tolist(), shares.sizes.tolist(), strict=True)
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
    """What a decision depends on; equal worlds get equal shares."""
    return running.tobytes(), waiting.tobytes(), view.capacity.tobytes()
