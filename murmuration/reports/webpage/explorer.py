"""The schedule explorer: two schedules with one cursor of time, what each scheduler did then, and histories of jobs."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from envs.metrics import find_waits
from envs.performance import without_draw
from envs.pictures.gantt import TimeAxis
from envs.simulation import RunResult
from murmuration.reports.webpage.blocking import Blocking, gpus_in_words
from murmuration.reports.webpage.schedules import rounded, size_legend, within, zero_of
from murmuration.reports.webpage.stays import find_stays


def explorer_data(runs: Mapping[str, RunResult], span: TimeAxis) -> dict[str, Any]:
    """Return what the page's script needs: the unit and zero of time, a line on each job, jobs by ids, and histories.

    Args:
        runs: runs of one workload by scheduler.
        span: the axis of the charts.
    """
    histories = {name: history_of(run, span) for name, run in runs.items()}
    seen = sorted({row[0] for each in histories.values() for part in ("stays", "waits") for row in each[part]})
    workload = next(iter(runs.values())).workload
    jobs = {}
    for job in seen:
        row = workload.jobs[job]
        said = f"{without_draw(workload.models[row['model']])}, {gpus_in_words(row['num_gpus'])} requested"
        if row["min_gpus"] < row["max_gpus"]:
            said += f" ({row['min_gpus']} to {row['max_gpus']} possible)"
        jobs[job] = f"{workload.ids[job]} in the trace; {said}" if workload.ids else said
    ids = {workload.ids[job]: job for job in seen} if workload.ids else {}
    about = {"unit": span.unit, "name": span.name, "zero": zero_of(next(iter(runs.values())))}
    return {**about, "jobs": jobs, "ids": ids, "histories": histories}


def history_of(run: RunResult, span: TimeAxis) -> dict[str, Any]:
    """Return stays [job, start, end, GPUs] and waits [job, start, end, why] of a run, and the `gpus` of its cluster.

    Times are in units of the axis. Stays are those of `schedule_chart`, in its order.
    """
    stays, blocking = within(find_stays(run), span), Blocking(run)
    waits = within(find_waits(run.log, run.end_time), span)
    return {
        "gpus": run.cluster.num_gpus,
        "stays": [
            [job, start, end, gpus]
            for job, start, end, gpus in zip(
                stays["job"].tolist(),
                rounded(span, stays["start"]),
                rounded(span, stays["end"]),
                stays["gpus"].tolist(),
                strict=True,
            )
        ],
        "waits": [
            [int(wait["job"]), start, end, blocking.why_waited(wait)]
            for wait, start, end in zip(waits, rounded(span, waits["start"]), rounded(span, waits["end"]), strict=True)
        ],
    }


def explorer(names: Sequence[str], left: str, right: str) -> str:
    """Return the legend of colours, the cursor of time and both panels: a choice of scheduler, its chart, its history.

    Args:
        names: of all schedulers.
        left: the one that the left panel shows at first.
        right: the one of the right panel.
    """
    swatches = "".join(
        f'<span><i style="background:{colour}"></i>{escape(label)}</span>' for colour, label in size_legend()
    )
    return (
        f'<p class="legend">GPUs requested: {swatches}</p>'
        '<div class="cursor"><button type="button" data-step="-1" aria-label="one round back">&#9664;</button>'
        '<input type="range" id="cursor-time" min="0" step="1" aria-label="time">'
        '<button type="button" data-step="1" aria-label="one round on">&#9654;</button>'
        '<output id="cursor-label"></output>'
        '<label>Job <input type="text" id="cursor-job" placeholder="number or id"></label></div>'
        f'<div class="pair">{panel("left", left, names)}{panel("right", right, names)}</div>'
    )


def panel(side: str, chosen: str, names: Sequence[str]) -> str:
    """Return one panel."""
    options = "".join(
        f'<option value="{escape(name)}"{" selected" if name == chosen else ""}>{escape(name)}</option>'
        for name in names
    )
    return (
        f'<div><label>Scheduler <select data-panel="{side}">{options}</select></label>'
        f'<div class="chart" id="gantt-{side}"></div>'
        f'<div class="happened" id="happened-{side}"></div><div class="history" id="history-{side}"></div></div>'
    )
