"""The frame of every script: configured by Hydra, a folder for the run, and a user's mistake in one line."""

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence, Sized
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from envs.types import as_line
from murmuration.config.arguments import check_keys, hydra_arguments
from murmuration.config.choices import CONF
from murmuration.config.errors import (
    ChoiceError,
    RunFailedError,
    comes_of_interrupt,
    explain_error,
    one_line_errors,
    short_errors,
)
from murmuration.config.help import FLAGS, help_text
from murmuration.config.outcomes import (
    FinishedRun,
    MultirunFolder,
    lost_runs,
    objective_of,
    read_outcomes,
    write_outcome,
)
from murmuration.config.provenance import PROVENANCE, resolve_config, write_provenance
from murmuration.home import ROOT, SCRIPTS
from murmuration.runs.spreading import joined_cluster

CURVES = "events.out.tfevents."  # how the files of TensorBoard begin
CONFIG_FOLDER = ".hydra"  # the subfolder in which Hydra keeps a run's config
# Scripts print and write files themselves: Hydra's logging would leave empty files and close the handlers of others.
SILENT = ("hydra/job_logging=none", "hydra/hydra_logging=none")
FOLLOW = f"+hydra.callbacks.multirun_folder._target_={MultirunFolder.__module__}.{MultirunFolder.__qualname__}"

ADDRESS = "RAY_ADDRESS"  # Ray's own environment variable

_Run = TypeVar("_Run")
ScriptBody = Callable[[_Run, Path], Path | None]


def command(
    config_name: str, describe: Callable[[DictConfig], _Run], *, schedulers: str | None = None
) -> Callable[[ScriptBody[_Run]], Callable[[], None]]:
    """Make `task(run, folder)` a script's main function, configured by `conf/<config_name>.yaml`.

    Args:
        config_name: the primary config. Runs are kept in `runs/<config_name>/<date_time>`.
        describe: returns what the task does, from the resolved configuration; see `murmuration.config.describe`.
        schedulers: the default of `scheduler=`. With it the script takes one scheduler, a list, `all` or `fast`, and
            finds them by name under the config's `schedulers`. With None `scheduler=` is an ordinary key of the config.
    """

    def decorate(task: ScriptBody[_Run]) -> Callable[[], None]:
        keys: list[str] = []
        started: list[DictConfig] = []
        finished: list[FinishedRun] = []

        def run(cfg: DictConfig) -> float | None:
            here = MultirunFolder.in_first_process()  # launchers may play the runs of a multirun elsewhere
            with one_line_errors() if here else short_errors():
                started.append(cfg)
                kept = folder = Path(HydraConfig.get().runtime.output_dir)
                refused: list[str] = []
                with refusal_of_one_run(refused), no_folder_beside(folder, cfg.get("resume")):
                    check_keys(cfg, keys, own=schedulers is not None)
                    cfg = resolve_config(cfg, keys)
                    with joined_cluster(find_address(cfg)):
                        options = list(HydraConfig.get().overrides.task)
                        write_provenance(folder, config_name, cfg, options, ("python", sys.argv[0]))
                        kept, failure = run_task(task, describe(cfg), folder)
                    print(f"run: {os.path.relpath(kept)}")
                finished.append(note_end(kept, refused[0] if refused else failure, bool(refused)))
                return objective_of(kept)

        def main() -> None:
            if not FLAGS.isdisjoint(sys.argv[1:]):  # within a process that has imported the script
                print(help_text(str(task.__globals__["__doc__"]), config_name))
                return
            share_modules()
            os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra shall raise errors: `one_line_errors` prints them
            with one_line_errors():
                typed, keys[:] = hydra_arguments(sys.argv[1:], config_name, schedulers)
                own = [f"hydra.job.name={config_name}", *folder_options(config_name), *SILENT, FOLLOW]
                sys.argv[1:] = [*own, *typed]
                started.clear()
                finished.clear()
                MultirunFolder.start()
                try:
                    with refusals_before_start(started):
                        hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(run)()
                finally:
                    runs = end_multirun(finished)
            if report_lost() or any(each.failure and not each.refused for each in runs):
                sys.exit(1)
            if any(each.refused for each in runs):
                sys.exit(2)

        return main

    return decorate


def note_end(folder: Path, failure: str, refused: bool) -> FinishedRun:
    """Return how Hydra's current run ended; in a multirun write it, too."""
    number = HydraConfig.get().job.num if MultirunFolder.current else 0
    found = FinishedRun(number, list(HydraConfig.get().overrides.task), folder, failure, refused)
    if MultirunFolder.current:
        write_outcome(found, MultirunFolder.current)
    return found


@contextmanager
def refusal_of_one_run(refused: list[str]) -> Iterator[None]:
    """Print a user's mistake in one run of a multirun and append it to a list, so that the other runs take place."""
    try:
        yield
    except Exception as error:
        debug = os.environ.get("MURMURATION_DEBUG") == "1"
        if not MultirunFolder.current or comes_of_interrupt(error) or debug or (line := explain_error(error)) is None:
            raise
        print(f"error: {line}", file=sys.stderr)
        refused.append(line)


def run_task(task: ScriptBody[_Run], run: _Run, folder: Path) -> tuple[Path, str]:
    """Run a script's task; print what failed, since other runs of --multirun still take place.

    Returns:
        The folder of the results, another one if the task continues an earlier run, and what failed or "".
    """
    try:
        return task(run, folder) or folder, ""
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(*interrupt.args or (f"no figures are kept in {os.path.relpath(folder)}",)) from None
    except RunFailedError as error:
        failure = as_line(str(error))
        print(f"error: {failure}", file=sys.stderr)
        return folder, failure


def find_address(cfg: DictConfig) -> str | None:
    """Return the address of the Ray cluster that `ray.address` or the environment names, for scripts that use one."""
    address = (cfg.ray.address or os.environ.get(ADDRESS)) if "ray" in cfg else None
    return str(address) if address else None


def end_multirun(finished: Sequence[FinishedRun]) -> Sequence[FinishedRun]:
    """Print and write the table of a multirun, and print what failed in runs that other processes played.

    Args:
        finished: the runs that this process played, whose errors are printed already.

    Returns:
        The runs of all processes.
    """
    if not (folder := MultirunFolder.current):
        return finished
    runs = read_outcomes(folder)
    if len(runs) > 1:
        from murmuration.runs.multirun import summarise_multirun  # loads pandas, which a single run may not need

        summarise_multirun(runs, folder)
    for run in runs:
        if run.failure and not finished:
            print(f"error: {os.path.relpath(run.folder)}: {run.failure}", file=sys.stderr)
    return runs


def report_lost() -> bool:
    """Print the runs of a multirun whose processes ended without an outcome; return whether there are any."""
    lost = lost_runs(MultirunFolder.current) if MultirunFolder.current else []
    for folder in map(os.path.relpath, lost):
        print(f"error: {folder}: its process was ended without a result; play this run again", file=sys.stderr)
    return bool(lost)


def folder_options(config_name: str) -> Sequence[str]:
    """Hydra's options for a run's folder: `runs/<config_name>/<date_time>` unless the user names another.

    Both resolvers are evaluated late: one when the folder is made, one before anything is written into it.
    """

    def unused(*, _root_: DictConfig) -> str:
        return config_subfolder(Path(_root_.hydra.runtime.output_dir))

    OmegaConf.register_new_resolver("own_folder", OwnFolder(config_name), replace=True)
    OmegaConf.register_new_resolver("unused", unused, replace=True)
    places = [f"hydra.{mode}.dir=${{own_folder:}}" for mode in ("run", "sweep")]
    return [*places, "hydra.output_subdir=${unused:}"]


class OwnFolder:
    """Makes a script's own folder when it is first asked for; jobs to which Hydra's launchers send it use the same one.

    Args:
        config_name: the primary config.
    """

    def __init__(self, config_name: str) -> None:
        self.config_name, self.made = config_name, ""

    def __call__(self) -> str:
        """Return the path, relative to the working directory."""
        if not self.made:
            self.made = str(make_run_folder(Path("runs") / self.config_name, datetime.now()))
        return self.made


def share_modules() -> None:
    """Let processes that this one starts, also by Slurm or Ray, import the packages and what is beside the scripts."""
    known = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    own = [str(folder) for folder in (SCRIPTS, ROOT) if str(folder) not in known]
    os.environ["PYTHONPATH"] = os.pathsep.join([*own, *known])


def make_run_folder(runs: Path, now: datetime) -> Path:
    """Make a folder named after the time; of several runs within one second, the later ones get a number.

    Raises:
        ChoiceError: the operating system refuses.
    """
    stamp = f"{now:%Y-%m-%d_%H-%M-%S}"
    folder, number = runs / stamp, 1
    while True:
        try:
            folder.mkdir(parents=True)  # fails if it exists: two processes never get the same one
        except OSError as error:
            if not folder.exists():
                raise explain_refusal(error) from error
            number += 1
            folder = runs / f"{stamp}_{number}"
        else:
            return folder


def config_subfolder(folder: Path) -> str:
    """The name of the subfolder for a run's config.

    Raises:
        ChoiceError: the folder holds files of an earlier run.
    """
    names = {path.name for path in folder.iterdir()}
    if CONFIG_FOLDER in names and len(names) > 1:
        raise ChoiceError(
            f"hydra.run.dir={folder}: holds an earlier run ({', '.join(sorted(names - {CONFIG_FOLDER})[:3])}); choose "
            "another folder or remove this one; a training run goes on with resume=<folder> and no hydra.run.dir"
        )
    return CONFIG_FOLDER


@contextmanager
def no_folder_beside(folder: Path, resumed: str | None) -> Iterator[None]:
    """Leave no folder behind that holds nothing: of a run that goes on in an earlier one's folder, or is refused.

    A refused run has written no more than its configuration, its provenance and empty curves. These are removed, so
    that the same command can be tried again.
    """
    before = set(folder.rglob("*")) - {folder / CONFIG_FOLDER, *(folder / CONFIG_FOLDER).rglob("*")}
    write_nothing = False
    try:
        yield
    except Exception as error:
        write_nothing = explain_error(error) is not None  # a fault keeps its folder
        raise
    finally:
        if resumed or write_nothing:
            remove_started(folder, before)


def remove_started(folder: Path, before: Collection[Path]) -> None:
    """Remove what a run wrote into its folder if that is no result, and the folder if nothing else is in it.

    Args:
        folder: of the run.
        before: what was in it when the run began.
    """
    config = folder / CONFIG_FOLDER
    written = [path for path in folder.rglob("*") if path not in before and config not in (path, *path.parents)]
    if any(path.is_file() and path.name != PROVENANCE and not path.name.startswith(CURVES) for path in written):
        return
    shutil.rmtree(config, ignore_errors=True)
    for path in (*sorted(written, reverse=True), folder):  # what is in a folder before the folder
        try:
            path.unlink() if path.is_file() else path.rmdir()
        except OSError:  # not empty, or not ours to remove
            continue


@contextmanager
def refusals_before_start(started: Sized) -> Iterator[None]:
    """Explain an error of the operating system before the task has started: until then only its folder is written.

    Raises:
        ChoiceError: names the folder.
    """
    try:
        yield
    except OSError as error:
        if started or error.errno is None:  # some of Hydra's own errors are OSErrors without a number
            raise
        raise explain_refusal(error) from error


def explain_refusal(error: OSError) -> ChoiceError:
    """The error for a run's folder that the operating system does not let us make or write."""
    where, why = error.filename or "the run's folder", error.strerror or type(error).__name__
    return ChoiceError(f"{where}: cannot be made or written ({why}); choose a folder with hydra.run.dir=<folder>")
