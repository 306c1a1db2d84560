"""The hashes of tasks in their YAML files, and their tables in `docs/tasks.md`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as released
from pathlib import Path

from envs.evaluation.archive import ARCHIVE_SUFFIX
from envs.evaluation.compare import compare_schedulers
from envs.evaluation.files import write_whole
from envs.evaluation.record import digest_records
from envs.evaluation.task import Task
from envs.types import TraceError, did_you_mean
from murmuration.config.choices import CONF, list_choices
from murmuration.config.describe import compose_comparison
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_inputs, describe_task, find_hash, leave_out
from murmuration.config.plain import load_json
from murmuration.config.settings import RecordChoice
from murmuration.records.recorded import RECORDS_FOLDER, consult_records, count_remarks
from murmuration.reports.page import task_table

NO_TASK = "none"
TASKS = [name for name in list_choices("task") if name != NO_TASK]
MOST_ROWS = 6  # of a table in `docs/tasks.md`
LEFT_OUT = ("unfinished", "wait", "rho", "GPUs", "queue", "by cores", "by memory", "by network")  # columns
MARKERS = "<!-- table {name} -->\n", "<!-- end of table {name} -->"


DIGEST = "<!-- records {digest} -->"
NOT_RECORDED = "{title} is not recorded yet.\n"


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


def collect_tables(runs: Iterable[Path]) -> dict[str, str]:
    """Return the tables of runs by the name of their task; of several runs of one task, the last one's.

    Runs without a task are passed over.

    Raises:
        ChoiceError: there is no such folder, its results are damaged, or the run played a modified task, or not all of
            its test episodes.
    """
    found: dict[str, str] = {}
    for run in runs:
        if not run.is_dir():
            raise ChoiceError(f"--tables {run}: no such folder; give folders that compare.py printed as `run:`")
        if not (run / "table.md").exists():
            continue
        try:
            task = load_json(run / "results.json")["settings"]["task"]
            name, label, whole = task["name"], task["label"], task["complete"] and not task["modified"]
        except (KeyError, TypeError) as error:
            raise ChoiceError(f"{run / 'results.json'}: says of no task; it is damaged: leave the run out") from error
        if not whole:
            raise ChoiceError(f"{run}: is no run of a whole, unmodified task: {label}; leave it out")
        found[name] = (run / "table.md").read_text(encoding="utf-8")
    return found


def short_table(table: str) -> str:
    """Return a task's table without `LEFT_OUT`: its first `MOST_ROWS` schedulers, strict FIFO, the bounds.

    `scripts/compare.py task=<task> scheduler=[] recorded=true` prints all of it.
    """
    lines, schedulers, shown = list[str](), 0, list[int]()
    for line in table.splitlines():
        if not line.startswith("| "):
            lines.append(re.sub(r" Marked .*", "", line))  # the page says once what the marks mean
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        shown = shown or [at for at, head in enumerate(cells) if head not in LEFT_OUT]
        name, *_ = cells[0].split()  # without a mark
        is_scheduler = name not in ("scheduler", "---", "lower")  # "lower bound", perhaps with more words
        schedulers += is_scheduler
        if not is_scheduler or schedulers <= MOST_ROWS or name == "fifo":
            lines.append(f"| {' | '.join(cells[at] for at in shown)} |")
    return "\n".join(lines) + "\n"


def insert_table(page: str, name: str, table: str) -> str:
    """Return the page with a task's table between its markers.

    Raises:
        ChoiceError: the page has no markers for the task.
    """
    start, end = (marker.format(name=name) for marker in MARKERS)
    before, opened, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise ChoiceError(f"docs/tasks.md: has no markers for task {name}; add {start.strip()} and {end} on two lines")
    return f"{before}{start}\n{table}\n{end}{after}"


@dataclass(frozen=True)
class RecordedTable:
    """The table of a task, built from its records; an empty text if there are none that can be used."""

    text: str
    missing: list[
        str
    ]  # schedulers of `scheduler=all` that the task should have rows for, and that have no valid record


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
    )
    digest = DIGEST.format(digest=digest_records(recorded.records.archive))
    missing = [name for name in names if name not in comparison.runs]
    return RecordedTable(f"{digest}\n\n{task_table(comparison)}", missing)


def recorded_tables(folder: Path = RECORDS_FOLDER, names: Sequence[str] = TASKS) -> dict[str, str]:
    """Return the tables of tasks, and print which schedulers are missing; a line for a task without valid records.

    A table that needs a trace which is not there is left out.

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
            found[name] = NOT_RECORDED.format(title=title)
            continue
        try:
            table = table_from_records(name, folder)
        except TraceError as lacking:
            print(f"{title}: not built ({lacking})")
            continue
        if table.missing:
            print(f"{title}: has no valid record of {', '.join(table.missing)}")
        found[name] = table.text or NOT_RECORDED.format(title=title)
    return found


def _task_of(name: str) -> Task:
    task = compose_comparison([f"task={name}"]).problem.task
    assert task is not None
    return task


def find_disagreements(page: str, folder: Path = RECORDS_FOLDER) -> list[str]:
    """Return what is wrong with the tables of a page: another problem's, other records than those that are there.

    A task without a table is not checked.
    """
    wrong = []
    for name in TASKS:
        start, end = (marker.format(name=name) for marker in MARKERS)
        table = page.partition(start)[2].partition(end)[0]
        if not table.strip():
            continue
        task = _task_of(name)
        label, archive = f"{task.title} ({task.hashes.get(task.version)})", folder / f"{task.title}{ARCHIVE_SUFFIX}"
        if NOT_RECORDED.format(title=task.title) in table:
            continue  # archives grow while a task is recorded
        if label not in table:
            wrong.append(f"{name}: the table is not of {label}; record its schedulers, then scripts/tasks.py --tables")
        elif DIGEST.format(digest=digest_records(archive)) not in table:
            wrong.append(f"{name}: the table is not that of the records; run scripts/tasks.py --tables")
    return wrong
