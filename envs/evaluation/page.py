"""A comparison as a page of Markdown."""

import math

from envs.evaluation.comparison import Comparison
from envs.evaluation.table import all_columns


def markdown_page(comparison: Comparison) -> str:
    """Return the whole table by ascending mean JCT, lower bounds last; schedulers that did not run; and the caption."""
    columns = all_columns(comparison)
    rows = [[column.cells[row] for column in columns] for row in [*by_mean_jct(comparison), *bound_rows(comparison)]]
    lines = [[column.head for column in columns], ["---"] + ["---:"] * (len(columns) - 1), *rows]
    left_out = [f"- {name} is left out: {reason}" for name, reason in comparison.inapplicable.items()]
    table = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*table, "", *left_out, *([""] if left_out else []), comparison.caption]) + "\n"


def by_mean_jct(comparison: Comparison) -> list[int]:
    """Return the positions of the schedulers by ascending mean JCT; those without a mean come last."""
    means = [comparison.estimate("mean_jct", name).value for name in comparison.schedulers]
    return sorted(range(len(means)), key=lambda place: math.inf if math.isnan(means[place]) else means[place])


def bound_rows(comparison: Comparison) -> list[int]:
    """Return the positions of the lower bounds among the rows of the table."""
    return [len(comparison.schedulers) + place for place in range(len(comparison.bounds))]
