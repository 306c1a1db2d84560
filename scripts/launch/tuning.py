"""The search for the parameters of a scheduler, built from a config."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from omegaconf import DictConfig
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from envs.evaluation.spread import one_after_another
from envs.evaluation.table import wide_console
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
from envs.scheduling import Scheduler
from envs.types import FloatArray
from launch.arguments import compose_options
from launch.building import build_object
from launch.inputs import build_inputs, build_schedulers
from launch.spreading import find_spread


def build_problem_sets(cfg: DictConfig, split: str) -> list[ProblemSet]:
    """Build one problem set for each of `cfg.tasks`, or if there is none, for each entry of `cfg.worlds`.

    An entry is a list of options of `scripts/compare.py`. `cfg.tuning.options` are added to all.

    Raises:
        ChoiceError: an option that does not exist or has another type.
    """
    made = []
    worlds = [[f"task={task}"] for task in cfg.tasks] or cfg.worlds
    for number, options in enumerate(worlds):
        inputs = build_inputs(compose_options("compare", [*options, *cfg.tuning.options]))
        count = (cfg.validation_workloads if split == "validation" else None) or cfg.workloads
        spread = find_spread() or one_after_another
        made.append(draw_problem_set(inputs.source, inputs.setup, count, cfg.seed + number, split, spread))
    return made


def build_score(cfg: DictConfig, split: str) -> RelativeScore:
    """Build the score of a scheduler on a split, relative to `cfg.tuning.reference`, a scheduler of the library.

    Over `cfg.tasks` it is relative to the present values instead. Every task has the same weight then, however good its
    reference would be: the score is the logarithm of the geometric mean of the ratios.
    """
    if cfg.tasks:
        return RelativeScore(build_problem_sets(cfg, split), build_factory(cfg)({}))
    reference = compose_options("compare", [], schedulers=cfg.tuning.reference)
    return RelativeScore(build_problem_sets(cfg, split), build_schedulers(reference)[cfg.tuning.reference])


def reference_name(cfg: DictConfig) -> str:
    """Return what scores are relative to, for output."""
    return "the present values" if cfg.tasks else str(cfg.tuning.reference)


@contextmanager
def show_search(cfg: DictConfig, num_parameters: int) -> Iterator[tuple[ImprovementCallback, EvaluationCallback]]:
    """Show a progress bar of a search; yield what `search` takes as `listener` and `progress`.

    Args:
        cfg: the config; at most `generations` + 1 generations of `population` candidates for each parameter are played.
        num_parameters: number of parameters.
    """
    candidates = 1 << (max(5, cfg.population * num_parameters) - 1).bit_length()  # a Sobol sequence: a power of two
    columns = (TextColumn("{task.completed}/{task.total} candidates"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=wide_console(), transient=True) as bar:
        search = bar.add_task("search", total=(cfg.generations + 1) * candidates)

        def print_improvement(evaluations: int, score: float, values: Mapping[str, float]) -> None:
            parts = ", ".join(f"{name}={value:.4g}" for name, value in values.items())
            bar.console.print(f"{evaluations:5d}  {score:+.4f}  {parts}", markup=False, highlight=False)

        yield print_improvement, lambda evaluations: bar.update(search, completed=evaluations)


def print_verdict(
    cfg: DictConfig, found: TuningResult, before: Sequence[FloatArray], after: Sequence[FloatArray]
) -> None:
    """Print the scores on both splits, by world on validation workloads, and whether to adopt the values found."""
    gain, name = improvement(before, after), reference_name(cfg)
    print(f"log ratio to {name}, training: {found.default_score:+.4f} before, {found.score:+.4f} after")
    print(f"log ratio to {name}, validation: {gain.before:+.4f} before, {gain.after:+.4f} after")
    worlds = list(cfg.tasks) or [" ".join(options) for options in cfg.worlds]
    for world, old, new in zip(worlds, before, after, strict=True):
        print(f"  {world}: {float((new - old).mean()):+.4f} over {len(old)} validation workloads")
    print(f"paired change, validation: {gain.change:+.4f} +- {gain.error:.4f} (standard error)")
    print("worth taking over" if gain.is_clear else "not worth taking over: no clear gain on validation workloads")


def build_factory(cfg: DictConfig) -> SchedulerFactory:
    """Return the function that builds `cfg.tuning.scheduler` with changed parameters."""
    return partial(_make_scheduler, cfg.tuning.scheduler)


def build_parameters(cfg: DictConfig) -> dict[str, Parameter]:
    """Build the parameters to search for, by name.

    Raises:
        ChoiceError: a range with an option that does not exist.
    """
    return {str(name): build_object(node) for name, node in cfg.tuning.parameters.items()}


def _make_scheduler(node: DictConfig, changes: Mapping[str, float]) -> Scheduler:
    scheduler: Scheduler = build_object(node, changes=changes)
    return scheduler
