"""Parts common to all runs: a comparison and its report, results as tables, and how a training run is resumed."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pandas as pd
from rich.table import Table

from envs.evaluation import Comparison
from envs.evaluation.compiling import telling_compilations
from envs.evaluation.failure import Failure
from envs.evaluation.files import file_part, whole_file
from envs.pictures.texts import wide_console
from envs.scheduling import Scheduler
from envs.simulation import RunResult, Setup
from murmuration.config.descriptions import ComparisonRun
from murmuration.config.errors import SchedulersFailedError, interrupts_first
from murmuration.config.honoured import leave_out_unable
from murmuration.config.inputs import (
    build_inputs,
    build_schedulers,
    describe_task,
    find_workloads,
    leave_out,
    limit_slow,
    put_behind,
)
from murmuration.config.provenance import add_provenance, trace_hashes
from murmuration.records.recorded import Recorded, consult_records, read_bounds
from murmuration.records.renewing import renew_records
from murmuration.reports.report import run_comparison, write_report
from murmuration.reports.webpage import PageExtras
from murmuration.runs.converting import write_parquet
from murmuration.runs.spreading import find_spread

CURVES_ADDRESS = "http://localhost:6006/?smoothing=0#timeseries"  # smoothing would move few points off their values


def compare_and_report(run: ComparisonRun, folder: Path, policies: Mapping[str, Scheduler] | None = None) -> None:
    """Compare the schedulers of a run on its workloads; print the table and write the report.

    Args:
        run: what is compared.
        folder: where the report is written.
        policies: trained policies by name; they come first.

    Raises:
        SchedulersFailedError: a scheduler failed. The report is written, with the figures of the others.
    """
    comparison, setup, num_schedulers = play_comparison(run, folder, policies)
    names = list(policies or ())
    groups = {"policy": names} if len(names) > 1 else {}
    write_report(comparison, folder, PageExtras(names, setup, run.text, groups))
    if run.frames:
        write_frames(comparison, folder, run.frames)
    refuse_failures(comparison.failures, num_schedulers, folder)


def write_frames(comparison: Comparison, folder: Path, form: str) -> None:
    """Write jobs.csv and events.csv, or Parquet: the rows of all schedulers that were played, not read from records."""
    played = [name for name, runs in comparison.runs.items() if all(isinstance(run, RunResult) for run in runs)]
    for what, frame_of in (("jobs", comparison.jobs), ("events", comparison.events)):
        frames = [frame_of(name).assign(scheduler=name) for name in played]
        if not frames:
            continue
        with whole_file(folder / f"{what}.{form}") as part:
            if form == "csv":
                pd.concat(frames).to_csv(part, index=False)
            else:
                write_parquet(part, pd.concat(frames, ignore_index=True))


def play_comparison(
    run: ComparisonRun, folder: Path | None, built_before: Mapping[str, Scheduler] | None = None, *, quiet: bool = False
) -> tuple[Comparison, Setup, int]:
    """Compare the schedulers of a run on its workloads, and print the table.

    Args:
        run: what is compared.
        folder: of the run, whose provenance is completed; None for none.
        built_before: further schedulers by name; they come first.
        quiet: print no table and no progress.

    Returns:
        The comparison, its setup, and the number of schedulers that were played, failed or refused to run.
    """
    inputs = build_inputs(run.problem)
    workloads = find_workloads(inputs, run.split, run.episodes)
    left_out = leave_out(run) | leave_out_unable(run.schedulers, workloads, run.optional)
    able = {name: each for name, each in run.schedulers.items() if name not in left_out}
    built = build_schedulers(able, run.problem.queueing)
    about = describe_task(run.problem, inputs, run.split, len(workloads))
    if folder is not None:
        add_provenance(folder, traces=trace_hashes(inputs.source), **about)
    for line in renew_records(run, about, built, workloads, inputs.setup, inputs.seed):
        wide_console(quiet=quiet).print(line)
    for line in list_settings_in_force(built):
        wide_console(quiet=quiet).print(line, style="dim")
    recorded = consult_records(run, about, list(built), workloads, inputs.setup)
    taken = {*recorded.figures, *recorded.left_out}
    before = put_behind(run.problem.queueing, built_before or {})
    schedulers = {**before, **{name: each for name, each in built.items() if name not in taken}}
    tell = partial(print, flush=True) if not quiet else lambda _: None
    with saying_what_is_kept(recorded), telling_compilations(list(schedulers), tell):
        comparison = run_comparison(
            schedulers,
            workloads,
            inputs.setup,
            inputs.seed,
            reference=run.reference,
            optional=run.optional,
            num_workloads=limit_slow(run.problem.task, list(schedulers)),
            left_out={**left_out, **recorded.left_out},
            about=about,
            recorded=recorded.figures,
            known_bounds=read_bounds(about),
            listener=recorded.listen,
            spread=find_spread(),
            console=wide_console(quiet=quiet),
        )
    return comparison, inputs.setup, len(schedulers)


def list_settings_in_force(schedulers: Mapping[str, Scheduler]) -> Iterator[str]:
    """Yield the settings of schedulers that read files, such as Slurm's, as lines; others have no `describe`.

    Raises:
        MurmurationError: a file is wrong.
    """
    for name, scheduler in schedulers.items():
        if callable(describe := getattr(scheduler, "describe", None)):
            yield from (f"{name}: {line}" for line in describe())


@contextmanager
def saying_what_is_kept(recorded: Recorded) -> Iterator[None]:
    """Say of an interrupted comparison which records it has written.

    Raises:
        KeyboardInterrupt: the same interrupt, with that line.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(*filter(None, [*interrupt.args, recorded.kept])) from None


def refuse_failures(failures: Mapping[str, Failure], num_schedulers: int, folder: Path) -> None:
    """Raise an error in one line if schedulers failed.

    Raises:
        SchedulersFailedError: names the schedulers that failed, and their errors.
    """
    if failures:
        reasons = "; ".join(f"{name} {failure}" for name, failure in failures.items())
        traces = ", ".join(os.path.relpath(folder / f"failed_{file_part(name)}.txt") for name in failures)
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


@contextmanager
def resumable(folder: Path, seeds: int = 1) -> Iterator[None]:
    """Print where a training run keeps its files and how to see its curves; an interrupt says how to resume it."""
    run = os.path.relpath(folder)
    print(f"training in {run}", flush=True)
    curves = os.path.join(run, "tensorboard") if seeds == 1 else run  # with several seeds, each has its own
    print(f"tensorboard --logdir {shlex.quote(curves)}  # then {CURVES_ADDRESS}", flush=True)
    try:
        with interrupts_first():
            yield
    except KeyboardInterrupt:
        resume = shlex.join(["python", sys.argv[0], f"resume={run}"])
        saved = any(folder.glob("**/checkpoints/states/iteration_*"))  # with several seeds, each has its own
        reached = "go on" if saved else "nothing is kept yet; begin anew in its folder"
        raise KeyboardInterrupt(f"{reached} with {resume}") from None
