"""Recorded results: what one scheduler did in every episode of a task, in a small file that can be committed.

A record is a gzipped text of JSON lines, to be read with `zcat`. Its first line says what was played. Each further line
is an episode (`EpisodeFigures`): its metrics with `DIGITS` significant digits, and the JCT of every measured job with
`JOB_DIGITS`.

The rounding limits the size of the files. Metrics of episodes in which every scheduler finished the same jobs keep all
their digits. In an episode in which another scheduler left jobs unfinished, means over the remaining jobs are computed
from the rounded figures. Queueing delay and finish-time fairness are not recorded by job: they stay those of all jobs
that the recorded scheduler finished. Bootstrap intervals, which comparisons of fewer than `MIN_WORKLOADS` episodes
have, come from the rounded figures too, and there is none of the queueing delay.
"""

import dataclasses
import gzip
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from envs.evaluation.episode import JOB, EpisodeFigures
from envs.evaluation.task import hash_text, to_hashable
from envs.metrics import Summary
from envs.simulation import WORLD_VERSION, Setup, ThroughputTable
from envs.types import FloatArray, MurmurationError
from envs.workloads import Workload

FORMAT = 1  # version of the files
DIGITS = 9  # significant digits of the metrics of an episode
JOB_DIGITS = 3  # of the figures of jobs
SUFFIX = ".jsonl.gz"


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

    def figures(self, workloads: Sequence[Workload], ideals: Sequence[FloatArray]) -> list[EpisodeFigures]:
        """Return the figures of the episodes of a comparison.

        Args:
            workloads: the workloads of the comparison, at least as many as the episodes that are wanted.
            ideals: the `ideal_durations` of the workloads.
        """
        return [
            restore_episode(values, workload, ideal)
            for values, workload, ideal in zip(self.episodes, workloads, ideals, strict=False)
        ]


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
        with np.errstate(divide="ignore"):  # infinite for a gang that does not fit on any one type
            found.append(jobs["work"] / tables[models].requested_throughput(jobs["model"], jobs["num_gpus"]))
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
        "summary": {name: _round(value, DIGITS) for name, value in dataclasses.asdict(episode.own).items()},
        "jct": [_round(each, JOB_DIGITS) for each in (jobs["finish_time"] - jobs["submit_time"]).tolist()],
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
    jobs["start_time"] = jobs["rho"] = np.nan
    texts = {None: math.nan, "inf": math.inf}
    summary = {name: texts.get(value, value) for name, value in values["summary"].items()}
    kept = ("num_late", "stay", "beyond", "num_rounds", "decision_seconds", "chose_batches")
    return EpisodeFigures(workload, jobs, Summary(**summary), **{name: values[name] for name in kept})


def write_record(path: Path, header: RecordHeader, episodes: Iterable[EpisodeFigures]) -> None:
    """Write a record. The file appears when it is complete, and equal figures give equal bytes."""
    first = {**dataclasses.asdict(header), "configuration_hash": header.configuration_hash, "digits": JOB_DIGITS}
    lines = [first, *(describe_episode(episode) for episode in episodes)]
    text = "".join(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in lines)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as file:
        file.write(text.encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(packed.getvalue())
    part.replace(path)


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        MurmurationError: the file is damaged, or its format is another version's.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            first, *episodes = [json.loads(line) for line in file]
        known = {each.name for each in dataclasses.fields(RecordHeader)}
        header = RecordHeader(**{name: value for name, value in first.items() if name in known})
        named = first["configuration_hash"]
    except (OSError, EOFError, ValueError, TypeError, KeyError) as error:
        raise MurmurationError(f"{path}: is no record ({error}); delete it and record the scheduler again") from error
    if header.format != FORMAT:
        raise MurmurationError(f"{path}: has format {header.format}, not {FORMAT}; delete it and record it again")
    if len(episodes) != header.num_episodes or named != header.configuration_hash:
        raise MurmurationError(f"{path}: its content and its first line differ; delete it and record it again")
    return Record(header, episodes)


def digest_records(paths: Iterable[Path]) -> str:
    """Return a hash that depends on the names and the content of records, in any order."""
    parts = [f"{path.name} {hash_text(gzip.decompress(path.read_bytes()).decode())}" for path in sorted(paths)]
    return hash_text("\n".join(parts))


def _round(value: float, digits: int) -> float | str | None:
    """Round to significant digits; None for NaN, "inf" for infinity, and whole numbers without a decimal point."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf"
    near = float(f"{value:.{digits}g}")
    return int(near) if near.is_integer() else near
