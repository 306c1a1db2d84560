"""Every setting of every command, declared once: its key, type, range, default and help.

What a run takes over as it is, its description inherits (`murmuration.config.descriptions`). From the same declarations
come the configuration that Hydra composes, the check of each value and its message, `--help`, and the keys that an
earlier run may bring along (`murmuration.config.schema`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from murmuration.config.declare import (
    IN_YAML,
    REQUIRED_VALUE,
    Count,
    Lists,
    Natural,
    Naturals,
    Number,
    Numbers,
    OptionGroup,
    OptionGroups,
    Schedulers,
    Seed,
    Switch,
    Text,
    Texts,
    below,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class ChosenSchedulers:
    """Keys that `scheduler=` sets, for several schedulers."""

    schedulers: Schedulers = setting({}, "filled by scheduler=")
    optional: Switch = setting(
        False, "leave out schedulers that cannot run here instead of stopping; set by scheduler=all and scheduler=fast"
    )


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """The seed of a run."""

    seed: Seed = setting(0, "of all that is drawn")


@dataclass(frozen=True, kw_only=True)
class RayAddress:
    """Settings below `ray`."""

    address: Text | None = setting(
        None,
        "of a Ray cluster to run on: auto, 10.0.0.1:6379, or local for all cores of this machine; see docs/machines.md",
    )


@dataclass(frozen=True, kw_only=True)
class OnRay:
    """Where a run takes place."""

    ray: OptionGroup = below(RayAddress, here=True)


@dataclass(frozen=True, kw_only=True)
class Trusted:
    """What files of an earlier run may name."""

    trust: Texts = setting(
        [], "classes of your own, module.Class, that the earlier run's files may name; see docs/security.md", here=True
    )


@dataclass(frozen=True, kw_only=True)
class ChosenSplit:
    """The part of a workload source."""

    split: Text | None = setting(None, "of the workload source; null: the source's default for evaluation")


@dataclass(frozen=True, kw_only=True)
class PlayedEpisodes(ChosenSplit):
    """The episodes of a run that plays schedulers."""

    episodes: Count | None = setting(None, "number of episodes of the split to play, the first ones; null: all")


@dataclass(frozen=True, kw_only=True)
class Referred(PlayedEpisodes):
    """Episodes, and the scheduler that ratios are relative to."""

    reference: Text = setting(
        "", "ratios are relative to this scheduler; if empty, to fifo, or to the first one if fifo is not compared"
    )


@dataclass(frozen=True, kw_only=True)
class ReadRecords:
    """Recorded results that are read."""

    recorded: Switch | Text | Texts = setting(
        False, "further schedulers to read from records instead of playing them: true for all, or their names"
    )
    results: Text | None = setting(None, "the folder of the records; null: baselines/records of the clone")


@dataclass(frozen=True, kw_only=True)
class RecordChoice(ReadRecords):
    """Which recorded results a comparison reads and writes."""

    record: Switch = setting(False, "store what each scheduler did, and play no scheduler that has a valid record")
    again: Switch = setting(False, "with record=true, play and record all chosen schedulers anew")
    renew: Count | None = setting(
        None,
        "with record=true, play this many episodes of schedulers whose source files have changed since they were "
        "recorded; a record that they repeat is kept, under the hash of the new files",
    )

    @property
    def recorded_names(self) -> Sequence[str]:
        """The names that `recorded` gives."""
        if isinstance(self.recorded, bool):
            return []
        return [self.recorded] if isinstance(self.recorded, str) else list(self.recorded)

    @property
    def folder(self) -> Path | None:
        """The folder of the records; None for those of the project."""
        return Path(self.results) if self.results else None


@dataclass(frozen=True, kw_only=True)
class SweepSettings(Referred):
    """Of scripts/sweep.py."""

    loads: Number | Numbers = setting([0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1], "offered loads")
    load_definition: Literal["requested", "efficient"] = setting(
        "requested", "of loads: requested sizes, or efficient, the most efficient size of each job"
    )
    episodes: Count | None = setting(
        5, "number of episodes of the split to play at each load, the first ones; null: all"
    )


@dataclass(frozen=True, kw_only=True)
class InterfaceSettings(PlayedEpisodes):
    """Of scripts/interface.py."""

    split: Text | None = setting("validation", "of the workload source")
    episodes: Count | None = setting(1, "number of episodes of the split to play, the first ones; null: all")


@dataclass(frozen=True, kw_only=True)
class RepeatedRun:
    """An earlier run."""

    run: Text = setting(
        "",
        "folder of an earlier run of compare, evaluate or train, to repeat as it was; no other option then",
        here=True,
    )


@dataclass(frozen=True, kw_only=True)
class KeptFrames:
    """Tables of jobs and events that a comparison keeps."""

    frames: Literal["csv", "parquet"] | None = setting(
        None, "csv or parquet: write jobs and events of all schedulers that are played, as tables of that form"
    )


@dataclass(frozen=True, kw_only=True)
class EvaluatedEpisodes(Referred):
    """Episodes of scripts/evaluate.py."""

    split: Text | None = setting("test", "of the workload source")


@dataclass(frozen=True, kw_only=True)
class SampledActions:
    """How a policy acts."""

    sampled: Switch | None = setting(
        None, "true: draw actions from the policy; false: take the most likely ones; null: as its training validated it"
    )


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(SampledActions):
    """Of scripts/evaluate.py."""

    checkpoint: Text = setting(REQUIRED_VALUE, "folder of a training run or of one of its checkpoints")
    seeds: Count | None = setting(None, "number of training seeds of the run, the first ones; null: all that it has")


@dataclass(frozen=True, kw_only=True)
class ActorSettings(SampledActions):
    """Of a run of one scheduler or policy."""

    checkpoint: Text = setting("", "folder of a training run or of one of its checkpoints, to take its policy instead")


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(ActorSettings):
    """Of scripts/serve.py."""

    address: Text = setting("unix:scheduler.socket", "where to listen: unix:<file>, or 127.0.0.1:<port>")
    clusters: Count | None = setting(None, "number of clusters to answer until it ends; null: until it is interrupted")
    clients: Count = setting(
        16, "clusters that are answered at a time, each by a copy of the scheduler; further ones are refused"
    )
    patience: Number | None = setting(
        3600, "seconds after which a cluster that sends no message is told so and left; null: without a limit"
    )


@dataclass(frozen=True, kw_only=True)
class DeploymentSettings(ActorSettings):
    """Of scripts/deploy.py."""

    act: Switch = setting(False, "true: start and stop jobs; false: shadow mode, decide and log")
    scale: Number = setting(10.0, "simulated seconds in a second of real time")
    shorten: Number = setting(
        1.0, "divides all submit times and work of the workload: a day of a trace becomes an hour with 24"
    )
    jobs: Count | None = setting(None, "number of jobs of the workload, the first ones; null: all")
    interval: Number = setting(0.2, "seconds of real time between two looks at the cluster")
    grace: Number = setting(30.0, "seconds of real time until a job that was asked to stop is killed")
    actions_per_minute: Count = setting(600, "the most starts and stops in a minute of real time")
    probes: Count = setting(10, "starts that measure the latencies of the cluster before, in a run of their own")
    testbed: Text = setting("runs/slurm_cluster", 'folder of make slurm-up; "": the cluster of SLURM_CONF')
    rest: Text = setting("", 'slurmrestd: unix:<file> or http(s)://<host>:<port>; "": squeue, sinfo and scancel')
    kubeconfig: Text = setting("", 'of a Kubernetes cluster, which takes the place of Slurm; "": Slurm')
    continued: Text = setting("", "folder of an earlier run that was killed, to go on with")


@dataclass(frozen=True, kw_only=True)
class WatchingSettings(ActorSettings):
    """Of scripts that watch a cluster."""

    rest: Text = setting("", 'slurmrestd: unix:<file> or http(s)://<host>:<port>; "": look by squeue and sinfo')
    model: Text = setting("resnet50", "stands for the models of all jobs, which Slurm does not know")
    interval: Number = setting(10.0, "seconds between two looks at the cluster")
    looks: Count | None = setting(None, "number of looks; null: until it is interrupted")


@dataclass(frozen=True, kw_only=True)
class ShadowSettings(WatchingSettings):
    """Of scripts/shadow.py."""

    recording: Text = setting("", 'a file that sacct has written; "": the cluster as squeue shows it now')


@dataclass(frozen=True, kw_only=True)
class AdviceSettings(WatchingSettings):
    """Of scripts/advise.py."""

    act: Switch = setting(False, "true: set nice of jobs that have opted in; false: only say what would be set")
    restore: Switch = setting(False, "true: only set all values back that an adviser has left, and end")
    changes_per_minute: Count = setting(60, "the most changes in a minute; setting back is not limited")
    ahead: Count = setting(200, "rounds in which the scheduler is asked ahead for the order of the jobs that wait")
    state: Text = setting("runs/adviser", "folder of the journal of changed values, the same at each start")


@dataclass(frozen=True, kw_only=True)
class FilmSettings(ActorSettings, ChosenSplit):
    """Of scripts/film.py."""

    episode: Seed = setting(0, "place of the episode in the split")
    film: Text = setting("episode.gif", "name of the film in the run's folder; it ends with .gif or .mp4")
    frames: Count = setting(150, "number of pictures, evenly spaced in simulated time")
    fps: Count = setting(10, "pictures per second")


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Of scripts/train.py, beside those of a seed."""

    seeds: Count | None = setting(
        1, "number of training runs, with the random seeds seed, seed + 1, ...; evaluation aggregates over them"
    )
    tasks: Texts = setting([], "further tasks to draw training episodes from, tasks=[shared-64,rigid-64]")
    resume: Text = setting(
        "", "folder of an interrupted run, which continues with its config and in its folder", here=True
    )
    evaluate: Switch = setting(
        False, "after training, compare the best checkpoint with all baselines on the test split", resumed=True
    )
    episodes: Count | None = setting(
        None, "number of test episodes of that comparison, the first ones; null: all", resumed=True
    )
    elsewhere: Texts = setting(
        [],
        "options of a last comparison in which the best checkpoint plays where it was not trained, such as "
        "[task=none,workload=muri,cluster=homogeneous_64,scheduler=fast]",
        resumed=True,
    )


@dataclass(frozen=True, kw_only=True)
class TrainingProcesses:
    """Where the seeds of a training run take place."""

    processes: Count | None = setting(
        None, "in which seeds are trained at the same time, with seeds=n; null: as many as there are cores", here=True
    )


@dataclass(frozen=True, kw_only=True)
class SeedSettings:
    """Of the training of one seed."""

    start: Text = setting("", "folder of a policy, or of the run that trained it, with whose weights training begins")
    loggers: Texts = setting(
        ["tensorboard"], "where curves go: tensorboard, csv, wandb, mlflow; several: [tensorboard,csv]"
    )


@dataclass(frozen=True, kw_only=True)
class TuningSettings:
    """Of scripts/tune.py."""

    workloads: Count = setting(3, "of the training split of each world")
    validation_workloads: Count | None = setting(None, "null: as many")
    generations: Natural = setting(9, "at most")
    population: Count = setting(2, "candidates of a generation for each parameter")


@dataclass(frozen=True, kw_only=True)
class TunedWorlds:
    """What parameters are searched for."""

    worlds: Lists = setting(IN_YAML)
    tasks: Texts = setting(
        [], "tasks to tune over instead, relative to the present values: tasks=[shared-64,adaptive-40]"
    )


@dataclass(frozen=True, kw_only=True)
class TuningGroup:
    """What a file of conf/tuning holds."""

    scheduler: OptionGroup = setting(IN_YAML)
    parameters: OptionGroups = setting(IN_YAML)
    reference: Text = setting(IN_YAML)
    options: Texts = setting(IN_YAML)


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """OptionGroup of a trainer that a resumed run may change; the others are checked against its class."""

    iterations: Natural = setting(IN_YAML, resumed=True)
    save_every: Count = setting(IN_YAML, resumed=True)
    picture_every: Natural = setting(IN_YAML, resumed=True)


@dataclass(frozen=True, kw_only=True)
class CurveSettings:
    """Of scripts/curves.py."""

    zero: Text = setting("random", "the baseline whose mean JCT is progress 0")
    one: Text = setting("starling", "the baseline whose mean JCT is progress 1")
    passed: Text = setting(
        "srtf",
        "the baseline of the two last columns: relative mean JCT, and CPU-seconds until all seeds have passed it",
    )


@dataclass(frozen=True, kw_only=True)
class AblationSettings:
    """Of scripts/ablate.py, beside the variants."""

    seed: Seed = setting(0, "the first training seed; the others follow it")
    pilot: Count = setting(3, "training seeds of each variant, which tell how many seeds a difference needs")
    seeds: Count = setting(3, "the most training seeds of each variant; after the pilot, only as many as `error` needs")
    error: Number = setting(0.02, "standard error of paired differences of mean JCT at which no more seeds are trained")
    workloads: Count = setting(24, "of the test split on which trained policies are compared, the first ones")
    resume: Text = setting(
        "", "folder of an earlier run of the same options, whose finished variants and seeds are kept", here=True
    )


@dataclass(frozen=True, kw_only=True)
class ChosenVariants:
    """Variants of a training run."""

    options: Text = setting(IN_YAML)
    factors: OptionGroups = setting(IN_YAML)
    variants: OptionGroup | None = setting(None, "options by name, the reference first; null: those of the factors")


@dataclass(frozen=True, kw_only=True)
class DataFolder:
    """A folder with public data."""

    data: Text = setting('${oc.env:MURMURATION_DATA,""}', "folder with profiles/ and traces/")


@dataclass(frozen=True, kw_only=True)
class BenchmarkSettings:
    """Of scripts/benchmark.py."""

    suite: Text = setting("quick", "one of the suites below")
    parts: Text | Texts = setting("all", "or some of them: parts=[engine,bidding]")
    suites: OptionGroups = setting(IN_YAML)


@dataclass(frozen=True, kw_only=True)
class ReproductionSettings:
    """Of scripts/reproduce.py."""

    paper: Text = setting("rubick", "one of those below")
    table: Text | None = setting(None, "null: the first one of the paper")
    tables: OptionGroups = setting(IN_YAML)


@dataclass(frozen=True, kw_only=True)
class SoakSettings(Seeded):
    """Of scripts/soak.py."""

    minutes: Number = setting(10.0, "of CPU time")
    jobs: Count | None = setting(None, "a number: one long episode of so many jobs instead, for example jobs=1000000")
    fuzz: Number | None = setting(
        None,
        "a number: changed inputs for all that reads what strangers write, 1 for the counts of docs/security.md",
    )
    kills: Count | None = setting(
        None,
        "a number: kills of a bridge on a Slurm test cluster of its own; needs Debian's packages of Slurm and root",
    )
    growth: Number = setting(
        100.0,
        "MB that the process may grow by after a tenth of the time (with jobs: after a short episode), besides the "
        "arrays of the last episode",
    )


@dataclass(frozen=True, kw_only=True)
class ValidatedParts:
    """Parts of scripts/validate_performance.py."""

    parts: Text | Texts = setting("all", "or some of them: parts=[throughputs,pairs]; pairs are of jobs on one GPU")


@dataclass(frozen=True, kw_only=True)
class HeldOutSettings:
    """Of the scripts about estimators and predictors."""

    split: Text = setting("validation", "of the workload source")
    episodes: Count = setting(5, "the first ones of the split, whose jobs are held out")


@dataclass(frozen=True, kw_only=True)
class MeasuredSettings(HeldOutSettings):
    """Of the scripts about estimators."""

    measured: Naturals = setting([0, 1, 2, 4], "measurements of a job, besides what its user states")


@dataclass(frozen=True, kw_only=True)
class ChosenEstimators:
    """Estimators by name."""

    estimators: Texts = setting([], "their names; empty: all of conf/estimator")


@dataclass(frozen=True, kw_only=True)
class ChosenPredictors:
    """Predictors by name."""

    predictors: Texts = setting([], "their names; empty: all of conf/predictor")
