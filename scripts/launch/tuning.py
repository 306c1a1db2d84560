"""The search for the parameters of a scheduler, built from a config."""

from collections.abc import Mapping
from functools import partial

from omegaconf import DictConfig

from envs.evaluation.tuning import Parameter, ProblemSet, RelativeScore, SchedulerFactory, draw_problem_set
from envs.scheduling import Scheduler
from launch.arguments import compose_options
from launch.building import build_object
from launch.inputs import build_inputs, build_schedulers


def build_problem_sets(cfg: DictConfig, split: str) -> list[ProblemSet]:
    """Build one problem set for each entry of `cfg.worlds`: options of `scripts/compare.py`, and `cfg.tuning.options`.

    Raises:
        ChoiceError: an option that does not exist or has another type.
    """
    made = []
    for number, options in enumerate(cfg.worlds):
        inputs = build_inputs(compose_options("compare", [*options, *cfg.tuning.options]))
        made.append(draw_problem_set(inputs.source, inputs.setup, cfg.workloads, cfg.seed + number, split))
    return made


def build_score(cfg: DictConfig, split: str) -> RelativeScore:
    """Build the score of a scheduler on a split, relative to `cfg.tuning.reference`, a scheduler of the library."""
    reference = compose_options("compare", [], schedulers=cfg.tuning.reference)
    return RelativeScore(build_problem_sets(cfg, split), build_schedulers(reference)[cfg.tuning.reference])


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
