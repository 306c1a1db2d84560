"""The answer on a terminal: what is replayed, whether to believe it, and what would change."""

import math

from rich.table import Table

from envs.evaluation.statistics import Estimate
from envs.pictures.texts import TextConsole, wide_console
from murmuration.reports.table import number
from murmuration.what_if.answer import WhatIfAnswer
from murmuration.what_if.trust import ReplayTrust

COLUMNS = ("mean", "median", "p90", "p99", "over a minute", "over an hour", "GPU-hours", "slowdown")
SHORT = ("> 1 min", "> 1 h", "GPU-hours", "slowdown")  # headings of the last ones
MOST_ROWS = 12
LONGEST = 240  # characters of a line that is said in full only on the page


def introduce(answer: WhatIfAnswer) -> list[str]:
    """Return what is replayed, in words: cluster, jobs, load, what schedulers know, may change and choose."""
    replay, workload = answer.replay, answer.replay.workload
    submit = workload.jobs["submit_time"]
    load = workload.offered_load(replay.cluster, replay.setup.performance)["all"]
    span = f"submitted from {answer.when(float(submit[0]))} to {answer.when(float(submit[-1]))}"
    knows = replay.setup.scenario.information.work
    known = {"limit": "the users' time limits", "none": "nothing"}.get(knows, knows)
    stopping = [label for label, each in answer.others.items() if each.stops]
    may = f"only {', '.join(stopping)} may stop running jobs" if stopping else "none may stop a running job"
    return [
        f"{len(workload):,} jobs, {span}; offered load {load:.2f}",
        f"on {replay.cluster.name}: {replay.cluster.num_gpus:,} GPUs: {replay.cluster.describe_gpus()}",
        "Every job runs as long as it ran, on as many GPUs, where it may run; nothing is assumed about its model.",
        f"Schedulers know {known} of run times; {may}; they choose when and where jobs start.",
    ]


def show_answer(answer: WhatIfAnswer, console: TextConsole | None = None) -> None:
    """Print the answer; see `introduce`, `trust_table` and `change_table`."""
    console = console or wide_console()
    for line in introduce(answer):
        console.print(line)
    for line in [*(f"note: {line}" for line in answer.replay.notes), *answer.describes]:
        console.print(
            line if len(line) <= LONGEST else f"{line[:LONGEST]}... (all of it is in the report)", style="dim"
        )
    if answer.trust is None:
        console.print("The file has no starts, so the replay is not checked; add Start and End to sacct's --format.")
    else:
        console.print(trust_table(answer, answer.trust))
        for line in trust_lines(answer.trust):
            console.print(line)
    console.print(change_table(answer))
    for line in [*(f"{label}: not played: {why}" for label, why in answer.refused.items()), *advice(answer)]:
        console.print(line)
    for name, frame in list(answer.tables().items())[:1]:
        table = Table(title=f"Mean wait ({answer.unit[0]}) by {name}", title_justify="left")
        for column in frame.columns:
            table.add_column(str(column), justify="left" if column == "group" else "right")
        for row in frame.head(MOST_ROWS).itertuples(index=False):
            table.add_row(str(row[0]), f"{row[1]:,}", f"{row[2]:,.0f}", *(number(each) for each in row[3:]))
        console.print(table)


def advice(answer: WhatIfAnswer) -> list[str]:
    """Say whether waits change for certain, of a policy alone whether to keep it, and which play stalled."""
    today, lines = answer.incumbent.label, []
    for label, estimate in answer.changes.items():
        slower = answer.figures[label]["slowdown"] > answer.figures[today]["slowdown"]
        if label in answer.unlimited:
            verdict = f"plays without the limits or reservations that hold under {today}: no fair comparison"
        elif math.isnan(estimate.value) or estimate.low <= 1 <= estimate.high:
            verdict = "no certain change of the mean wait" + ("" if "=" in label else f": keep {today}")
        elif "=" in label:
            verdict = f"the mean wait {'falls' if estimate.high < 1 else 'rises'}"
        elif estimate.low > 1:
            verdict = f"behind {today}: keep {today}"
        else:
            verdict = f"ahead of {today} in mean wait{', but not in' if slower else ' and'} bounded slowdown"
        lines.append(f"{label}: {verdict}")
    return lines + [f"{label}: {note}" for label, each in answer.shown.items() for note in each.notes]


def trust_table(answer: WhatIfAnswer, trust: ReplayTrust) -> Table:
    """Return the figures of the record and of the replay beside each other."""
    unit, seconds = answer.unit
    table = Table(title="Does the replay repeat what happened?", title_justify="left")
    for head in ("", "jobs", *headings(unit)):
        table.add_column(head, justify="right" if head else "left")
    for label, figures in (("recorded", trust.recorded), (answer.incumbent.label, trust.replayed)):
        table.add_row(label, f"{figures['jobs']:,.0f}", *cells(figures, seconds))
    return table


def trust_lines(trust: ReplayTrust) -> list[str]:
    """Return the figure of trust, the verdict, and what probably explains the difference."""
    lines = [
        f"Trust: {trust.overlap:.2f} [{trust.low:.2f}, {trust.high:.2f}] of the GPU-hours waited are in the same "
        f"partition on the same day in both; GPU-hours waited are {trust.ratio:.2f} of the recorded ones.",
        trust.verdict,
    ]
    return lines + [f"- {reason}" for reason in trust.reasons]


def headings(unit: str) -> list[str]:
    """Return the headings of `COLUMNS`, with units; GPU-hours are those waited, and slowdown is the bounded one."""
    return [f"{'mean wait' if name == 'mean' else name} ({unit})" for name in COLUMNS[:4]] + list(SHORT)


def cells(figures: dict[str, float], seconds: float) -> list[str]:
    """Return figures as texts, in the order of `COLUMNS`."""
    if not figures:
        return ["-"] * len(COLUMNS)
    texts = [number(figures[name] / seconds) for name in COLUMNS[:4]]
    texts += [f"{figures[name]:.1%}" for name in COLUMNS[4:6]]
    return [*texts, f"{figures['GPU-hours']:,.0f}", number(figures["slowdown"])]


def change_table(answer: WhatIfAnswer) -> Table:
    """Return what each alternative would change, the incumbent first."""
    unit, seconds = answer.unit
    table = Table(title=f"What would change? On the same {int(answer.jobs.sum()):,} jobs", title_justify="left")
    for head in ("", f"vs {answer.incumbent.label}", *headings(unit), "stops"):
        table.add_column(head, justify="right" if head else "left", no_wrap=head.startswith("vs "), overflow="fold")
    for label in (answer.incumbent.label, *answer.others):
        figures = answer.figures[label]
        ratio = interval(answer.changes[label]) if label in answer.changes else "1"
        table.add_row(label, ratio, *cells(figures, seconds), f"{figures['stops']:,.0f}")
    return table


def interval(estimate: Estimate) -> str:
    """Return a ratio with its interval."""
    if math.isnan(estimate.value):
        return "-"
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"
