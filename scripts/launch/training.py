"""Training runs built from configs. Needs torch and ray."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from agents import rllib
from agents.training import Listener, Trainer
from envs.scheduling import Scheduler
from launch.build import build
from launch.world import build_schedulers, build_world


def build_trainer(cfg: DictConfig, folder: Path, listener: Listener) -> Trainer:
    """The training run that a config describes.

    Raises:
        ChoiceError: an option that does not exist or is of another type.
    """
    world = build_world(cfg)
    env = build(cfg.env)
    return Trainer(
        rllib.World(world.cluster, world.source, world.performance, world.scenario, env.rules, env.reward),
        build(cfg.agent),
        build(cfg.trainer),
        {name: partial(_scheduler, cfg, name) for name in build_schedulers(cfg)},
        folder,
        world.seed,
        listener,
    )


def _scheduler(cfg: DictConfig, name: str) -> Scheduler:
    return build_schedulers(cfg)[name]
