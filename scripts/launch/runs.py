"""Parts common to all runs: results as tables, the configs of earlier runs, and how an interrupted run is resumed."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from rich.table import Table

from envs.evaluation.failure import Failure
from envs.evaluation.report import run_comparison, write_report
from envs.evaluation.table import wide_console
from envs.evaluation.webpage import PageExtras
from envs.scheduling import Scheduler
from launch.arguments import key_of, parse_overrides
from launch.errors import ChoiceError, SchedulersFailedError
from launch.inputs import build_inputs, build_schedulers
from launch.plain import read_configuration, read_unfilled, shorten
from launch.provenance import SAVED, add_provenance, hash_config, read_provenance, trace_hashes
from launch.records import consult_records
from launch.registry import check_recalled, registered
from launch.spreading import find_spread
from launch.tasks import count_episodes, describe_task, leave_out, limit_slow

PACKAGED_GROUPS = {"network": "cluster.network_gbps"}  # groups whose files set an option of another group
# A checkpoint contains its environment's settings.
SETUP_KEYS = {"cluster", "performance", "estimator", "scenario", "workload", "task"}
NOT_RECALLED = {"processes", "ray", "resume", "run", "trust"}  # by whoever repeats or resumes a run


def compare_and_report(
    cfg: DictConfig, folder: Path, split: str | None, policies: Mapping[str, Scheduler] | None = None
) -> None:
    """Compare the schedulers of a config on the workloads of a split; print the table and write the report.

    Args:
        cfg: the config of a script that takes schedulers.
        folder: where the report is written.
        split: of the workload source; None is its default for evaluation.
        policies: trained policies by name; they come first.

    Raises:
        SchedulersFailedError: a scheduler failed. The report is written, with the figures of the others.
    """
    inputs = build_inputs(cfg)
    left_out = leave_out(cfg)
    built = {name: scheduler for name, scheduler in build_schedulers(cfg).items() if name not in left_out}
    workloads = inputs.source.evaluation(split)
    workloads = workloads[: count_episodes(cfg, len(workloads))]
    about = describe_task(cfg, inputs, split, len(workloads))
    add_provenance(folder, traces=trace_hashes(inputs.source), **about)
    recorded = consult_records(cfg, about, list(built), workloads, inputs.setup)
    taken = {*recorded.figures, *recorded.left_out}
    schedulers = {**(policies or {}), **{name: each for name, each in built.items() if name not in taken}}
    comparison = run_comparison(
        schedulers,
        workloads,
        inputs.setup,
        inputs.seed,
        reference=cfg.get("reference", ""),
        optional=cfg.schedulers if cfg.optional else (),
        num_workloads=limit_slow(cfg, list(schedulers)),
        left_out={**left_out, **recorded.left_out},
        about=about,
        recorded=recorded.figures,
        listener=recorded.listen,
        spread=find_spread(),
    )
    names = list(policies or ())
    groups = {"policy": names} if len(names) > 1 else {}
    write_report(comparison, folder, PageExtras(names, inputs.setup, OmegaConf.to_yaml(cfg), groups))
    refuse_failures(comparison.failures, len(schedulers), folder)


def refuse_failures(failures: Mapping[str, Failure], num_schedulers: int, folder: Path) -> None:
    """Raise an error in one line if schedulers failed.

    Raises:
        SchedulersFailedError: names the schedulers that failed, and their errors.
    """
    if failures:
        reasons = "; ".join(f"{name} {failure}" for name, failure in failures.items())
        traces = ", ".join(os.path.relpath(folder / f"failed_{name}.txt") for name in failures)
        raise SchedulersFailedError(f"{len(failures)} of {num_schedulers} schedulers failed: {reasons}; see {traces}")


def print_frame(title: str, frame: pd.DataFrame, digits: int = 2) -> None:
    """Print a data frame as a table, with numbers aligned to the right."""
    table = Table(title=title, title_justify="left")
    for column in frame.columns:
        numeric = frame[column].dtype.kind in "if"
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell) for cell in row))
    wide_console().print(table)


def recall_setup(cfg: DictConfig) -> DictConfig:
    """The config with the setup of the run that wrote `cfg.checkpoint`.

    It is unchanged if that run's config was not kept, or if `task=` was typed, which chooses another setup.

    Raises:
        ChoiceError: no checkpoint is named, or its folder does not exist.
    """
    folder = existing_folder(cfg, "checkpoint").resolve()
    run = next((place for place in (folder, *folder.parents[:2]) if (place / SAVED).exists()), None)
    typed = [key_of(each) for each in parse_overrides(HydraConfig.get().overrides.task)]
    if run is None or "task" in typed:
        return cfg
    return _recall(cfg, read_configuration(run / SAVED), run / SAVED, SETUP_KEYS)


def recall_run(cfg: DictConfig, folder: Path) -> tuple[DictConfig, Path]:
    """The config and the folder to train with: those of the run that `cfg.resume` names, if it names one.

    Raises:
        ChoiceError: the folder does not exist, or holds no training run.
    """
    if not cfg.resume:
        return cfg, folder
    run = existing_folder(cfg, "resume")
    if not (run / SAVED).exists():
        raise ChoiceError(f"resume={run}: holds no training run; give the folder that training printed as `run:`")
    print(f"resume= reads the pickles in {run}, which can run any code: resume only runs of your own", flush=True)
    return recall_whole(cfg, run), run


def _recall(cfg: DictConfig, earlier: Mapping[str, Any], origin: Path, keys: set[str]) -> DictConfig:
    """A config with these top-level keys of an earlier run, except for options that were typed for the current one.

    Args:
        cfg: the config of the current command line.
        earlier: the configuration of the earlier run, as plain data.
        origin: its file, for messages.
        keys: what is taken from it.
    """
    result = cfg.copy()
    overrides = parse_overrides(HydraConfig.get().overrides.task)
    # Schedulers of the current command line do not join those of the earlier run.
    keys_of = [key_of(each) for each in overrides if not each.is_delete() and each.key_or_group != "scheduler"]
    typed = [PACKAGED_GROUPS.get(key, key) for key in keys_of]
    taken = {key: earlier.get(key) for key in sorted(keys.difference(typed))}
    check_recalled(taken, registered(cfg), origin)
    for key, value in taken.items():
        OmegaConf.update(result, key, value, merge=False, force_add=True)
    for option in typed:
        top, dot, _ = option.partition(".")
        if top in keys and dot:  # whether the recalled object takes the option is checked when it is built
            OmegaConf.update(result, option, OmegaConf.select(cfg, option), merge=False, force_add=True)
    for option in set(PACKAGED_GROUPS.values()).difference(typed):
        if option.partition(".")[0] in keys.intersection(typed):  # the default task may have set it in a typed group
            OmegaConf.update(result, option, _find_number(earlier, option, origin), force_add=True)
    return result


def _find_number(earlier: Mapping[str, Any], option: str, origin: Path) -> float | None:
    """Return the number that an earlier configuration has for an option of a group; None without one.

    Raises:
        ChoiceError: it is no number.
    """
    group, _, name = option.partition(".")
    node = earlier.get(group)
    found = node.get(name) if isinstance(node, Mapping) else None
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise ChoiceError(f"{origin}: {option} is {shorten(found)}; it must be a number or null")
    return found


def recall_whole(cfg: DictConfig, run: Path) -> DictConfig:
    """The config with everything that the config of an earlier run has.

    Raises:
        ChoiceError: the folder has no config, one that is not plain data, one that names a class outside the registry,
            or one that has changed since the run began.
    """
    earlier = read_configuration(run / SAVED)
    recalled = _recall(cfg, earlier, run / SAVED, set(earlier) - NOT_RECALLED)
    check_unchanged(run)
    return recalled


def check_unchanged(run: Path) -> None:
    """Assert that the config of an earlier run is the one that the run began with, by the hash in its provenance.

    Without a provenance that can be read, it must at least have the parts of a setup: what a truncated config lacks
    would silently take the defaults of today.

    Raises:
        ChoiceError: it is not.
    """
    earlier = read_unfilled(run / SAVED)  # as it was written, so with the references of earlier versions
    if missing := sorted({"cluster", "performance", "scenario", "workload", "seed"}.difference(earlier)):
        raise ChoiceError(f"{run / SAVED}: lacks {', '.join(missing)}; it is damaged, or no configuration of a run")
    try:
        began = read_provenance(run).get("configuration")
    except ChoiceError:
        return
    if began is not None and began != hash_config(OmegaConf.create(earlier)):
        raise ChoiceError(
            f"{run / SAVED}: has changed since the run began, or is damaged; undo the change, or start a new run"
        )


def existing_folder(cfg: DictConfig, key: str) -> Path:
    """The folder that a key of the config names.

    Raises:
        ChoiceError: it names none, or there is no such folder.
    """
    path = None if OmegaConf.is_missing(cfg, key) else Path(cfg[key])
    if path is None or not path.is_dir():
        raise ChoiceError(f"{key}={path or ''}: no such folder; give the one that training printed as `run:`")
    return path


@contextmanager
def resumable(folder: Path, seeds: int = 1) -> Iterator[None]:
    """Print where a training run keeps its files and how to see its curves; an interrupt says how to resume it."""
    run = os.path.relpath(folder)
    print(f"training in {run}", flush=True)
    curves = os.path.join(run, "tensorboard") if seeds == 1 else run  # with several seeds, each has its own
    print(f"tensorboard --logdir {shlex.quote(curves)}", flush=True)
    try:
        yield
    except KeyboardInterrupt:
        resume = shlex.join(["python", sys.argv[0], f"resume={run}"])
        saved = any(folder.glob("**/checkpoints/states/iteration_*"))  # with several seeds, each has its own
        reached = "go on" if saved else "nothing is kept yet; begin anew in its folder"
        raise KeyboardInterrupt(f"{reached} with {resume}") from None
