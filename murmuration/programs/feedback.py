"""Feedback on a scheduler in words: where time is lost, and which jobs waited longest, and why."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from envs.metrics import find_waits, job_completion_times, segments, summarise, times_to_start, waits
from envs.simulation import RunResult
from envs.types import FloatArray
from envs.types.units import HOUR

WORST = 5  # jobs that are described


def describe_losses(runs: Sequence[RunResult], alone: Sequence[FloatArray]) -> dict[str, str]:
    """Return where the mean JCT of measured jobs comes from.

    Args:
        runs: all jobs of which finished.
        alone: for each run float64[num_jobs], the least seconds of each job.
    """
    parts = np.zeros(4)
    counts = np.zeros(3)
    for run, least in zip(runs, alone, strict=True):
        rows = run.records["measured"]
        jct, start = job_completion_times(run.records)[rows], times_to_start(run.records)[rows]
        later, fastest = waits(run)[rows] - start, least[run.records["job"]][rows]
        parts += [each.mean() for each in (fastest, start, later, jct - fastest - start - later)]
        counts += [run.records[name][rows].mean() for name in ("num_preemptions", "num_restarts", "num_interruptions")]
    hours, (stops, restarts, failures) = parts / len(runs) / HOUR, counts / len(runs)
    total = hours.sum()
    words = (
        ("the least run time of each job, alone on the best GPUs", ""),
        ("waiting for the first start", ""),
        ("waiting after a preemption or a failure of a node", f", {stops:.2f} preemptions a job"),
        (
            "running on fewer or slower GPUs than alone, starting and restarting",
            f", {restarts:.2f} restarts a job; negative where less is lost than waiting already counts",
        ),
    )
    lost = "; ".join(
        f"{share:.2f} h ({share / total:.0%}) {what}{more}" for share, (what, more) in zip(hours, words, strict=True)
    )
    figures = [summarise(run) for run in runs]
    used, cores = (
        float(np.mean([getattr(each, name) for each in figures])) for name in ("utilisation", "limited_by_cpus")
    )
    split = float(
        np.mean([0.0 if np.isnan(each.fragmentation) else each.fragmentation for each in figures])
    )  # none free
    return {
        "where_time_is_lost": f"Mean JCT {total:.2f} h = {lost}.",
        "cluster": f"{used:.0%} of GPUs were in use; {split:.0%} of the free ones were in pieces too small for a "
        f"typical job. Cores limited {cores:.0%} of the running time of jobs. Failures of nodes stopped a job "
        f"{failures:.2f} times.",
    }


def describe_worst(runs: Sequence[RunResult], alone: Sequence[FloatArray]) -> str:
    """Return the jobs that took longest beyond their least run time, each in one sentence with what it waited for."""
    found: list[tuple[float, str]] = []
    for run, least in zip(runs, alone, strict=True):
        extra = job_completion_times(run.records) - least[run.records["job"]]
        extra[~run.records["measured"]] = -np.inf
        for row in np.argsort(-extra)[:WORST].tolist():
            found.append((float(extra[row]), _describe_job(run, row, float(least[run.records["job"][row]]))))
    return "\n".join(text for _, text in sorted(found, reverse=True)[:WORST])


def _describe_job(run: RunResult, row: int, least: float) -> str:
    record, workload = run.records[row], run.workload
    job = int(record["job"])
    spec = workload.jobs[job]
    jct = float(record["finish_time"] - record["submit_time"])
    said = (
        f"{workload.name} job {job} ({workload.models[int(spec['model'])]}, asked for {int(spec['num_gpus'])} GPUs, "
        f"may have {int(spec['min_gpus'])} to {int(spec['max_gpus'])}): {jct / HOUR:.1f} h, alone {least / HOUR:.1f} h"
    )
    waited = find_waits(run.log, run.end_time)
    mine = waited[waited["job"] == job]
    seconds = float((mine["end"] - mine["start"]).sum())
    if seconds < 0.05 * jct:
        return f"{said}; it hardly waited, and ran on few or slow GPUs"
    held = segments(run.log, run.end_time)
    overlap = sum(_overlap(held, float(each["start"]), float(each["end"])) for each in mine)
    by_others = overlap * held["gpus"]
    later = np.isin(held["job"], run.records["job"][run.records["submit_time"] > record["submit_time"]])
    share = by_others.sum() / (seconds * run.cluster.num_gpus)
    passed = by_others[later].sum() / max(by_others.sum(), 1e-9)
    return (
        f"{said}; it waited {seconds / HOUR:.1f} h and was preempted {int(record['num_preemptions'])} times; meanwhile "
        f"{share:.0%} of GPUs were held, {passed:.0%} of that by jobs submitted later"
    )


def _overlap(held: npt.NDArray[np.void], start: float, end: float) -> FloatArray:
    """Return float64[num_segments]: seconds of each segment between two times."""
    return np.asarray(np.clip(np.minimum(held["end"], end) - np.maximum(held["start"], start), 0.0, None))
