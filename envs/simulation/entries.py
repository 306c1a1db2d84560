"""Entry points of the engine for Python: kernels around functions that other kernels inline."""

from envs.simulation.beliefs import note_seen
from envs.simulation.clock import advance
from envs.simulation.jit import kernel
from envs.simulation.kernels import settle
from envs.simulation.predictions import list_jobs_present, show_predicted
from envs.simulation.world import World
from envs.types import FloatArray, IntArray


@kernel
def end_round(world: World) -> int:
    """Call `envs.simulation.kernels.settle`."""
    return settle(world)


@kernel
def next_round(world: World) -> int:
    """Call `envs.simulation.clock.advance`."""
    return advance(world)


@kernel
def find_seen(world: World, sampled: FloatArray, seen: IntArray) -> int:
    """Call `envs.simulation.beliefs.note_seen`."""
    return note_seen(world, sampled, seen)


@kernel
def find_jobs_present(world: World, present: IntArray, done: FloatArray) -> int:
    """Call `envs.simulation.predictions.list_jobs_present`."""
    return list_jobs_present(world, present, done)


@kernel
def set_estimates(world: World, present: IntArray, work: FloatArray) -> None:
    """Call `envs.simulation.predictions.show_predicted`."""
    show_predicted(world, present, work)
