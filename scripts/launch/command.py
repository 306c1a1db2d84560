"""How every script begins and ends: configured by Hydra, one line for a user's mistake, the run's folder at the end."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from launch.choices import with_schedulers
from launch.errors import one_line_errors
from launch.folders import writable
from launch.keys import check_keys
from launch.names import CONF
from launch.options import parted, with_options
from launch.outputs import folder_options

# Scripts print and keep files of their own: Hydra's logging would leave empty files and close others' handlers.
SILENT = ("hydra/job_logging=none", "hydra/hydra_logging=none")

Task = Callable[[DictConfig, Path], Path | None]


def command(config_name: str, *, schedulers: str | None = None) -> Callable[[Task], Callable[[], None]]:
    """Make `task(cfg, folder)` a script's main function, configured by `conf/<config_name>.yaml`.

    Args:
        config_name: the primary config, and the name under which runs are kept: `runs/<config_name>/<date_time>`.
        schedulers: what `scheduler=` is if the user says nothing; with it the script takes one scheduler, a list or
            `all`, and finds them under `cfg.schedulers` by name. None leaves `scheduler=` to the config.
    """

    def decorate(task: Task) -> Callable[[], None]:
        begun: list[DictConfig] = []

        def run(cfg: DictConfig) -> None:
            with one_line_errors():
                begun.append(cfg)
                check_keys(cfg, config_name, own=schedulers is not None)
                folder = Path(HydraConfig.get().runtime.output_dir)
                kept = task(cfg, folder) or folder  # a task that goes on with an earlier run returns its folder
                print(f"run: {os.path.relpath(kept)}")

        def main() -> None:
            os.environ["HYDRA_FULL_ERROR"] = "1"  # let errors through to us, who tell them in one line
            with one_line_errors():
                before, typed, after = parted(sys.argv[1:])
                typed = typed if schedulers is None else with_schedulers(typed, schedulers)
                ours = [f"hydra.job.name={config_name}", *folder_options(config_name)]
                sys.argv[1:] = [*before, *ours, *SILENT, *with_options(typed), *after]
                begun.clear()
                with writable(begun):
                    hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(run)()

        return main

    return decorate
