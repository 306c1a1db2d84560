"""Recorded results of a task: which schedulers have a record, whether it is still valid, and how it is written."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from envs.evaluation.archive import ARCHIVE_SUFFIX, check_archive, list_recorded
from envs.evaluation.episode import EpisodeFigures, Remark
from envs.evaluation.failure import Failure
from envs.evaluation.plain_values import plain
from envs.evaluation.playing import Played
from envs.evaluation.record import Record, RecordHeader, ideal_durations, read_record, write_record
from envs.evaluation.record_schema import LONGEST, RecordError, show
from envs.simulation import WORLD_VERSION, Scenario, Setup
from envs.types import FloatArray, MurmurationError, Seconds, did_you_mean
from envs.workloads import Workload
from murmuration.config.building import Component, import_target
from murmuration.config.describe import describe_library
from murmuration.config.descriptions import ComparisonRun
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import limit_slow
from murmuration.config.settings import RecordChoice
from murmuration.home import ROOT
from murmuration.records.sources import hash_sources

RECORDS_FOLDER = ROOT / "baselines" / "records"
BEFORE_SOURCES = Remark("?", "recorded before source files were hashed, so a change of code would not be noticed")
OTHER_SOURCES = Remark("*", "source files have changed since it was recorded; record=true again=true plays it anew")


@dataclass(frozen=True)
class TaskRecords:
    """The records of one task: an archive named after the task, its version and its hash, with one for each scheduler.

    Args:
        folder: the folder of all tasks.
        task: what results say of their task (`Task.identify`).
    """

    folder: Path
    task: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Name and version of the task, such as full-64-v1; with the hash if the task is modified."""
        title = f"{self.task['name']}-v{self.task['version']}"
        return f"{title}-{self.task['hash']}" if self.task["modified"] else title

    @property
    def archive(self) -> Path:
        """The file of all schedulers, whether it exists or not."""
        return self.folder / f"{self.title}{ARCHIVE_SUFFIX}"

    @property
    def bounds(self) -> Path:
        """The file of the lower bounds of test workloads, whether it exists or not; see `read_bounds`."""
        return self.folder / f"{self.title}-bounds.json"

    @property
    def names(self) -> list[str]:
        """The schedulers that have a record, sorted."""
        return list_recorded(self.archive)

    def header(self, scheduler: str, configuration: Mapping[str, Any], played: Sequence[Any] | str) -> RecordHeader:
        """Return the header for what a scheduler has just played, or for the reason why it cannot run."""
        return RecordHeader(
            scheduler,
            self.title,
            self.task["hash"],
            configuration,
            num_episodes=0 if isinstance(played, str) else len(played),
            package_version=version("murmuration"),
            inapplicable=" ".join(played.split())[:LONGEST] if isinstance(played, str) else "",
            sources=hash_sources(configuration),
        )

    def write(self, scheduler: str, configuration: Mapping[str, Any], played: Played) -> None:
        """Record what a scheduler has just played; nothing if it failed."""
        if isinstance(played, Failure):
            return
        episodes = [] if isinstance(played, str) else [EpisodeFigures.of(run) for run in played]
        write_record(self.archive, self.header(scheduler, configuration, played), episodes)

    def read(self, scheduler: str, configuration: Mapping[str, Any], num_episodes: int) -> Record | str:
        """Return a scheduler's record if it is of this problem, else the reason why it is of no use.

        Args:
            scheduler: its name.
            configuration: the class and options that it would run with now.
            num_episodes: the number of episodes that are needed.
        """
        if scheduler not in self.names:
            return "has no record"
        try:
            record = read_record(self.archive, scheduler)
        except MurmurationError as error:
            return f"cannot be read: {error}"
        header, now = record.header, RecordHeader(scheduler, "", "", configuration, 0, "")
        if (header.scheduler, header.task) != (scheduler, self.title):
            return f"is of {show(header.scheduler)} in {show(header.task)}"
        if header.world_version != WORLD_VERSION:
            return (
                f"was recorded with version {header.world_version} of the world's rules, which is {WORLD_VERSION} now"
            )
        if header.hash != self.task["hash"]:
            return f"was recorded for the problem {header.hash}, which is {self.task['hash']} now"
        recorded = with_later_options(header.configuration, now.configuration)
        if header.configuration_hash != now.configuration_hash and recorded != now.configuration:
            return f"was recorded with other options ({differences(recorded, now.configuration)})"
        if not header.inapplicable and header.num_episodes < num_episodes:
            return f"was recorded for {header.num_episodes} episodes, not {num_episodes}"
        return record


def read_bounds(about: Mapping[str, Any], folder: Path = RECORDS_FOLDER) -> dict[str, Seconds]:
    """Return the known bounds of a task's workloads, by their digest; none without a task or a file.

    Args:
        about: what results say of their task, under the key `task`.
        folder: that of the records. `scripts/tasks.py --tables` writes its files of bounds.

    Raises:
        MurmurationError: the file is damaged.
    """
    path = TaskRecords(folder, about["task"]).bounds if "task" in about else None
    if path is None or not path.exists():
        return {}
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return {str(digest): float(total) for digest, total in known.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise MurmurationError(f"{path}: is damaged ({error}); run scripts/tasks.py --tables") from None


@dataclass(frozen=True)
class Recorded:
    """What a comparison takes from records, and what it adds to them."""

    figures: Mapping[str, Sequence[EpisodeFigures]] = field(default_factory=dict)  # in place of running a scheduler
    inapplicable: Mapping[str, str] = field(default_factory=dict)  # schedulers that cannot run here, with the reason
    invalid: Mapping[str, str] = field(default_factory=dict)  # schedulers whose record is of no use, with the reason
    records: TaskRecords | None = None
    pending: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # configurations of schedulers to record
    written: list[str] = field(default_factory=list)  # of these, the schedulers that have been recorded

    @property
    def left_out(self) -> dict[str, str]:
        """The schedulers that were to be read and have no figures, with the reason."""
        return {**self.inapplicable, **self.invalid}

    def listen(self, scheduler: str, played: Played) -> None:
        """Record a scheduler that has just been played if it is to be recorded."""
        if self.records and scheduler in self.pending:
            self.records.write(scheduler, self.pending[scheduler], played)
            self.written.append(scheduler)

    @property
    def kept(self) -> str:
        """Say how much an interrupted comparison has kept; empty without records."""
        if not (self.records and self.pending):
            return ""
        names = ", ".join(self.written) or "no scheduler"
        return f"{self.records.archive} keeps the records of {names}; the same command plays the others"


def consult_records(
    run: ComparisonRun, about: Mapping[str, Any], schedulers: Sequence[str], workloads: Sequence[Workload], setup: Setup
) -> Recorded:
    """Read the records that a run asks for.

    `record=true` replaces schedulers that have a valid record by it, unless `again=true`, and records the others.
    `recorded=` adds schedulers that are not played.

    Args:
        run: the comparison.
        about: what results say of their task, under the key `task`.
        schedulers: the library's and the user's own schedulers that are to be played.
        workloads: the workloads of the comparison.
        setup: the cluster, the performance model and the scenario.

    Raises:
        ChoiceError: there is no task, not all of its episodes would be recorded, a scheduler that is to be recorded is
            not in `conf/scheduler` as it is, or `recorded` names one without a record.
    """
    choice = run.records
    records = open_records(choice, about)
    if records is None:
        return Recorded()
    figures: dict[str, Sequence[EpisodeFigures]] = {}
    inapplicable: dict[str, str] = {}
    invalid: dict[str, str] = {}
    pending: dict[str, Mapping[str, Any]] = {}
    further = [name for name in wanted_records(choice, records) if name not in run.schedulers]
    asked = list(schedulers) if choice.record else []
    library = library_configurations([*asked, *further])
    ideals = ideal_durations(workloads, setup)
    counts = limit_slow(run.problem.task, [*asked, *further])
    for name in asked:
        check_recordable(name, run.schedulers[name], library)
    for name in [*asked, *further]:
        count = min(counts.get(name, len(workloads)), len(workloads))
        record = records.read(name, library[name], count) if name in library else "is of no scheduler in conf/scheduler"
        if isinstance(record, str):
            found: Sequence[EpisodeFigures] | Inapplicable | str = record
        else:
            found = restore_record(record, workloads[:count], ideals, setup.scenario, library[name])
        if name in asked and (choice.again or isinstance(found, str)):
            pending[name] = library[name]
        elif isinstance(found, str):
            invalid[name] = f"its record is not used: it {found}"
        elif isinstance(found, Inapplicable):
            inapplicable[name] = found.reason
        else:
            figures[name] = found
    return Recorded(figures, inapplicable, invalid, records, pending)


@dataclass(frozen=True)
class Inapplicable:
    """What a record of a scheduler says that cannot run: the reason."""

    reason: str


def restore_record(
    record: Record,
    workloads: Sequence[Workload],
    ideals: Sequence[FloatArray],
    scenario: Scenario,
    configuration: Mapping[str, Any],
) -> Sequence[EpisodeFigures] | Inapplicable | str:
    """Return the figures of a record, or why it has none, or why it is of no use.

    A record whose scheduler has other source files now is used, and its figures say so: most changes of code change no
    decision.
    """
    if record.header.inapplicable:
        return Inapplicable(record.header.inapplicable)
    try:
        return record.figures(workloads, ideals, scenario, remark_on(record.header, configuration))
    except RecordError as error:
        return f"cannot be: {error}; record the scheduler again"


def remark_on(header: RecordHeader, configuration: Mapping[str, Any]) -> Remark | None:
    """Return what is to be said of a record whose scheduler may have had other source files.

    Args:
        header: of the record.
        configuration: the scheduler's class and options, as plain values.
    """
    if not header.sources:
        return BEFORE_SOURCES
    return OTHER_SOURCES if header.sources != hash_sources(configuration) else None


def count_remarks(archive: Path) -> str:
    """Count the records of an archive by what is to be said of them; empty if there is nothing to say.

    Raises:
        MurmurationError: the archive is damaged.
    """
    names = list_recorded(archive)
    library = library_configurations(names)
    counts = {"of other sources": 0, "without a source hash": 0, "unreadable": 0}
    for name, now in library.items():
        try:
            remark = remark_on(read_record(archive, name).header, now)
        except MurmurationError:
            counts["unreadable"] += 1
            continue
        counts["of other sources"] += remark == OTHER_SOURCES
        counts["without a source hash"] += remark == BEFORE_SOURCES
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{len(names)} records, {told}" if told else ""


def check_recordable(name: str, component: Component, library: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that a scheduler runs as `conf/scheduler` has it, since later comparisons compare with that.

    Raises:
        ChoiceError: it is the user's own on the command line, or has other options there.
    """
    if name not in library:
        raise ChoiceError(
            f"record=true: {name} is not in conf/scheduler; give it a file there or in the folder of --config-dir"
        )
    now = configuration_of(component)
    if changed := differences(library[name], now):
        raise ChoiceError(f"record=true: {name} has other options than its file in conf/scheduler: {changed}")


def open_records(choice: RecordChoice, about: Mapping[str, Any]) -> TaskRecords | None:
    """Return the records of a comparison's task; None if it neither records nor reads records.

    Raises:
        ChoiceError: there is no task, or not all of its test episodes are to be recorded.
        MurmurationError: the archive into which records are to be written is damaged.
    """
    if not (choice.record or choice.recorded):
        return None
    if "task" not in about:
        raise ChoiceError("record and recorded: results are recorded for tasks; choose one with task=<name>")
    task = about["task"]
    if choice.record and not task["complete"]:
        raise ChoiceError(f"record=true: {task['label']} is no whole task; leave out episodes and split")
    if not task["complete"] and "split" in task["label"]:
        raise ChoiceError(f"recorded: {task['label']}: records are of the test episodes; leave out split")
    records = TaskRecords(choice.folder or RECORDS_FOLDER, task)
    if choice.record:
        check_archive(records.archive)
    return records


def wanted_records(choice: RecordChoice, records: TaskRecords) -> Sequence[str]:
    """Return the schedulers whose records a comparison reads although it need not play them.

    Raises:
        ChoiceError: `recorded` names a scheduler that has no record.
    """
    if choice.recorded is False:
        return []
    known = records.names
    names = known if choice.recorded is True else choice.recorded_names
    for name in names:
        if name not in known:
            there = ", ".join(known) or "none"
            hint = did_you_mean(name, known, lead=", ")
            raise ChoiceError(f"recorded={name}: {records.title} has no such record{hint}; there are: {there}")
    return names


def library_configurations(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the configurations of schedulers as `conf/scheduler` has them; of no others."""
    return {name: configuration_of(component) for name, component in describe_library(names).items()}


def configuration_of(component: Component) -> dict[str, Any]:
    """Return the class and all options of a scheduler as plain values, with the defaults of the signature."""
    return cast(dict[str, Any], plain(_with_defaults(component.values)))


def _with_defaults(values: Any) -> Any:
    if isinstance(values, list):
        return [_with_defaults(each) for each in values]
    if not isinstance(values, Mapping):
        return values
    given = {str(name): _with_defaults(each) for name, each in values.items()}
    if "_target_" not in given:
        return given
    taken = inspect.signature(import_target("scheduler", given["_target_"])).parameters.values()
    return {**{each.name: each.default for each in taken if each.default is not each.empty}, **given}


def with_later_options(recorded: Any, now: Any) -> Any:
    """Return recorded options with those that a class has got since, where these are left at their defaults now.

    To add such an option is to change the class's code, which does not make a record useless either (`restore_record`).

    Args:
        recorded: the options in a record, or a part of them.
        now: the same part of the options with which the scheduler would run.
    """
    if isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        return [with_later_options(*each) for each in zip(recorded, now, strict=True)]
    if not isinstance(recorded, Mapping) or not isinstance(now, Mapping):
        return recorded
    target = now.get("_target_")
    defaults = plain(_with_defaults({"_target_": target})) if target and target == recorded.get("_target_") else {}
    later = {name: now[name] for name in defaults if name not in recorded and now.get(name) == defaults[name]}
    return {**{name: with_later_options(each, now.get(name)) for name, each in recorded.items()}, **later}


def differences(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say which options differ, with their values."""
    names = [name for name in {**recorded, **now} if recorded.get(name) != now.get(name)]
    return "; ".join(f"{_line(name)} was {_line(recorded.get(name))} and is {now.get(name)} now" for name in names)


def _line(value: Any) -> str:
    """Return a value of a record as one line."""
    text = str(value)
    return text if len(text) <= LONGEST and text.isprintable() else show(value)
