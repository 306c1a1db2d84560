"""The answer as one page without other files: waits first, then who gains, then the cluster over time."""

from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from rich.table import Table

from envs.pictures.gantt import TimeAxis
from envs.types.units import HOUR
from murmuration.reports.table import number
from murmuration.reports.webpage.charts import axis, chart, line_style
from murmuration.reports.webpage.document import packed, slot, static
from murmuration.reports.webpage.schedules import rounded, time_axis, zero_text
from murmuration.what_if.answer import WhatIfAnswer
from murmuration.what_if.hours import by_hour_of_day
from murmuration.what_if.terminal import advice, change_table, introduce, trust_lines, trust_table

LEAST_CHANGE = 0.05  # of a mean wait, that is coloured
MOST_ROWS = 200


def answer_page(answer: WhatIfAnswer) -> str:
    """Return the page as HTML."""
    title = f"What if? {len(answer.replay.workload):,} jobs on {answer.replay.cluster.name}"
    styles = static("page.css") + _static("what_if.css")
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{escape(title)}</title>\n<style>\n{styles}</style>\n</head>\n<body>\n<main>\n",
            f"<h1>{escape(title)}</h1>\n",
            *(f"<p>{escape(line)}</p>\n" for line in introduce(answer)),
            *_trust(answer),
            *_changes(answer),
            *_groups(answer),
            *_over_time(answer),
            *_notes(answer),
            f"</main>\n{packed(_data(answer))}<script>\n{static('sorting.js')}{static('chart.js')}{_static('grouping.js')}",
            "unpackData().then(drawAll);\n</script>\n</body>\n</html>\n",
        ]
    )


def _static(name: str) -> str:
    return (files("murmuration.what_if") / "static" / name).read_text(encoding="utf-8")


def _trust(answer: WhatIfAnswer) -> list[str]:
    if answer.trust is None:
        return ["<h2>Is it to be believed?</h2>\n<p>The file has no starts, so the replay was not checked.</p>\n"]
    figure, verdict, *reasons = trust_lines(answer.trust)
    return [
        "<h2>Does the replay repeat what happened?</h2>\n",
        f'<p class="verdict">{escape(verdict)}</p>\n<p>{escape(figure)}</p>\n',
        _table(trust_table(answer, answer.trust)),
        *(
            ["<p>What probably explains the difference:</p>\n", _list([each[2:] for each in reasons])]
            if reasons
            else []
        ),
    ]


def _changes(answer: WhatIfAnswer) -> list[str]:
    found = ["<h2>What would change?</h2>\n", _table(change_table(answer))]
    if said := [*advice(answer), *(f"{label} was not played: {why}" for label, why in answer.refused.items())]:
        found.append(_list(said))
    found.append(
        f'<p class="said">On the {int(answer.jobs.sum()):,} jobs whose waits are known everywhere. Wait: time without '
        "GPUs between entry into the queue and end. GPU-hours: those waited. Slowdown: the bounded one, (wait + run) / "
        "run, with run times of at least 10 s. Vs: ratio of mean waits, with its 95 % interval by moving blocks of "
        "jobs. Stops: times that running jobs were stopped.</p>\n"
    )
    return found


def _groups(answer: WhatIfAnswer) -> list[str]:
    tables = answer.tables()
    if not tables:
        return []
    names = "".join(f"<option>{escape(name)}</option>" for name in tables)
    found = [
        f"<h2>Who gains, who loses?</h2>\n"
        f'<p>Mean wait ({answer.unit[0]}) by <select id="grouping">{names}</select>, most jobs first; sizes and hours '
        "stand in their order. "
        f"Coloured where it differs from {escape(answer.incumbent.label)} by more than {LEAST_CHANGE:.0%}.</p>\n"
    ]
    for name, frame in tables.items():
        found.append(f'<div data-grouping="{escape(name)}">{_group_table(frame, answer)}</div>\n')
    return found


def _group_table(frame: pd.DataFrame, answer: WhatIfAnswer) -> str:
    incumbent = answer.incumbent.label
    rows = []
    for row in frame.head(MOST_ROWS).to_dict("records"):
        cells = [f"<td>{row['jobs']:,}</td><td>{row['GPUs']:,.0f}</td>"]
        for label in answer.shown:
            ratio = row[label] / row[incumbent] if row[incumbent] > 0 else np.nan
            colour = "better" if ratio < 1 - LEAST_CHANGE else "worse" if ratio > 1 + LEAST_CHANGE else ""
            colour = "" if label in ("recorded", incumbent) else colour
            cells.append(f'<td class="{colour}">{number(row[label])}</td>')
        rows.append(f"<tr><th>{escape(str(row['group']))}</th>{''.join(cells)}</tr>")
    return _framed(["group", "jobs", "GPUs asked for", *answer.shown], rows)


def _over_time(answer: WhatIfAnswer) -> list[str]:
    chips = "".join(
        f'<button data-line="{escape(label)}" aria-pressed="true">{escape(label)}</button>' for label in answer.series()
    )
    step = f"{answer.grid.step / HOUR:g} h" if answer.grid.step >= HOUR else f"{answer.grid.step:.0f} s"
    found = [
        f'<h2>The cluster over time</h2>\n<p class="said">Means of steps of {step}; alternatives with '
        f"another load have other times, and are not drawn. Drag to zoom, double-click for the whole span.</p>\n"
        f'<div class="chips">{chips}</div>\n'
    ]
    for name, title in (
        ("use", f"GPUs in use, of {answer.replay.cluster.num_gpus:,}"),
        ("queue", "GPUs that waiting jobs ask for"),
    ):
        found.append(f"<h3>{title}</h3>\n{slot(name)}\n")
    if answer.grid.step <= HOUR and answer.grid.count >= 48:
        found.append("<h2>By hour of the day</h2>\n<p>GPUs that waiting jobs ask for, mean.</p>\n")
        found.append(_hours(answer))
    return found


def _hours(answer: WhatIfAnswer) -> str:
    series = answer.series()
    means = {label: by_hour_of_day(answer.grid, each["queue"], answer.midnight) for label, each in series.items()}
    rows = [
        f"<tr><th>{hour:02}:00</th>{''.join(f'<td>{number(float(each[hour]))}</td>' for each in means.values())}</tr>"
        for hour in range(24)
    ]
    return _framed(["hour", *means], rows)


def _notes(answer: WhatIfAnswer) -> list[str]:
    lines = [*answer.replay.notes, *answer.describes]
    return ["<h2>What was read, left out and assumed</h2>\n", _list(lines)] if lines else []


def _data(answer: WhatIfAnswer) -> dict[str, Any]:
    series, times = answer.series(), answer.grid.times
    span = TimeAxis.over(float(times[0]), float(times[-1]) + answer.grid.step)
    styles = {label: line_style(place) for place, label in enumerate(series)}
    charts = {}
    for name in ("use", "queue"):
        traces = [
            {
                "of": label,
                "x": rounded(span, times),
                "y": np.round(each[name], 1).tolist(),
                "mode": "lines",
                "width": 1.5,
            }
            | styles[label]
            for label, each in series.items()
        ]
        charts[name] = chart(traces, time_axis(span, zero_text(answer.zero)), axis("", tozero=True), 260)
    return {"charts": charts, "styles": styles}


def _list(lines: list[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{escape(line)}</li>\n" for line in lines) + "</ul>\n"


def _table(table: Table) -> str:
    """Return a table of the terminal as HTML."""
    heads = [str(column.header) for column in table.columns]
    columns = [list(map(str, column.cells)) for column in table.columns]
    rows = [
        f"<tr><th>{escape(cells[0])}</th>{''.join(f'<td>{escape(each)}</td>' for each in cells[1:])}</tr>"
        for cells in zip(*columns, strict=True)
    ]
    return _framed(heads, rows)


def _framed(heads: list[str], rows: list[str]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>\n'
