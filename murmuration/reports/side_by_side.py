"""Two schedulers on one workload: their Gantt charts over one time axis, and the jobs in the system under both."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from envs.metrics import job_completion_times, jobs_in_system, segments
from envs.pictures.gantt import MAX_SEGMENTS, TimeAxis, draw_boxes
from envs.pictures.plots import COLOURS
from envs.pictures.texts import plot_text
from envs.simulation import RunResult
from murmuration.reports.table import number, unit_for


def side_by_side(first: RunResult, second: RunResult) -> Figure:
    """Draw the Gantt charts of two runs of one workload, and below them the jobs in the system under both.

    The area below a line of the lowest chart is the total JCT of all jobs. Titles give the mean JCT of the measured
    jobs. If a run has more than `MAX_SEGMENTS` stays of jobs on GPUs, only the time of its first ones is drawn of both.
    """
    runs = (first, second)
    held = [np.sort(segments(run.log, run.end_time), order="start", kind="stable") for run in runs]
    ends = [
        float(rows["start"][MAX_SEGMENTS]) if len(rows) > MAX_SEGMENTS else run.end_time
        for run, rows in zip(runs, held, strict=True)
    ]
    cut = any(len(rows) > MAX_SEGMENTS for rows in held)
    start = float(first.records["submit_time"][0]) if len(first.records) else 0.0
    axis = TimeAxis.over(start, max(min(ends) if cut else max(ends), start))
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    *charts, below = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1.4))
    for axes, run, rows, title in zip(charts, runs, held, captions(runs), strict=True):
        draw_boxes(axes, run, rows[rows["start"] < axis.end], axis)
        axes.set_title(plot_text(title), loc="left")
    if legend := charts[1].get_legend():
        legend.remove()
    draw_jobs(below, runs, axis)
    return figure


def captions(runs: Sequence[RunResult]) -> list[str]:
    """Return each run's scheduler with the mean JCT of its measured jobs, in one unit, and its unfinished jobs."""
    measured = [job_completion_times(run.records[run.records["measured"]]) for run in runs]
    finished = [jct[np.isfinite(jct)] for jct in measured]
    unit, name = unit_for(max((float(jct.mean()) for jct in finished if len(jct)), default=1.0))
    texts = []
    for run, all_jobs, jct in zip(runs, measured, finished, strict=True):
        mean = f"mean JCT {number(float(jct.mean()) / unit)} {name}" if len(jct) else "no job finished"
        ended, never = (int(each[run.records["measured"]].sum()) for each in (run.at_limit, run.never_ran))
        unfinished = len(all_jobs) - len(jct) - ended - never
        counts = (unfinished, "unfinished"), (ended, "ended at their limit"), (never, "never ran")
        texts.append(f"{run.scheduler}: {mean}" + "".join(f", {n} {what}" for n, what in counts if n))
    return texts


def draw_jobs(axes: Axes, runs: tuple[RunResult, RunResult], axis: TimeAxis) -> None:
    """Draw the jobs in the system over time under both schedulers."""
    for run, colour in zip(runs, COLOURS, strict=False):
        times, jobs = jobs_in_system(run)
        axes.step(axis.scaled(times), jobs, where="post", color=colour, linewidth=1.4, label=plot_text(run.scheduler))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("jobs in the system", fontsize=8)
    axes.set_xlabel(plot_text(f"time ({axis.name})"))
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
