"""Runs of scripts as plain typed values, which `murmuration.config.describe` makes from a configuration, once.

Nothing is built in a description: a component is an object's class and options, which `build_object` builds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deployment.bridge import BridgeRules
from deployment.service import ServiceRules
from envs.evaluation.task import Task
from murmuration.config.building import Component


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

    @property
    def hashed(self) -> dict[str, Any]:
        """The values that the hash of a task covers."""
        parts = (self.cluster, self.performance, self.estimator, self.predictor, self.scenario, self.workload)
        return {**{part.key: part.values for part in parts if part}, "seed": self.seed}


@dataclass(frozen=True, kw_only=True)
class PlayedRun:
    """A run that plays schedulers on episodes of a split."""

    problem: ProblemSpec
    schedulers: Mapping[str, Component]  # by name, the library's first
    split: str | None  # of the workload source; None is its default for evaluation
    episodes: int | None  # the first ones, at least 1; None for all


@dataclass(frozen=True, kw_only=True)
class RecordChoice:
    """Which recorded results a comparison reads and writes."""

    record: bool = False  # read the records of the schedulers to play, and record those that have none
    again: bool = False  # record all of them anew
    recorded: bool | Sequence[str] = ()  # further schedulers to read; True for all
    folder: Path | None = None  # of the records; None for those of the project


@dataclass(frozen=True, kw_only=True)
class ComparisonRun(PlayedRun):
    """scripts/compare.py."""

    optional: Sequence[str]  # schedulers to leave out if they cannot run
    reference: str  # the scheduler that ratios are relative to; "" for the default
    records: RecordChoice
    text: str  # the configuration in YAML, for the report


@dataclass(frozen=True, kw_only=True)
class SweepRun(PlayedRun):
    """scripts/sweep.py."""

    optional: Sequence[str]
    reference: str
    loads: Sequence[float]
    load_definition: Literal["requested", "efficient"]  # of what the loads are, see `envs.evaluation.sweep`


@dataclass(frozen=True, kw_only=True)
class InterfaceRun(PlayedRun):
    """scripts/interface.py."""

    env: Component


@dataclass(frozen=True, kw_only=True)
class EvaluationRun:
    """scripts/evaluate.py with a policy."""

    comparison: ComparisonRun
    checkpoint: str  # folder of the checkpoint or of its run
    sampled: bool | None  # see `murmuration.runs.policies.load_policy`
    seeds: int | None  # number of training seeds; None for all
    trusted: frozenset[str]  # import paths of the classes that the policy may name


@dataclass(frozen=True, kw_only=True)
class ActorRun:
    """A run of one scheduler or policy."""

    problem: ProblemSpec
    schedulers: Mapping[str, Component]
    checkpoint: str  # of a policy to take instead; "" for none
    sampled: bool | None  # see `murmuration.runs.policies.load_policy`
    trusted: frozenset[str]  # import paths of the classes that the policy may name


@dataclass(frozen=True, kw_only=True)
class ServiceRun(ActorRun):
    """scripts/serve.py."""

    address: str
    rules: ServiceRules


@dataclass(frozen=True, kw_only=True)
class DeploymentRun(ActorRun):
    """scripts/deploy.py."""

    rules: BridgeRules
    shorten: float  # divides submit times and work
    jobs: int | None  # the first ones; None for all
    probes: int  # starts that measure the latencies of the cluster
    testbed: str  # folder of the test cluster; "" for that of the environment
    rest: str  # address of slurmrestd; "" for the command line tools
    continued: Path | None  # an earlier run to go on with


@dataclass(frozen=True, kw_only=True)
class ShadowRun(ActorRun):
    """scripts/shadow.py."""

    recording: Path | None  # a file that sacct has written; None for the cluster as it is now
    model: str  # stands for all jobs
    rest: str  # address of slurmrestd; "" for the command line tools
    interval: float  # seconds of real time between two looks
    looks: int | None  # at the cluster; None without end


@dataclass(frozen=True, kw_only=True)
class FilmRun(ActorRun):
    """scripts/film.py."""

    split: str | None
    episode: int  # place in the split
    film: str  # name of the file, with its ending
    frames: int
    fps: int


@dataclass(frozen=True, kw_only=True)
class SeedRun:
    """The training of one seed."""

    problem: ProblemSpec
    further: Sequence[tuple[str, ProblemSpec]]  # further tasks to train on, with names
    schedulers: Mapping[str, Component]  # baselines
    trainer: Component
    agent: Component
    env: Component
    market: Component | None
    market_note: Mapping[str, Any]  # what checkpoints say of the market: its name in `conf/market` and its options
    start: str  # folder of the policy that training begins with; "" for none
    trusted: frozenset[str]  # import paths of the classes that this policy may name
    text: str  # the configuration in YAML, for the loggers
    loggers: Sequence[str]  # names in `agents.loggers.LOGGER_CLASSES`


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """scripts/train.py."""

    seeds: Sequence[SeedRun]  # at least one
    processes: int | None = None  # in which seeds are trained at the same time; None for the number of cores
    evaluation: ComparisonRun | None = None  # after training
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
class TuningRun:
    """scripts/tune.py."""

    scheduler: Component  # takes `changes`
    parameters: Mapping[str, Component]  # by name
    problems: Sequence[tuple[str, ProblemSpec]]  # with titles
    reference: str  # name of the scheduler that scores are relative to; "" for the present values
    library: Mapping[str, Component]  # that scheduler, by name
    workloads: int  # of each problem
    validation_workloads: int
    generations: int
    population: int
    seed: int


@dataclass(frozen=True)
class CurvesRun:
    """scripts/curves.py."""

    runs: Mapping[str, Sequence[str]]  # folders by method
    zero: str  # the baseline whose mean JCT is progress 0
    one: str  # the baseline whose mean JCT is progress 1
    passed: str  # the baseline of the last columns


@dataclass(frozen=True)
class BenchmarkRun:
    """scripts/benchmark.py."""

    name: str  # of the suite
    suite: Component
    schedulers: Mapping[str, Component]
    data: str  # folder with traces/, or ""
    parts: Sequence[str]  # names; "all" for every part


@dataclass(frozen=True)
class ReproductionRun:
    """scripts/reproduce.py."""

    table: Component  # takes `data` and `folder`
    data: str  # folder with profiles/ and traces/, or ""


@dataclass(frozen=True)
class SoakRun:
    """scripts/soak.py."""

    minutes: float  # of CPU time
    jobs: int | None  # of one long episode instead
    fuzz: float | None  # of the inputs in FUZZES, instead
    kills: int | None  # of a bridge, instead
    seed: int
    growth: float  # MB


VALIDATED_PARTS = ("throughputs", "pairs")


@dataclass(frozen=True)
class ValidationRun:
    """scripts/validate_performance.py."""

    data: str  # folder with profiles/
    seed: int
    parts: Sequence[str]  # of VALIDATED_PARTS


@dataclass(frozen=True)
class CalibrationRun:
    """scripts/calibrate_estimators.py."""

    problem: ProblemSpec
    estimators: Mapping[str, Component]
    split: str
    episodes: int
    measured: Sequence[int]  # measurements of a job, besides what its user states


@dataclass(frozen=True)
class EstimatorRun:
    """scripts/train_estimator.py."""

    calibration: CalibrationRun  # of what was learnt
    training_episodes: int
    steps: int
    hidden: int


@dataclass(frozen=True)
class PredictionRun:
    """scripts/calibrate_predictors.py."""

    problem: ProblemSpec
    predictors: Mapping[str, Component]
    split: str
    episodes: int
