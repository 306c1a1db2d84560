"""The hashes of tasks in their YAML files, and their tables in `baselines/records`."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version as released
from pathlib import Path

from envs.evaluation.archive import ARCHIVE_SUFFIX
from envs.evaluation.compare import compare_schedulers
from envs.evaluation.files import write_whole
from envs.evaluation.record import digest_records
from envs.evaluation.task import Task
from envs.types import Seconds, TraceError, did_you_mean
from murmuration.config.choices import CONF, list_choices
from murmuration.config.describe import compose_comparison
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_inputs, describe_task, find_hash, leave_out
from murmuration.config.settings import RecordChoice
from murmuration.records.recorded import RECORDS_FOLDER, consult_records, count_remarks, read_bounds
from murmuration.reports.page import task_table

NO_TASK = "none"
TASKS = [name for name in list_choices("task") if name != NO_TASK]
TABLE_SUFFIX = ".csv"  # of a task's table, beside the archive of its records
DIGEST = "# records {digest}\n"  # the first line of a table


@dataclass(frozen=True)
class TaskCheck:
    """A task as it is configured, and the hash that it has now; an empty hash if its trace is missing."""

    task: Task
    found: str
    missing: str = ""  # why there is no hash

    @property
    def agrees(self) -> bool:
        """Whether the task has the hash that its file names for its version."""
        return self.task.hashes.get(self.task.version) == self.found

    def describe(self) -> str:
        """One line: the title, the hash, and what to do if the file names another one."""
        if not self.found:
            return f"{self.task.title}: not checked ({self.missing})"
        if self.agrees:
            return f"{self.task.title}: {self.found}"
        return f"{self.task.title}: {self.advise()}"

    def advise(self) -> str:
        """What to do about a hash that differs."""
        name, stated = self.task.name, self.task.hashes.get(self.task.version, "")
        command = f"scripts/tasks.py {name}"
        if not stated:
            return f"has the hash {self.found} and conf/task/{name}.yaml names none; run {command} --write"
        return (
            f"has the hash {self.found}, and conf/task/{name}.yaml names {stated} for version {self.task.version}: the "
            f"problem has changed. If that is intended, run {command} --raise, and record it anew; if not, undo what "
            "changed it"
        )


def check_task(name: str) -> TaskCheck:
    """Compute the hash of an unmodified task; see `TaskCheck`.

    Raises:
        ChoiceError: there is no such task.
    """
    if name not in TASKS:
        raise ChoiceError(f"task {name!r}: no such task{did_you_mean(name, TASKS, lead=', ')}; there are: {TASKS}")
    problem = compose_comparison([f"task={name}"]).problem
    task = problem.task
    assert task is not None
    try:
        return TaskCheck(task, find_hash(problem, build_inputs(problem), task))
    except TraceError as missing:
        return TaskCheck(task, "", str(missing))


def describe_records(task: Task, folder: Path = RECORDS_FOLDER) -> str:
    """Say how many records of a task may be of other source files than today's, to follow its line; empty if none."""
    counts = count_remarks(folder / f"{task.title}{ARCHIVE_SUFFIX}")
    return f"; {counts}" if counts else ""


def write_hash(check: TaskCheck, folder: Path = CONF / "task", *, version: int | None = None) -> None:
    """Write a task's version and hash into its file, and which release plays the version before.

    The hash of a task whose trace is missing is empty: it is to be written where the trace is.

    Args:
        check: the task and its hash.
        folder: that of the file.
        version: the new version; None for the one that it has.
    """
    task, path = check.task, folder / f"{check.task.name}.yaml"
    new = version or task.version
    earlier = {**task.earlier, **({task.version: released("murmuration")} if new > task.version else {})}
    lines = [f'  hashes: {{{new}: "{check.found}"}}']
    if earlier:
        releases = ", ".join(f'{each}: "{release}"' for each, release in sorted(earlier.items()))
        lines.append(f"  earlier: {{{releases}}}")
    text = re.sub(r"(?m)^  earlier: .*\n", "", path.read_text(encoding="utf-8"))
    text = re.sub(r"(?m)^  version: .*$", f"  version: {new}", text)
    write_whole(path, re.sub(r"(?m)^  hashes: .*$", "\n".join(lines), text))


@dataclass(frozen=True)
class RecordedTable:
    """The table of a task, built from its records; an empty text if there are none that can be used."""

    text: str
    missing: list[str]  # schedulers of `scheduler=all` that the task should have, and that have no valid record
    bounds: Mapping[str, Seconds] = field(default_factory=dict)  # of its workloads, see `read_bounds`
    bounds_file: Path = Path()


def table_from_records(name: str, folder: Path = RECORDS_FOLDER, options: Sequence[str] = ()) -> RecordedTable:
    """Build the table of a task from its records alone; reads traces, plays nothing.

    Args:
        name: the task.
        folder: that of the records.
        options: further options of `scripts/compare.py`, such as those of a modified task.
    """
    everyone = compose_comparison([f"task={name}", "scheduler=all", *options])
    run = replace(everyone, schedulers={}, records=RecordChoice(recorded=True, results=str(folder)))
    inputs = build_inputs(run.problem)
    workloads = inputs.source.evaluation()
    about = describe_task(run.problem, inputs, None, len(workloads))
    recorded = consult_records(run, about, [], workloads, inputs.setup)
    outside = leave_out(everyone)
    names = [each for each in everyone.schedulers if each not in {*recorded.inapplicable, *outside}]
    if not recorded.figures or recorded.records is None:
        return RecordedTable("", [name for name in names if name not in recorded.figures])
    comparison = compare_schedulers(
        {},
        workloads,
        inputs.setup,
        inputs.seed,
        left_out={**outside, **recorded.inapplicable},
        about=about,
        recorded=recorded.figures,
        known_bounds=read_bounds(about, folder),
    )
    digest = DIGEST.format(digest=digest_records(recorded.records.archive))
    missing = [name for name in names if name not in comparison.runs]
    found = dict(sorted(comparison.searched_bounds.items()))
    return RecordedTable(digest + task_table(comparison), missing, found, recorded.records.bounds)


def recorded_tables(folder: Path = RECORDS_FOLDER, names: Sequence[str] = TASKS) -> dict[str, str]:
    """Return the tables of tasks, empty for a task without valid records, and print which schedulers are missing.

    The lower bounds of their workloads are written beside the records. A table that needs a trace which is not there
    is left out.

    Raises:
        ChoiceError: there is no task of a name.
    """
    if unknown := sorted(set(names) - set(TASKS)):
        raise ChoiceError(f"tasks: there is no {', '.join(unknown)}; tasks are {', '.join(TASKS)}")
    found = {}
    for name in names:
        title = _task_of(name).title
        if not (folder / f"{title}{ARCHIVE_SUFFIX}").exists():
            print(f"{title}: has no records")
            found[name] = ""
            continue
        try:
            table = table_from_records(name, folder)
        except TraceError as lacking:
            print(f"{title}: not built ({lacking})")
            continue
        if table.missing:
            print(f"{title}: has no valid record of {', '.join(table.missing)}")
        if table.bounds:
            write_whole(table.bounds_file, json.dumps(table.bounds, indent=0) + "\n")
        found[name] = table.text
    return found


def _task_of(name: str) -> Task:
    task = compose_comparison([f"task={name}"]).problem.task
    assert task is not None
    return task


def find_disagreements(folder: Path = RECORDS_FOLDER) -> list[str]:
    """Return what is wrong with tables in a folder: another problem's, other records than those that are there.

    A task without a table is not checked: archives grow while a task is recorded.
    """
    wrong = []
    for path in sorted(folder.glob(f"*{TABLE_SUFFIX}")):
        task, table = _task_of(path.stem), path.read_text(encoding="utf-8")
        label, archive = f"{task.title} ({task.hashes.get(task.version)})", folder / f"{task.title}{ARCHIVE_SUFFIX}"
        if label not in table:
            wrong.append(f"{task.name}: the table is not of {label}; record it, then run scripts/tasks.py --tables")
        elif not table.startswith(DIGEST.format(digest=digest_records(archive))):
            wrong.append(f"{task.name}: the table is not that of the records; run scripts/tasks.py --tables")
    return wrong
