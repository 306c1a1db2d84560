"""Configs of earlier runs: to play a policy in the world that it was trained in, to go on with a training run."""

from pathlib import Path
from typing import cast

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from launch.names import ChoiceError

WORLD = {"cluster", "performance", "scenario", "workload"}  # a checkpoint knows its env by itself
SAVED = Path(".hydra") / "config.yaml"


def of_checkpoint(cfg: DictConfig) -> DictConfig:
    """The config with the world of the run that left `cfg.checkpoint`; as it is if that run's config was not kept.

    Raises:
        ChoiceError: no checkpoint is named, or its folder does not exist.
    """
    folder = existing(cfg, "checkpoint").resolve()
    run = next((place for place in (folder, *folder.parents[:2]) if (place / SAVED).exists()), None)
    return recalled(cfg, run, WORLD) if run else cfg


def resumed(cfg: DictConfig, folder: Path) -> tuple[DictConfig, Path]:
    """The config and folder to train with: those of the run that `cfg.resume` names, if it names one.

    Raises:
        ChoiceError: the folder does not exist, or holds no training run.
    """
    if not cfg.resume:
        return cfg, folder
    run = existing(cfg, "resume")
    if not (run / SAVED).exists():
        raise ChoiceError(f"resume={run}: holds no training run; give the folder that training printed as `run:`")
    return recalled(cfg, run, {str(key) for key in OmegaConf.load(run / SAVED)} - {"resume"}), run


def recalled(cfg: DictConfig, run: Path, groups: set[str]) -> DictConfig:
    """A config with these top-level keys of an earlier run's, except for what was typed for this one."""
    earlier, result = cast(DictConfig, OmegaConf.load(run / SAVED)), cfg.copy()
    typed = [option.lstrip("+").partition("=")[0] for option in HydraConfig.get().overrides.task]
    for group in sorted(groups.difference(typed)):
        OmegaConf.update(result, group, earlier[group], merge=False, force_add=True)
    for key in typed:
        group, _, option = key.partition(".")
        if group in groups and option:  # whether what was recalled takes the option is seen when it is built
            OmegaConf.update(result, key, OmegaConf.select(cfg, key), merge=False, force_add=True)
    return result


def existing(cfg: DictConfig, key: str) -> Path:
    """The folder that a key of the config names."""
    path = None if OmegaConf.is_missing(cfg, key) else Path(cfg[key])
    if path is None or not path.is_dir():
        raise ChoiceError(f"{key}={path or ''}: no such folder; give the one that training printed as `run:`")
    return path
