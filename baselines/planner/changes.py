"""Local changes of a candidate: move, swap, resize, evict, squeeze in, keep."""

from collections.abc import Callable

import numpy as np

from baselines.parts.priority import jobs_present
from baselines.parts.sizing import largest_fastest, not_slower, requested_size, throughputs
from baselines.planner.round_placements import RoundPlacements, largest_node, names_more
from envs.scheduling import ClusterView
from envs.types import FloatArray, JobId, NodeId
from envs.types.allocation import consolidated

ATTEMPTS = 20  # draws until a change is found


class LocalChanges:
    """Random small changes of a candidate for one round. They need not be good: rollouts judge them.

    - move: a job runs on one other node, or a waiting job starts there.
    - swap: two jobs exchange their GPUs; if one of them waits, the other one waits then.
    - resize: a job grows or shrinks on its largest node, into free GPUs.
    - evict: a job stops, and waiting jobs take its GPUs.
    - squeeze in: a job runs on a node where others shrink or stop for it, and find other GPUs if there are any.
    - keep: a job that the candidate changes stays as it is.

    Jobs whose placements name more than GPUs are not changed, since only their scheduler knows what fits other GPUs.

    Args:
        view: the round.
        present: what jobs hold now.
        candidate: the candidate from which the search begins.
    """

    def __init__(self, view: ClusterView, present: RoundPlacements, candidate: RoundPlacements) -> None:
        self.cluster, self.present = view.cluster, present
        self.types = view.cluster.node_types.tolist()
        self.up = np.flatnonzero(view.capacity > 0).tolist()
        fixed = any(names_more(placement) for placement in candidate.placements.values())
        jobs = jobs_present(view)
        self.jobs: list[JobId] = [
            job
            for job in jobs.tolist()
            if not names_more(candidate.placements.get(job))
            and not names_more(present.placements.get(job))
            and not (fixed and job not in candidate.placements)
        ]
        self.least = {job: int(view.min_gpus[job]) for job in self.jobs}
        self.most = {job: int(view.max_gpus[job]) for job in self.jobs}
        self.wanted = {job: requested_size(view, job) for job in self.jobs}
        self.throughputs: dict[JobId, FloatArray] = {job: throughputs(view, job) for job in self.jobs}
        self.useful: dict[JobId, FloatArray] = {job: not_slower(table) for job, table in self.throughputs.items()}
        left = view.remaining_time(jobs)
        order = np.argsort(np.where(np.isnan(left), view.submit_time[jobs], left), kind="stable")
        self.shortest_first = [job for job in jobs[order].tolist() if job in self.throughputs]
        self._moves_to_try: tuple[
            Callable[[RoundPlacements, JobId, np.random.Generator], RoundPlacements | None], ...
        ] = (
            self._move,
            self._swap,
            self._resize,
            self._evict,
            self._squeeze_in,
            self._keep,
        )

    def draw(self, candidate: RoundPlacements, rng: np.random.Generator) -> RoundPlacements | None:
        """Return a changed candidate in which some job runs; None if none is found."""
        if not self.jobs or not self.up:
            return None
        for _ in range(ATTEMPTS):
            job = self.jobs[int(rng.integers(len(self.jobs)))]
            change = self._moves_to_try[int(rng.integers(len(self._moves_to_try)))]
            found = change(candidate, job, rng)
            if found is not None and not found.is_idle():
                return found
        return None

    def runs(self, job: JobId, node: NodeId, gpus: int) -> bool:
        """Whether a job runs on so many GPUs of a node's type, and no slower than on fewer."""
        curve = self.useful[job][self.types[node]]
        return bool(0 < gpus < len(curve) and curve[gpus] > 0)

    def _size(self, candidate: RoundPlacements, job: JobId, rng: np.random.Generator) -> int:
        """Return the GPUs that a job holds, requests, or another size in its range."""
        held = candidate.num_gpus(job)
        if held and rng.random() < 0.6:
            return held
        if rng.random() < 0.5:
            return self.wanted[job]
        return int(rng.integers(self.least[job], self.most[job] + 1))

    def _move(self, candidate: RoundPlacements, job: JobId, rng: np.random.Generator) -> RoundPlacements | None:
        node = self.up[int(rng.integers(len(self.up)))]
        held = candidate.placements.get(job)
        room = int(candidate.free[node]) + (held.gpus.get(node, 0) if held else 0)
        size = min(self._size(candidate, job, rng), room)
        if not self.runs(job, node, size) or (held is not None and held.gpus == {node: size}):
            return None
        changed = candidate.with_placement(job, {node: size})
        return self._fill(changed, job) if changed is not None and rng.random() < 0.5 else changed

    def _swap(self, candidate: RoundPlacements, job: JobId, rng: np.random.Generator) -> RoundPlacements | None:
        other = self.jobs[int(rng.integers(len(self.jobs)))]
        mine, its = candidate.placements.get(job), candidate.placements.get(other)
        if mine is None or other == job or (its is not None and mine.gpus == its.gpus):
            return None
        node, size = largest_node(mine), min(mine.num_gpus, self.most[other])
        if not self.runs(other, node, size):
            return None
        if its is not None and not self.runs(job, largest_node(its), its.num_gpus):
            return None
        without = candidate.with_placement(job, None)
        assert without is not None
        if its is not None:
            without = without.with_placement(other, None)
            without = without.with_placement(job, its.gpus) if without is not None else None
        if without is None:
            return None
        swapped = without.with_placement(other, mine.gpus if size == mine.num_gpus else {node: size})
        return self._fill(swapped, job) if swapped is not None and its is None else swapped

    def _resize(self, candidate: RoundPlacements, job: JobId, rng: np.random.Generator) -> RoundPlacements | None:
        held = candidate.placements.get(job)
        if held is None or self.least[job] == self.most[job]:
            return None
        node = largest_node(held)
        low, high = self.least[job] - held.num_gpus, self.most[job] - held.num_gpus
        more = int(rng.integers(max(low, 1 - held.gpus[node]), min(high, int(candidate.free[node])) + 1))
        if more == 0 or not self.runs(job, node, held.num_gpus + more):
            return None
        changed = candidate.with_placement(job, {**held.gpus, node: held.gpus[node] + more})
        return self._fill(changed, job) if changed is not None and more < 0 else changed

    def _evict(self, candidate: RoundPlacements, job: JobId, rng: np.random.Generator) -> RoundPlacements | None:
        if job not in candidate.placements:
            return None
        without = candidate.with_placement(job, None)
        assert without is not None
        return self._grow(self._fill(without, job), job) if rng.random() < 0.5 else self._grow(without, job)

    def _squeeze_in(self, candidate: RoundPlacements, job: JobId, rng: np.random.Generator) -> RoundPlacements | None:
        node = self.up[int(rng.integers(len(self.up)))]
        changed: RoundPlacements | None = (
            candidate.with_placement(job, None) if job in candidate.placements else candidate
        )
        size = min(self._size(candidate, job, rng), int(self.cluster.node_gpus[node]))
        if not self.runs(job, node, size):
            return None
        others = [other for other in reversed(self.shortest_first) if other != job]  # the longest job gives first
        for other in others:
            if changed is None or changed.free[node] >= size:
                break
            changed = self._give_way(changed, other, node, size)
        if changed is None or changed.free[node] < size:
            return None
        changed = changed.with_placement(job, {node: size})
        return self._fill(changed, job) if changed is not None else None

    def _give_way(self, candidate: RoundPlacements, job: JobId, node: NodeId, size: int) -> RoundPlacements | None:
        """Shrink a job on a node until `size` GPUs are free there; stop it if it cannot shrink enough."""
        held = candidate.placements.get(job)
        if held is None or node not in held.gpus:
            return candidate
        kept = held.gpus[node] - (size - int(candidate.free[node]))
        if kept > 0 and self.runs(job, node, held.num_gpus - held.gpus[node] + kept):
            return candidate.with_placement(job, {**held.gpus, node: kept})
        return candidate.with_placement(job, None)

    def _keep(self, candidate: RoundPlacements, job: JobId, rng: np.random.Generator) -> RoundPlacements | None:
        before = self.present.placements.get(job)
        if before is None or candidate.placements.get(job) == before:
            return None
        return candidate.with_placement(job, before.gpus)

    def _fill(self, candidate: RoundPlacements, last: JobId) -> RoundPlacements:
        """Start waiting jobs where there is room, shortest first, on their fastest type; `last` comes last."""
        filled = candidate
        waiting = [job for job in self.shortest_first if job not in candidate.placements]
        for job in sorted(waiting, key=lambda job: job == last):
            if not filled.free.any():
                return filled
            for size in dict.fromkeys((self.wanted[job], self.least[job])):
                if job in filled.placements or size >= self.throughputs[job].shape[1]:
                    continue
                throughput = self.throughputs[job][:, size]
                for gpu_type in np.argsort(-throughput, kind="stable").tolist():
                    if throughput[gpu_type] <= 0:
                        break
                    found = consolidated(filled.free, self.cluster, size, gpu_type)
                    placed = filled.with_placement(job, found) if found else None
                    if placed is not None:
                        filled = placed
                        break
        return filled

    def _grow(self, candidate: RoundPlacements, last: JobId) -> RoundPlacements:
        """Give each node's free GPUs to the job that gains most there, relative to its throughput; not to `last`."""
        for node in np.flatnonzero(candidate.free > 0).tolist():
            best, size, most_gained, more = -1, 0, 0.0, int(candidate.free[node])
            for job in candidate.jobs_on(node):
                held = candidate.placements[job]
                if job == last or job not in self.throughputs or len(held.gpus) > 1:
                    continue
                curve = self.throughputs[job][self.types[node]][: held.num_gpus + more + 1]
                fastest = largest_fastest(curve)
                gain = float(curve[fastest] / curve[held.num_gpus]) - 1.0 if fastest > held.num_gpus else 0.0
                if gain > most_gained:
                    best, most_gained, size = job, gain, fastest
            if best >= 0:
                candidate = candidate.with_placement(best, {node: size}) or candidate
        return candidate
