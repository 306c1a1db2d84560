"""A comparison as a table that fits on one screen."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table

from envs.evaluation.comparison import Comparison
from envs.evaluation.statistics import Estimate
from envs.pictures.texts import TextConsole, wide_console
from envs.types import Seconds

TIME_UNITS = ((2 * 86400.0, 86400.0, "d"), (2 * 3600.0, 3600.0, "h"), (120.0, 60.0, "min"))


def print_table(comparison: Comparison, console: TextConsole | None = None) -> None:
    """Print the table with readable units, the schedulers that failed or could not run with reasons, and the caption.

    A narrow screen shows fewer columns; no cell is truncated, and results.md and results.csv have all. The scheduler
    with the least mean JCT, or makespan if that is the objective, is bold.
    """
    console = console or wide_console()
    console.print(comparison_table(comparison, console.width))
    for name, failure in comparison.failures.items():
        console.print(f" {name}  {failure}", style="red")
    for name, reason in comparison.inapplicable.items():
        console.print(f" {name}  {reason}", style="yellow")
    console.print(comparison.caption, style="italic dim")


def comparison_table(comparison: Comparison, width: int) -> Table:
    """Return a `rich` table of at most `width` characters, with a row per scheduler, failed ones too, and per bound."""
    best = comparison.best
    table = Table(box=None, header_style="bold", padding=(0, 1))
    columns = that_fit(all_columns(comparison), width)
    for column in columns:
        table.add_column(column.head, justify="left" if column is columns[0] else "right", no_wrap=True)
    for row, name in enumerate(comparison.schedulers):
        table.add_row(*(column.cells[row] for column in columns), style="bold" if name == best else "")
    ran, ended = len(comparison.schedulers), len(comparison.schedulers) + len(comparison.failures)
    for row in range(ran, ended + len(comparison.bounds)):
        table.add_row(*(column.cells[row] for column in columns), style="red" if row < ended else "dim")
    return table


@dataclass(frozen=True)
class Column:
    """A column of the table. Columns of rank 0 are always shown, others by ascending rank while there is room.

    It has a cell for each scheduler that ran, for each that failed, and for each lower bound.
    """

    head: str
    rank: int
    cells: list[str]

    @property
    def width(self) -> int:
        """Width in characters, padding included."""
        return max(len(cell) for cell in [self.head, *self.cells]) + 2


def that_fit(columns: list[Column], width: int) -> list[Column]:
    """Return the columns to show within `width` characters, in their order."""
    chosen: set[str] = set()
    left = width
    for column in sorted(columns, key=lambda column: column.rank):
        if column.rank == 0 or column.width <= left:
            chosen.add(column.head)
            left -= column.width
    return [column for column in columns if column.head in chosen]


def all_columns(comparison: Comparison) -> list[Column]:
    """Return all columns, in the order of display."""
    names, failed, bounds = comparison.schedulers, list(comparison.failures), comparison.bounds
    rows = comparison.rows[: len(names)]
    metric = comparison.metric
    mean = [comparison.estimate(metric, name) for name in names]
    unit, word = unit_of_means(comparison)
    intervals = [with_interval(each, unit) for each in mean]
    ratio = [comparison.ratio(metric, name) for name in names]
    limits = 14 if all(row["limited_by_gpus"] == 1.0 for row in rows) else 4  # last where GPUs alone limit jobs

    def column(head: str, rank: int, metric: str, form: Callable[[float], str] = number) -> Column:
        return Column(head, rank, [form(float(row[metric])) for row in rows] + below(metric, form))

    def below(metric: str, form: Callable[[float], str]) -> list[str]:
        """Return the cells of failed schedulers and of the lower bounds; a dash if there is no figure."""
        without = "failed" if metric == comparison.metric else "-"
        return [without] * len(failed) + [form(float(bound[metric])) if metric in bound else "-" for bound in bounds]

    def in_unit(seconds: Seconds) -> str:
        return number(seconds / unit)

    return [
        Column(
            "scheduler", 0, [*map(comparison.marked, names), *failed, *(str(bound["scheduler"]) for bound in bounds)]
        ),
        Column(f"{comparison.metric_name} ({word})", 0, [*intervals, *below(metric, in_unit)]),
        column("n", 0 if comparison.partial else 15, "num_workloads", count),
        column("unfinished", 0, "num_unfinished", count),
        *(
            column(head, 0, name, count)
            for head, name in (("at limit", "num_at_limit"), ("never ran", "num_never_ran"))
            if any(row[name] for row in rows)
        ),
        Column(
            f"vs {comparison.reference}", 0, [with_interval(each) for each in ratio] + below(f"{metric}_ratio", number)
        ),
        column("vs bound", 2, "bound_ratio"),
        *([column("mean JCT", 1, "mean_jct", in_unit)] if metric != "mean_jct" else []),
        column("p50", 6, "p50_jct", in_unit),
        column("p99", 1, "p99_jct", in_unit),
        column("wait", 2, "mean_wait", in_unit),
        column("time to start", 16, "mean_time_to_start", in_unit),
        column("slowdown", 8, "mean_slowdown"),
        column("bounded", 10, "mean_bounded_slowdown"),
        column("rho", 9, "mean_fairness"),
        *([column("makespan", 7, "makespan", duration)] if metric != "makespan" else []),
        column("GPUs", 5, "utilisation", share),
        column("frag.", 11, "fragmentation", share),
        column("preempted", 12, "preemptions", count),
        column("restarts", 13, "restarts", count),
        Column("CPU (ms)", 4, [number(comparison.decision_ms(name)) for name in names] + below("", number)),
        column("queue", 3, "queue_share", share),
        column("by cores", limits, "limited_by_cpus", share),
        column("by memory", limits, "limited_by_memory", share),
        column("by network", limits, "limited_by_network", share),
    ]


def unit_of_means(comparison: Comparison) -> tuple[Seconds, str]:
    """Return the unit of all times of the table: that of the largest mean of what is minimised."""
    means = [comparison.estimate(comparison.metric, name).value for name in comparison.schedulers]
    return unit_for(max((mean for mean in means if mean == mean), default=0.0))


def unit_for(seconds: Seconds) -> tuple[Seconds, str]:
    """Choose the unit in which to show a time."""
    return next(((unit, name) for least, unit, name in TIME_UNITS if seconds >= least), (1.0, "s"))


def duration(seconds: Seconds) -> str:
    """Format a time with its unit."""
    unit, name = unit_for(seconds)
    return f"{number(seconds / unit)} {name}"


def number(value: float) -> str:
    """Format a number with three significant digits; a dash for NaN."""
    if value != value:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}" if abs(value) >= 0.01 else f"{value:.2g}"


def count(value: float) -> str:
    """Format a whole number."""
    return f"{value:,.0f}"


def share(value: float) -> str:
    """Format a share as a percentage; a dash for NaN."""
    return "-" if value != value else f"{value:.0%}"


def with_interval(estimate: Estimate, unit: float = 1.0) -> str:
    """Format a figure and its confidence interval."""
    if estimate.low != estimate.low or estimate.low == estimate.high:
        return number(estimate.value / unit)
    return f"{number(estimate.value / unit)} [{number(estimate.low / unit)}, {number(estimate.high / unit)}]"
