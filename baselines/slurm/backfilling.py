"""The backfill pass as compiled code; `baselines.slurm.plan` is the plain form."""

import numpy as np

from baselines.slurm.memory import BITS, Memory, Queue, Rules
from baselines.slurm.nodes import Site
from baselines.slurm.passes import choose_free, drop_started, may_start, place_job
from envs.simulation.compiled.jit import leaf, part
from envs.simulation.world.arrays import World
from envs.types import IntArray


@leaf
def note_free_times(world: World, queue: Queue, rules: Rules, memory: Memory, n: int) -> None:
    """Write when the jobs on a node leave each number of GPUs free, by their limits."""
    now, node = world.episode[0].time, world.nodes[n]
    times = memory.when[n]
    times[:] = np.inf
    if node.down:
        return
    for free in range(node.free + 1):
        times[free] = now
    count, share = 0, node.first_share
    while share >= 0:
        record = world.shares[share]
        end = memory.began[record.job] + queue.limit[record.job]
        if not end > now:
            end = now + rules.resolution
        place = count
        while place > 0 and memory.ends[place - 1] > end:
            memory.ends[place], memory.counts[place] = memory.ends[place - 1], memory.counts[place - 1]
            place -= 1
        memory.ends[place], memory.counts[place] = end, record.gpus
        count += 1
        share = record.next_of_node
    free = node.free
    for place in range(count):
        for more in range(memory.counts[place]):
            times[free + more + 1] = memory.ends[place]
        free += memory.counts[place]


@leaf
def is_in(words: IntArray, n: int) -> bool:
    """Return whether a node is in a set of nodes."""
    return bool((words[n // BITS] >> (n % BITS)) & 1)


@leaf
def choose_at(site: Site, queue: Queue, memory: Memory, j: int, size: int, time: float) -> int:
    """Choose usable nodes for a job among the GPUs that are free at a time; return how many, 0 for no room."""
    for n in range(len(memory.free)):
        free = 0
        if is_in(memory.usable, n):
            while free < site.total[n] and memory.when[n, free + 1] <= time:
                free += 1
        memory.free[n] = free
    return choose_free(site, queue.types[j], queue.lln[queue.partition[j]], size, memory)


@leaf
def middle_time(site: Site, memory: Memory, low: float, high: float) -> float:
    """Return the middle one of the times between two others at which usable nodes get free GPUs; infinite if none."""
    count = 0
    for n in range(len(site.total)):
        if is_in(memory.usable, n):
            for free in range(1, site.total[n] + 1):
                count += low < memory.when[n, free] < high
    place = count // 2
    for n in range(len(site.total)):
        if is_in(memory.usable, n):
            for free in range(1, site.total[n] + 1):
                if low < memory.when[n, free] < high:
                    if place == 0:
                        return float(memory.when[n, free])
                    place -= 1
    return np.inf


@leaf
def earliest_on_several(site: Site, queue: Queue, memory: Memory, j: int, size: int, now: float, until: float) -> float:
    """Return the first time at which a job finds room that may need several nodes; infinite if none until a time."""
    if choose_at(site, queue, memory, j, size, until) == 0:
        return np.inf
    if choose_at(site, queue, memory, j, size, now) > 0:
        return now
    low, high = now, now
    for n in range(len(site.total)):
        if is_in(memory.usable, n):
            for free in range(1, site.total[n] + 1):
                if memory.when[n, free] <= until:
                    high = max(high, memory.when[n, free])
    while True:  # feasible at `high`, not at `low`
        time = middle_time(site, memory, low, high)
        if time == np.inf:
            return high
        if choose_at(site, queue, memory, j, size, time) > 0:
            high = time
        else:
            low = time


@leaf
def seed_usable(site: Site, queue: Queue, memory: Memory, j: int, size: int, until: float) -> None:
    """Write the nodes of a job's types on which so many GPUs get free until a time."""
    memory.usable[:] = 0
    for n in range(len(site.total)):
        if queue.types[j, site.gpu_types[n]] and size <= site.total[n] and memory.when[n, size] <= until:
            memory.usable[n // BITS] |= 1 << (n % BITS)


@leaf
def needs_several(site: Site, queue: Queue, j: int, size: int) -> bool:
    """Return whether a job may need several nodes of one of its types."""
    several = False
    for gpu_type in range(len(site.largest)):
        several |= queue.types[j, gpu_type] and size > site.largest[gpu_type]
    return several


@part
def find_earliest(
    world: World, queue: Queue, site: Site, memory: Memory, j: int, several: bool, head: int, at: float, until: float
) -> float:
    """Return when a job first finds room, until a time, on nodes promised to nobody for its limit from `at` on.

    It leaves these nodes in `memory.usable`. Infinite if there is no room until then.
    """
    size, now = world.jobs[j].num_gpus, world.episode[0].time
    seed_usable(site, queue, memory, j, 0 if several else size, until)
    if not keep_unpromised(memory, head, at + queue.limit[j]):
        return np.inf
    if several:
        return earliest_on_several(site, queue, memory, j, size, now, until)
    time = np.inf
    for n in range(len(site.total)):
        if size <= site.total[n] and memory.when[n, size] < time and is_in(memory.usable, n):
            time = memory.when[n, size]
    return time


@leaf
def first_end(rules: Rules, time: float) -> float:
    """Return an end of a reservation: a time, rounded down to the resolution."""
    return float(np.floor(time / rules.resolution) * rules.resolution)


@leaf
def is_promised(world: World, rules: Rules, memory: Memory, start: float, limit: float, count: int) -> bool:
    """Return whether a chosen node is promised to another job within a span."""
    first = max(first_end(rules, start), world.episode[0].time)
    last = first_end(rules, start + limit)
    span = 0
    while span >= 0 and memory.begin[span] < last:
        if memory.end[span] > first:
            for i in range(count):
                if not is_in(memory.unpromised[span], memory.nodes[i]):
                    return True
        span = memory.after[span]
    return False


@leaf
def keep_unpromised(memory: Memory, head: int, until: float) -> bool:
    """Take the nodes out of `memory.usable` that are promised from a span on until a time; return whether some stay."""
    span, some = head, True
    while span >= 0 and memory.begin[span] <= until and some:
        some = False
        for word in range(len(memory.usable)):
            memory.usable[word] &= memory.unpromised[span, word]
            some |= memory.usable[word] != 0
        span = memory.after[span]
    return some


@leaf
def take_up(world: World, queue: Queue, site: Site, rules: Rules, memory: Memory, j: int, several: bool) -> float:
    """Return from when on to look for a start of a job: where the last search for its group ended in this pass."""
    now, group, passes = world.episode[0].time, queue.group[j], memory.state[0].passes
    if memory.planned[group] == passes:
        return float(memory.resume[group])
    memory.planned[group] = passes
    memory.soonest[group] = find_earliest(world, queue, site, memory, j, several, -1, now, now + rules.window)
    return float(now)


@part
def plan_start(world: World, queue: Queue, site: Site, rules: Rules, memory: Memory, j: int) -> tuple[float, int]:
    """Return the earliest start of a job for its whole limit, and how many nodes were chosen; infinite if none."""
    now, group, size = world.episode[0].time, queue.group[j], world.jobs[j].num_gpus
    until, limit, head = now + rules.window, queue.limit[j], 0
    several = needs_several(site, queue, j, size)
    at = take_up(world, queue, site, rules, memory, j, several)
    memory.resume[group] = np.inf
    while at < np.inf:
        while head >= 0 and memory.end[head] <= at:
            head = memory.after[head]
        later = memory.end[head] if head >= 0 and memory.end[head] < until else np.inf
        if memory.soonest[group] > later:  # even if nothing were promised
            at = later
            continue
        time = find_earliest(world, queue, site, memory, j, several, head, at, min(later, until))
        start = max(time, at)
        if start > now and start > later:
            at = later
        elif start > until:
            break
        else:
            count = choose_at(site, queue, memory, j, size, time)
            if start <= now or not is_promised(world, rules, memory, start, limit, count):
                memory.resume[group] = at
                return start, count
            at = start if start > at else later
    return np.inf, 0


@leaf
def split_span(memory: Memory, span: int, time: float) -> None:
    """Divide a span at a time within it."""
    if not memory.begin[span] < time < memory.end[span]:
        return
    new = memory.state[0].num_spans
    memory.state[0].num_spans += 1
    memory.begin[new], memory.end[new] = time, memory.end[span]
    memory.after[new], memory.after[span] = memory.after[span], new
    memory.end[span] = time
    for word in range(len(memory.usable)):
        memory.unpromised[new, word] = memory.unpromised[span, word]


@leaf
def reserve(world: World, rules: Rules, memory: Memory, start: float, limit: float, count: int) -> None:
    """Promise the chosen nodes to a job."""
    first = max(first_end(rules, start), world.episode[0].time)
    last = first_end(rules, start + limit)
    span = 0
    while span >= 0:
        split_span(memory, span, first)
        split_span(memory, span, last)
        if memory.begin[span] >= first and memory.end[span] <= last:
            for i in range(count):
                n = memory.nodes[i]
                memory.unpromised[span, n // BITS] &= ~(1 << (n % BITS))
        span = memory.after[span]


@leaf
def could_start(world: World, queue: Queue, site: Site, memory: Memory, j: int) -> bool:
    """Return whether a node with enough free GPUs is promised to nobody for a job's limit; False is final."""
    group, passes = queue.group[j], memory.state[0].passes
    if memory.stuck[group] == passes or not may_start(world, queue, memory, j):
        return False
    size, now = world.jobs[j].num_gpus, world.episode[0].time
    memory.usable[:] = 0
    for n in range(len(site.total)):
        gpu_type, free = site.gpu_types[n], world.nodes[n].free
        whole = size > site.largest[gpu_type] and free == site.total[n]  # one of several nodes
        if (free >= size or whole) and queue.types[j, gpu_type]:
            memory.usable[n // BITS] |= 1 << (n % BITS)
    if keep_unpromised(memory, 0, now + queue.limit[j]):
        return True
    memory.stuck[group] = passes
    return False


@leaf
def find_last_candidate(world: World, queue: Queue, site: Site, memory: Memory, last: int) -> int:
    """Return the place of the last waiting job, up to one, that could start now; -1 if none. Others need no plan."""
    while last >= 0 and not could_start(world, queue, site, memory, memory.waiting[last]):
        last -= 1
    return last


@leaf
def begin_plan(world: World, queue: Queue, rules: Rules, memory: Memory) -> None:
    """Begin a plan with one span, in which nothing is promised."""
    now = world.episode[0].time
    for n in range(len(world.nodes)):
        note_free_times(world, queue, rules, memory, n)
    memory.begin[0], memory.end[0], memory.after[0] = now, now + rules.window, -1
    memory.unpromised[0, :] = (1 << BITS) - 1
    memory.state[0].num_spans = 1
    memory.state[0].passes += 1
    memory.reserved[:] = 0
    memory.by_part[:] = 0
    memory.by_user[:] = 0


@part
def run_backfill(world: World, queue: Queue, site: Site, rules: Rules, memory: Memory) -> None:
    """Plan a start for waiting jobs in order of priority; those that can start now do."""
    if world.episode[0].num_free == 0:
        return
    begin_plan(world, queue, rules, memory)
    now, tested = world.episode[0].time, 0
    last = find_last_candidate(world, queue, site, memory, memory.state[0].num_waiting - 1)
    for place in range(memory.state[0].num_waiting):
        if place > last or world.episode[0].num_free == 0:
            break
        j = memory.waiting[place]
        user, partition, limit = queue.user[j], queue.partition[j], queue.limit[j]
        if tested >= rules.tests:
            break
        if not may_start(world, queue, memory, j):
            continue
        if 0 < rules.by_user <= memory.by_user[user] or 0 < rules.by_part <= memory.by_part[partition]:
            continue
        tested += 1
        memory.by_user[user] += 1
        memory.by_part[partition] += 1
        start, count = plan_start(world, queue, site, rules, memory, j)
        if start <= now:
            place_job(world, queue, memory, j, count)
            for i in range(count):
                note_free_times(world, queue, rules, memory, memory.nodes[i])
            last = find_last_candidate(world, queue, site, memory, last)
        elif start > now + rules.window or 0 < rules.reserves <= memory.reserved[partition]:
            continue
        elif memory.state[0].num_spans >= rules.tests:
            break
        else:
            memory.reserved[partition] += 1
            reserve(world, rules, memory, start, limit, count)
            last = find_last_candidate(world, queue, site, memory, last)
    drop_started(world, memory)
