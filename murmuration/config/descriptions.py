"""Runs of scripts as plain typed values, which `murmuration.config.describe` makes from a configuration, once.

Settings that a run takes over as they are it inherits from their declaration in `murmuration.config.settings`. Nothing
is built in a description: a component is an object's class and options, which `build_object` builds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployment.bridge import BridgeRules
from deployment.service import ServiceRules
from envs.evaluation.task import Task
from murmuration.config.building import Component, without_defaults
from murmuration.config.settings import (
    AblationSettings,
    ActorSettings,
    AdviceSettings,
    CurveSettings,
    DataFolder,
    DeploymentSettings,
    EvaluationSettings,
    FilmSettings,
    HeldOutSettings,
    InterfaceSettings,
    KeptFrames,
    MeasuredSettings,
    PlayedEpisodes,
    RecordChoice,
    Referred,
    Seeded,
    SeedSettings,
    ServiceSettings,
    ShadowSettings,
    SoakSettings,
    SweepSettings,
    TrainingProcesses,
    TuningSettings,
)


@dataclass(frozen=True)
class ProblemSpec:
    """The problem that schedulers face: everything that decides about it, and the task if it is one."""

    cluster: Component
    performance: Component
    scenario: Component
    workload: Component
    estimator: Component | None
    predictor: Component | None
    seed: int  # not negative
    task: Task | None
    world: Component | None = None  # a distribution of worlds, in place of the others
    queueing: Component | None = None  # admits jobs before every scheduler

    @property
    def hashed(self) -> dict[str, Any]:
        """The options that the hash of a task covers; it covers the cluster as it is built."""
        parts = (self.performance, self.estimator, self.predictor, self.scenario, self.workload, self.queueing)
        return {**{part.key: without_defaults(part) for part in parts if part}, "seed": self.seed}


@dataclass(frozen=True, kw_only=True)
class PlayedRun(PlayedEpisodes):
    """A run that plays schedulers on episodes of a split."""

    problem: ProblemSpec
    schedulers: Mapping[str, Component]  # by name, the library's first


@dataclass(frozen=True, kw_only=True)
class ComparisonRun(Referred, KeptFrames, PlayedRun):
    """scripts/compare.py."""

    optional: Sequence[str]  # schedulers to leave out if they cannot run
    records: RecordChoice
    text: str  # the configuration in YAML, for the report


@dataclass(frozen=True, kw_only=True)
class SweepRun(SweepSettings, PlayedRun):
    """scripts/sweep.py."""

    optional: Sequence[str]
    loads: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class InterfaceRun(InterfaceSettings, PlayedRun):
    """scripts/interface.py."""

    env: Component


@dataclass(frozen=True, kw_only=True)
class EvaluationRun(EvaluationSettings):
    """scripts/evaluate.py with a policy."""

    comparison: ComparisonRun
    trusted: frozenset[str]  # import paths of the classes that the policy may name


@dataclass(frozen=True, kw_only=True)
class ActorRun(ActorSettings):
    """A run of one scheduler or policy."""

    problem: ProblemSpec
    schedulers: Mapping[str, Component]
    trusted: frozenset[str]  # import paths of the classes that the policy may name


@dataclass(frozen=True, kw_only=True)
class ServiceRun(ServiceSettings, ActorRun):
    """scripts/serve.py."""

    rules: ServiceRules


@dataclass(frozen=True, kw_only=True)
class DeploymentRun(DeploymentSettings, ActorRun):
    """scripts/deploy.py."""

    rules: BridgeRules


@dataclass(frozen=True, kw_only=True)
class ShadowRun(ShadowSettings, ActorRun):
    """scripts/shadow.py."""


@dataclass(frozen=True, kw_only=True)
class AdviceRun(AdviceSettings, ActorRun):
    """scripts/advise.py."""


@dataclass(frozen=True, kw_only=True)
class FilmRun(FilmSettings, ActorRun):
    """scripts/film.py."""


@dataclass(frozen=True, kw_only=True)
class SeedRun(SeedSettings):
    """The training of one seed."""

    problem: ProblemSpec
    further: Sequence[tuple[str, ProblemSpec]]  # further tasks to train on, with names
    schedulers: Mapping[str, Component]  # baselines
    trainer: Component
    agent: Component
    env: Component
    market: Component | None
    market_note: Mapping[str, Any]  # what checkpoints say of the market: its name in `conf/market` and its options
    trusted: frozenset[str]  # import paths of the classes that this policy may name
    text: str  # the configuration in YAML, for the loggers


@dataclass(frozen=True, kw_only=True)
class TrainingRun(TrainingProcesses):
    """scripts/train.py."""

    seeds: Sequence[SeedRun]  # at least one
    evaluation: ComparisonRun | None = None  # after training
    elsewhere: ComparisonRun | None = None  # after that, where the policy was not trained
    trusted: frozenset[str] = frozenset()  # import paths of the classes that the trained policies may name
    resumed: Path | None = None  # the folder of the run that goes on
    resumes: Sequence[Mapping[str, Any]] = ()  # with this one the last; see `murmuration.config.recall.read_resumes`


@dataclass(frozen=True)
class Repetition:
    """scripts/evaluate.py with an earlier run, which is played again."""

    folder: Path  # of the earlier run
    provenance: Mapping[str, Any]  # of the earlier run
    run: ComparisonRun | EvaluationRun | TrainingRun
    before: Sequence[TrainingRun] = ()  # what was trained before the run was resumed


@dataclass(frozen=True, kw_only=True)
class TuningRun(TuningSettings, Seeded):
    """scripts/tune.py."""

    validation_workloads: int  # of each problem
    scheduler: Component  # takes `changes`
    parameters: Mapping[str, Component]  # by name
    problems: Sequence[tuple[str, ProblemSpec]]  # with titles
    reference: str  # name of the scheduler that scores are relative to; "" for the present values
    library: Mapping[str, Component]  # that scheduler, by name


@dataclass(frozen=True, kw_only=True)
class CurvesRun(CurveSettings):
    """scripts/curves.py."""

    runs: Mapping[str, Sequence[str]]  # folders by method


@dataclass(frozen=True)
class TrainingVariant:
    """A variant of a training run, beside others."""

    levels: Mapping[str, str]  # the level of each factor
    options: Sequence[str]  # of scripts/train.py, with those of all variants
    training: SeedRun


@dataclass(frozen=True, kw_only=True)
class AblationRun(AblationSettings):
    """scripts/ablate.py."""

    variants: Mapping[str, TrainingVariant]  # by name, the reference first


@dataclass(frozen=True, kw_only=True)
class BenchmarkRun(DataFolder):
    """scripts/benchmark.py."""

    name: str  # of the suite
    suite: Component
    schedulers: Mapping[str, Component]
    parts: Sequence[str]  # names; "all" for every part


@dataclass(frozen=True, kw_only=True)
class ReproductionRun(DataFolder):
    """scripts/reproduce.py."""

    table: Component  # takes `data` and `folder`


@dataclass(frozen=True, kw_only=True)
class SoakRun(SoakSettings):
    """scripts/soak.py."""


VALIDATED_PARTS = ("throughputs", "pairs", "held_out", "conclusions")


@dataclass(frozen=True, kw_only=True)
class ValidationRun(DataFolder, Seeded):
    """scripts/validate_performance.py."""

    parts: Sequence[str]  # of VALIDATED_PARTS


@dataclass(frozen=True, kw_only=True)
class CalibrationRun(MeasuredSettings):
    """scripts/calibrate_estimators.py."""

    problem: ProblemSpec
    estimators: Mapping[str, Component]


@dataclass(frozen=True, kw_only=True)
class PredictionRun(HeldOutSettings):
    """scripts/calibrate_predictors.py."""

    problem: ProblemSpec
    predictors: Mapping[str, Component]
