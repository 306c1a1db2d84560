"""The search for a scheduler's numbers, built from a config."""

from collections.abc import Mapping
from functools import partial

from hydra import compose
from omegaconf import DictConfig

from envs.evaluation.tuning import Ground, Make, Parameter, Yardstick, training_ground
from envs.scheduling import Scheduler
from launch.build import build
from launch.choices import with_schedulers
from launch.options import with_options
from launch.world import build_schedulers, build_world


def grounds(cfg: DictConfig, split: str) -> list[Ground]:
    """One ground for each of `cfg.worlds`: options as `scripts/compare.py` takes them, with `cfg.options` for all.

    Raises:
        ChoiceError: an option that does not exist or is of another type.
    """
    made = []
    for number, options in enumerate(cfg.worlds):
        world = build_world(compose("compare", with_options([*options, *cfg.tuning.options])))
        place = (world.source, world.cluster, world.performance, world.scenario)
        made.append(training_ground(*place, cfg.workloads, cfg.seed + number, split))
    return made


def yardstick(cfg: DictConfig, split: str) -> Yardstick:
    """How good a scheduler is on a split, beside `cfg.tuning.reference`, a scheduler of the library."""
    chosen = compose("compare", with_schedulers([], cfg.tuning.reference))
    return Yardstick(grounds(cfg, split), build_schedulers(chosen)[cfg.tuning.reference])


def maker(cfg: DictConfig) -> Make:
    """What builds the scheduler with changed numbers: the `_target_` of `cfg.tuning.scheduler`, given `changes`."""
    return partial(_made, cfg.tuning.scheduler)


def parameters(cfg: DictConfig) -> dict[str, Parameter]:
    """What to search for, by name.

    Raises:
        ChoiceError: a range with an option that there is not.
    """
    return {str(name): build(node) for name, node in cfg.tuning.parameters.items()}


def _made(node: DictConfig, changes: Mapping[str, float]) -> Scheduler:
    scheduler: Scheduler = build(node, changes=changes)
    return scheduler
