"""Entry points of the engine for Python: kernels around functions that other kernels inline."""

from envs.simulation.compiled.jit import kernel
from envs.simulation.known.beliefs import note_seen
from envs.simulation.known.predictions import list_jobs_present, show_predicted
from envs.simulation.world.arrays import World
from envs.simulation.world.clock import advance
from envs.simulation.world.kernels import settle
from envs.types import FloatArray, IntArray


@kernel
def end_round(world: World) -> int:
    """Call `envs.simulation.world.kernels.settle`."""
    return settle(world)


@kernel
def next_round(world: World) -> int:
    """Call `envs.simulation.world.clock.advance`."""
    return advance(world)


@kernel
def find_seen(world: World, sampled: FloatArray, seen: IntArray) -> int:
    """Call `envs.simulation.known.beliefs.note_seen`."""
    return note_seen(world, sampled, seen)


@kernel
def find_jobs_present(world: World, present: IntArray, done: FloatArray) -> int:
    """Call `envs.simulation.known.predictions.list_jobs_present`."""
    return list_jobs_present(world, present, done)


@kernel
def set_estimates(world: World, present: IntArray, work: FloatArray) -> None:
    """Call `envs.simulation.known.predictions.show_predicted`."""
    show_predicted(world, present, work)
