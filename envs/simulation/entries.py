"""Where Python enters the engine: what other kernels build on, with the code by which Python calls it."""

from envs.simulation.clock import advance
from envs.simulation.jit import kernel
from envs.simulation.kernels import settle
from envs.simulation.world import World


@kernel
def end_round(world: World) -> int:
    """`envs.simulation.kernels.settle`."""
    return settle(world)


@kernel
def next_round(world: World) -> int:
    """`envs.simulation.clock.advance`."""
    return advance(world)
