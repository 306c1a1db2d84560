"""Which options there are in the draft of a round, listed by compiled kernels.

The order is: waiting; then the candidates in order of the queue; then the jobs that hold GPUs, by their first node.
The options of one job are in ascending order of nodes, then of GPUs. Where waiting is not offered, the last option
takes its place.

A job may be changed once in a round, and further nodes may join it afterwards; an evicted job may be started again. A
job may be tuned once, and is not changed any more then. So a round has finitely many decisions.

Where nodes act together, options are in the order of nodes, each node's after its own waiting (`by_node`).

Where nodes take turns, only the options of the node whose turn it is are listed. Nodes that have waited have none, do
not count as equals of other nodes, and are not expected to join a gang.
"""

from envs.episodes.candidates import enter_sorted, estimated_time, queue_key
from envs.options.arrays import OPTION_ACTION, OPTION_AMOUNT, OPTION_NODE, OPTION_ROW, OptionArrays
from envs.options.by_node import TAKES_TURNS, TOGETHER, group_by_node, keep_turn
from envs.options.columns import EVICT, JOIN, MOVE, RESIZE, SHARE, START, TUNE, WAIT
from envs.options.demanded import could_run, may_resize, may_take_part, most_on, rest_fits, room_on
from envs.options.rules import CHANGES, IDLE, PLACINGS
from envs.options.tuned import can_tune, names_nothing
from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.world.job_throughput import level_of, runs_beside
from envs.simulation.world.kernels import QUEUED, RUNNING
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.shapes import is_divided, too_many_nodes
from envs.simulation.world.shares import share_on

ALLOWS_RESIZE, ALLOWS_MOVE = CHANGES.index("resize"), CHANGES.index("move")
BEST_FIT = PLACINGS.index("best_fit")
MAY_IDLE, IDLES_FOR_A_TIME = IDLE.index("allowed"), IDLE.index("limited")


@leaf
def needs_gpus(job: Records) -> bool:
    """Whether a job has fewer GPUs in the draft than it needs."""
    return bool((job.status == QUEUED or job.status == RUNNING) and job.gpus < job.min_gpus)


@leaf
def rank_candidates(a: OptionArrays) -> None:
    """Fill `heads` with the first jobs that wait, in queue order (ties by id), then -1; count the jobs that wait.

    Jobs that need more GPUs than are free are only counted, unless they may share GPUs of others.
    """
    world, order = a.world, a.rules[0].queue_order
    room = world.episode[0].num_gpus if a.rules[0].share else world.episode[0].num_free
    for c in range(len(a.heads)):
        a.heads[c] = -1
    count = 0
    waiting = 0
    able = 0
    j = next_member(world.queued, len(world.jobs), 0)
    while j >= 0:
        waiting += needs_gpus(world.jobs[j])
        if needs_gpus(world.jobs[j]) and world.jobs[j].min_gpus <= room:
            able += 1
            count = enter_sorted(a.heads, a.keys, len(a.heads), count, j, queue_key(world, order, world.jobs[j]))
        j = next_member(world.queued, len(world.jobs), j + 1)
    for i in range(world.episode[0].num_touched):  # jobs that the draft has evicted
        j = world.touched[i]
        if world.jobs[j].status == RUNNING and needs_gpus(world.jobs[j]):
            waiting += 1
            if world.jobs[j].before_partner >= 0 or world.jobs[j].min_gpus > room:
                continue  # left to itself, its old partner keeps the GPUs: the job could not come back at no cost
            able += 1
            count = enter_sorted(a.heads, a.keys, len(a.heads), count, j, queue_key(world, order, world.jobs[j]))
    a.rules[0].waiting = waiting
    a.rules[0].beyond = able - count


@leaf
def find_equal_nodes(a: OptionArrays) -> None:
    """Mark in `equals_before` the empty nodes that equal an empty node of lower index, and those that have waited."""
    nodes = a.world.nodes
    for i in range(len(a.seen)):
        a.seen[i] = 0
    for n in range(len(nodes)):
        a.equals_before[n] = a.waited[n]
        if a.waited[n] == 0 and nodes[n].num_jobs == 0 and nodes[n].free > 0:
            a.equals_before[n] = a.rules[0].distinct_nodes * a.seen[a.classes[n]]
            a.seen[a.classes[n]] = 1


@leaf
def runs_on_nodes(a: OptionArrays, job: Records, n: int, total: int, count: int) -> bool:
    """Whether a job runs on `total` GPUs of this node and of its other nodes in the draft, `count` nodes in all."""
    world, throughputs = a.world, a.world.throughputs
    if total >= throughputs.shape[2]:
        return False
    level = level_of(count, throughputs.shape[3] - 1)
    if throughputs[job.model, world.nodes[n].gpu_type, total, level] <= 0:
        return False
    if too_many_nodes(world.shapes[job.model], count):
        return False
    share = job.first_share
    while share >= 0:
        other = world.shares[share].node
        if other != n and throughputs[job.model, world.nodes[other].gpu_type, total, level] <= 0:
            return False
        share = world.shares[share].next_of_job
    return True


@leaf
def add_option(a: OptionArrays, action: int, row: int, n: int, amount: int) -> None:
    """Append an option; count it if the arrays are full."""
    count = a.rules[0].num_options
    if count == a.rules[0].room:
        a.rules[0].missing += 1
        return
    a.what[count, OPTION_ACTION] = action
    a.what[count, OPTION_ROW] = row
    a.what[count, OPTION_NODE] = n
    a.what[count, OPTION_AMOUNT] = amount
    a.rules[0].num_options = count + 1


@leaf
def list_job(a: OptionArrays, j: int) -> int:
    """Append a job; return its row."""
    row = a.rules[0].num_jobs
    a.job_ids[row] = j
    a.rules[0].num_jobs = row + 1
    return int(row)


@leaf
def most_gpus(job: Records) -> int:
    """The most GPUs that a job may hold."""
    return int(job.max_gpus)


@leaf
def list_starts(a: OptionArrays, row: int, job: Records) -> bool:
    """List the nodes on which a waiting job can start at once; return whether there are any."""
    found = False
    for n in range(len(a.world.nodes)):
        if a.equals_before[n]:
            continue
        for gpus in range(job.min_gpus, min(room_on(a, job, n), most_gpus(job)) + 1):
            if runs_on_nodes(a, job, n, gpus, 1):
                add_option(a, START, row, n, gpus)
                found = True
    return found


@leaf
def room_for_gang(a: OptionArrays, job: Records, j: int) -> int:
    """Free GPUs on all nodes that could join a gang of a job."""
    room = 0
    for n in range(len(a.world.nodes)):
        if a.world.nodes[n].free == 0 or a.waited[n] or share_on(a.world, j, n) > 0:
            continue
        if could_run(a, job, n, job.min_gpus):
            room += room_on(a, job, n)
    return room


@leaf
def list_gang(a: OptionArrays, action: int, row: int, j: int) -> None:
    """List what nodes can give to a job that has fewer GPUs than it needs: a part of the rest, or all of it."""
    job, nodes = a.world.jobs[j], a.world.nodes
    rest = job.min_gpus - job.gpus
    most = most_gpus(job) - job.gpus if a.rules[0].changes >= ALLOWS_RESIZE else rest
    room = room_for_gang(a, job, j)
    if room < rest:
        return
    for n in range(len(nodes)):
        if a.equals_before[n] or share_on(a.world, j, n) > 0 or not could_run(a, job, n, job.min_gpus):
            continue
        here = room_on(a, job, n)
        for gpus in range(1, min(here, most) + 1):
            if gpus < rest:
                allowed = rest - gpus <= room - here and rest_fits(a, job, j, n, rest - gpus)
            else:
                allowed = runs_on_nodes(a, job, n, job.gpus + gpus, job.num_shares + 1)
            if allowed and may_take_part(a, job, gpus, max(rest - gpus, 0)):
                add_option(a, action, row, n, gpus)


@leaf
def likes_type(a: OptionArrays, job: Records, j: int, n: int, rest: int) -> int:
    """Return 2 for a node of the type of a gang's first node, 1 if its type has room for the rest, else 0."""
    nodes = a.world.nodes
    if job.first_share >= 0 and nodes[a.world.shares[job.first_share].node].gpu_type == nodes[n].gpu_type:
        return 2
    room = 0
    for other in range(len(nodes)):
        if nodes[other].gpu_type == nodes[n].gpu_type and share_on(a.world, j, other) == 0:
            room += room_on(a, job, other)
    return int(room >= rest)


@leaf
def needs_types(a: OptionArrays, job: Records) -> bool:
    """Whether no type that runs a gang has so many GPUs in all."""
    nodes = a.world.nodes
    for n in range(len(nodes)):
        total = 0
        for other in range(len(nodes)):
            if nodes[other].gpu_type == nodes[n].gpu_type:
                total += nodes[other].num_gpus
        if total >= job.min_gpus and could_run(a, job, n, job.min_gpus):
            return False
    return True


@leaf
def list_best_fit(a: OptionArrays, action: int, row: int, j: int) -> None:
    """List the one node by best fit, see `OptionRules.placing`; none if there is too little room."""
    job, nodes = a.world.jobs[j], a.world.nodes
    rest, best, most, is_gang = job.min_gpus - job.gpus, -1, -1, True
    for n in range(len(nodes)):
        is_gang = is_gang and not (nodes[n].num_gpus >= job.min_gpus and could_run(a, job, n, job.min_gpus))
    if is_gang and room_for_gang(a, job, j) < rest:
        return
    least = 0
    if is_gang and not needs_types(a, job):
        least = 2 if job.first_share >= 0 else 1
    for n in range(len(nodes)):
        free = room_on(a, job, n)
        if free == 0 or share_on(a.world, j, n) > 0 or not could_run(a, job, n, job.min_gpus):
            continue
        if not is_gang and free < rest:
            continue
        if free >= rest and not runs_on_nodes(a, job, n, job.min_gpus, job.num_shares + 1):
            continue
        likes = likes_type(a, job, j, n, rest) if is_gang else 0
        if likes < least:
            continue
        # A node that completes the job comes before all others, the fullest first; of the others the emptiest.
        fit = likes * 4 * a.rules[0].node_gpus + (2 * a.rules[0].node_gpus - free if free >= rest else free)
        if fit > most:
            best, most = n, fit
    if best >= 0:
        add_option(a, action, row, best, min(nodes[best].free, rest))


@leaf
def list_owners(a: OptionArrays, row: int, job: Records) -> None:
    """List the jobs whose GPUs a waiting job can share, as options of their first nodes."""
    world = a.world
    for n in range(len(world.nodes)):
        if a.waited[n]:
            continue
        share = world.nodes[n].first_share
        while share >= 0:
            owner = world.jobs[world.shares[share].job]
            if (
                owner.first_share == share
                and owner.partner < 0
                and not needs_gpus(owner)
                and names_nothing(owner)
                and not is_divided(world.shapes[job.model])
                and job.min_gpus <= owner.gpus <= most_gpus(job)
                and runs_beside(world, job, owner)
            ):
                add_option(a, SHARE, row, n, world.shares[share].job)
            share = world.shares[share].next_of_node


@leaf
def list_candidate_options(a: OptionArrays) -> None:
    """List the starts of the candidates, as gangs where no node can hold a job alone, and whom they can share with."""
    now = a.world.episode[0].num_rounds + 1
    if a.world.episode[0].num_free == 0 and a.rules[0].share == 0:
        return
    for c in range(len(a.heads)):
        j = a.heads[c]
        if j < 0:
            return
        if a.rules[0].num_options >= a.rules[0].max_starts:
            a.rules[0].beyond += 1
            continue
        row = list_job(a, j)
        a.rules[0].num_candidates += 1
        job = a.world.jobs[j]
        if job.min_gpus > a.world.episode[0].num_free:
            pass  # it may share GPUs
        elif a.rules[0].placing == BEST_FIT:
            if a.refused[j] != now:
                list_best_fit(a, START, row, j)
        elif not list_starts(a, row, job) and a.refused[j] != now:
            list_gang(a, START, row, j)
        if a.rules[0].share:
            list_owners(a, row, job)


@leaf
def list_joins(a: OptionArrays, row: int, j: int) -> None:
    """List the nodes that can join a job that has enough GPUs."""
    job, nodes = a.world.jobs[j], a.world.nodes
    for n in range(len(nodes)):
        if nodes[n].free == 0 or a.equals_before[n] or share_on(a.world, j, n) > 0:
            continue
        for gpus in range(1, min(room_on(a, job, n), most_gpus(job) - job.gpus) + 1):
            fits = may_take_part(a, job, gpus, 0)
            if fits and runs_on_nodes(a, job, n, job.gpus + gpus, job.num_shares + 1):
                add_option(a, JOIN, row, n, gpus)


@leaf
def list_sizes(a: OptionArrays, row: int, j: int) -> None:
    """List the other numbers of GPUs that a running job can have on each of its nodes."""
    world, job = a.world, a.world.jobs[j]
    share = job.first_share
    while share >= 0:
        n, here = world.shares[share].node, world.shares[share].gpus
        for gpus in range(most_on(a, job, j, n) + 1):
            total = job.gpus - here + gpus
            if gpus == here or not may_resize(a, job, gpus) or total < job.min_gpus or total > most_gpus(job):
                continue
            if gpus > 0 and runs_on_nodes(a, job, n, total, job.num_shares):
                add_option(a, RESIZE, row, n, gpus)
            elif gpus == 0 and runs_without(a, job, n, total):
                add_option(a, RESIZE, row, n, 0)
        share = world.shares[share].next_of_job


@leaf
def runs_without(a: OptionArrays, job: Records, n: int, total: int) -> bool:
    """Whether a job runs on its nodes other than this one, with `total` GPUs."""
    share = job.first_share
    while share >= 0:
        other = a.world.shares[share].node
        if other != n:  # the types of all remaining nodes are checked with the first of them
            return remaining_run(a, job, n, total)
        share = a.world.shares[share].next_of_job
    return False


@leaf
def remaining_run(a: OptionArrays, job: Records, n: int, total: int) -> bool:
    """Whether the types of all nodes of a job except one run it with `total` GPUs."""
    world, throughputs = a.world, a.world.throughputs
    level = level_of(job.num_shares - 1, throughputs.shape[3] - 1)
    share = job.first_share
    while share >= 0:
        other = world.shares[share].node
        if other != n and throughputs[job.model, world.nodes[other].gpu_type, total, level] <= 0:
            return False
        share = world.shares[share].next_of_job
    return True


@leaf
def list_moves(a: OptionArrays, row: int, j: int) -> None:
    """List the nodes that could hold a running job as it is, and its eviction.

    GPUs that it shares do not become free for it. A guest may move to other GPUs of its nodes.
    """
    world, job = a.world, a.world.jobs[j]
    throughputs = world.throughputs
    add_option(a, EVICT, row, world.shares[job.first_share].node, 0)
    for n in range(len(world.nodes)):
        here = share_on(world, j, n)
        if a.equals_before[n] or (here == job.gpus and job.guest == 0):
            continue
        if most_on(a, job, j, n) < job.gpus:
            continue
        if throughputs[job.model, world.nodes[n].gpu_type, job.gpus, 0] > 0:
            add_option(a, MOVE, row, n, job.gpus)


@leaf
def list_tunings(a: OptionArrays, row: int, j: int) -> None:
    """List the tunings that a job can have instead of its own, as options of its first node."""
    world = a.world
    for tuning in range(len(a.tunings.batch_size)):
        if can_tune(a, j, tuning):
            add_option(a, TUNE, row, world.shares[world.jobs[j].first_share].node, tuning)


@leaf
def list_changes(a: OptionArrays, j: int) -> None:
    """List the options of a job that holds GPUs in the draft; one that shares them keeps their number."""
    row, job, changes = list_job(a, j), a.world.jobs[j], a.rules[0].changes
    alone = job.partner < 0
    if job.touched == 0 and alone and changes >= ALLOWS_RESIZE:
        list_sizes(a, row, j)
    if (job.touched == 0 or names_nothing(job)) and alone and changes >= ALLOWS_RESIZE:
        list_joins(a, row, j)
    if job.touched == 0 and changes >= ALLOWS_MOVE:
        list_moves(a, row, j)
    may_tune = changes >= ALLOWS_RESIZE if job.touched == 0 else names_nothing(job)
    if a.rules[0].tune and may_tune and alone:
        list_tunings(a, row, j)


@leaf
def list_holders(a: OptionArrays) -> None:
    """List the options of the jobs that hold GPUs in the draft."""
    world = a.world
    for n in range(len(world.nodes)):
        share = world.nodes[n].first_share
        while share >= 0:
            j = world.shares[share].job
            if world.jobs[j].first_share == share:
                list_changes(a, j)
            share = world.shares[share].next_of_node


@leaf
def is_idle(a: OptionArrays) -> bool:
    """Whether no job holds GPUs in the draft, except a gang that is put together."""
    episode, gang = a.world.episode[0], a.rules[0].gang
    held = a.world.jobs[gang].gpus if gang >= 0 else 0
    return bool(episode.num_free + held == episode.num_up)


@leaf
def may_wait(a: OptionArrays) -> bool:
    """Whether waiting may be offered beside the listed options, see `OptionRules.idle`."""
    world, rules = a.world, a.rules[0]
    if is_idle(a):
        return False
    if rules.idle == MAY_IDLE:
        return True
    for option in range(rules.num_options):
        if a.what[option, OPTION_ACTION] != START:
            continue
        job, time = world.jobs[a.job_ids[a.what[option, OPTION_ROW]]], world.episode[0].time
        estimate = estimated_time(job, time, world.reference) if world.episode[0].knows_work else 0.0
        if rules.idle != IDLES_FOR_A_TIME or time - job.submit > rules.patience * estimate or estimate == 0.0:
            return False
    return True


@leaf
def list_options(a: OptionArrays) -> int:
    """List all options of the present draft; return how many there are besides waiting.

    While a gang is put together there are no others, and in an auction no waiting. It is never
    offered while the cluster is idle and some job can be started: a policy that waits there would leave the jobs
    waiting forever. `OptionRules.idle` says where else it is not.
    """
    rules = a.rules[0]
    takes_turns, together = rules.turn == TAKES_TURNS, rules.turn == TOGETHER
    rules.turn_of = -1
    rules.num_options = 0
    rules.num_jobs = 0
    rules.num_candidates = 0
    rules.missing = 0
    rank_candidates(a)
    find_equal_nodes(a)
    if rules.gang < 0 or takes_turns or together:
        add_option(a, WAIT, -1, -1, 0)
    if rules.gang >= 0:
        rules.beyond = 0
        if rules.placing == BEST_FIT:
            list_best_fit(a, JOIN, list_job(a, rules.gang), rules.gang)
        else:
            list_gang(a, JOIN, list_job(a, rules.gang), rules.gang)
        if not (takes_turns or together):
            return int(rules.num_options)
    else:
        list_candidate_options(a)
        if rules.changes >= ALLOWS_RESIZE or rules.tune:
            list_holders(a)
    if takes_turns:
        keep_turn(a)
    choices = rules.num_options - 1
    if together:
        group_by_node(a, may_wait(a))
        return int(choices)
    if choices > 0 and not may_wait(a):
        last = choices  # the last option takes the place of waiting
        for i in range(OPTION_AMOUNT + 1):
            a.what[0, i] = a.what[last, i]
        rules.num_options = choices
    return int(choices)
