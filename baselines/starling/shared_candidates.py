"""Kernels that build a candidate where jobs share cores, memory and links; `two_candidates` has their counterparts.

A job's value on given GPUs is the throughput that it will have there, less what the jobs beside it lose, in units of
its own throughput. Four parameters weigh its shortage of cores and memory, its slow-down by contention, and the losses
of others by either. Arguments are those of `baselines.starling.two_candidates` and `baselines.starling.occupants`.
"""

import numpy as np

from baselines.starling.occupants import Occupants, effect_of, harm_of, own_fraction, seat, settle_occupants
from baselines.starling.room import (
    clear_row,
    copy_row,
    count_gpus,
    gpu_type_of,
    largest_room,
    liking_of,
    most_liking,
    runnable_room,
    take_room,
)
from baselines.starling.round import Found, Jobs, Nodes, StarlingRules
from baselines.starling.scratch import PlacingScratch, sum_up_free
from baselines.starling.worth import MARGIN, after_delay
from envs.simulation.compiled.jit import inlined, leaf, part
from envs.types import FloatArray, IntArray


@part
def value_of(
    job: int,
    row: IntArray,
    first: int,
    end: int,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
) -> float:
    """Return the value of GPUs for a job; `first` and `end` are those of `effect_of`."""
    gpus, gpu_type = 0, -1
    for node in range(first, end):
        if row[node] > 0:
            gpus, gpu_type = gpus + row[node], nodes.types[node]
    if gpu_type < 0:
        return 0.0
    # Gains and losses are both in samples/s of this job, so that one number ranks all GPUs that it could get.
    effect = effect_of(job, row, first, end, grid, occupants, jobs, nodes)
    throughput = jobs.throughputs[jobs.group[job], gpu_type, gpus]
    throughput *= own_fraction(effect.fed, effect.calm, jobs.core_weight[job], rules)
    return float(throughput * liking_of(row, jobs.affinity[job]) - harm_of(effect, jobs.weight[job], rules))


@leaf
def most_throughput(throughputs: FloatArray, size: int) -> float:
    """Return the most throughput on at most so many GPUs."""
    most = 0.0
    for gpus in range(1, size + 1):
        most = max(most, throughputs[gpus])
    return most


@inlined
def best_on_node(
    job: int,
    size: int,
    beaten: float,
    reached: float,
    node: int,
    trial: IntArray,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
) -> tuple[float, int]:
    """Find the most valuable size on a node: value and size; size 0 if none is worth enough.

    Half of a size is tried only if the whole costs the job or others something.

    Args:
        size: at most so many GPUs.
        beaten: smaller values and this one are not worth enough.
        reached: smaller values are not worth enough.
        trial: int16[num_nodes], zeros; changed and restored.
    """
    throughputs = jobs.throughputs[jobs.group[job], nodes.types[node]]
    liked = jobs.affinity[job]
    liking = np.exp(liked[node]) if len(liked) > 0 else 1.0
    best, best_size = 0.0, 0
    while size > 0:
        while size > 0 and throughputs[size] <= 0:
            size -= 1
        # The costly evaluation is worth its time only if this size beats the others even with nothing lost.
        most = throughputs[size] * liking
        if most > best and most > beaten and most >= reached:
            trial[node] = size
            value = value_of(job, trial, node, node + 1, grid, occupants, jobs, nodes, rules)
            trial[node] = 0
            if value > best:
                best, best_size = value, size
            # Nothing is lost at this size, so fewer GPUs cannot help.
            if value >= most:
                break
        size //= 2
    return best, best_size


@inlined
def best_spot(
    job: int,
    gpu_type: int,
    reached: float,
    free: IntArray,
    grid: IntArray,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
    scratch: PlacingScratch,
) -> tuple[float, int, int]:
    """Find the most valuable GPUs for a job on one node of a GPU type: value, node and size; node -1 for none.

    Of equally valuable nodes the one with fewest free GPUs is taken, the lowest of equals.

    Args:
        reached: values up to this one are not worth enough; a smaller one may be returned.
    """
    spot, spot_value, spot_size = -1, 0.0, 0
    for place in range(scratch.ends[gpu_type], scratch.ends[gpu_type + 1]):
        node = scratch.by_type[place]
        if free[node] > 0:
            most, beaten = min(jobs.wanted[job, gpu_type], free[node]), reached
            # Of equals the node found earlier is taken, so a node that fits no better has to be worth more.
            if spot >= 0 and free[node] >= free[spot]:
                beaten = max(reached, spot_value)
            value, size = best_on_node(
                job, most, beaten, spot_value, node, scratch.trial, grid, scratch.occupants, jobs, nodes, rules
            )
            if size > 0 and (value > spot_value or (value == spot_value and free[node] < free[spot])):
                spot, spot_value, spot_size = node, value, size
    return spot_value, spot, spot_size


@inlined
def best_room(
    job: int,
    free: IntArray,
    grid: IntArray,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
    scratch: PlacingScratch,
) -> Found:
    """Find the most valuable GPUs for a job, at most its `wanted` size of each type; written to `scratch.chosen`.

    Of equally valuable nodes that of `best_spot` is taken.
    """
    throughputs, wanted, liked = jobs.throughputs[jobs.group[job]], jobs.wanted[job], jobs.affinity[job]
    most_nodes = jobs.most_nodes[jobs.group[job]]
    best, best_type, best_size = 0.0, -1, 0
    # No GPUs of a type are worth more than its best throughput times this: an upper bound, so that types are skipped.
    ceiling = most_liking(liked) * (1.0 + MARGIN) if len(liked) > 0 else 1.0
    occupants, chosen, trial = scratch.occupants, scratch.chosen, scratch.trial
    clear_row(chosen)
    clear_row(trial)
    for gpu_type in range(len(wanted)):
        largest, whole, rest = scratch.largest[gpu_type], scratch.whole[gpu_type], scratch.rest[gpu_type]
        if wanted[gpu_type] <= 0 or largest == 0:
            continue
        size = largest_room(wanted[gpu_type], largest, whole, rest)
        size = runnable_room(size, largest, throughputs[gpu_type], most_nodes[gpu_type], largest, whole, rest)
        # More GPUs than a node has take whole nodes, which leaves little choice: one trial suffices.
        if size > largest:
            copy_row(free, scratch.spare)
            take_room(scratch.spare, nodes, gpu_type, size, trial, liked)
            value = value_of(job, trial, 0, len(free), grid, occupants, jobs, nodes, rules)
            if value > best:
                best, best_type, best_size = value, gpu_type, size
                copy_row(trial, chosen)
            clear_row(trial)
            continue
        # Evaluating nodes is costly. It is skipped if even a node with nothing lost could not win.
        if most_throughput(throughputs[gpu_type], min(wanted[gpu_type], largest)) * ceiling <= best:
            continue
        # The value of a few GPUs depends on the jobs beside them, so every node of the type is evaluated.
        spot_value, spot, spot_size = best_spot(job, gpu_type, best, free, grid, jobs, nodes, rules, scratch)
        if spot_value > best:
            best, best_type, best_size = spot_value, gpu_type, spot_size
            clear_row(chosen)
            chosen[spot] = spot_size
    return Found(best, best_type, best_size, -1, 1.0)


@leaf
def can_stay(job: int, free: IntArray, jobs: Jobs, nodes: Nodes) -> bool:
    """Whether a job's present GPUs are still free and at most its `wanted` size."""
    present, held, gpu_type = jobs.present[job], 0, -1
    for node in range(len(free)):
        if present[node] > free[node]:
            return False
        if present[node] > 0:
            held, gpu_type = held + present[node], nodes.types[node]
    return gpu_type >= 0 and held <= jobs.wanted[job, gpu_type]


@leaf
def span_of(row: IntArray) -> tuple[int, int, int]:
    """Return the first node on which a job holds GPUs, the node after the last one, and their number; 0 if none."""
    first, end, count = 0, 0, 0
    for node in range(len(row)):
        if row[node] > 0:
            first, end, count = node if count == 0 else first, node + 1, count + 1
    return first, end, count


@inlined
def beats_all(job: int, value: float, jobs: Jobs, rules: StarlingRules) -> bool:
    """Whether a job's present GPUs, of this value, stay whatever GPUs are found: even others at no loss are no better.

    The margin is for rounding.
    """
    most = 0.0
    for gpu_type in range(jobs.wanted.shape[1]):
        most = max(most, most_throughput(jobs.throughputs[jobs.group[job], gpu_type], jobs.wanted[job, gpu_type]))
    most *= most_liking(jobs.affinity[job])
    reached = after_delay(most, jobs.work[job], jobs.delay[job], rules.horizon)
    return value * (1.0 + rules.stickiness) >= reached * (1.0 + MARGIN)


@inlined
def choose_gpus(
    job: int,
    free: IntArray,
    grid: IntArray,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
    scratch: PlacingScratch,
) -> None:
    """Write the GPUs that a job is to hold into `scratch.chosen`: the most valuable ones, unless others need no move.

    The present GPUs, or others on the job's only node, are taken if they are hardly worse. The present GPUs need no
    restart, so the value of those found is reduced by one for that comparison.
    """
    present, occupants, chosen = jobs.present[job], scratch.occupants, scratch.chosen
    here, end, count = span_of(present)
    stays = count > 0 and can_stay(job, free, jobs, nodes)
    kept = value_of(job, present, here, end, grid, occupants, jobs, nodes, rules) if stays else 0.0
    # The search is costly, and needless if no other GPUs could be enough better to justify a move.
    if stays and beats_all(job, kept, jobs, rules):
        copy_row(present, chosen)
        return
    found = best_room(job, free, grid, jobs, nodes, rules, scratch)
    # A move costs a restart and may soon be outdated, so a small advantage does not justify it.
    reached = after_delay(found.value, jobs.work[job], jobs.delay[job], rules.horizon)
    if stays and kept * (1.0 + rules.stickiness) >= reached:
        copy_row(present, chosen)
    # The job has to change. On its own node it can still grow back later, up to its present size, without a change.
    elif count == 1 and found.gpu_type == nodes.types[here] and free[here] >= found.size and chosen[here] == 0:
        trial = scratch.trial
        clear_row(trial)
        trial[here] = found.size
        value = value_of(job, trial, here, here + 1, grid, occupants, jobs, nodes, rules)
        if value * (1.0 + rules.stickiness) >= found.value:
            copy_row(trial, chosen)


@inlined
def fill_shared(
    keep: bool,
    order: IntArray,
    jobs: Jobs,
    free: IntArray,
    nodes: Nodes,
    rules: StarlingRules,
    grid: IntArray,
    scratch: PlacingScratch,
) -> None:
    """Give jobs in order the GPUs that are most valuable to them; fills `grid`, as `fill_candidate` does.

    A job waits if all GPUs would cost others more than it gains.
    """
    occupants, chosen = scratch.occupants, scratch.chosen
    # Running jobs that are kept have their GPUs before others choose, so that none of them moves.
    for job in order:
        for node in range(len(free) if keep else 0):
            grid[job, node] = jobs.present[job, node]
            free[node] -= jobs.present[job, node]
    # A job's value depends on the jobs already placed, so these are known before the first job chooses.
    settle_occupants(grid, occupants, jobs, nodes)
    for gpu_type in range(len(scratch.largest)):
        sum_up_free(free, gpu_type, scratch)
    left = count_gpus(free)
    for job in order:
        if left == 0:
            return
        if occupants.end[job] > 0:
            continue
        # Jobs of higher priority choose first; a job that finds nothing of positive value waits.
        choose_gpus(job, free, grid, jobs, nodes, rules, scratch)
        gpu_type = gpu_type_of(chosen, nodes.types)
        if gpu_type >= 0:
            copy_row(chosen, grid[job])
            for node in range(len(free)):
                free[node] -= chosen[node]
                left -= chosen[node]
            # The next job reads the summary of free GPUs. Another scheduler may have put this one on several types.
            sum_up_free(free, gpu_type, scratch)
            for node in range(len(free)):
                if chosen[node] > 0 and nodes.types[node] != gpu_type:
                    sum_up_free(free, nodes.types[node], scratch)
            seat(job, grid, occupants, jobs, nodes)
