"""Reference implementations of the kernels of Starling (`room`, `two_candidates`, `forecast`), on dictionaries."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from baselines.starling import round
from baselines.starling.round import ROW
from baselines.starling.worth import LEAST_SHARE, NEGLIGIBLE_GAIN
from envs.types import FloatArray, IntArray, ResourceTables

Gpus = dict[int, int]  # by node


@dataclass(frozen=True)
class Rules:
    """The parameters of two candidates."""

    horizon: float = 600.0
    stickiness: float = 0.2
    tolerance: float = 0.1
    hysteresis: float = 0.02
    floor: float = 60.0
    urgency: float = 0.7
    shortage: float = 1.0
    slowdown: float = 1.0
    starving: float = 1.0
    crowding: float = 1.0
    prior: float = 1800.0
    spread: float = 1.2
    residual: float = 1.0
    restart_weight: float = 1.0
    discount: float = 0.0

    @property
    def numbers(self) -> round.StarlingRules:
        """Return the values in the form that the kernels take."""
        return round.StarlingRules(*(float(getattr(self, name)) for name in round.StarlingRules._fields))


@dataclass(frozen=True)
class Jobs:
    """Jobs on nodes; `at[j]` holds the GPUs of job j by node, empty while it waits."""

    throughputs: FloatArray  # [num_jobs, num_gpu_types, sizes]
    work: Sequence[float]
    delay: Sequence[float]
    weight: Sequence[float]
    wanted: IntArray  # [num_jobs, num_gpu_types]
    at: Sequence[Gpus]
    capacity: Sequence[int]
    types: Sequence[int]

    def throughput(self, job: int, place: Gpus) -> float:
        """Return samples/s on these GPUs; 0 for none."""
        if not place:
            return 0.0
        return float(self.throughputs[job, self.types[min(place)], sum(place.values())])

    def after_delay(self, job: int, throughput: float, horizon: float) -> float:
        """Return the mean throughput after a pause."""
        if throughput <= 0 or self.delay[job] <= 0:
            return throughput
        lasts = min(horizon, self.work[job] / throughput + self.delay[job])
        return throughput * max(LEAST_SHARE, 1.0 - self.delay[job] / lasts)

    def effective(self, job: int, place: Gpus, horizon: float) -> float:
        """Return the throughput on these GPUs, reduced if the job must move there."""
        throughput = self.throughput(job, place)
        return throughput if place == self.at[job] else self.after_delay(job, throughput, horizon)


def find(
    free: Sequence[int],
    capacity: Sequence[int],
    types: Sequence[int],
    gpu_type: int,
    size: int,
    taken: Mapping[int, int],
) -> Gpus | None:
    """Find whole largest nodes and the best fit for the remainder, lowest node first; None if there is no room."""
    largest = max((capacity[node] for node in range(len(types)) if types[node] == gpu_type), default=0)
    if largest == 0:
        return None
    room = {node: free[node] for node in range(len(types)) if types[node] == gpu_type and node not in taken}
    place: Gpus = {}
    while size > 0:
        need = min(size, largest)
        fits = [node for node in room if room[node] >= need]
        if not fits:
            return None
        best = min(fits, key=lambda node: (room[node], node))
        place[best] = need
        del room[best]
        size -= need
    return place


def free_under(candidate: Sequence[Gpus], capacity: Sequence[int]) -> list[int]:
    """Return the GPUs that a candidate leaves free, by node."""
    free = list(capacity)
    for place in candidate:
        for node, gpus in place.items():
            free[node] -= gpus
    return free


def fill(keep: bool, order: Sequence[int], jobs: Jobs, rules: Rules) -> list[Gpus]:
    """Reference implementation of `two_candidates.fill_candidate`."""
    candidate: list[Gpus] = [{} for _ in jobs.work]
    if keep:
        for job in order:
            candidate[job] = dict(jobs.at[job])
    for job in order:
        if candidate[job]:
            continue
        free = free_under(candidate, jobs.capacity)
        options = []
        for gpu_type in range(jobs.wanted.shape[1]):
            for size in range(int(jobs.wanted[job, gpu_type]), 0, -1):
                place = find(free, jobs.capacity, jobs.types, gpu_type, size, {})
                if place and jobs.throughputs[job, gpu_type, size] > 0:
                    options.append((float(jobs.throughputs[job, gpu_type, size]), gpu_type, size, place))
                    break
        best = max(options, key=lambda option: option[0], default=None)
        present = jobs.at[job]
        still = all(free[node] >= gpus for node, gpus in present.items())
        if present and still and _good(job, jobs, rules, best):
            candidate[job] = dict(present)
        elif best:
            _, gpu_type, size, place = best
            own = next(iter(present)) if len(present) == 1 else None
            in_place = own is not None and jobs.types[own] == gpu_type and free[own] >= size
            candidate[job] = {own: size} if in_place and own is not None else place
    return candidate


def _good(job: int, jobs: Jobs, rules: Rules, best: tuple[float, int, int, Gpus] | None) -> bool:
    present = jobs.at[job]
    gpu_type, held = jobs.types[min(present)], sum(present.values())
    if held > jobs.wanted[job, gpu_type]:
        return False
    if best is None:
        return True
    throughput, other, size, _ = best
    near = gpu_type == other and abs(size - held) <= rules.tolerance * size
    reached = jobs.after_delay(job, throughput, rules.horizon)
    return jobs.throughput(job, present) * (1.0 + rules.stickiness) >= reached or near


def grow(candidate: Sequence[Gpus], jobs: Jobs, rules: Rules) -> list[Gpus]:
    """Reference implementation of `two_candidates.grow_candidate`, with all gains recomputed after each step."""
    candidate = [dict(place) for place in candidate]
    while True:
        free = free_under(candidate, jobs.capacity)
        offers = [(jobs.weight[job] * gain, -job, larger) for job in range(len(candidate)) if candidate[job]
                  for gain, larger in [_best_growth(job, candidate[job], free, jobs, rules)] if larger]  # fmt: skip
        worth, minus_job, larger = max(offers, key=lambda offer: offer[:2], default=(0.0, 0, {}))
        if worth <= 0:
            return candidate
        candidate[-minus_job] = larger


def _best_growth(job: int, place: Gpus, free: Sequence[int], jobs: Jobs, rules: Rules) -> tuple[float, Gpus]:
    """Return the gain in throughput per GPU, and the larger placement; empty if there is no gain."""
    gpu_type, size = jobs.types[min(place)], sum(place.values())
    now, throughput = jobs.effective(job, place, rules.horizon), jobs.throughput(job, place)
    options: list[tuple[int, Gpus]] = []
    for node in sorted(place):
        options += [(extra, {**place, node: place[node] + extra}) for extra in range(1, free[node] + 1)]
    if all(gpus == jobs.capacity[node] for node, gpus in place.items()):
        for extra in range(1, sum(free) + 1):
            further = find(free, jobs.capacity, jobs.types, gpu_type, extra, place)
            if further:
                options.append((extra, {**place, **further}))
    best: tuple[float, Gpus] = (NEGLIGIBLE_GAIN * throughput, {})
    for extra, larger in options:
        if size + extra < jobs.throughputs.shape[2]:
            faster = jobs.after_delay(job, float(jobs.throughputs[job, gpu_type, size + extra]), rules.horizon)
            gain = (faster - now) / extra
            if gain > best[0]:
                best = (gain, larger)
    return best


def choose(kept: Sequence[Gpus], anew: Sequence[Gpus], jobs: Jobs, rules: Rules) -> list[Gpus]:
    """Reference implementation of `two_candidates.choose_by_part`; parts of the cluster are found by merging sets."""
    parts: list[set[int]] = [{node} for node in range(len(jobs.capacity))]
    for one, other in zip(kept, anew, strict=True):
        touched = set(one) | set(other)
        if touched:
            joined = [part for part in parts if part & touched]
            parts = [part for part in parts if not part & touched] + [set().union(*joined)]
    chosen: list[Gpus] = [{} for _ in kept]
    for part in parts:
        inside = [job for job in range(len(kept)) if (set(kept[job]) | set(anew[job])) & part]
        gain = 0.0
        for job in inside:
            new = jobs.effective(job, anew[job], rules.horizon)
            old = jobs.effective(job, kept[job], rules.horizon)
            gain += jobs.weight[job] * (new - (1.0 + rules.hysteresis) * old)
        for job in inside:
            chosen[job] = dict(anew[job] if gain > 0 else kept[job])
    return chosen


def candidate(keep: bool, order: Sequence[int], jobs: Jobs, rules: Rules) -> list[Gpus]:
    """Reference implementation of `two_candidates.write_candidate`."""
    return grow(fill(keep, order, jobs, rules), jobs, rules)


def merged_candidate(order: Sequence[int], jobs: Jobs, rules: Rules) -> list[Gpus]:
    """Reference implementation of `two_candidates.write_merged_candidate`."""
    return choose(candidate(True, order, jobs, rules), candidate(False, order, jobs, rules), jobs, rules)


@dataclass(frozen=True)
class Ahead:
    """Further arguments of a forecast."""

    restart: Sequence[float]
    begun: Sequence[bool]
    knee_throughput: Sequence[float]
    knee_gpus: Sequence[int]
    depth: int

    @property
    def outlook(self) -> round.JobForecast:
        """Return the values in the form that the kernels take."""
        return round.JobForecast(
            np.array(self.restart), np.array(self.begun), np.array(self.knee_throughput), np.array(self.knee_gpus)
        )

    def weights(self, work: Sequence[float], rules: Rules) -> list[float]:
        """Reference implementation of `forecast.weights`."""
        return [
            float((np.float64(left) / throughput + rules.floor) ** -rules.urgency / throughput)
            for left, throughput in zip(work, self.knee_throughput, strict=True)
        ]


def forecast(
    places: Sequence[Gpus], order: Sequence[int], jobs: Jobs, rules: Rules, ahead: Ahead, stall: Sequence[float]
) -> float:
    """Reference implementation of `forecast.forecast`: completion by completion, job by job."""

    def counted(seconds: float) -> float:
        return seconds / (1.0 + rules.discount * seconds / 3600.0)

    work, stalled, begun = list(jobs.work), list(stall), list(ahead.begun)
    now, total, alive, at = 0.0, 0.0, list(order), [dict(place) for place in places]
    for _ in range(ahead.depth):
        ends = {job: stalled[job] + work[job] / jobs.throughput(job, at[job]) for job in alive if at[job]}
        if not ends:
            break
        step = min(ends.values())
        now += step
        for job in ends:
            begun[job] = True
            done = max(step - stalled[job], 0.0) * jobs.throughput(job, at[job])
            stalled[job] = max(stalled[job] - step, 0.0)
            if done >= work[job] * (1.0 - 1e-9):
                total += counted(now)
                alive.remove(job)
                work[job], at[job] = 0.0, {}
            else:
                work[job] -= done
        if not alive:
            return total
        delay = [ahead.restart[job] if begun[job] else 0.0 for job in range(len(work))]
        later = replace(jobs, work=work, delay=delay, weight=ahead.weights(work, rules), at=at)
        after = merged_candidate(alive, later, rules)
        for job in alive:
            if after[job] != at[job]:
                stalled[job] = delay[job]
        at = after
    queued = 0.0
    for job in alive:
        alone = work[job] / ahead.knee_throughput[job]
        queued += alone * ahead.knee_gpus[job] / max(1, sum(jobs.capacity))
        total += counted(now + max(queued, alone))
    return total


def choose_ahead(
    orders: Sequence[Sequence[int]], jobs: Jobs, rules: Rules, ahead: Ahead, wanted: Sequence[IntArray]
) -> tuple[list[Gpus], list[float]]:
    """Reference implementation of `forecast.choose_ahead`; also returns the forecasts of all candidates, if any.

    Args:
        orders: the jobs by falling priority, for each variant.
        jobs: the jobs; `wanted` is ignored, since each variant supplies its own.
        rules: parameters.
        ahead: further arguments.
        wanted: int64[num_jobs, num_gpu_types] for each variant.
    """
    jobs = replace(jobs, weight=ahead.weights(jobs.work, rules))
    variants = [(order, replace(jobs, wanted=sizes)) for order, sizes in zip(orders, wanted, strict=True)]
    first, its = variants[0]
    options = [(merged_candidate(order, one, rules), order, one) for order, one in variants]
    pure = [candidate(True, first, its, rules), candidate(False, first, its, rules), fill(True, first, its, rules)]
    options += [(places, first, its) for places in pure]
    if ahead.depth == 0:
        return options[0][0], []
    seen: list[list[Gpus]] = []
    ends = []
    for places, order, one in options:
        stall = [jobs.delay[job] if places[job] != jobs.at[job] else 0.0 for job in range(len(places))]
        repeated = places in seen
        seen.append(places)
        ends.append(math.inf if repeated else forecast(places, order, one, rules, ahead, stall))
    return options[min(range(len(options)), key=lambda number: (ends[number], number))][0], ends


def grid_of(places: Sequence[Gpus], num_nodes: int) -> IntArray:
    """int16[num_jobs, num_nodes]: placements in the form that the kernels take."""
    grid = np.zeros((len(places), num_nodes), ROW)
    for job, place in enumerate(places):
        for node, gpus in place.items():
            grid[job, node] = gpus
    return grid


def drawn(seed: int) -> tuple[list[int], Jobs, Rules, Ahead]:
    """Draw up to seven jobs on up to five nodes of up to two types, some of them running, and an order."""
    rng = np.random.default_rng(seed)
    num_nodes, num_types, num_jobs, sizes = int(rng.integers(1, 6)), int(rng.integers(1, 3)), int(rng.integers(1, 8)), 9
    capacity = rng.choice([0, 2, 4, 4, 4], num_nodes).tolist()
    types = rng.integers(0, num_types, num_nodes).tolist()
    throughputs = np.cumsum(rng.integers(0, 4, (num_jobs, num_types, sizes)), axis=2).astype(float)
    throughputs[rng.random(throughputs.shape) < 0.25] = 0.0
    throughputs[:, :, 0] = 0.0
    wanted = np.zeros((num_jobs, num_types), np.int64)
    for job, gpu_type in np.ndindex(num_jobs, num_types):
        able = np.flatnonzero(throughputs[job, gpu_type])
        wanted[job, gpu_type] = rng.choice(able) if able.size and rng.random() < 0.9 else 0
    at: list[Gpus] = [{} for _ in range(num_jobs)]
    for job in rng.permutation(num_jobs).tolist():
        gpu_type, size = int(rng.integers(num_types)), int(rng.integers(1, sizes))
        place = find(free_under(at, capacity), capacity, types, gpu_type, size, {})
        if place and throughputs[job, gpu_type, size] > 0 and rng.random() < 0.6:
            at[job] = place
    work = rng.integers(50, 5000, num_jobs).astype(float)
    begun = [bool(place) or bool(rng.random() < 0.2) for place in at]
    restart = rng.choice([0.0, 30.0, 300.0], num_jobs)
    jobs = Jobs(
        throughputs=throughputs,
        work=work.tolist(),
        delay=[float(delay) if has else 0.0 for delay, has in zip(restart, begun, strict=True)],
        weight=rng.choice([0.5, 1.0, 2.0], num_jobs).tolist(),
        wanted=wanted,
        at=at,
        capacity=capacity,
        types=types,
    )
    knee_throughput = [float(max(throughputs[job].max(), 1.0)) for job in range(num_jobs)]
    ahead = Ahead(
        restart.tolist(), begun, knee_throughput, rng.integers(1, 5, num_jobs).tolist(), int(rng.integers(0, 6))
    )
    rules = Rules(*(float(rng.choice(values)) for values in ([100.0, 1e5], [0, 0.3], [0, 0.3], [-0.1, 0, 0.1])))
    order = rng.permutation(num_jobs).tolist()
    return order, jobs, replace(rules, discount=float(rng.choice([0.0, 0.5]))), ahead


def arrays(jobs: Jobs) -> round.Jobs:
    """Return the values in the form that the kernels take."""
    work, delay, weight = (np.array(values, dtype=np.float64) for values in (jobs.work, jobs.delay, jobs.weight))
    return kernel_jobs(jobs.throughputs, work, delay, weight, jobs.wanted, grid_of(jobs.at, len(jobs.capacity)))


def kernel_jobs(
    throughputs: FloatArray,
    work: FloatArray,
    delay: FloatArray,
    weight: FloatArray,
    wanted: IntArray,
    present: IntArray,
) -> round.Jobs:
    """Return jobs of one model without offsets, each a group of its own, that run on any number of nodes."""
    count = len(work)
    most_nodes = np.full(throughputs.shape, 1_000)
    ones, none = np.ones(count), np.zeros((count, 0))
    group, model = np.arange(count), np.zeros(count, np.int64)
    return round.Jobs(
        throughputs, most_nodes, group, model, work, delay, weight, wanted, present, ones, ones.copy(), none
    )


def nodes_of(jobs: Jobs) -> round.Nodes:
    """Return the nodes in the form that the kernels take."""
    capacity, types = (np.array(values, dtype=np.int64) for values in (jobs.capacity, jobs.types))
    return round.Nodes(capacity, types, nothing_shared(len(capacity)))


def nothing_shared(num_nodes: int) -> round.SharedNodes:
    """Return nodes that share nothing, of which candidates take no notice."""
    ample = np.full(num_nodes, np.inf)
    tables = np.ones((1, 1, 1, 2, 2)), np.zeros((1, 1, 1, 2)), np.ones((1, 1)), np.zeros((1, 1)), np.zeros(1)
    resources = ResourceTables(np.array([0.0, 1.0]), np.array([0.0, 1.0]), *tables)
    return round.SharedNodes(False, 0, ample, ample, ample, resources)


def is_sound(places: Sequence[Gpus], jobs: Jobs) -> bool:
    """Whether no GPU is given twice and each job can run on its GPUs."""
    free = free_under(places, jobs.capacity)
    return min(free) >= 0 and all(
        math.isfinite(s) and s > 0 for s in [jobs.throughput(j, p) for j, p in enumerate(places) if p]
    )
