"""Kernels that give out the GPUs that a plan leaves over. Arguments are those of `baselines.starling.two_plans`."""

import numpy as np

from baselines.starling.occupants import Occupants, effect_of, harm_of, nobody, own_fraction, seat, settle_occupants
from baselines.starling.room import gpu_type_of, has_room, liking_of, nodes_needed, shape_of, take_room
from baselines.starling.round import Jobs, Nodes, StarlingRules
from baselines.starling.worth import NEGLIGIBLE_GAIN, after_delay, throughput_under
from envs.simulation.jit import inlined, jit
from envs.types import IntArray


@inlined
def value_after_growth(
    job: int,
    throughput: float,
    trial: IntArray,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
) -> tuple[float, float]:
    """Return what more GPUs are worth to a job, as a mean throughput, and what the other jobs lose.

    Args:
        throughput: of the job on these GPUs, without other jobs.
        trial: int64[num_nodes], the GPUs.
    """
    lost = 0.0
    if nodes.shared.counted:
        effect = effect_of(job, trial, 0, len(trial), grid, occupants, jobs, nodes)
        throughput *= own_fraction(effect.fed, effect.calm, jobs.core_weight[job], rules)
        lost = harm_of(effect, jobs.weight[job], rules)
    value = after_delay(throughput, jobs.work[job], jobs.delay[job], rules.horizon)
    return float(value * liking_of(trial, jobs.affinity[job])), float(lost)


@inlined
def best_growth(
    job: int,
    free: IntArray,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
) -> tuple[float, int, int]:
    """Find a job's best growth: gain in value per GPU, additional GPUs, and the node; -1 for further nodes.

    A job grows on a node of which it holds a part. If it holds all its nodes wholly, it grows on the fewest further
    nodes. `occupants` is read only where jobs share more than GPUs.
    """
    row, group, liked = grid[job], jobs.group[job], jobs.affinity[job]
    gpu_type, size = gpu_type_of(row, nodes.types), row.sum()
    throughputs, most_nodes = jobs.throughputs[group, gpu_type], jobs.most_nodes[group, gpu_type]
    now = throughput_under(job, jobs, row, nodes.types, rules.horizon) * liking_of(row, liked)
    if nodes.shared.counted:
        now *= own_fraction(occupants.fed[job], occupants.calm[job], jobs.core_weight[job], rules)
    gain, more, where = NEGLIGIBLE_GAIN * throughputs[size], 0, -1
    limit, last, held, owns_nodes = len(throughputs) - 1 - size, len(row), 0, True
    for node in range(last):
        if row[node] > 0:
            held += 1
            owns_nodes = owns_nodes and row[node] == nodes.capacity[node]
    largest, whole, rest = shape_of(free, nodes, gpu_type, row) if owns_nodes else (0, 0, 0)
    weighed = nodes.shared.counted or len(liked) > 0  # whether it matters which GPUs these are
    trial = row.copy() if weighed else row
    for node in range(last + 1 if owns_nodes else last):
        if node < last and (row[node] == 0 or free[node] == 0):
            continue
        for extra in range(1, min(free[node] if node < last else whole * largest + rest, limit) + 1):
            throughput = throughputs[size + extra]
            on = held if node < last else held + nodes_needed(extra, largest)
            if throughput <= 0 or on > most_nodes[size + extra]:
                continue
            value, lost = after_delay(throughput, jobs.work[job], jobs.delay[job], rules.horizon), 0.0
            if len(liked) == 0 and (value - now) / extra <= gain:
                continue  # even with nothing lost
            if node == last and not has_room(extra, largest, whole, rest):
                continue
            if weighed:
                trial[:] = row
                if node < last:
                    trial[node] += extra
                else:
                    take_room(free.copy(), nodes, gpu_type, extra, trial, liked)
                value, lost = value_after_growth(job, throughput, trial, grid, occupants, jobs, nodes, rules)
            per_gpu = (value - now - lost) / extra
            if per_gpu > gain:
                gain, more, where = per_gpu, extra, node if node < last else -1
    return gain if more > 0 else 0.0, more, where


@jit
def grow_plan(jobs: Jobs, free: IntArray, nodes: Nodes, rules: StarlingRules, grid: IntArray) -> None:
    """Give GPUs left over, a step at a time, to the job with the largest gain, the lowest of equals; changes `grid`.

    The number of free GPUs only falls, and gains with it. So an earlier gain is an upper bound, recomputed on its turn.
    Where jobs share more than GPUs, a gain may rise when another job grows. The order of growth then follows the
    earlier, smaller gain.
    """
    left, gains = free.sum(), np.zeros(len(jobs.work))
    if left == 0:
        return
    counted, occupants = nodes.shared.counted, nobody(jobs, nodes)
    if counted:
        settle_occupants(grid, occupants, jobs, nodes)
    for job in range(len(gains)):
        if gpu_type_of(grid[job], nodes.types) >= 0:
            gains[job] = np.inf
    while len(gains) > 0 and left > 0:
        job = int(np.argmax(gains))
        if gains[job] <= 0:
            return
        gain, more, where = best_growth(job, free, grid, occupants, jobs, nodes, rules)
        bound = gains[job]
        gains[job] = gain * (jobs.weight[job] * jobs.appetite[job])
        if gains[job] < bound or more == 0:
            continue
        if where >= 0:
            grid[job, where] += more
            free[where] -= more
        else:
            take_room(free, nodes, gpu_type_of(grid[job], nodes.types), more, grid[job], jobs.affinity[job])
        left -= more
        if counted:
            seat(job, grid, occupants, jobs, nodes)
        gains[job] = np.inf  # its next step is another one
