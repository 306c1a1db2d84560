"""First in, first out as compiled code: whole episodes without a step back into Python."""

from baselines.compiled.gang import Gangs, place_gang
from envs.simulation.compiled.jit import kernel, leaf, prefetch
from envs.simulation.world.arrays import World
from envs.simulation.world.clock import node_change, pass_to_decision
from envs.simulation.world.kernels import LOG_FULL, ROUND, take_effect
from envs.simulation.world.ordered_set import next_member


@leaf
def start_from_queue(world: World, gangs: Gangs, first: int, skip: bool) -> int:
    """Start waiting jobs from `first` on in order of submission until one does not fit; return that one, or -1.

    With `skip`, start all that fit. Free GPUs only become fewer meanwhile, so if one job of a group found no room, the
    others of the group find none.
    """
    now = world.episode[0].num_rounds
    j = first
    while j >= 0 and world.episode[0].num_free > 0:
        after = next_member(world.queued, len(world.jobs), j + 1)
        for line in range(5):  # all that a start reads
            prefetch(world.jobs, after, line)
        group = gangs.group[world.jobs[j].model, world.jobs[j].num_gpus] if skip else -1
        if (group < 0 or gangs.hopeless[group] != now) and not place_gang(world, gangs, j):
            if group < 0:
                return j
            gangs.hopeless[group] = now
        j = after
    return j


@kernel
def play_fifo(world: World, gangs: Gangs, skip: bool) -> int:
    """Play until the episode ends (END) or the log is full (LOG_FULL; call again to continue).

    Args:
        world: an episode.
        gangs: the tables of `baselines.compiled.gang.gangs_of`.
        skip: whether jobs may pass those that do not fit.
    """
    blocked = -1  # the first job of the queue, if it found no room; until more than arrivals happens, it finds none
    completions = 0
    change = 0.0  # of a node, the next one
    while True:
        if take_effect(world) < 0:
            return LOG_FULL
        outcome = pass_to_decision(world)
        if outcome != ROUND:
            return outcome
        first = next_member(world.queued, len(world.jobs), 0)
        episode = world.episode[0]
        finished = episode.num_events - episode.next_job
        if first != blocked or finished != completions or node_change(world) != change:
            blocked = start_from_queue(world, gangs, first, skip)
            completions = finished
            change = node_change(world)
