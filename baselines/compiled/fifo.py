"""First in, first out as compiled code: whole episodes without a step back into Python."""

from baselines.compiled.gang import Gangs, place_gang
from envs.simulation.clock import advance
from envs.simulation.jit import kernel, leaf
from envs.simulation.kernels import LOG_FULL, ROUND, settle
from envs.simulation.ordered_set import next_member
from envs.simulation.world import World


@leaf
def start_until_blocked(world: World, gangs: Gangs) -> None:
    """Start waiting jobs in order of submission until one does not fit."""
    j = next_member(world.queued, len(world.jobs), 0)
    while j >= 0 and place_gang(world, gangs, j):
        j = next_member(world.queued, len(world.jobs), j + 1)


@leaf
def start_fitting(world: World, gangs: Gangs) -> None:
    """Start each waiting job that fits, in order of submission.

    Free GPUs only become fewer meanwhile, so if one job of a group found no room, the others of the group find none.
    """
    now = world.episode[0].num_rounds
    j = next_member(world.queued, len(world.jobs), 0)
    while j >= 0 and world.episode[0].num_free > 0:
        group = gangs.group[world.jobs[j].model, world.jobs[j].num_gpus]
        if gangs.hopeless[group] != now and not place_gang(world, gangs, j):
            gangs.hopeless[group] = now
        j = next_member(world.queued, len(world.jobs), j + 1)


@kernel
def play_fifo(world: World, gangs: Gangs, skip: bool) -> int:
    """Play until the episode ends (END) or the log is full (LOG_FULL; call again to continue).

    Args:
        world: an episode.
        gangs: the tables of `baselines.compiled.gang.gangs_of`.
        skip: whether jobs may pass those that do not fit.
    """
    while True:
        if settle(world) < 0:
            return LOG_FULL
        outcome = advance(world)
        if outcome != ROUND:
            return outcome
        if skip:
            start_fitting(world, gangs)
        else:
            start_until_blocked(world, gangs)
