"""Entry points of the engine for Python: kernels around functions that other kernels inline."""

from envs.simulation.clock import advance
from envs.simulation.jit import kernel
from envs.simulation.kernels import settle
from envs.simulation.world import World


@kernel
def end_round(world: World) -> int:
    """Call `envs.simulation.kernels.settle`."""
    return settle(world)


@kernel
def next_round(world: World) -> int:
    """Call `envs.simulation.clock.advance`."""
    return advance(world)
