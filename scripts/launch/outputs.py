"""Where a run leaves its files, said in Hydra's options: a folder of its own, never one that holds an earlier run."""

from datetime import datetime
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from launch.folders import own_folder
from launch.names import ChoiceError

CONFIGS = ".hydra"  # where Hydra keeps a run's config


def folder_options(config_name: str) -> list[str]:
    """Hydra's options for a run's folder: `runs/<config_name>/<date_time>` unless the user names another.

    Both are resolvers: one is called where the folder is made, one before anything is written into it.
    """
    own = cache(lambda: str(own_folder(Path("runs") / config_name, datetime.now())))  # one a process

    def unused(*, _root_: DictConfig) -> str:
        return configs_in(Path(_root_.hydra.runtime.output_dir))

    OmegaConf.register_new_resolver("own_folder", own, replace=True)
    OmegaConf.register_new_resolver("unused", unused, replace=True)
    places = [f"hydra.{mode}.dir=${{own_folder:}}" for mode in ("run", "sweep")]
    return [*places, "hydra.output_subdir=${unused:}"]


def configs_in(folder: Path) -> str:
    """The subfolder for the config of a run in a folder.

    Raises:
        ChoiceError: the folder holds what an earlier run left.
    """
    names = {path.name for path in folder.iterdir()}
    if CONFIGS in names and len(names) > 1:
        raise ChoiceError(
            f"hydra.run.dir={folder}: holds an earlier run ({', '.join(sorted(names - {CONFIGS})[:3])}); choose "
            "another folder or remove this one; a training run goes on with resume=<folder> and no hydra.run.dir"
        )
    return CONFIGS
