"""A comparison as a page of Markdown."""

import math

from envs.evaluation.comparison import Comparison
from envs.evaluation.table import all_columns

NOT_IN_TASKS = ("p50", "slowdown", "bounded", "makespan", "frag.", "preempted", "restarts")  # columns


def markdown_page(comparison: Comparison) -> str:
    """Return the whole table in the order of the comparison, bounds last; schedulers that did not run; the caption."""
    columns = all_columns(comparison)
    rows = [[column.cells[row] for column in columns] for row in [*by_figure(comparison), *rows_below(comparison)]]
    lines = [[column.head for column in columns], ["---"] + ["---:"] * (len(columns) - 1), *rows]
    left_out = [f"- {name} {failure}" for name, failure in comparison.failures.items()]
    left_out += [f"- {name} is left out: {reason}" for name, reason in comparison.inapplicable.items()]
    table = [f"| {' | '.join(line)} |" for line in lines]
    said = [f"- {line}" for line in comparison.caption_lines]
    return "\n".join([*table, "", *left_out, *([""] if left_out else []), *said]) + "\n"


def task_table(comparison: Comparison) -> str:
    """Return a short table for `docs/tasks.md`, in the same order as `markdown_page`, and what was played below it.

    Raises:
        ValueError: the comparison is not of a task.
    """
    if "task" not in comparison.settings:
        raise ValueError("comparison: has no task; choose one with task=<name>")
    columns = [column for column in all_columns(comparison) if column.head not in NOT_IN_TASKS]
    rows = [[column.cells[row] for column in columns] for row in [*by_figure(comparison), *rows_below(comparison)]]
    lines = [[column.head for column in columns], ["---"] + ["---:"] * (len(columns) - 1), *rows]
    table = [f"| {' | '.join(line)} |" for line in lines]
    best, of_all = comparison.best, " of all episodes" if comparison.partial else ""
    said = [
        f"{comparison.settings['task']['label']}: {comparison.num_workloads} episodes, "
        f"{sum(map(len, comparison.compared)):,} jobs that every scheduler finished."
    ]
    if not math.isnan(comparison.bound_ratio(best)):
        said.append(f"The best row{of_all}, {best}, is {comparison.bound_ratio(best) - 1:.0%} above its lower bound.")
    said += [comparison.interval_widths] if comparison.interval_widths else []
    said += [f"{name} {failure}." for name, failure in comparison.failures.items()]
    reasons: dict[str, list[str]] = {}
    for name, reason in comparison.inapplicable.items():
        reasons.setdefault(reason, []).append(name)
    said += [f"Left out: {', '.join(names)} ({reason})." for reason, names in reasons.items()]
    said += comparison.remarks
    return "\n".join([*table, "", " ".join(said)]) + "\n"


def by_figure(comparison: Comparison) -> list[int]:
    """Return the positions of the schedulers in the order of `Comparison.order`."""
    return [comparison.schedulers.index(name) for name in comparison.order]


def rows_below(comparison: Comparison) -> list[int]:
    """Return the positions of failed schedulers and of the lower bounds among the rows of the table."""
    below = len(comparison.failures) + len(comparison.bounds)
    return [len(comparison.schedulers) + place for place in range(below)]
