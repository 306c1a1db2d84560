"""The search for the parameters of a scheduler."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from envs.evaluation.compiling import CompilingColumn
from envs.evaluation.spread import one_after_another
from envs.evaluation.tuning import (
    EvaluationCallback,
    ImprovementCallback,
    Parameter,
    ProblemSet,
    RelativeScore,
    SchedulerFactory,
    TuningResult,
    draw_problem_set,
    improvement,
)
from envs.pictures.texts import TaskText, wide_console
from envs.scheduling import Scheduler
from envs.types import FloatArray
from murmuration.config.building import Component, build_object
from murmuration.config.descriptions import TuningRun
from murmuration.config.honoured import leave_out_unable
from murmuration.config.inputs import build_inputs, build_schedulers
from murmuration.runs.spreading import find_spread


def build_problem_sets(run: TuningRun, split: str) -> list[ProblemSet]:
    """Draw one problem set of a split for each problem.

    Raises:
        ChoiceError: an option that does not exist or has another type, or the scheduler does not honour constraints.
    """
    made = []
    for number, (_, problem) in enumerate(run.problems):
        inputs = build_inputs(problem)
        count = run.validation_workloads if split == "validation" else run.workloads
        spread = find_spread() or one_after_another
        made.append(draw_problem_set(inputs.source, inputs.setup, count, run.seed + number, split, spread))
        leave_out_unable({"tuned": run.scheduler}, made[-1].workloads)
    return made


def build_score(run: TuningRun, split: str) -> RelativeScore:
    """Build the score of a scheduler on a split, relative to a scheduler of the library or to the present values.

    Over tasks it is relative to the present values. Every task has the same weight then, however good its reference
    would be: the score is the logarithm of the geometric mean of the ratios.
    """
    problem_sets = build_problem_sets(run, split)
    return RelativeScore(
        problem_sets, build_schedulers(run.library)[run.reference] if run.reference else build_factory(run)({})
    )


def reference_name(run: TuningRun) -> str:
    """Return what scores are relative to, for output."""
    return run.reference or "the present values"


@contextmanager
def show_search(run: TuningRun, num_parameters: int) -> Iterator[tuple[ImprovementCallback, EvaluationCallback]]:
    """Show a progress bar of a search; yield what `search` takes as `listener` and `progress`.

    Args:
        run: the search; at most `generations` + 1 generations of `population` candidates for each parameter are played.
        num_parameters: number of parameters.
    """
    candidates = 1 << (max(5, run.population * num_parameters) - 1).bit_length()  # a Sobol sequence: a power of two
    columns = (TaskText("{task.completed}/{task.total} candidates"), BarColumn(), TimeElapsedColumn())
    times = (TimeRemainingColumn(), CompilingColumn())
    with Progress(*columns, *times, console=wide_console(), transient=True) as bar:
        search = bar.add_task("search", total=(run.generations + 1) * candidates)

        def print_improvement(evaluations: int, score: float, values: Mapping[str, float]) -> None:
            parts = ", ".join(f"{name}={value:.4g}" for name, value in values.items())
            bar.console.print(f"{evaluations:5d}  {score:+.4f}  {parts}")

        yield print_improvement, lambda evaluations: bar.update(search, completed=evaluations)


def print_verdict(
    run: TuningRun, found: TuningResult, before: Sequence[FloatArray], after: Sequence[FloatArray]
) -> None:
    """Print the scores on both splits, by world on validation workloads, and whether to adopt the values found."""
    gain, name = improvement(before, after), reference_name(run)
    print(f"log ratio to {name}, training: {found.default_score:+.4f} before, {found.score:+.4f} after")
    print(f"log ratio to {name}, validation: {gain.before:+.4f} before, {gain.after:+.4f} after")
    for (title, _), old, new in zip(run.problems, before, after, strict=True):
        print(f"  {title}: {float((new - old).mean()):+.4f} over {len(old)} validation workloads")
    print(f"paired change, validation: {gain.change:+.4f} +- {gain.error:.4f} (standard error)")
    print("worth taking over" if gain.is_clear else "not worth taking over: no clear gain on validation workloads")


def build_factory(run: TuningRun) -> SchedulerFactory:
    """Return the function that builds the scheduler with changed parameters."""
    return partial(_make_scheduler, run.scheduler)


def build_parameters(run: TuningRun) -> dict[str, Parameter]:
    """Build the parameters to search for, by name.

    Raises:
        ChoiceError: a range with an option that does not exist.
    """
    return {name: build_object(component) for name, component in run.parameters.items()}


def _make_scheduler(component: Component, changes: Mapping[str, float]) -> Scheduler:
    scheduler: Scheduler = build_object(component, changes=changes)
    return scheduler
