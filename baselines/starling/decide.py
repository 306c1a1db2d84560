"""Kernels for one round of Starling, from the jobs present to what each is to hold.

`decide_round` is the whole round. `Starling.schedule` calls it with arrays gathered from a view, and
`baselines.starling.compiled` with arrays gathered from the engine's own. Arguments recur:
    present: the jobs in the system.
    tables: fixed properties of the jobs.
    site: fixed properties of the nodes.
    offsets: see `baselines.starling.offsets`.
"""

import numpy as np

from baselines.parts.placing_kernels import (
    NodeArrays,
    PlacementOutcome,
    fill_nodes,
    place_of_type,
    settle_on,
)
from baselines.starling.forecast import choose_ahead, weights
from baselines.starling.hidden_work import guess_seconds
from baselines.starling.offsets import Offsets
from baselines.starling.round import (
    ROW,
    JobForecast,
    Jobs,
    Nodes,
    Present,
    Proposal,
    SharedNodes,
    StarlingRules,
    Variants,
)
from baselines.starling.tables import JobTables, NodeTables
from baselines.starling.two_candidates import WriteCandidate, writing
from envs.simulation.compiled.jit import inlined, jit, shared
from envs.simulation.world.ordered_set import fill_by_node
from envs.simulation.world.shapes import ALONE, is_shaped, too_many_nodes
from envs.types import BoolArray, FloatArray, IntArray

DEPTH = 8  # the queue is considered until its least sizes would fill the cluster so many times
EFFORT = 250_000  # upper bound on jobs times nodes times completions in the forecast of one candidate


def candidate_writer(tables: JobTables, site: NodeTables, rules: StarlingRules) -> WriteCandidate:
    """Return what writes candidates, as an argument of `decide_round`, whose other arguments have the same types."""
    none, whole, no_rows = np.zeros(0), np.zeros(0, np.int64), np.zeros((0, 0))
    sizes, rows = np.zeros((0, 0), np.int64), np.zeros((0, 0), ROW)
    groups = tables.throughputs, tables.most_nodes
    jobs = Jobs(*groups, whole, whole, none, none, none, sizes, rows, none, none, no_rows)
    shared = SharedNodes(site.counted, site.mode, none, none, site.link, site.resources)
    return writing(jobs, Nodes(whole, site.types, shared), rules)


@inlined
def remaining_work_of(present: Present, tables: JobTables, rules: StarlingRules) -> FloatArray:
    """float64[num_present]: samples left, guessed where they are hidden."""
    work = present.work.copy()
    hidden, count = np.empty(len(work), np.int64), 0
    for place in range(len(work)):
        if np.isnan(work[place]):
            hidden[count] = present.jobs[place]
            count += 1
    if count > 0:
        jobs = hidden[:count]
        seconds = guess_seconds(present.ran, present.ended, jobs, rules.prior, rules.spread, rules.residual)
        count = 0
        for place in range(len(work)):
            if np.isnan(work[place]):
                work[place] = seconds[count] * tables.requested_throughput[present.jobs[place]]
                count += 1
    return work


@jit
def rank(
    jobs: IntArray, by_job: IntArray, work: FloatArray, tables: JobTables, variant: int, priority: FloatArray
) -> IntArray:
    """int64[len(jobs)]: places in `jobs` by falling priority, of equals by job; jobs without a knee come last.

    Args:
        jobs: any jobs.
        by_job: int64[len(jobs)], places in `jobs` by job.
        work: float64[len(jobs)], samples left.
        tables: fixed properties of all jobs.
        variant: index of the variant, whose exponent `gang` applies.
        priority: as in `Offsets`.
    """
    left = np.empty(len(jobs))
    for rank_by_job in range(len(jobs)):
        place = by_job[rank_by_job]
        group = tables.group[jobs[place]]
        throughput = tables.knee_throughput[group]
        # The time that a job still takes at its knee, longer for one that keeps many GPUs from others meanwhile.
        seconds = work[place] / throughput * tables.gpu_factor[variant, group] if throughput > 0 else np.inf
        if len(priority) > 0:
            seconds *= np.exp(priority[jobs[place]])
        left[rank_by_job] = seconds
    order: IntArray = by_job[np.argsort(left, kind="mergesort")]
    return order


@inlined
def select_considered(order: IntArray, present: Present, tables: JobTables) -> BoolArray:
    """bool[num_present]: whether a job is planned for: those that run, and the head of the queue.

    Jobs that run on no one GPU type are never planned for.

    Args:
        order: int64[num_present], places in `present.jobs` by falling priority.
    """
    chosen = np.zeros(len(order), np.bool_)
    gpus, need, waits = present.capacity.sum(), 0, 0
    # Of a queue far longer than the cluster only the head can start soon; the rest would cost time for nothing.
    for place in order:
        least = tables.least[tables.group[present.jobs[place]]]
        if not present.runs[place]:
            need += least
            waits += 1 if least > 0 else 0
        chosen[place] = least > 0 and (present.runs[place] or (need <= DEPTH * gpus and waits <= gpus))
    return chosen


@jit
def shift_size(corner: BoolArray, size: int, factor: float) -> int:
    """Return the corner of a scaling curve nearest to `factor` times a size, the smaller of equals; 0 for size 0."""
    target, best, distance = size * factor, size, np.inf
    for other in range(len(corner)):
        if size > 0 and corner[other] and abs(other - target) < distance:
            best, distance = other, abs(other - target)
    return best


@inlined
def wanted_sizes(jobs: IntArray, tables: JobTables, num_variants: int, size: FloatArray) -> IntArray:
    """int64[num_variants, len(jobs), num_gpu_types]: GPUs to give, at the knee, shifted by the offset `size`."""
    num_types = tables.sizes.shape[2]
    wanted = np.empty((num_variants, len(jobs), num_types), np.int64)
    for variant in range(num_variants):
        for place in range(len(jobs)):
            group = tables.group[jobs[place]]
            for gpu_type in range(num_types):
                at_knee = tables.sizes[variant, group, gpu_type]
                if len(size) > 0:
                    at_knee = shift_size(tables.corners[group, gpu_type], at_knee, np.exp(size[jobs[place]]))
                wanted[variant, place, gpu_type] = at_knee
    return wanted


@jit
def factors(jobs: IntArray, offset: FloatArray) -> FloatArray:
    """float64[len(jobs)]: exp of an offset for each job; 1 where there are no offsets."""
    result = np.ones(len(jobs))
    for place in range(len(jobs) if len(offset) > 0 else 0):
        result[place] = np.exp(offset[jobs[place]])
    return result


@inlined
def affinity_rows(jobs: IntArray, affinity: FloatArray) -> FloatArray:
    """float64[len(jobs), num_nodes]: the rows of `Offsets.affinity` for these jobs; without columns if it is empty."""
    rows = np.zeros((len(jobs), affinity.shape[1] if len(affinity) > 0 else 0))
    for place in range(len(jobs) if len(affinity) > 0 else 0):
        rows[place] = affinity[jobs[place]]
    return rows


@inlined
def share_nodes(capacity: IntArray, site: NodeTables) -> Nodes:
    """Return the nodes as candidates see them; GPUs that are not to be shared out take their part of a node along."""
    cpus, memory = np.zeros(len(capacity)), np.zeros(len(capacity))
    for node in range(len(capacity)):
        if capacity[node] > 0:
            part = capacity[node] / site.gpus[node]
            cpus[node], memory[node] = site.cpus[node] * part, site.memory[node] * part
    shared = SharedNodes(site.counted, site.mode, cpus, memory, site.link, site.resources)
    return Nodes(capacity, site.types, shared)


@inlined
def tabulate_shares(present: Present, tables: JobTables, place: IntArray, count: int, capacity: IntArray) -> IntArray:
    """int16[count, num_nodes]: what the considered jobs hold; what others hold is deducted from `capacity`.

    Args:
        place: int64[num_present], index of each job among those considered, or -1.
        count: number of these.
        capacity: changed.
    """
    held = np.zeros((count, len(capacity)), ROW)
    for share in range(len(present.shares)):
        at = place[present.shares[share, 0]]
        if at >= 0:
            held[at, present.shares[share, 1]] = present.shares[share, 2]
        else:  # a gang over several types, or in a division that constraints demand, is left alone
            node, group = present.shares[share, 1], tables.group[present.jobs[present.shares[share, 0]]]
            capacity[node] -= capacity[node] if tables.shapes[group, ALONE] else present.shares[share, 2]
    return held


@jit
def affordable_depth(look_ahead: int, cells: int) -> int:
    """Return how many completions to look ahead, given the number of jobs times nodes."""
    return min(look_ahead, EFFORT // max(cells, 1))


@inlined
def place_considered(
    write: WriteCandidate,
    places: IntArray,
    by_job: IntArray,
    held: IntArray,
    work: FloatArray,
    capacity: IntArray,
    present: Present,
    tables: JobTables,
    site: NodeTables,
    rules: StarlingRules,
    look_ahead: int,
    offsets: Offsets,
) -> IntArray:
    """int16[len(places), num_nodes]: the candidate for the considered jobs.

    Args:
        write: see `baselines.starling.two_candidates.writing`.
        places: int64[num_considered], places of the considered jobs in `present.jobs`, by falling priority.
        by_job: int64[num_considered], indices of `places` by job.
        held: int16[num_considered, num_nodes], what they hold.
        work: float64[num_present], samples left.
        capacity: int64[num_nodes], GPUs to share out.
        look_ahead: completions in the forecast, fewer if jobs times nodes is very large.
    """
    # A candidate costs time in proportion to jobs times nodes, so a large cluster can afford few completions ahead.
    jobs, its_work = present.jobs[places], work[places]
    group = tables.group[jobs]
    depth = affordable_depth(look_ahead, held.size)
    num_variants = len(tables.sizes) if depth > 0 else 1
    # Variants differ in order and sizes. The forecast tells which is best here, which no fixed rule does everywhere.
    orders = np.empty((num_variants, len(jobs)), np.int64)
    orders[0] = np.arange(len(jobs))
    for variant in range(1, num_variants):
        orders[variant] = rank(jobs, by_job, its_work, tables, variant, offsets.priority)
    variants = Variants(orders, wanted_sizes(jobs, tables, num_variants, offsets.size))
    # A restart counts more than it takes, since candidates are replaced before they have paid for theirs.
    restart = present.restart[places] * rules.restart_weight * factors(jobs, offsets.restart)
    begun = present.service[places] > 0
    outlook = JobForecast(restart, begun, tables.knee_throughput[group], tables.knee_gpus[group])
    its = Jobs(
        tables.throughputs,
        tables.most_nodes,
        group,
        tables.model[jobs],
        its_work,
        np.where(begun, restart, 0.0),
        weights(its_work, outlook.knee_throughput, rules),
        variants.wanted[0],
        held,
        factors(jobs, offsets.growth),
        factors(jobs, offsets.cores),
        affinity_rows(jobs, offsets.affinity),
    )
    return choose_ahead(write, variants, its, outlook, share_nodes(capacity, site), rules, depth)


@inlined
def find_start(group: int, floor: NodeArrays, tables: JobTables, nodes: IntArray, gpus: IntArray) -> int:
    """Find GPUs for a job that is not planned for; return on how many nodes, 0 if there is no room.

    It runs with `start_gpus` on its fastest type with room, best fit, or else spans types.

    Args:
        floor: the nodes and their free GPUs.
        nodes: int64[num_nodes], overwritten by the nodes found.
        gpus: int64[num_nodes], overwritten by the GPUs on each.
    """
    size, types, spanning = tables.start_gpus[group], tables.start_types[group], tables.spanning[group]
    if size == 0 or size > floor.idle[0]:
        return 0
    for i in range(len(types)):
        if types[i] >= 0:
            count = place_of_type(floor, types[i : i + 1], size, tables.shapes[group], False, nodes, gpus)
            if 0 < count <= tables.most_nodes[group, types[i], size]:
                return count
    if types[0] < 0 <= spanning[0]:
        count = fill_nodes(floor, spanning, size, tables.shapes[group, ALONE] > 0, nodes, gpus)
        if too_many_nodes(tables.shapes[group], count):
            return 0
        for i in range(count):
            if count > tables.most_nodes[group, floor.gpu_types[nodes[i]], size]:
                return 0
        return count
    return 0


@jit
def squeeze_in(waiting: IntArray, free: IntArray, tables: JobTables, site: NodeTables) -> Proposal:
    """Start jobs at their least size where there is room; gangs over several types come last.

    Free GPUs only become fewer meanwhile. So if a job found no room, no other job of its group does.

    Args:
        waiting: int64[num_waiting], jobs by falling priority.
        free: int64[num_nodes], GPUs that no job holds.
    """
    num_nodes, most = len(free), max(1, site.gpus.max())
    room = np.zeros((len(site.largest), most + 1, site.words), np.int64)
    fill_by_node(room, site.types, free)
    floor = NodeArrays(site.types, site.gpus, site.largest, free.copy(), room, np.array([free.sum()]))
    count = len(waiting)
    zeros = np.zeros(count, np.int64)
    outcome = PlacementOutcome(
        zeros, zeros.copy(), zeros.copy(), np.empty(free.sum(), np.int64), np.empty(free.sum(), np.int64),
        np.zeros(1, np.int64), tables.shapes[tables.group[waiting], ALONE],
    )  # fmt: skip
    nodes, gpus = np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int64)
    hopeless = np.zeros(len(tables.least), np.bool_)
    placed = np.empty(count, np.int64)
    num_placed = 0
    # A gang over several types is as slow as its slowest GPUs, so it gets what jobs on one type leave.
    for single in (True, False):
        for at in range(count):
            group = tables.group[waiting[at]]
            if (tables.least[group] > 0) != single or hopeless[group] or floor.idle[0] == 0:
                continue
            found = find_start(group, floor, tables, nodes, gpus)
            if found > 0:
                settle_on(floor, outcome, at, found, nodes, gpus)
                placed[num_placed] = at
                num_placed += 1
            else:
                hopeless[group] = True
    grid = np.zeros((num_placed, num_nodes), ROW)
    for row in range(num_placed):
        at = placed[row]
        for i in range(outcome.first[at], outcome.first[at] + outcome.length[at]):
            grid[row, outcome.nodes[i]] = outcome.gpus[i]
    return Proposal(waiting[placed[:num_placed]], np.zeros_like(grid), grid)


@jit
def take_away(proposal: Proposal, tables: JobTables, capacity: IntArray) -> None:
    """Deduct what jobs are to hold from the GPUs to share out; whole nodes of those that are alone there."""
    for row in range(len(proposal.jobs)):
        alone = tables.shapes[tables.group[proposal.jobs[row]], ALONE]
        for node in range(len(capacity)):
            if proposal.grid[row, node] > 0:
                capacity[node] -= capacity[node] if alone else proposal.grid[row, node]


@inlined
def both(one: Proposal, other: Proposal) -> Proposal:
    """Return two proposals as one."""
    return Proposal(
        np.concatenate((one.jobs, other.jobs)),
        np.concatenate((one.present, other.present)),
        np.concatenate((one.grid, other.grid)),
    )


@shared
def decide_round(
    write: WriteCandidate,
    present: Present,
    tables: JobTables,
    site: NodeTables,
    rules: StarlingRules,
    look_ahead: int,
    offsets: Offsets,
) -> Proposal:
    """Plan the jobs at the head of the order, then start others on GPUs left over.

    Jobs whose constraints demand a division among nodes, or whole nodes, start before, on GPUs that no job holds.

    Args:
        write: see `candidate_writer`.
        rules: the parameters.
        look_ahead: completions in the forecast; 0 takes the first variant's candidate at once.
    """
    work = remaining_work_of(present, tables, rules)
    order = rank(present.jobs, np.arange(len(work)), work, tables, 0, offsets.priority)
    chosen = select_considered(order, present, tables)
    # The considered jobs in order, so that the first ones get GPUs first; the others of the queue wait.
    places, place = np.empty(chosen.sum(), np.int64), np.full(len(order), -1, np.int64)
    count, beyond, num_beyond = 0, np.empty(len(order), np.int64), 0
    shaped, num_shaped = np.empty(len(order), np.int64), 0
    for at in order:
        if chosen[at]:
            places[count], place[at] = at, count
            count += 1
        elif not present.runs[at] and is_shaped(tables.shapes[tables.group[present.jobs[at]]]):
            shaped[num_shaped] = present.jobs[at]
            num_shaped += 1
        elif not present.runs[at]:
            beyond[num_beyond] = present.jobs[at]
            num_beyond += 1
    # Equal priorities are broken by job, in every variant alike.
    by_job, num_ranked = np.empty(count, np.int64), 0
    for at in range(len(place)):
        if place[at] >= 0:
            by_job[num_ranked] = place[at]
            num_ranked += 1
    capacity = present.capacity.copy()
    held = tabulate_shares(present, tables, place, count, capacity)
    ahead = Proposal(beyond[:0], held[:0], held[:0])
    if num_shaped > 0:
        ahead = squeeze_in(shaped[:num_shaped], capacity - held.sum(axis=0), tables, site)
        take_away(ahead, tables, capacity)
    grid = place_considered(
        write, places, by_job, held, work, capacity, present, tables, site, rules, look_ahead, offsets
    )
    planned = Proposal(present.jobs[places], held, grid)
    if num_shaped > 0:
        planned = both(planned, ahead)
    if num_beyond == 0:
        return planned
    # No GPU stays idle while a job waits that could use it, whether it was planned for or not.
    free = capacity - grid.sum(axis=0)
    if free.sum() == 0:
        return planned
    return both(planned, squeeze_in(beyond[:num_beyond], free, tables, site))
