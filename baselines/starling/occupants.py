"""Kernels that foresee throughputs where jobs share cores, memory and links, by the rules of `docs/world.md`.

They leave out two details of the world: amounts are not rounded to 64ths, and no job names its cores or memory.
A job's fraction is what it keeps of its throughput on the same GPUs with ample cores and memory and no other job.

Arguments recur:
    grid: int16[num_jobs, num_nodes], the candidate: GPUs by node.
    row: int16[num_nodes], GPUs of one job by node.
    occupants: what is known about the jobs of the candidate; changed by `seat` and `settle_occupants`.
"""

from typing import NamedTuple

import numpy as np

from baselines.starling.round import Jobs, Nodes, SharedNodes, StarlingRules
from envs.simulation.compiled.jit import jit, leaf, part
from envs.simulation.world.shares import MEASURED, OFF, WORST_CASE
from envs.types import FloatArray, IntArray

PART = 1.0 / 64.0  # the least amount of a resource for a GPU


class Occupants(NamedTuple):
    """The jobs on each node under a candidate, and what they keep of their throughput.

    Attributes:
        counts: int64[num_nodes], jobs on each node.
        jobs: int64[num_nodes, most], these jobs.
        held: int64[num_nodes, most], GPUs that each holds there.
        needs: float64[num_nodes, most, 2], cores and GB per GPU that saturate each there.
        levels: float64[num_nodes, 2], the most cores and GB that a GPU gets; infinite if there is enough.
        first: int64[num_jobs], the first node of each job.
        end: int64[num_jobs], the node after its last one; 0 if it holds nothing.
        fed: float64[num_jobs], fraction by cores and memory.
        calm: float64[num_jobs], fraction by contention.
        traffic: float64[num_jobs], GB/s on the link of each node of the job.
        worth: float64[num_jobs], weight times throughput.
        model: int64[num_jobs], as in `Jobs`.
    """

    counts: IntArray
    jobs: IntArray
    held: IntArray
    needs: FloatArray
    levels: FloatArray
    first: IntArray
    end: IntArray
    fed: FloatArray
    calm: FloatArray
    traffic: FloatArray
    worth: FloatArray
    model: IntArray


_NO_INTEGERS, _NO_FLOATS = np.zeros(0, np.int64), np.zeros(0)
NO_OCCUPANTS = Occupants(  # arrays of the same types without entries
    _NO_INTEGERS,
    np.zeros((0, 0), np.int64),
    np.zeros((0, 0), np.int64),
    np.zeros((0, 0, 2)),
    np.zeros((0, 2)),
    _NO_INTEGERS,
    _NO_INTEGERS,
    _NO_FLOATS,
    _NO_FLOATS,
    _NO_FLOATS,
    _NO_FLOATS,
    _NO_INTEGERS,
)


class Effect(NamedTuple):
    """The throughput that a job on given GPUs keeps, and the losses of the other jobs.

    Attributes:
        fed: its fraction by cores and memory.
        calm: its fraction by contention.
        starved: worth that others lose by having fewer cores and less memory, times their `core_weight`.
        crowded: worth that others lose by contention.
    """

    fed: float
    calm: float
    starved: float
    crowded: float


@jit
def nobody(jobs: Jobs, nodes: Nodes) -> Occupants:
    """Create the occupants of an empty cluster; none are noted where candidates do not count what jobs share."""
    num_jobs, num_nodes, most = 0, 0, 1
    if nodes.shared.counted:
        num_jobs, num_nodes = len(jobs.work), len(nodes.capacity)
        most = max(most, nodes.capacity.max())
    return Occupants(
        np.zeros(num_nodes, np.int64),
        np.zeros((num_nodes, most), np.int64),
        np.zeros((num_nodes, most), np.int64),
        np.zeros((num_nodes, most, 2)),
        np.full((num_nodes, 2), np.inf),
        np.zeros(num_jobs, np.int64),
        np.zeros(num_jobs, np.int64),
        np.ones(num_jobs),
        np.ones(num_jobs),
        np.zeros(num_jobs),
        np.zeros(num_jobs),
        jobs.model,
    )


@leaf
def need_of(model: int, gpus: int, node: int, resource: int, nodes: Nodes) -> float:
    """Return the cores (resource 0) or GB (1) per GPU that saturate a model on so many GPUs of a node."""
    saturating = nodes.shared.tables.saturating
    return max(PART, float(saturating[model, nodes.types[node], min(gpus, saturating.shape[2] - 1), resource]))


@leaf
def level_on(node: int, resource: int, job: int, gpus: int, occupants: Occupants, nodes: Nodes) -> float:
    """Return the most of a resource that a GPU of a node gets if `job` holds `gpus` GPUs there; infinite if enough.

    Max-min fairness per GPU: jobs that need less than the level get what they need. A job of -1 adds nothing.
    """
    left = nodes.shared.memory[node] if resource == 1 else nodes.shared.cpus[node]
    waiting, own, most, last = 0, 0.0, 0.0, -1.0
    if job >= 0:
        waiting, own = gpus, need_of(occupants.model[job], gpus, node, resource, nodes)
        most = own
    for slot in range(occupants.counts[node]):
        if occupants.jobs[node, slot] != job:
            waiting += occupants.held[node, slot]
            most = max(most, occupants.needs[node, slot, resource])
    # There is enough for the largest need, the usual case, which needs no search for a level.
    if waiting == 0 or most <= left / waiting:
        return np.inf
    while waiting > 0:
        level, used, served = left / waiting, 0.0, 0
        if job >= 0 and last < own <= level:
            used, served = own * gpus, gpus
        for slot in range(occupants.counts[node]):
            need = occupants.needs[node, slot, resource]
            if occupants.jobs[node, slot] != job and last < need <= level:
                used += need * occupants.held[node, slot]
                served += occupants.held[node, slot]
        # No job needs less than the level, so all that are left get it; else what the others leave is shared again.
        if served == 0:
            return float(level)
        left, waiting, last = left - used, waiting - served, level
    return np.inf


@leaf
def last_point(grid: FloatArray, amount: float) -> int:
    """Return the index of the last grid point that is at most the amount and has a successor."""
    cell = 0
    for point in range(1, len(grid) - 1):  # to the end: an early exit is hard to predict
        cell += int(grid[point] <= amount)
    return cell


@leaf
def fed_fraction(model: int, gpu_type: int, width: int, cpus: float, memory: float, shared: SharedNodes) -> float:
    """Return the fraction of its throughput that a job keeps with these cores, as at scale 1, and GB for each GPU."""
    tables = shared.tables
    table = tables.factor[model, gpu_type, min(width, tables.factor.shape[2] - 1)]
    cpus = min(cpus, tables.cpu_grid[len(tables.cpu_grid) - 1])
    memory = min(memory, tables.memory_grid[len(tables.memory_grid) - 1])
    i, k = last_point(tables.cpu_grid, cpus), last_point(tables.memory_grid, memory)
    t = (cpus - tables.cpu_grid[i]) / (tables.cpu_grid[i + 1] - tables.cpu_grid[i])
    u = (memory - tables.memory_grid[k]) / (tables.memory_grid[k + 1] - tables.memory_grid[k])
    above = table[i, k] * (1 - u) + table[i, k + 1] * u
    below = table[i + 1, k] * (1 - u) + table[i + 1, k + 1] * u
    return float(above * (1 - t) + below * t)


@leaf
def fed_on(job: int, row: IntArray, occupants: Occupants, nodes: Nodes, node: int, cpus: float, memory: float) -> float:
    """Return the fraction by cores and memory of a job of the candidate, with other levels on one node (-1: none)."""
    model, least_cpus, least_memory, width, gpu_type = occupants.model[job], np.inf, np.inf, 0, -1
    for at in range(occupants.first[job], occupants.end[job]):
        if row[at] > 0:
            first, second = occupants.levels[at, 0], occupants.levels[at, 1]
            if at == node:
                first, second = cpus, memory
            gpu_type, width = nodes.types[at], max(width, row[at])
            scale = nodes.shared.tables.scale[model, gpu_type]
            least_cpus = min(least_cpus, min(need_of(model, row[at], at, 0, nodes), first) / scale)
            least_memory = min(least_memory, min(need_of(model, row[at], at, 1, nodes), second))
    if gpu_type < 0:
        return 1.0
    return fed_fraction(model, gpu_type, width, least_cpus, least_memory, nodes.shared)


@leaf
def traffic_of(job: int, row: IntArray, occupants: Occupants, jobs: Jobs, nodes: Nodes) -> float:
    """Return GB/s that a job of the candidate sends on the link of each of its nodes; 0 on one node."""
    first, end = occupants.first[job], occupants.end[job]
    if nodes.shared.mode == OFF or end - first < 2:
        return 0.0
    count, gpus = 0, 0
    for node in range(first, end):
        if row[node] > 0:
            count, gpus = count + 1, gpus + row[node]
    alone = jobs.throughputs[jobs.group[job], nodes.types[first], gpus] * occupants.fed[job]
    return float(nodes.shared.tables.traffic[jobs.model[job], gpus] * alone * (count - 1) / count)


@part
def link_fraction(node: int, who: int, job: int, traffic: float, occupants: Occupants, nodes: Nodes) -> float:
    """Return the fraction that job `who` keeps on a node's link if `job` has this traffic there (-1: as it is).

    Alone it keeps what the link carries of its traffic.
    """
    mode, link = nodes.shared.mode, nodes.shared.link[node]
    own = traffic if who == job else occupants.traffic[who]
    if own <= 0:
        return 1.0
    total, active = 0.0, 0
    for slot in range(-1, occupants.counts[node]):
        other = job if slot < 0 else occupants.jobs[node, slot]
        if other >= 0 and (slot < 0 or other != job):
            wanted = min(traffic if slot < 0 else occupants.traffic[other], link)
            if wanted > 0:
                total, active = total + wanted / link, active + 1
    load: float = min(own, link) / link
    carried = min(1.0, link / own)
    if mode == WORST_CASE:
        return float(carried / (1.0 + load * (active - 1)))
    kept = 1.0 / (1.0 + load * (total - load)) if mode == MEASURED else 1.0
    if total <= 1.0:
        return float(kept * carried)
    left, waiting, last = 1.0, active, -1.0  # max-min fair, as in `level_on`
    while waiting > 0:
        level, used, served = left / waiting, 0.0, 0
        for slot in range(-1, occupants.counts[node]):
            other = job if slot < 0 else occupants.jobs[node, slot]
            if other >= 0 and (slot < 0 or other != job):
                wanted = min(traffic if slot < 0 else occupants.traffic[other], link) / link
                if wanted > 0 and last < wanted <= level:
                    used, served = used + wanted, served + 1
        if served == 0:
            return float(carried * (min(kept, level / load) if load > level else kept))
        left, waiting, last = left - used, waiting - served, level
    return float(kept * carried)


@leaf
def stages_on(node: int, job: int, occupants: Occupants, shared: SharedNodes) -> float:
    """Return the sum of the CPU stages of a node's jobs other than `job`."""
    total = 0.0
    for slot in range(occupants.counts[node]):
        if occupants.jobs[node, slot] != job:
            total += shared.tables.cpu_stage[occupants.model[occupants.jobs[node, slot]]]
    return total


@leaf
def stage_fraction(stage: float, total: float) -> float:
    """Return the fraction that a job keeps if the CPU stages of its node's jobs, its own included, sum to `total`."""
    return 1.0 / (1.0 + min(stage, 1.0) * (max(1.0, total) - 1.0))


@leaf
def calm_on(job: int, row: IntArray, occupants: Occupants, nodes: Nodes) -> float:
    """Return the fraction by contention of a job of the candidate."""
    shared, network, stages, traffic = nodes.shared, 1.0, 1.0, occupants.traffic[job]
    if shared.mode == OFF or (shared.mode != WORST_CASE and traffic <= 0):
        return 1.0
    own = shared.tables.cpu_stage[occupants.model[job]]
    for node in range(occupants.first[job], occupants.end[job]):
        if row[node] > 0:
            if traffic > 0:
                network = min(network, link_fraction(node, job, job, traffic, occupants, nodes))
            if shared.mode == WORST_CASE:
                stages = min(stages, stage_fraction(own, own + stages_on(node, job, occupants, shared)))
    return network * stages


@leaf
def worth_of(job: int, row: IntArray, occupants: Occupants, jobs: Jobs, nodes: Nodes) -> float:
    """Return what a job of the candidate is worth: its weight times its throughput under the candidate."""
    gpus = 0
    for node in range(occupants.first[job], occupants.end[job]):
        gpus += row[node]
    alone = jobs.throughputs[jobs.group[job], nodes.types[occupants.first[job]], gpus]
    throughput = alone * occupants.fed[job] * occupants.calm[job]
    return float(jobs.weight[job] * throughput)


@leaf
def update_levels(node: int, occupants: Occupants, nodes: Nodes) -> bool:
    """Compute the levels of a node anew; return whether they changed."""
    changed = False
    for resource in range(2):
        level = level_on(node, resource, -1, 0, occupants, nodes)
        changed = changed or level != occupants.levels[node, resource]
        occupants.levels[node, resource] = level
    return changed


@leaf
def note_share(node: int, slot: int, job: int, gpus: int, occupants: Occupants, nodes: Nodes) -> None:
    """Write what a job holds on a node."""
    occupants.jobs[node, slot], occupants.held[node, slot] = job, gpus
    for resource in range(2):
        occupants.needs[node, slot, resource] = need_of(occupants.model[job], gpus, node, resource, nodes)


@part
def settle_occupants(grid: IntArray, occupants: Occupants, jobs: Jobs, nodes: Nodes) -> None:
    """Compute the occupants of a whole candidate."""
    for node in range(grid.shape[1]):
        occupants.counts[node] = 0
    for job in range(len(grid)):
        occupants.first[job] = occupants.end[job] = 0
        occupants.fed[job] = occupants.calm[job] = 1.0
        occupants.traffic[job] = occupants.worth[job] = 0.0
        for node in range(grid.shape[1]):
            if grid[job, node] > 0:
                note_share(node, occupants.counts[node], job, grid[job, node], occupants, nodes)
                occupants.counts[node] += 1
                if occupants.end[job] == 0:
                    occupants.first[job] = node
                occupants.end[job] = node + 1
    # Each step needs the one before it for all jobs: levels depend on needs, traffic on cores and memory, and
    # contention on the traffic of the others.
    for node in range(grid.shape[1]):
        update_levels(node, occupants, nodes)
    for job in range(len(grid)):
        if occupants.end[job] > 0:
            occupants.fed[job] = fed_on(job, grid[job], occupants, nodes, -1, 0.0, 0.0)
            occupants.traffic[job] = traffic_of(job, grid[job], occupants, jobs, nodes)
    for job in range(len(grid)):
        if occupants.end[job] > 0:
            occupants.calm[job] = calm_on(job, grid[job], occupants, nodes)
            occupants.worth[job] = worth_of(job, grid[job], occupants, jobs, nodes)


@leaf
def seat(job: int, grid: IntArray, occupants: Occupants, jobs: Jobs, nodes: Nodes) -> None:
    """Add a job of the candidate, or its growth, and update the jobs on its nodes."""
    row = grid[job]
    occupants.end[job] = 0
    for node in range(len(row)):
        if row[node] > 0:
            if occupants.end[job] == 0:
                occupants.first[job] = node
            occupants.end[job] = node + 1
    first, end, changed = occupants.first[job], occupants.end[job], False
    for node in range(first, end):
        if row[node] > 0:
            slot = 0
            while slot < occupants.counts[node] and occupants.jobs[node, slot] != job:
                slot += 1
            occupants.counts[node] = max(occupants.counts[node], slot + 1)
            note_share(node, slot, job, row[node], occupants, nodes)
            changed = update_levels(node, occupants, nodes) or changed
    for node in range(first, end):
        if row[node] > 0:
            for slot in range(occupants.counts[node]):
                other = occupants.jobs[node, slot]
                # Cores and memory of the others change only with the levels.
                if other != job and not changed:
                    continue
                occupants.fed[other] = fed_on(other, grid[other], occupants, nodes, -1, 0.0, 0.0)
                occupants.traffic[other] = traffic_of(other, grid[other], occupants, jobs, nodes)
    for node in range(first, end):
        if row[node] > 0:
            for slot in range(occupants.counts[node]):
                other = occupants.jobs[node, slot]
                occupants.calm[other] = calm_on(other, grid[other], occupants, nodes)
                occupants.worth[other] = worth_of(other, grid[other], occupants, jobs, nodes)


@part
def link_effect(
    job: int, row: IntArray, first: int, end: int, traffic: float, occupants: Occupants, nodes: Nodes
) -> tuple[float, float]:
    """Return the fraction that a job of this traffic keeps on the links of its nodes, and the worth that others lose.

    `first` and `end` are those of `effect_of`.
    """
    network, lost = 1.0, 0.0
    for node in range(first, end):
        if row[node] > 0 and traffic > 0:
            network = min(network, link_fraction(node, job, job, traffic, occupants, nodes))
            for slot in range(occupants.counts[node]):
                other = occupants.jobs[node, slot]
                if other != job and occupants.traffic[other] > 0:
                    before = link_fraction(node, other, -1, 0.0, occupants, nodes)
                    after = link_fraction(node, other, job, traffic, occupants, nodes)
                    lost += occupants.worth[other] * max(0.0, 1.0 - after / before)
    return network, lost


@leaf
def effect_of(
    job: int,
    row: IntArray,
    first: int,
    end: int,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
) -> Effect:
    """Return what a job keeps on `row` in place of what it has in the candidate, and what the jobs on these nodes lose.

    Other nodes of jobs that run on several stay as they are.

    Args:
        first: the row is 0 before this node.
        end: and from this node on.
    """
    shared, model = nodes.shared, jobs.model[job]
    least_cpus, least_memory, width, gpu_type = np.inf, np.inf, 0, 0
    starved, crowded, stages = 0.0, 0.0, 1.0
    count, gpus = 0, 0
    for node in range(first, end):
        if row[node] <= 0:
            continue
        count, gpus, gpu_type, width = count + 1, gpus + row[node], nodes.types[node], max(width, row[node])
        cpus = level_on(node, 0, job, row[node], occupants, nodes)
        memory = level_on(node, 1, job, row[node], occupants, nodes)
        own = min(need_of(model, row[node], node, 0, nodes), cpus) / shared.tables.scale[model, gpu_type]
        least_cpus, least_memory = (
            min(least_cpus, own),
            min(least_memory, min(need_of(model, row[node], node, 1, nodes), memory)),
        )
        before, after = 0.0, 0.0
        if shared.mode == WORST_CASE:
            before = stages_on(node, -1, occupants, shared)
            after = stages_on(node, job, occupants, shared) + shared.tables.cpu_stage[model]
            stages = min(stages, stage_fraction(shared.tables.cpu_stage[model], after))
        # Others are evaluated only where this job takes something from them, as their losses are costly to compute.
        scarcer = cpus < occupants.levels[node, 0] or memory < occupants.levels[node, 1]
        fuller = shared.mode == WORST_CASE and max(1.0, after) > max(1.0, before)
        for slot in range(occupants.counts[node] if scarcer or fuller else 0):
            other = occupants.jobs[node, slot]
            if other == job:
                continue
            worth = occupants.worth[other]
            if scarcer and occupants.fed[other] > 0:
                fed = fed_on(other, grid[other], occupants, nodes, node, cpus, memory)
                starved += worth * jobs.core_weight[other] * max(0.0, 1.0 - fed / occupants.fed[other])
            if fuller:
                stage = shared.tables.cpu_stage[jobs.model[other]]
                crowded += worth * (1.0 - stage_fraction(stage, after) / stage_fraction(stage, before))
    fed = fed_fraction(model, gpu_type, width, least_cpus, least_memory, shared)
    # Only a job on several nodes sends on their links.
    if shared.mode == OFF or count < 2:
        return Effect(fed, stages, starved, crowded)
    alone = jobs.throughputs[jobs.group[job], gpu_type, gpus]
    traffic = shared.tables.traffic[model, gpus] * alone * fed * (count - 1) / count
    network, lost = link_effect(job, row, first, end, traffic, occupants, nodes)
    return Effect(fed, stages * network, starved, crowded + lost)


@leaf
def power(base: float, exponent: float) -> float:
    """Return a power, at once for the usual exponent of 1."""
    return base if exponent == 1.0 else float(base**exponent)


@leaf
def own_fraction(fed: float, calm: float, core_weight: float, rules: StarlingRules) -> float:
    """Return the fraction by which the rule lowers a job's own throughput."""
    return power(fed, rules.shortage * core_weight) * power(calm, rules.slowdown)


@leaf
def harm_of(effect: Effect, weight: float, rules: StarlingRules) -> float:
    """Return the samples/s of the job that the rule deducts for what the others lose."""
    return float((rules.starving * effect.starved + rules.crowding * effect.crowded) / weight)


@part
def find_fractions(grid: IntArray, occupants: Occupants, jobs: Jobs, nodes: Nodes, fractions: FloatArray) -> None:
    """Write what each job keeps of its throughput into `fractions`, float64[num_jobs]; see `Occupants`."""
    if nodes.shared.counted:
        settle_occupants(grid, occupants, jobs, nodes)
    for job in range(len(fractions)):
        fractions[job] = occupants.fed[job] * occupants.calm[job] if nodes.shared.counted else 1.0


@jit
def kept_fractions(grid: IntArray, jobs: Jobs, nodes: Nodes) -> FloatArray:
    """float64[num_jobs]: the fraction of its throughput that each job keeps; 1 where nothing is shared."""
    fractions = np.empty(len(grid))
    find_fractions(grid, nobody(jobs, nodes), jobs, nodes, fractions)
    return fractions
