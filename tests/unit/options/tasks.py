"""A small task for tests of policies that choose options."""

from agents.problems.options import OptionTask
from envs.episodes import TeamReward
from envs.options import OptionRules
from tests.unit.agents.worlds import small_world


def small_task(changes: str = "start", num_jobs: int = 12, num_nodes: int = 2, reward: object = None) -> OptionTask:
    """A few jobs on a few nodes, at twice the load that they can hold."""
    world = small_world(num_nodes=num_nodes, num_jobs=num_jobs, load=2.0)
    rules = OptionRules(changes=changes)  # type: ignore[arg-type]
    return OptionTask("small", world.setup, world.source, rules, reward or TeamReward())  # type: ignore[arg-type]
