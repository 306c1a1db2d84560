"""A comparison as a page of Markdown, and as the table of a task."""

import csv
import io
import math
import re

from envs.evaluation.comparison import Comparison
from murmuration.reports.table import all_columns

NOT_IN_TASKS = ("p50", "time to start", "slowdown", "bounded", "makespan", "frag.", "preempted", "restarts")  # columns


def markdown_page(comparison: Comparison) -> str:
    """Return the whole table in the order of the comparison, bounds last; schedulers that did not run; the caption."""
    columns = all_columns(comparison)
    rows = [[column.cells[row] for column in columns] for row in [*by_figure(comparison), *rows_below(comparison)]]
    lines = [[column.head for column in columns], ["---"] + ["---:"] * (len(columns) - 1), *rows]
    left_out = [f"- {line}" for line in lines_of_missing(comparison)]
    table = [f"| {' | '.join(line)} |" for line in lines]
    said = [f"- {line}" for line in comparison.caption_lines]
    return "\n".join([*table, "", *left_out, *([""] if left_out else []), *said]) + "\n"


def task_table(comparison: Comparison) -> str:
    """Return the table of a task as CSV, in the order of `markdown_page`, below a line that says what was played.

    Raises:
        ValueError: the comparison is not of a task.
    """
    if "task" not in comparison.settings:
        raise ValueError("comparison: has no task; choose one with task=<name>")
    columns = [column for column in all_columns(comparison) if column.head not in NOT_IN_TASKS]
    rows = [[column.cells[row] for column in columns] for row in [*by_figure(comparison), *rows_below(comparison)]]
    best, of_all = comparison.best, " of all episodes" if comparison.partial else ""
    said = [
        f"{comparison.settings['task']['label']}: {comparison.num_workloads} episodes, "
        f"{sum(map(len, comparison.compared)):,} jobs that every scheduler finished."
    ]
    if not math.isnan(comparison.bound_ratio(best)):
        said.append(f"The best row{of_all}, {best}, is {comparison.bound_ratio(best) - 1:.0%} above its lower bound.")
    said += [comparison.interval_widths] if comparison.interval_widths else []
    said += [f"{line}." for line in lines_of_missing(comparison)]
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([[column.head for column in columns], *rows])
    return f"# {' '.join(said)}\n{table.getvalue()}"


def lines_of_missing(comparison: Comparison) -> list[str]:
    """Return a line for each scheduler that failed, and one for each reason for which others were left out.

    A refusal begins with the name that the scheduler gives itself (`Optimus: needs remaining work ...`), which does not
    tell reasons apart.
    """
    reasons: dict[str, list[str]] = {}
    for name, reason in comparison.inapplicable.items():
        reasons.setdefault(re.sub("^not applicable: [^:(]+: ", "not applicable: ", reason), []).append(name)
    failed = [f"{name} {failure}" for name, failure in comparison.failures.items()]
    return failed + [
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} left out: {reason}"
        for reason, names in reasons.items()
    ]


def by_figure(comparison: Comparison) -> list[int]:
    """Return the positions of the schedulers in the order of `Comparison.order`."""
    return [comparison.schedulers.index(name) for name in comparison.order]


def rows_below(comparison: Comparison) -> list[int]:
    """Return the positions of failed schedulers and of the lower bounds among the rows of the table."""
    below = len(comparison.failures) + len(comparison.bounds)
    return [len(comparison.schedulers) + place for place in range(below)]
