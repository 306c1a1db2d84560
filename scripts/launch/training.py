"""Training runs and trained policies, built from configs. The only part of the launcher that needs torch and ray."""

from functools import partial
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from agents import rllib
from agents.checkpoint import Checkpoint
from agents.scheduler import PolicyScheduler
from agents.training import Listener, Trainer
from launch.build import build
from launch.names import ChoiceError
from launch.world import build_schedulers, build_world

WORLD = ("cluster", "performance", "scenario", "workload", "env")


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


def _scheduler(cfg: DictConfig, name: str) -> object:
    return build_schedulers(cfg)[name]


def build_policy(cfg: DictConfig) -> PolicyScheduler:
    """The trained policy that `cfg.checkpoint` names.

    Raises:
        CheckpointError: there is none, or it cannot be read.
    """
    return Checkpoint.load(cfg.checkpoint).scheduler(sampled=cfg.sampled)


def recall(cfg: DictConfig, run: str | Path, groups: tuple[str, ...] = WORLD) -> DictConfig:
    """A config with the groups of an earlier run, except for what was typed for this one.

    Args:
        cfg: this run's config.
        run: folder of the earlier run, or of a checkpoint in it.
        groups: top-level keys to take over.

    Raises:
        ChoiceError: the folder does not exist.
    """
    folder = Path(run)
    if not folder.is_dir():
        raise ChoiceError(f"{folder}: no such folder; give the folder that training printed as `run:`")
    saved = next((place for place in (folder, *folder.parents) if (place / ".hydra" / "config.yaml").exists()), None)
    if saved is None:
        return cfg
    earlier = OmegaConf.load(saved / ".hydra" / "config.yaml")
    typed = [text.lstrip("+") for text in HydraConfig.get().overrides.task]
    chosen = {text.partition("=")[0] for text in typed}
    for group in groups:
        if group in earlier and group not in chosen:
            OmegaConf.update(cfg, group, earlier[group], merge=False)
    for text in typed:
        key, _, value = text.partition("=")
        if key.partition(".")[0] in groups and "." in key:
            OmegaConf.update(cfg, key, OmegaConf.from_dotlist([f"value={value}"]).value)
    return cfg


def resumed(cfg: DictConfig, folder: Path) -> tuple[DictConfig, Path]:
    """The config and folder to train with: those of the run to resume, if there is one."""
    if not cfg.resume:
        return cfg, folder
    everything = tuple(str(key) for key in cfg if key not in ("resume",))
    return recall(cfg, cfg.resume, everything), Path(cfg.resume)
