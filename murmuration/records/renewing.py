"""Records of schedulers whose source files have changed: kept under the new hash if some episodes are repeated."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envs.evaluation.episode import EpisodeFigures
from envs.evaluation.playing import workload_seed
from envs.evaluation.record import Record, RecordHeader, describe_episode, keep_episodes
from envs.scheduling import Scheduler
from envs.simulation import Setup, Simulator, run_episode
from envs.workloads import Workload
from murmuration.config.descriptions import ComparisonRun
from murmuration.records.recorded import OTHER_SOURCES, TaskRecords, library_configurations, open_records, remark_on
from murmuration.records.sources import hash_sources


def renew_records(
    run: ComparisonRun,
    about: Mapping[str, Any],
    schedulers: Mapping[str, Scheduler],
    workloads: Sequence[Workload],
    setup: Setup,
    seed: int,
) -> Iterator[str]:
    """Play the first episodes of schedulers that have other source files now; keep the records that they repeat.

    A record is repeated if the figures of all jobs and of the cluster are equal as they are recorded, but for CPU time.
    A change that shows only in later episodes is not noticed.

    Args:
        run: the comparison, which says how many episodes are played.
        about: what results say of their task, under the key `task`.
        schedulers: those of the comparison.
        workloads: of the task.
        setup: of the task.
        seed: of the comparison.

    Yields:
        What became of each such record, in words.
    """
    records, count = open_records(run.records, about), run.records.renew
    if records is None or not count:
        return
    for name, now in library_configurations([name for name in records.names if name in schedulers]).items():
        record = records.read(name, now, 1)
        if isinstance(record, str) or not record.episodes or remark_on(record.header, now) != OTHER_SOURCES:
            continue
        played = min(count, len(record.episodes))
        differs = [
            workloads[i].name
            for i in range(played)
            if not repeats(record, i, schedulers[name], Simulator(workloads[i], setup, workload_seed(seed, i)))
        ]
        if differs:
            yield f"{name}: its record is not renewed: {', '.join(differs)} is played differently now"
            continue
        renew(records, record, now)
        yield f"{name}: its record is renewed, as {played} of {len(record.episodes)} episodes are played as before"


def repeats(record: Record, index: int, scheduler: Scheduler, world: Simulator) -> bool:
    """Return whether a scheduler leaves the figures of a recorded episode."""
    found = json.loads(json.dumps(describe_episode(EpisodeFigures.of(run_episode(scheduler, world)))))
    recorded = dict(record.episodes[index])
    return all(found.get(key) == recorded.get(key) for key in {*found, *recorded} - {"decision_seconds"})


def renew(records: TaskRecords, record: Record, configuration: Mapping[str, Any]) -> None:
    """Write a record again, with the hash of the present source files and all options that its class has now."""
    header: RecordHeader = replace(record.header, configuration=configuration, sources=hash_sources(configuration))
    keep_episodes(records.archive, header, record.episodes)
