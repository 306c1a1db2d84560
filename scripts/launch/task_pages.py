"""The hashes of tasks in their YAML files, and their tables in `docs/tasks.md`."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from envs.evaluation.task import Task
from envs.types import TraceError, did_you_mean
from launch.arguments import compose_options
from launch.choices import CONF, list_choices, open_configs
from launch.errors import ChoiceError
from launch.inputs import build_inputs
from launch.tasks import build_task, find_hash

NO_TASK = "none"
TASKS = [name for name in list_choices("task") if name != NO_TASK]
MARKERS = "<!-- table {name} -->\n", "<!-- end of table {name} -->"


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
        command = f"scripts/tasks.py {name} --write"
        if not stated:
            return f"has the hash {self.found} and conf/task/{name}.yaml names none; run {command}"
        return (
            f"has the hash {self.found}, and conf/task/{name}.yaml names {stated} for version {self.task.version}: the "
            f"problem has changed. If that is intended, raise `version` there, run {command}, and write its table "
            "anew; if not, undo what changed it"
        )


def check_task(name: str) -> TaskCheck:
    """Compute the hash of an unmodified task; see `TaskCheck`.

    Raises:
        ChoiceError: there is no such task.
    """
    if name not in TASKS:
        raise ChoiceError(f"task {name!r}: no such task{did_you_mean(name, TASKS, lead=', ')}; there are: {TASKS}")
    with open_configs():
        cfg = compose_options("compare", [f"task={name}"], "[]")
    task = build_task(cfg)
    assert task is not None
    try:
        return TaskCheck(task, find_hash(cfg, build_inputs(cfg), task))
    except TraceError as missing:
        return TaskCheck(task, "", str(missing))


def write_hash(check: TaskCheck, folder: Path = CONF / "task") -> None:
    """Write the hash of the task's version into its file, beside those of earlier versions."""
    hashes = {**check.task.hashes, check.task.version: check.found}
    path = folder / f"{check.task.name}.yaml"
    line = ", ".join(f'{version}: "{found}"' for version, found in sorted(hashes.items()))
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"(?m)^  hashes: .*$", f"  hashes: {{{line}}}", text), encoding="utf-8")


def collect_tables(runs: Iterable[Path]) -> dict[str, str]:
    """Return the tables of runs by the name of their task; of several runs of one task, the last one's.

    Runs without a task are passed over.

    Raises:
        ChoiceError: a run played a modified task, or not all of its test episodes.
    """
    found: dict[str, str] = {}
    for run in runs:
        if not (run / "table.md").exists():
            continue
        task = json.loads((run / "results.json").read_text(encoding="utf-8"))["settings"]["task"]
        if task["modified"] or not task["complete"]:
            raise ChoiceError(f"{run}: is no run of a whole, unmodified task: {task['label']}; leave it out")
        found[task["name"]] = (run / "table.md").read_text(encoding="utf-8")
    return found


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
