"""Kueue before first in, first out as compiled code: whole episodes without a step back into Python."""

from typing import NamedTuple

import numpy as np

from baselines.compiled.gang import Gangs, gangs_of, place_gang
from baselines.kueue.compiled_lines import (
    Lines,
    admit_job,
    has_run,
    lines_of,
    next_of_class,
    note_running,
    return_quota,
    wait_for_admission,
)
from baselines.kueue.compiled_search import FINAL, INITIAL, search_victims
from baselines.kueue.compiled_tree import (
    NEVER,
    Quotas,
    find_tops,
    left_for,
    quotas_of,
    share_of,
    share_then,
    use_quota,
)
from baselines.kueue.queue_tree import QueueTree
from envs.simulation import SimulatedEpisode
from envs.simulation.compiled.jit import kernel, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.clock import pass_to_decision
from envs.simulation.world.kernels import LOG_FULL, ROUND, take_effect
from envs.simulation.world.ordered_set import next_member, remove
from envs.simulation.world.shares import clear_job
from envs.types import IntArray


class AdmissionRules(NamedTuple):
    """Settings of `Kueue` and of the scheduler behind it.

    Attributes:
        fair: whether shares order admission and preemption.
        first: FINAL or INITIAL, the first strategy.
        second: whether LessThanInitialShare is tried after it.
        skip: whether jobs may pass those that find no room.
    """

    fair: bool
    first: int
    second: bool
    skip: bool


@leaf
def surely_refused(tree: Quotas, lines: Lines, rules: AdmissionRules, queue: int, gpus: float, level: int) -> bool:
    """Return whether a job of a queue that does not fit finds no victims; False if that takes a search.

    If so, jobs of the queue that are larger and no more urgent find none either. `find_tops` has been called.
    """
    if gpus > tree.most[queue]:
        return True
    if tree.within[queue] != NEVER:
        for less in range(level + 1, lines.newest.shape[1]):
            if lines.newest[queue, less] >= 0:
                return False
    if tree.reclaim[queue] == NEVER:
        return True
    if tree.used[queue] + gpus <= tree.quota[queue]:
        return False
    if not rules.fair:
        return True
    use_quota(tree, queue, gpus)
    node = queue
    sure = True
    while tree.parent[node] >= 0:
        above = tree.parent[node]
        other = tree.top[above, 1] if tree.top_child[above] == node else tree.top[above, 0]
        if other >= 0 and not share_of(tree, node) > other:
            sure = False
        node = above
    use_quota(tree, queue, -gpus)
    return sure


@leaf
def find_head(lines: Lines, queue: int) -> int:
    """Return the class of the next job of a queue that is still considered; -1 for none."""
    best = -1
    if lines.closed[queue]:
        return best
    for group in range(lines.first_class[queue], lines.first_class[queue + 1]):
        if lines.candidate[group] < 0 or lines.refused[group]:
            continue
        if best >= 0 and lines.class_level[group] > lines.class_level[best]:
            break  # classes are ordered by level
        if best < 0 or lines.job_at[lines.candidate[group]] < lines.job_at[lines.candidate[best]]:
            best = group
    return best


@leaf
def anything_possible(tree: Quotas, lines: Lines, rules: AdmissionRules) -> bool:
    """Return whether a queue has a job that fits, or one that may find victims."""
    for queue in range(len(tree.parent)):
        head = lines.head[queue]
        if head < 0:
            continue
        gpus = np.inf
        for group in range(lines.first_class[queue], lines.first_class[queue + 1]):
            if lines.candidate[group] >= 0 and not lines.refused[group]:
                gpus = min(gpus, lines.class_gpus[group])
        if left_for(tree, queue) >= gpus:
            return True
        if not surely_refused(tree, lines, rules, queue, gpus, lines.class_level[head]):
            return True
    return False


@leaf
def ranks_first(lines: Lines, one: int, other: int) -> bool:
    """Return whether the head of a queue ranks before that of another."""
    mine, theirs = lines.head[one], lines.head[other]
    if lines.class_level[mine] != lines.class_level[theirs]:
        return bool(lines.class_level[mine] < lines.class_level[theirs])
    return bool(lines.job_at[lines.candidate[mine]] < lines.job_at[lines.candidate[theirs]])


@leaf
def fairest_queue(tree: Quotas, lines: Lines) -> int:
    """Return the queue whose job is considered next, by the tournament of `QueueTree.fairest`; -1 for none."""
    best = -1
    for queue in range(len(tree.parent)):
        lines.winner[queue] = queue if lines.head[queue] >= 0 else -1
        lines.winning[queue] = 0.0
    for place in range(len(tree.order)):
        node = tree.order[place]
        queue = lines.winner[node]
        if queue < 0:
            continue
        above = tree.parent[node]
        if above < 0:
            if best < 0 or ranks_first(lines, queue, best):
                best = queue
            continue
        share = share_then(tree, node, queue, lines.class_gpus[lines.head[queue]])
        held = lines.winner[above]
        if (
            held < 0
            or share < lines.winning[above]
            or (share == lines.winning[above] and ranks_first(lines, queue, held))
        ):
            lines.winner[above] = queue
            lines.winning[above] = share
    return best


@leaf
def next_queue(tree: Quotas, lines: Lines, rules: AdmissionRules) -> int:
    """Return the queue whose job is considered next; -1 for none."""
    if rules.fair:
        return fairest_queue(tree, lines)
    best = -1
    borrows = False
    for queue in range(len(tree.parent)):
        head = lines.head[queue]
        if head < 0:
            continue
        beyond = tree.used[queue] + lines.class_gpus[head] > tree.quota[queue]
        if best < 0 or (borrows and not beyond) or (beyond == borrows and ranks_first(lines, queue, best)):
            best = queue
            borrows = beyond
    return best


@leaf
def pass_refused(tree: Quotas, lines: Lines) -> None:
    """After an admission, consider refused classes again, but not the jobs that stood before the heads of queues."""
    for queue in range(len(tree.parent)):
        head = lines.head[queue]
        lines.closed[queue] = lines.closed[queue] or head < 0
        for group in range(lines.first_class[queue], lines.first_class[queue + 1]):
            if not lines.refused[group]:
                continue
            lines.refused[group] = False
            if head < 0 or lines.class_level[group] < lines.class_level[head]:
                lines.candidate[group] = -1
            elif lines.class_level[group] == lines.class_level[head]:
                passed_by = lines.job_at[lines.candidate[head]]
                while lines.candidate[group] >= 0 and lines.job_at[lines.candidate[group]] < passed_by:
                    lines.candidate[group] = next_of_class(lines, group, lines.candidate[group] + 1)


@leaf
def stop_victims(world: World, tree: Quotas, lines: Lines, count: int) -> None:
    """Take quota and GPUs from the jobs in `taken`; they wait for admission from the next round on."""
    for place in range(count):
        j = lines.taken[place]
        return_quota(tree, lines, j)
        if has_run(lines, j):
            note_running(lines, j, False)
            clear_job(world, j)
        else:
            remove(lines.ready, len(lines.job_at), j)


@leaf
def admit_waiting(world: World, tree: Quotas, lines: Lines, rules: AdmissionRules, returning: IntArray) -> int:
    """Admit jobs until no queue has one that fits or may preempt; return the number of jobs in `returning`."""
    count = 0
    for group in range(len(lines.candidate)):
        lines.candidate[group] = lines.first[group]
        lines.refused[group] = False
    for queue in range(len(tree.parent)):
        lines.closed[queue] = False
        lines.head[queue] = find_head(lines, queue)
    fresh = True
    while True:
        if fresh:
            find_tops(tree)
            fresh = False
        if not anything_possible(tree, lines, rules):
            return count
        queue = next_queue(tree, lines, rules)
        group = lines.head[queue]
        place = lines.candidate[group]
        j = lines.job_at[place]
        victims = 0
        if left_for(tree, queue) < lines.gpus[j]:
            if not surely_refused(tree, lines, rules, queue, lines.gpus[j], lines.level[j]):
                victims = search_victims(tree, lines, j, rules.fair, rules.first, rules.second)
            if victims == 0:
                lines.candidate[group] = next_of_class(lines, group, place + 1)
                lines.refused[group] = True
                lines.closed[queue] = lines.closed[queue] or tree.strict[queue]
                lines.head[queue] = find_head(lines, queue)
                continue
            for i in range(victims):
                returning[count] = lines.taken[i]
                count += 1
            stop_victims(world, tree, lines, victims)
        pass_refused(tree, lines)
        lines.candidate[group] = next_of_class(lines, group, place + 1)
        admit_job(tree, lines, j, world.episode[0].time)
        for each in range(len(tree.parent)):
            lines.head[each] = find_head(lines, each)
        fresh = True


@leaf
def release_quotas(world: World, tree: Quotas, lines: Lines) -> None:
    """Take the quota of jobs that have ended since the last round."""
    for word in range(len(lines.running)):
        gone = lines.running[word] & ~world.running[word]
        while gone != 0:
            bit = 0
            while not (gone >> bit) & 1:
                bit += 1
            gone &= gone - 1
            j = (word << 5) + bit
            note_running(lines, j, False)
            return_quota(tree, lines, j)


@leaf
def start_admitted(world: World, lines: Lines, gangs: Gangs, skip: bool) -> None:
    """Start admitted jobs in order of submission; with `skip`, all that fit, else until one does not."""
    now = world.episode[0].num_rounds
    size = len(lines.job_at)
    j = next_member(lines.ready, size, 0)
    while j >= 0 and world.episode[0].num_free > 0:
        group = gangs.group[world.jobs[j].model, world.jobs[j].num_gpus]
        if gangs.hopeless[group] != now:
            if place_gang(world, gangs, j):
                remove(lines.ready, size, j)
                note_running(lines, j, True)
            elif not skip:
                return
            else:
                gangs.hopeless[group] = now
        j = next_member(lines.ready, size, j + 1)


@kernel
def play_queues(
    world: World, gangs: Gangs, tree: Quotas, lines: Lines, rules: AdmissionRules, returning: IntArray, state: IntArray
) -> int:
    """Play until the episode ends (END) or the log is full (LOG_FULL; call again to continue).

    Args:
        world: an episode.
        gangs: the tables of `baselines.compiled.gang.gangs_of`.
        tree: quotas.
        lines: the jobs.
        rules: settings.
        returning: int64[num_jobs], victims of the round before, which wait for admission again.
        state: int64[3], number of jobs that have come, number of `returning`, and of events that were seen.
    """
    while True:
        if take_effect(world) < 0:
            return LOG_FULL
        for i in range(state[1]):
            wait_for_admission(lines, returning[i])
        state[1] = 0
        outcome = pass_to_decision(world)
        if outcome != ROUND:
            return outcome
        ended = world.episode[0].num_events - world.episode[0].next_job
        if ended != state[2]:
            release_quotas(world, tree, lines)
            state[2] = ended
        for j in range(state[0], world.episode[0].next_job):
            wait_for_admission(lines, j)
        state[0] = world.episode[0].next_job
        state[1] = admit_waiting(world, tree, lines, rules, returning)
        start_admitted(world, lines, gangs, rules.skip)


def play_behind_queues(
    simulator: SimulatedEpisode, tree: QueueTree, queues: IntArray, strategies: tuple[str, ...], fair: bool, skip: bool
) -> bool:
    """Play a whole episode; return False and change nothing if something needs `Kueue.schedule`.

    That is: nodes fail, jobs are held, a queue has no weight or preempts by time of submission, or a gang fits no one
    GPU type.

    Args:
        simulator: the episode.
        tree: without use.
        queues: int64[num_jobs], the queue of each job, by its place in the tree.
        strategies: see `Kueue`.
        fair: see `Kueue`.
        skip: see `AdmissionRules`.
    """
    settings = tree.settings.values()
    odd = any(queue.weight == 0 or queue.within_queue == "lower_or_newer" for queue in settings)
    workload, scenario = simulator.workload, simulator.scenario
    gangs = None if odd or scenario.failures or workload.waits else gangs_of(simulator)
    jobs = simulator.state.jobs[0]
    if gangs is None or np.count_nonzero(jobs["submit"] < np.inf) != len(workload):
        return False
    columns = workload.jobs
    lines = lines_of(queues, columns["num_gpus"], columns["priority"], len(tree.settings))
    first = FINAL if strategies[0] == "final" else INITIAL
    rules = AdmissionRules(fair, first, len(strategies) > 1, skip)
    arrays = quotas_of(tree)
    returning, state = np.zeros(len(workload), np.int64), np.zeros(3, np.int64)
    while play_queues(simulator.world, gangs, arrays, lines, rules, returning, state) == LOG_FULL:
        simulator.grow_log()
    return True
