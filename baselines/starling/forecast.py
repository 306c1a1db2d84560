"""Kernels that look ahead: forecast the jobs present under a candidate, assuming that no further job arrives.

Arguments are those of `baselines.starling.two_candidates`.
"""

import numpy as np

from baselines.starling.occupants import find_fractions
from baselines.starling.room import clear_row, copy_candidate, count_gpus, equal, equal_candidates, gpu_type_of
from baselines.starling.round import ROW, JobForecast, Jobs, Nodes, StarlingRules, Variants
from baselines.starling.scratch import PlacingScratch, new_scratch
from baselines.starling.two_candidates import WriteCandidate, choose_by_part, write_merged_candidate
from envs.simulation.compiled.jit import inlined, jit, part
from envs.types import BoolArray, FloatArray, IntArray, Seconds
from envs.types.units import HOUR

_DONE = 1e-9  # a job with at most this share of its work left is done: rounding


@jit
def weights(work: FloatArray, knee_throughput: FloatArray, rules: StarlingRules) -> FloatArray:
    """float64[num_jobs]: the worth of one sample/s of a job: the inverse of its remaining time, to a power."""
    weight = np.empty_like(work)
    write_weights(work, knee_throughput, rules, weight)
    return weight


@part
def write_weights(work: FloatArray, knee_throughput: FloatArray, rules: StarlingRules, weight: FloatArray) -> None:
    """Overwrite `weight`, see `weights`."""
    for job in range(len(work)):
        weight[job] = (work[job] / knee_throughput[job] + rules.floor) ** -rules.urgency / knee_throughput[job]


@part
def next_end(grid: IntArray, jobs: Jobs, stalled: FloatArray, types: IntArray, fractions: FloatArray) -> Seconds:
    """Return the seconds to the next completion; infinite if no job runs.

    Args:
        fractions: float64[num_jobs], what each job keeps of its throughput beside the others.
    """
    soonest = np.inf
    for job in range(len(jobs.work)):
        gpu_type = gpu_type_of(grid[job], types)
        if gpu_type >= 0:
            throughput = jobs.throughputs[jobs.group[job], gpu_type, count_gpus(grid[job])] * fractions[job]
            soonest = min(soonest, stalled[job] + jobs.work[job] / throughput)
    return soonest


@part
def advance_jobs(
    seconds: Seconds, grid: IntArray, jobs: Jobs, stalled: FloatArray, types: IntArray, fractions: FloatArray
) -> int:
    """Advance time: change `jobs.work` and `stalled`, remove finished jobs from `grid`, return how many."""
    ended = 0
    for job in range(len(jobs.work)):
        gpu_type = gpu_type_of(grid[job], types)
        if gpu_type < 0:
            continue
        throughput = jobs.throughputs[jobs.group[job], gpu_type, count_gpus(grid[job])] * fractions[job]
        # A restarting job only works for the rest of the time.
        done = max(seconds - stalled[job], 0.0) * throughput
        stalled[job] = max(stalled[job] - seconds, 0.0)
        if done >= jobs.work[job] * (1.0 - _DONE):
            jobs.work[job] = 0.0
            clear_row(grid[job])
            ended += 1
        else:
            jobs.work[job] -= done
    return ended


@part
def discounted(seconds: Seconds, rules: StarlingRules) -> Seconds:
    """Return how much a completion in so many seconds counts; see `Starling.discount`."""
    return seconds / (1.0 + rules.discount * seconds / HOUR)


@part
def with_backlog(
    total: Seconds,
    now: Seconds,
    order: IntArray,
    work: FloatArray,
    outlook: JobForecast,
    num_gpus: int,
    rules: StarlingRules,
) -> Seconds:
    """Add an estimate of the remaining jobs' completion times to a sum: they run one after the other, ignoring nodes.

    Each job takes its knee's share of the cluster, and at least its time alone.

    Args:
        total: the sum so far, discounted.
        now: when the first of them begins, in seconds from the start of the forecast.
    """
    # A job waits until the cluster has done the work of the jobs before it, and needs at least its time alone.
    queued, rest, count, discounted_rest = 0.0, 0.0, 0, 0.0
    for job in order:
        if work[job] > 0:
            alone = work[job] / outlook.knee_throughput[job]
            queued += alone * outlook.knee_gpus[job] / num_gpus
            rest += max(queued, alone)
            count += 1
            discounted_rest += discounted(now + max(queued, alone), rules)
    if rules.discount > 0:
        return total + discounted_rest
    return total + count * now + rest  # equal up to rounding; this order of additions is that of Starling's records


@inlined
def with_progress(jobs: Jobs, work: FloatArray, delay: FloatArray, weight: FloatArray, present: IntArray) -> Jobs:
    """Return the jobs at a later instant."""
    return Jobs(
        jobs.throughputs,
        jobs.most_nodes,
        jobs.group,
        jobs.model,
        work,
        delay,
        weight,
        jobs.wanted,
        present,
        jobs.appetite,
        jobs.core_weight,
        jobs.affinity,
    )


@inlined
def forecast(
    write: WriteCandidate,
    grid: IntArray,
    order: IntArray,
    jobs: Jobs,
    outlook: JobForecast,
    first_stall: FloatArray,
    nodes: Nodes,
    rules: StarlingRules,
    depth: int,
    scratch: PlacingScratch,
) -> Seconds:
    """Return the sum of the times from now to each job's end if a candidate is applied, and replaced at completions.

    Late ends are discounted (`Starling.discount`).

    Later candidates are those of `write_merged_candidate`. The work left after `depth` completions is estimated by
    `with_backlog`.

    Args:
        write: see `baselines.starling.two_candidates.writing`.
        grid: the candidate; changed.
        first_stall: float64[num_jobs], seconds until each job of the candidate begins to work.
        depth: completions to look ahead.
        scratch: overwritten.
    """
    # The forecast changes what it plays, and the other candidates begin from the same instant: hence the copies.
    begun, stalled, alive = outlook.begun.copy(), first_stall.copy(), np.empty_like(order)
    later = with_progress(jobs, jobs.work.copy(), jobs.delay.copy(), jobs.weight.copy(), grid)
    kept, after = np.empty_like(grid), np.empty_like(grid)
    return play_ahead(write, order, later, outlook, begun, stalled, alive, kept, after, nodes, rules, depth, scratch)


@part
def play_ahead(
    write: WriteCandidate,
    order: IntArray,
    later: Jobs,
    outlook: JobForecast,
    begun: BoolArray,
    stalled: FloatArray,
    alive: IntArray,
    kept: IntArray,
    after: IntArray,
    nodes: Nodes,
    rules: StarlingRules,
    depth: int,
    scratch: PlacingScratch,
) -> Seconds:
    """Do what `forecast` describes; the arrays are changed.

    Args:
        write: see `forecast`.
        later: the jobs; they hold the candidate.
        begun: bool[num_jobs], whether each job has begun.
        stalled: float64[num_jobs], seconds until it begins to work.
        alive: int64[num_jobs], overwritten.
        kept: int16[num_jobs, num_nodes], overwritten; `after` likewise.
    """
    grid, work, fractions = later.present, later.work, scratch.fractions
    now, total, left = 0.0, 0.0, len(order)
    find_fractions(grid, scratch.occupants, later, nodes, fractions)
    for step in range(depth):
        seconds = next_end(grid, later, stalled, nodes.types, fractions)
        if seconds == np.inf:
            break
        # From now on a change costs these jobs a restart, too.
        for job in order:
            begun[job] = begun[job] or gpu_type_of(grid[job], nodes.types) >= 0
        ended = advance_jobs(seconds, grid, later, stalled, nodes.types, fractions)
        now += seconds
        total += ended * discounted(now, rules)
        left -= ended
        if left == 0:
            return total
        # The estimate of the backlog ignores nodes, so the last step needs no placements.
        if step == depth - 1:
            break
        # Decide again as Starling would: at completions only, since nothing arrives in the forecast.
        count = 0
        for job in order:
            if work[job] > 0:
                alive[count] = job
                count += 1
        for job in range(len(work)):
            later.delay[job] = outlook.restart[job] if begun[job] else 0.0
        write_weights(work, outlook.knee_throughput, rules, later.weight)
        write_merged_candidate(write, alive[:count], later, nodes, rules, scratch, kept, after)
        # A job that is moved works again only after its restart.
        for job in alive[:count]:
            if not equal(after[job], grid[job]):
                stalled[job] = later.delay[job]
        copy_candidate(after, grid)
    return with_backlog(total, now, order, work, outlook, max(1, count_gpus(nodes.capacity)), rules)


@inlined
def find_distinct_candidates(candidates: IntArray) -> BoolArray:
    """bool[num_candidates]: whether each of int16[num_candidates, num_jobs, num_nodes] differs from all before it."""
    new = np.ones(len(candidates), np.bool_)
    for one in range(1, len(candidates)):
        for other in range(one):
            if new[other] and equal_candidates(candidates[one], candidates[other]):
                new[one] = False
    return new


@inlined
def with_variant(jobs: Jobs, variants: Variants, variant: int) -> Jobs:
    """Return the jobs with the requested sizes of one of the variants."""
    return Jobs(
        jobs.throughputs,
        jobs.most_nodes,
        jobs.group,
        jobs.model,
        jobs.work,
        jobs.delay,
        jobs.weight,
        variants.wanted[variant],
        jobs.present,
        jobs.appetite,
        jobs.core_weight,
        jobs.affinity,
    )


@inlined
def build_candidates(
    write: WriteCandidate, variants: Variants, jobs: Jobs, nodes: Nodes, rules: StarlingRules, scratch: PlacingScratch
) -> IntArray:
    """Build the candidates to compare: int16[num_variants + 3, num_jobs, num_nodes].

    The first `num_variants` merge two each (`write_merged_candidate`), one for each variant. The last three use the
    first variant: keep running jobs with growth, place all jobs anew, and keep running jobs without growth.
    """
    count, order, first = len(variants.orders), variants.orders[0], with_variant(jobs, variants, 0)
    candidates = np.zeros((count + 3, *jobs.present.shape), ROW)
    # Variants first: they use the first candidate's rows as scratch space, which are then overwritten.
    for variant in range(1, count):
        its, kept = with_variant(jobs, variants, variant), candidates[0]
        write_merged_candidate(write, variants.orders[variant], its, nodes, rules, scratch, kept, candidates[variant])
    # Both are candidates themselves and are merged into the first one, so that neither is built twice.
    write(True, True, order, first, nodes, rules, scratch, candidates[count])
    write(False, True, order, first, nodes, rules, scratch, candidates[count + 1])
    candidates[0] = candidates[count + 1]
    choose_by_part(first, nodes, rules, candidates[count], candidates[0], scratch)
    # Growth restarts jobs, and its GPUs are missing at the next completion, so it is not always best.
    write(True, False, order, first, nodes, rules, scratch, candidates[count + 2])
    return candidates


@inlined
def choose_ahead(
    write: WriteCandidate,
    variants: Variants,
    jobs: Jobs,
    outlook: JobForecast,
    nodes: Nodes,
    rules: StarlingRules,
    depth: int,
) -> IntArray:
    """Choose the candidate with the least sum of completion times of the jobs present; the first of equals.

    Candidates are those of `build_candidates`. The forecast of each candidate uses the variant that built it.

    Args:
        write: see `baselines.starling.two_candidates.writing`.
        variants: the variants to compare.
        jobs: the jobs; `wanted` is ignored, since each variant supplies its own.
        outlook: what is known about the jobs for later.
        nodes: the nodes.
        rules: the parameters.
        depth: completions to look ahead; 0 takes the first variant's merged candidate at once.
    """
    scratch = new_scratch(jobs, nodes)
    # Without a forecast nothing tells candidates apart, so only the first is built.
    if depth == 0:
        kept, merged = np.empty_like(jobs.present), np.empty_like(jobs.present)
        first = with_variant(jobs, variants, 0)
        write_merged_candidate(write, variants.orders[0], first, nodes, rules, scratch, kept, merged)
        return merged
    candidates, best, soonest = build_candidates(write, variants, jobs, nodes, rules, scratch), 0, np.inf
    different = find_distinct_candidates(candidates)
    for option in range(len(candidates)):
        # Equal candidates have equal forecasts. If all are equal, there is nothing to forecast.
        if different[option] and different.sum() > 1:
            # The variant that built a candidate continues it, since another one might move its jobs at once.
            variant, stall = option if option < len(variants.orders) else 0, np.zeros(len(jobs.work))
            for job in variants.orders[variant]:
                if not equal(candidates[option, job], jobs.present[job]):
                    stall[job] = jobs.delay[job]
            its = with_variant(jobs, variants, variant)
            order, grid = variants.orders[variant], candidates[option].copy()
            ends = forecast(write, grid, order, its, outlook, stall, nodes, rules, depth, scratch)
            if ends < soonest:
                best, soonest = option, ends
    chosen: IntArray = candidates[best]
    return chosen
