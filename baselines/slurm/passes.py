"""The main pass and the queue as compiled code; `baselines.slurm.scheduler` is the plain form."""

import numpy as np

from baselines.slurm.memory import Memory, Queue, Rules
from baselines.slurm.nodes import Site
from envs.simulation.compiled.jit import leaf, part
from envs.simulation.world.arrays import World
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.shares import clear_named_settings, new_share, store_placement
from envs.types import BoolArray, IntArray


@leaf
def priority_of(world: World, queue: Queue, rules: Rules, memory: Memory, j: int) -> int:
    """Return the priority of a job, a whole number of at least 1."""
    if not rules.multifactor:
        return 1
    age = min((world.episode[0].time - memory.eligible[j]) / rules.max_age, 1.0)
    fair = memory.factors[queue.association[j]]
    value = queue.fixed[j] + rules.weight_age * age + rules.weight_fairshare * fair
    return max(int(np.floor(value)), 1)


@leaf
def comes_before(queue: Queue, memory: Memory, j: int, other: int) -> bool:
    """Return whether a waiting job comes before another one."""
    if queue.tier[j] != queue.tier[other]:
        return bool(queue.tier[j] > queue.tier[other])
    if memory.priority[j] != memory.priority[other]:
        return bool(memory.priority[j] > memory.priority[other])
    return j < other


@leaf
def put_by_priority(queue: Queue, memory: Memory, j: int, count: int) -> None:
    """Put a job among the first `count` waiting ones, which are in order."""
    place = count
    while place > 0 and comes_before(queue, memory, j, memory.waiting[place - 1]):
        memory.waiting[place] = memory.waiting[place - 1]
        place -= 1
    memory.waiting[place] = j


@leaf
def take_in(world: World, queue: Queue, rules: Rules, memory: Memory, j: int) -> None:
    """Add a job to the waiting ones."""
    state = memory.state[0]
    if np.isnan(memory.eligible[j]):
        memory.eligible[j] = world.episode[0].time
    memory.priority[j] = priority_of(world, queue, rules, memory, j)
    memory.waits[j] = True
    memory.began[j] = np.nan
    put_by_priority(queue, memory, j, state.num_waiting)
    state.num_waiting += 1


@part
def refresh_waiting(world: World, queue: Queue, rules: Rules, memory: Memory) -> None:
    """Calculate priorities anew when a period has begun, and take in jobs that were submitted or interrupted."""
    state, episode = memory.state[0], world.episode[0]
    period = int(np.floor(episode.time / rules.calc_period))
    if period > state.calculated:
        state.calculated = period
        for place in range(state.num_waiting):
            j = memory.waiting[place]
            memory.priority[j] = priority_of(world, queue, rules, memory, j)
            put_by_priority(queue, memory, j, place)
    queued = episode.num_active - episode.num_running
    first = state.submitted if state.num_waiting + episode.next_job - state.submitted == queued else 0
    j = next_member(world.queued, len(world.jobs), first) if state.num_waiting < queued else -1
    while j >= 0:
        if not memory.waits[j]:
            take_in(world, queue, rules, memory, j)
        j = next_member(world.queued, len(world.jobs), j + 1)
    state.submitted = episode.next_job


@leaf
def lightest_node(site: Site, lln: bool, size: int, free: IntArray, gpu_type: int) -> int:
    """Return the node to take for some GPUs, of one type or of any if that is negative; -1 if none has room."""
    best = -1
    for n in range(len(free)):
        if free[n] < size or 0 <= gpu_type != site.gpu_types[n]:
            continue
        if best >= 0:
            weight, other = site.weights[site.gpu_types[n]], site.weights[site.gpu_types[best]]
            more = free[n] - free[best]
            if weight > other or (weight == other and (more <= 0 if lln else more >= 0)):
                continue
        best = n
    return best


@leaf
def choose_whole(site: Site, gpu_type: int, lln: bool, size: int, memory: Memory) -> int:
    """Write wholly free nodes of a type and one for the rest; return how many, 0 if there is no room."""
    left, count = size, 0
    for place in range(len(site.by_size)):
        n = site.by_size[place]
        if site.gpu_types[n] != gpu_type or memory.free[n] < site.total[n]:
            continue
        if site.total[n] > left:
            break
        memory.nodes[count], memory.gpus[count] = n, site.total[n]
        memory.free[n] = 0
        left -= site.total[n]
        count += 1
        if left == 0:
            return count
    n = lightest_node(site, lln, left, memory.free, gpu_type)
    if n < 0:
        return 0
    memory.nodes[count], memory.gpus[count] = n, left
    return count + 1


@part
def choose_free(site: Site, types: BoolArray, lln: bool, size: int, memory: Memory) -> int:
    """Choose nodes for a job among `memory.free`, which it may change; return how many, 0 if there is no room.

    The plain form is `baselines.slurm.nodes.choose_nodes`.
    """
    n = lightest_node(site, lln, size, memory.free, -1)
    if n >= 0:
        memory.nodes[0], memory.gpus[0] = n, size
        return 1
    for place in range(len(types)):
        gpu_type = site.by_weight[place]
        if types[gpu_type] and size > site.largest[gpu_type]:
            count = choose_whole(site, gpu_type, lln, size, memory)
            if count > 0:
                return count
    return 0


@leaf
def may_start(world: World, queue: Queue, memory: Memory, j: int) -> bool:
    """Return whether the limits of QoS and associations allow a job to start; `limits.LimitTable.allow` is plain."""
    size = world.jobs[j].num_gpus
    for place in range(queue.first_limit[j], queue.first_limit[j + 1]):
        number = queue.limits[place]
        if memory.used_gpus[number] + size > max(queue.most_gpus[number], size):
            return False
        if memory.used_jobs[number] + 1 > max(queue.most_jobs[number], 1.0):
            return False
    return True


@leaf
def count_running(world: World, queue: Queue, memory: Memory, j: int) -> None:
    """Count a job that runs where limits hold for it."""
    for place in range(queue.first_limit[j], queue.first_limit[j + 1]):
        memory.used_gpus[queue.limits[place]] += world.jobs[j].num_gpus
        memory.used_jobs[queue.limits[place]] += 1


@leaf
def count_again(world: World, queue: Queue, memory: Memory) -> None:
    """Count the jobs that run when a round begins."""
    if len(queue.limits) == 0:
        return
    memory.used_gpus[:] = 0
    memory.used_jobs[:] = 0
    j = next_member(world.running, len(world.jobs), 0)
    while j >= 0:
        count_running(world, queue, memory, j)
        j = next_member(world.running, len(world.jobs), j + 1)


@leaf
def place_job(world: World, queue: Queue, memory: Memory, j: int, count: int) -> None:
    """Give a waiting job the nodes that have been chosen."""
    count_running(world, queue, memory, j)
    if world.jobs[j].touched == 0:
        store_placement(world, j)
        clear_named_settings(world.jobs[j])
    for i in range(count):
        new_share(world, j, memory.nodes[i], memory.gpus[i], np.nan, np.nan)
    memory.began[j] = world.episode[0].time
    memory.waits[j] = False
    hold(memory, j)


@leaf
def hold(memory: Memory, j: int) -> None:
    """Note that a job holds GPUs, for its user's usage."""
    if not memory.is_held[j]:
        memory.is_held[j] = True
        memory.held[memory.state[0].num_held] = j
        memory.state[0].num_held += 1


@leaf
def start_now(world: World, queue: Queue, site: Site, memory: Memory, j: int) -> bool:
    """Start a waiting job if there is room on nodes that are not closed; return whether there was."""
    size = world.jobs[j].num_gpus
    if size > world.episode[0].num_free:
        return False
    for n in range(len(memory.free)):
        gpu_type = site.gpu_types[n]
        usable = queue.types[j, gpu_type] and not memory.closed[gpu_type]
        memory.free[n] = world.nodes[n].free if usable else 0
    count = choose_free(site, queue.types[j], queue.lln[queue.partition[j]], size, memory)
    if count > 0:
        place_job(world, queue, memory, j, count)
    return count > 0


@leaf
def drop_started(world: World, memory: Memory) -> None:
    """Take jobs that start out of the waiting ones."""
    kept = 0
    for place in range(memory.state[0].num_waiting):
        j = memory.waiting[place]
        if memory.waits[j]:
            memory.waiting[kept] = j
            kept += 1
    memory.state[0].num_waiting = kept


@part
def start_by_priority(world: World, queue: Queue, site: Site, rules: Rules, memory: Memory) -> None:
    """Start jobs in order of priority; one without room blocks its partition, and its nodes for all others."""
    state = memory.state[0]
    period = int(np.floor(world.episode[0].time / rules.sched_interval))
    depth = state.num_waiting if period > state.tested_all else rules.depth
    state.tested_all = max(period, state.tested_all)
    memory.blocked[:] = False
    memory.closed[:] = False
    num_blocked = 0
    for place in range(state.num_waiting):
        j = memory.waiting[place]
        partition = queue.partition[j]
        if memory.blocked[partition]:
            continue
        if depth == 0 or num_blocked == len(memory.blocked):
            break
        depth -= 1
        if not may_start(world, queue, memory, j):
            continue
        if not start_now(world, queue, site, memory, j):
            memory.blocked[partition] = True
            num_blocked += 1
            for gpu_type in range(len(memory.closed)):
                memory.closed[gpu_type] |= queue.of_partition[partition, gpu_type]
    drop_started(world, memory)


@leaf
def begin_to_watch(world: World, memory: Memory) -> None:
    """Note the jobs that run when the first round begins, on a copy of a cluster."""
    j = next_member(world.running, len(world.jobs), 0)
    while j >= 0:
        memory.began[j] = world.episode[0].time
        hold(memory, j)
        j = next_member(world.running, len(world.jobs), j + 1)
