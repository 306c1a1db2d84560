"""How much of what was played rests on measured throughputs: shares of job time by provenance."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from envs.evaluation.episode import EpisodeFigures
from envs.metrics.timeline import next_times
from envs.performance import PerformanceModel, TableModel
from envs.simulation import RunResult, Setup
from envs.simulation.log import EventKind
from envs.types import FloatArray, IntArray, plain_type, without_constraints

GRADES = ("measured", "interpolated", "modelled", "guessed")


def share_job_time(runs: Mapping[str, Sequence[RunResult | EpisodeFigures]], setup: Setup) -> dict[str, float]:
    """Divide the time in which jobs held GPUs by the provenance of their throughput there.

    Each placement of each job counts with its own GPUs, nodes and batch size, for as long as the job held it. A
    placement that names an execution plan is at best modelled, since plans other than the fastest are. Of a placement
    on several GPU types, the worst type counts.

    Args:
        runs: by scheduler; figures that were recorded earlier have no event log, and do not count.
        setup: with which they were played.

    Returns:
        Shares by provenance, `GRADES` first; they add up to 1. Empty if no job held GPUs, or the performance model does
        not state provenance.
    """
    performance = setup.performance
    if not hasattr(performance, "provenance"):
        return {}
    played = [run for results in runs.values() for run in results if isinstance(run, RunResult)]
    seconds: Counter[str] = Counter()
    for run in played:
        placements, lengths = sum_placements(run)
        for placement, length in zip(placements.tolist(), lengths.tolist(), strict=True):
            model, *types, gpus, nodes, batch, plan = placement
            names = {run.cluster.gpu_types[each] for each in types}
            found = [_grade(performance, run.workload.models[model], name, gpus, nodes, batch, plan) for name in names]
            seconds[max(found, key=lambda each: GRADES.index(each) if each in GRADES else len(GRADES))] += length
    whole = sum(seconds.values())
    order = [*GRADES, *sorted(set(seconds) - set(GRADES))]
    return {name: seconds[name] / whole for name in order} if whole else {}


def sum_placements(run: RunResult) -> tuple[IntArray, FloatArray]:
    """Sum up the time that jobs spent in each placement.

    Returns:
        int64[n, 7], each row once: model, first and last GPU type, GPUs, nodes, batch size (0: none named) and plan
        (-1: none named); and float64[n], seconds.
    """
    events = run.log.events
    rows = np.flatnonzero(np.isin(events["kind"], (EventKind.START, EventKind.RESIZE)))
    if not len(rows):
        return np.zeros((0, 7), np.int64), np.zeros(0)
    held, counts = events[rows], events["num_shares"][rows]
    first = np.cumsum(counts) - counts
    shares = run.log.shares[np.repeat(held["first_share"] - first, counts) + np.arange(counts.sum())]
    types = run.cluster.node_types[shares["node"]]
    columns = (
        run.workload.jobs["model"][held["job"]],
        np.minimum.reduceat(types, first),
        np.maximum.reduceat(types, first),
        np.add.reduceat(shares["gpus"], first),
        counts,
        held["batch_size"],
        held["plan"],
    )
    placements, index = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    seconds = (next_times(run.log, run.end_time) - events["time"])[rows]
    return placements, np.asarray(np.bincount(index.ravel(), seconds), np.float64)


def _grade(
    performance: PerformanceModel, model: str, gpu_type: str, gpus: int, nodes: int, batch: int, plan: int
) -> str:
    model, gpu_type = without_constraints(model), plain_type(gpu_type)
    if not isinstance(performance, TableModel):
        return str(performance.provenance(model, gpu_type))  # type: ignore[attr-defined]
    found = performance.provenance(model, gpu_type, gpus, nodes, batch or None)
    return "modelled" if plan >= 0 and found in GRADES[:2] else found


def describe_job_time(shares: Mapping[str, float]) -> list[str]:
    """Say the shares of `share_job_time` in one line; no line without any."""
    if not shares:
        return []
    figures = "/".join(f"{100 * share:.0f}" for share in shares.values())
    return [f"Job time on {' / '.join(shares)} throughputs: {figures} %."]
