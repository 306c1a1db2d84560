"""The task of a run: what it is called, whether it was modified, and how many episodes each scheduler plays."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from envs.evaluation.task import Task, hash_problem
from launch.arguments import BATCH_SCHEDULERS, SLOW_SCHEDULERS, SLOWEST_SCHEDULERS
from launch.building import build_object
from launch.errors import ChoiceError
from launch.inputs import RunInputs

PROBLEM_KEYS = ("cluster", "performance", "estimator", "scenario", "workload", "seed")


def build_task(cfg: DictConfig) -> Task | None:
    """Build the task that the config chooses; None with `task=none`."""
    return build_object(cfg.task, Task) if cfg.get("task") else None


def find_hash(cfg: DictConfig, inputs: RunInputs, task: Task) -> str:
    """Return the hash of the problem that a config describes, with its episodes for evaluation; reads traces."""
    configuration = {key: cfg[key] for key in PROBLEM_KEYS if cfg.get(key) is not None}
    resolved = OmegaConf.to_container(OmegaConf.create(configuration), resolve=True)
    episodes = inputs.source.evaluation()
    return hash_problem(cast(Mapping[str, Any], resolved), inputs.setup, inputs.source.models, episodes, task)


def describe_task(cfg: DictConfig, inputs: RunInputs, split: str | None, num_episodes: int) -> dict[str, Any]:
    """Return what results say of their task, under the key `task`; nothing without a task.

    Args:
        cfg: the config.
        inputs: what was built from it.
        split: the split that is played; None is the source's choice.
        num_episodes: the number of its episodes that are played, the first ones.
    """
    task = build_task(cfg)
    if task is None:
        return {}
    notes = []
    total = len(inputs.source.evaluation(split))
    if inputs.source.evaluation(split) is not inputs.source.evaluation():
        notes.append(f"split {split}")
    if num_episodes < total:
        notes.append(f"the first {num_episodes} of {total} episodes")
    return {"task": task.identify(find_hash(cfg, inputs, task), ", ".join(notes))}


def count_episodes(cfg: DictConfig, total: int) -> int:
    """Return the number of episodes to play: `cfg.episodes`, at most all.

    Raises:
        ChoiceError: it is not a positive whole number.
    """
    wanted = cfg.get("episodes")
    if wanted is None:
        return total
    if not isinstance(wanted, int) or wanted < 1:
        raise ChoiceError(f"episodes is {wanted!r}; it must be a whole number of at least 1, or null for all")
    return min(wanted, total)


def limit_slow(cfg: DictConfig, names: Sequence[str]) -> dict[str, int]:
    """Return the number of episodes that each slow scheduler among the names plays; nothing without a task."""
    task = build_task(cfg)
    if task is None:
        return {}
    most = dict.fromkeys(SLOW_SCHEDULERS, task.slow_episodes) | dict.fromkeys(SLOWEST_SCHEDULERS, task.slowest_episodes)
    return {name: most[name] for name in names if name in most}


def leave_out(cfg: DictConfig) -> dict[str, str]:
    """Return the schedulers of `scheduler=all` that the task has no rows for, with the reason."""
    task = build_task(cfg)
    if task is None or not cfg.optional or cfg.scenario.get("batch_sizes") != "usual":
        return {}
    reason = "it chooses batch sizes, and jobs keep their usual ones in this task"
    return {name: reason for name in BATCH_SCHEDULERS if name in cfg.schedulers}
