"""Recorded results: what one scheduler did in every episode of a task, as a small text that can be committed.

A record is a text of JSON lines, a member of its task's archive (`envs.evaluation.archive`), which `unzip -p` prints.
Its first line says what was played. Each further line is an episode (`EpisodeFigures`): its metrics with `DIGITS`
significant digits, and the JCT, wait and time to start of every measured job with `JOB_DIGITS`. The first line has a
checksum of all that the record says, against mistakes, not against intent: anyone can compute it. `record_schema`
states which values a record may have, and `record_checks` how they must agree.

The rounding limits the size of the files. Metrics of episodes in which every scheduler finished the same jobs keep all
their digits. In an episode in which another scheduler left jobs unfinished, means over the remaining jobs are computed
from the rounded figures. Finish-time fairness is not recorded by job: it stays that of all jobs that the recorded
scheduler finished. Bootstrap intervals, which comparisons of fewer than `MIN_WORKLOADS` episodes have, come from the
rounded figures too.
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from envs.evaluation.archive import list_recorded, read_member, write_member
from envs.evaluation.episode import JOB, EpisodeFigures, Remark
from envs.evaluation.record_checks import EpisodeCheck
from envs.evaluation.record_schema import (
    DIGITS,
    FORMAT,
    JOB_DIGITS,
    LEFT,
    RecordError,
    check_episode,
    check_header,
    show,
)
from envs.evaluation.task import hash_text, to_hashable
from envs.metrics import Summary, job_completion_times, times_to_start
from envs.simulation import WORLD_VERSION, Scenario, Setup, ThroughputTable
from envs.simulation.world.ideal import ideal_throughput
from envs.types import FloatArray, MurmurationError
from envs.workloads import Workload


@dataclass(frozen=True)
class RecordHeader:
    """What was played: the first line of a record.

    Attributes:
        scheduler: its name.
        task: name and version of the task, such as full-64-v1.
        hash: the hash of the problem (`envs.evaluation.task.hash_problem`).
        configuration: the scheduler's class and all its options, as plain values.
        num_episodes: number of episodes, the first ones of the task; 0 if the scheduler cannot run.
        package_version: version of the package that recorded it.
        inapplicable: the reason if the scheduler cannot run; empty if it can.
        world_version: `WORLD_VERSION` at the time.
        sources: a hash of the scheduler's source files at the time; empty in records from before they had one.
        format: version of the file's format.
    """

    scheduler: str
    task: str
    hash: str
    configuration: Mapping[str, Any]
    num_episodes: int
    package_version: str
    inapplicable: str = ""
    world_version: int = WORLD_VERSION
    sources: str = ""
    format: int = FORMAT

    @property
    def configuration_hash(self) -> str:
        """The hash of the scheduler's class and options."""
        return hash_text(json.dumps(to_hashable(self.configuration), sort_keys=True))


@dataclass(frozen=True)
class Record:
    """A record as it was read: its header and the plain values of its episodes."""

    header: RecordHeader
    episodes: Sequence[Mapping[str, Any]]

    def figures(
        self,
        workloads: Sequence[Workload],
        ideals: Sequence[FloatArray],
        scenario: Scenario,
        remark: Remark | None = None,
    ) -> list[EpisodeFigures]:
        """Return the figures of the episodes of a comparison.

        Args:
            workloads: the workloads of the comparison, at least as many as the episodes that are wanted.
            ideals: the `ideal_durations` of the workloads.
            scenario: of the comparison.
            remark: what is to be said of them, if anything.

        Raises:
            RecordError: an episode is of another workload, or its values disagree; names them.
        """
        found = []
        for values, workload, ideal in zip(self.episodes, workloads, ideals, strict=False):
            if values["workload"] != workload.name:
                raise RecordError(f"has an episode of {show(values['workload'])}, which should be of {workload.name}")
            if len(values["jct"]) > workload.measured.sum():
                raise RecordError(f"{workload.name}: has {len(values['jct'])} JCTs, more than jobs are measured")
            figures = restore_episode(values, workload, ideal)
            EpisodeCheck(figures, scenario).run()
            found.append(replace(figures, remark=remark))
        return found


def ideal_durations(workloads: Sequence[Workload], setup: Setup) -> list[FloatArray]:
    """Return float64[num_jobs] for each workload: the ideal duration of every job, in seconds, as in `RECORD`."""
    tables: dict[tuple[str, ...], ThroughputTable] = {}
    found = []
    for workload in workloads:
        models = tuple(workload.models)
        if models not in tables:
            same = [each for each in workloads if tuple(each.models) == models]
            most = max(int(each.jobs["max_gpus"].max()) for each in same)
            tables[models] = ThroughputTable.build(setup, models, most)
        jobs = workload.jobs
        with np.errstate(divide="ignore"):  # infinite for a model that runs nowhere in the cluster
            found.append(jobs["work"] / ideal_throughput(setup, tables[models], jobs["model"], jobs["num_gpus"]))
    return found


def describe_episode(episode: EpisodeFigures) -> dict[str, Any]:
    """Return the figures of an episode as plain values: a line of a record; `restore_episode` reads it."""
    jobs = episode.jobs
    return {
        "workload": episode.workload.name,
        "num_rounds": episode.num_rounds,
        "decision_seconds": _round(episode.decision_seconds, DIGITS),
        "chose_batches": episode.chose_batches,
        "num_late": episode.num_late,
        "stay": _round(episode.stay, DIGITS),
        "beyond": _round(episode.beyond, DIGITS),
        **({"named_plans": True} if episode.named_plans else {}),
        **{name: _left(getattr(episode, name)) for name in LEFT if getattr(episode, name)},
        "summary": {name: _round(value, DIGITS) for name, value in dataclasses.asdict(episode.own).items()},
        "jct": [_round(each, JOB_DIGITS) for each in job_completion_times(jobs).tolist()],
        "wait": [_round(each, JOB_DIGITS) for each in jobs["wait"].tolist()],
        "time_to_start": [_round(each, JOB_DIGITS) for each in times_to_start(jobs).tolist()],
    }


def restore_episode(values: Mapping[str, Any], workload: Workload, ideal: FloatArray) -> EpisodeFigures:
    """Return the figures of an episode from the values of `describe_episode`.

    Args:
        values: a line of a record.
        workload: the workload that was played.
        ideal: float64[num_jobs], its `ideal_durations`.
    """
    ids = np.flatnonzero(workload.measured)[: len(values["jct"])]
    jobs = np.zeros(len(ids), JOB)
    submit = workload.jobs["submit_time"][ids]
    jobs["job"], jobs["submit_time"], jobs["ideal_duration"] = ids, submit, ideal[ids]
    jobs["finish_time"] = submit + np.array(values["jct"], dtype=np.float64)
    jobs["start_time"] = submit + np.array(values["time_to_start"], dtype=np.float64)
    jobs["wait"], jobs["rho"] = values["wait"], np.nan
    texts = {None: math.nan, "inf": math.inf}
    summary = {name: texts.get(value, value) for name, value in values["summary"].items()}
    kept = ("num_late", "stay", "beyond", "num_rounds", "decision_seconds", "chose_batches")
    figures: dict[str, Any] = {name: values[name] for name in kept}
    figures |= {name: {int(place): float(stay) for place, stay in values.get(name, ())} for name in LEFT}
    return EpisodeFigures(workload, jobs, Summary(**summary), **figures, named_plans="named_plans" in values)


def _left(stays: Mapping[int, float]) -> list[list[Any]]:
    return [[place, _round(stay, JOB_DIGITS)] for place, stay in stays.items()]


def write_record(archive: Path, header: RecordHeader, episodes: Iterable[EpisodeFigures]) -> None:
    """Write a record into the archive of its task. It appears when it is complete; equal figures give equal bytes."""
    keep_episodes(archive, header, [describe_episode(episode) for episode in episodes])


def keep_episodes(archive: Path, header: RecordHeader, episodes: Sequence[Mapping[str, Any]]) -> None:
    """Write a record with the plain values of episodes, such as those of another record."""
    first = {**dataclasses.asdict(header), "configuration_hash": header.configuration_hash, "digits": JOB_DIGITS}
    write_lines(archive, header.scheduler, [first, *episodes])


def write_lines(archive: Path, scheduler: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write the plain values of a record, the first line's first, with their checksum."""
    first = {**lines[0], "checksum": checksum(lines)}
    text = "".join(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in [first, *lines[1:]])
    write_member(archive, scheduler, text)


def checksum(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return a hash of all values of a record but the checksum itself, whatever the layout of their text."""
    first = {name: value for name, value in lines[0].items() if name != "checksum"}
    return hash_text(json.dumps([first, *lines[1:]], sort_keys=True))


def read_record(archive: Path, scheduler: str) -> Record:
    """Read a scheduler's record from the archive of a task.

    Raises:
        MurmurationError: it is damaged, its format is another version's, or a value is none that it may have.
    """
    try:
        lines = [_parse(line) for line in read_member(archive, scheduler).splitlines()]
        check_header(lines[0] if lines else None)
        first, *episodes = lines
        for number, episode in enumerate(episodes):
            check_episode(episode, number)
        known = {each.name for each in dataclasses.fields(RecordHeader)}
        header = RecordHeader(**{name: value for name, value in first.items() if name in known})
        if len(episodes) != header.num_episodes or first["configuration_hash"] != header.configuration_hash:
            raise RecordError("its content and its first line differ")
        if first["checksum"] != checksum(lines):
            raise RecordError("its checksum is of other content: it was changed after it was written")
    except RecordError as error:
        raise MurmurationError(f"{archive}: {scheduler} {error}; record the scheduler again") from error
    return Record(header, episodes)


def digest_records(archive: Path) -> str:
    """Return a hash that depends on the names and the content of a task's records, if it has any."""
    return hash_text("\n".join(f"{name} {_digest(archive, name)}" for name in list_recorded(archive)))


def _digest(archive: Path, scheduler: str) -> str:
    try:
        return hash_text(read_member(archive, scheduler))
    except RecordError:
        return "damaged"


def _parse(line: str) -> Any:
    """Return the value of a line of JSON, which names no key twice, and no number that is not finite.

    Raises:
        RecordError: it is no such line.
    """
    try:
        return json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise RecordError("is no record (a line is no plain JSON)") from error


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not finite")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _round(value: float, digits: int) -> float | str | None:
    """Round to significant digits; None for NaN, "inf" for infinity, and whole numbers without a decimal point."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf"
    near = float(f"{value:.{digits}g}")
    return int(near) if near.is_integer() else near
