"""Training runs built from configs. Needs torch and ray."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from agents import rllib
from agents.training import Trainer, TrainingListener
from envs.scheduling import Scheduler
from launch.building import build_object
from launch.inputs import build_inputs, build_schedulers


def build_trainer(cfg: DictConfig, folder: Path, listener: TrainingListener) -> Trainer:
    """Build the training run that a config describes.

    Raises:
        ChoiceError: an option that does not exist or has another type.
    """
    inputs = build_inputs(cfg)
    env = build_object(cfg.env)
    return Trainer(
        rllib.TrainingSetup(inputs.setup, inputs.source, env.rules, env.reward),
        build_object(cfg.agent),
        build_object(cfg.trainer),
        {name: partial(_build_scheduler, cfg, name) for name in build_schedulers(cfg)},
        folder,
        inputs.seed,
        listener,
    )


def _build_scheduler(cfg: DictConfig, name: str) -> Scheduler:
    return build_schedulers(cfg)[name]
