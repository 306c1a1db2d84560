"""Runs as data frames: a row for each job, and a row for each event."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from envs.evaluation.episode import EpisodeFigures
from envs.metrics import times_to_start, waits
from envs.simulation import EventKind, RunResult
from envs.types import MurmurationError


def job_frame(run: RunResult) -> pd.DataFrame:
    """Return a row for each job that was submitted before the end of a run, in order of submission.

    Columns: `job` (row of the workload), `id`, `name`, `user`, `tenant` and `model` ("" where the workload has none),
    `num_gpus` (requested), `submit_time`, `start_time` and `end_time` (seconds; NaN for what never happened),
    `finished` (false also for jobs that ended at their limits), `jct`, `wait` (without GPUs, from submission to end)
    and `time_to_start` in seconds, `attained_service` in GPU-seconds, `num_restarts`, `num_preemptions`,
    `num_interruptions`, `measured`, and `nodes`, on which it started first, such as "0 3".
    """
    records, workload = run.records, run.workload
    rows = records["job"]
    frame = pd.DataFrame({"job": rows})
    for column, texts in (("id", workload.ids), ("name", workload.names), ("user", workload.users)):
        frame[column] = np.array(texts, object)[rows] if len(texts) else ""
    for column, names in (("tenant", workload.tenants), ("model", workload.models)):
        frame[column] = np.array(names, object)[workload.jobs[column][rows]]
    for column in ("num_gpus", "submit_time", "start_time"):
        frame[column] = records[column]
    frame["end_time"], frame["finished"] = run.left_times, run.finished
    frame["jct"] = records["finish_time"] - records["submit_time"]
    frame["wait"], frame["time_to_start"] = waits(run), times_to_start(records)
    for column in ("attained_service", "num_restarts", "num_preemptions", "num_interruptions", "measured"):
        frame[column] = records[column]
    return frame.assign(nodes=frame["job"].map(_first_nodes(run)).fillna(""))


def event_frame(run: RunResult) -> pd.DataFrame:
    """Return a row for each event of a run: `time` in seconds, `event`, `job` (-1 for none), and what it has after it.

    That is `gpus` by node, such as "0:4 3:2", `beside` (the job with which it shares GPUs, -1 for none), `batch_size`
    (0 where the placement names none) and the execution `plan` ("" likewise).
    """
    events, shares = run.log.events, run.log.shares
    texts = [f"{node}:{gpus}" for node, gpus in zip(shares["node"].tolist(), shares["gpus"].tolist(), strict=True)]
    spans = zip(events["first_share"].tolist(), events["num_shares"].tolist(), strict=True)
    plans = ["", *map(str, run.log.plans)]
    return pd.DataFrame(
        {
            "time": events["time"],
            "event": [EventKind(number).name.lower() for number in events["kind"].tolist()],
            "job": events["job"],
            "gpus": [" ".join(texts[first : first + count]) for first, count in spans],
            "beside": events["beside"],
            "batch_size": events["batch_size"],
            "plan": [plans[plan + 1] for plan in events["plan"].tolist()],
        }
    )


def _first_nodes(run: RunResult) -> dict[int, str]:
    """Return the nodes of each job's first start."""
    events, nodes = run.log.events, run.log.shares["node"].tolist()
    found: dict[int, str] = {}
    for event in np.flatnonzero(events["kind"] == EventKind.START).tolist():
        first, count = int(events[event]["first_share"]), int(events[event]["num_shares"])
        found.setdefault(int(events[event]["job"]), " ".join(map(str, nodes[first : first + count])))
    return found


def frame_of_runs(
    frame_of: Callable[[RunResult], pd.DataFrame], scheduler: str, runs: Sequence[RunResult | EpisodeFigures]
) -> pd.DataFrame:
    """Return the frames of several runs of a scheduler, one after another, with the name of each one's `workload`.

    Raises:
        MurmurationError: some are read from a record, which has no events.
    """
    played = [run for run in runs if isinstance(run, RunResult)]
    if len(played) < len(runs):
        raise MurmurationError(
            f"{scheduler}: is read from a record, which has no events; play it: scheduler={scheduler}"
        )
    frames = [frame_of(run) for run in played]
    for frame, run in zip(frames, played, strict=True):
        frame.insert(0, "workload", run.workload.name)
    return pd.concat(frames, ignore_index=True)
