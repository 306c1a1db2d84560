"""The library `murmuration`: tasks, comparisons, training and policies from Python, built as the scripts build them.

Options are the words of the command line, such as "workload.load=0.8". Errors of the user are a `ChoiceError` of one
line.
"""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

import pandas as pd

from envs.evaluation import Comparison
from envs.scheduling import Scheduler
from envs.simulation import Setup
from envs.types import did_you_mean
from envs.workloads import Workload, WorkloadSource
from murmuration.config.choices import CHECKPOINTS, find_shipped, list_choices, own_configs
from murmuration.config.describe import compose_comparison, compose_training
from murmuration.config.descriptions import ProblemSpec
from murmuration.config.errors import ChoiceError, short_errors
from murmuration.config.inputs import RunInputs, build_inputs
from murmuration.config.objects import GivenCluster, GivenJobs, cluster_options, workload_options
from murmuration.config.plain import LONGEST_TEXT, shorten
from murmuration.config.provenance import SAVED, write_provenance
from murmuration.reports.report import write_report
from murmuration.reports.webpage import PageExtras
from murmuration.runs.commands import make_run_folder, share_modules
from murmuration.runs.comparing import play_comparison, write_frames

LONGEST_NAME = 100  # characters
EXPERIMENTS_OF_METHODS = {"evolution": "bidding"}  # methods that need another environment than the default


@dataclass(frozen=True)
class LibraryTask:
    """A task, with options of the user: what `compare` and `train` take."""

    options: Sequence[str]  # as on the command line, the name of the task first
    problem: ProblemSpec
    inputs: RunInputs

    def __repr__(self) -> str:
        """Return the options, the cluster and the jobs: short."""
        words = " ".join(self.options).removeprefix("task=")
        return f"{words}: {self.setup.cluster.describe_gpus()}; {self.source.num_jobs} jobs a workload"

    def _repr_html_(self) -> str:
        """Return the same as a table for notebooks."""
        rows = {"task": " ".join(self.options).removeprefix("task="), "cluster": self.setup.cluster.describe_gpus()}
        rows |= {"jobs of a workload": f"{self.source.num_jobs:,}", "models": ", ".join(self.source.models)}
        return pd.Series(rows, dtype=object).to_frame("").to_html(header=False)

    @property
    def setup(self) -> Setup:
        """The cluster, the performance model and the scenario."""
        return self.inputs.setup

    @property
    def source(self) -> WorkloadSource:
        """Where workloads for training, validation and evaluation come from."""
        return self.inputs.source

    def workloads(self, split: str | None = None) -> Sequence[Workload]:
        """Return the workloads of a split; None is the source's default for evaluation."""
        return self.source.evaluation(None if split is None else check_text("split", split))


@dataclass(frozen=True)
class TrainedPolicy:
    """A trained policy on disk: a checkpoint, or a training run with its best one."""

    folder: Path
    trusted: frozenset[str] = frozenset()  # import paths of network classes of the user's own that it may name

    @short_errors()
    def scheduler(self, *, sampled: bool | None = None) -> Scheduler:
        """Return the policy as a scheduler, with the market that it was saved with.

        Args:
            sampled: whether a policy that chooses options draws them; None for what its training validated.

        Raises:
            ChoiceError: the checkpoint is missing or damaged, or the extra `learn` is not installed.
        """
        from murmuration.runs.policies import load_policy  # needs torch

        return load_policy(self.folder, self.trusted, sampled=sampled)


@short_errors()
def make_task(
    name: str | None = None, *options: str, cluster: GivenCluster | None = None, workload: GivenJobs | None = None
) -> LibraryTask:
    """Return a task by name, changed by options; "none" is no task, whose parts are all chosen by options.

    Args:
        name: of a file in `conf/task`; None for "full-64", or for "none" with a cluster or a workload.
        options: as on the command line, such as "cluster=mixed_16" or "workload.load=0.8".
        cluster: one that this program holds, see `cluster_options`.
        workload: jobs that this program holds, see `workload_options`; they are written to `runs/jobs`.

    Raises:
        ChoiceError: there is no such task or option, or the cluster or the jobs are none.
    """
    own = [] if cluster is None else cluster_options(cluster)
    own += [] if workload is None else workload_options(workload)
    task = check_text("task", name) if name is not None else "none" if own else "full-64"
    words = [*_options_of(task), *own, *(check_text("an option", each) for each in options)]
    with own_configs():
        problem = compose_comparison(words).problem
        return LibraryTask(words, problem, build_inputs(problem))


@short_errors()
def compare(
    schedulers: str | Scheduler | TrainedPolicy | Iterable[str | Scheduler | TrainedPolicy] | Mapping[str, Scheduler],
    task: str | LibraryTask = "full-64",
    *,
    episodes: int | None = None,
    split: str | None = None,
    reference: str = "",
    folder: str | Path | None = None,
    frames: str | None = None,
    quiet: bool = False,
) -> Comparison:
    """Compare schedulers on the same workloads, and print the table.

    Args:
        schedulers: names of the library, "all", "fast", trained policies, which are named after their folders, or
            schedulers of the user's own, which are named after their classes; with a mapping, these by name.
        task: a name, or the result of `make_task`.
        episodes: the number of workloads, the first ones; None for all.
        split: of the workloads; None for the source's default.
        reference: the scheduler that ratios are relative to; "fifo" or the first one if empty.
        folder: where the report is written; None writes nothing.
        frames: "csv" or "parquet" writes jobs and events as tables into the folder, too.
        quiet: print nothing.

    Warns:
        RuntimeWarning: a scheduler failed. It has no figures, and `Comparison.failures` says why.

    Raises:
        ChoiceError: there is no such task or scheduler, two have one name, or none could run.
    """
    place = None if folder is None else check_folder("folder", folder)
    names, own = divide_schedulers(schedulers)
    chosen = {"episodes": episodes, "split": split, "reference": check_text("reference", reference) or None}
    chosen["frames"] = frames
    words = [f"{key}={value}" for key, value in chosen.items() if value is not None]
    with own_configs():
        run = compose_comparison([*_options_of(task), f"scheduler=[{','.join(names)}]", *words])
        comparison, setup, _ = play_comparison(run, None, own, quiet=quiet)
    for name, failure in comparison.failures.items():  # level 3 is the line of the user, outside of `short_errors`
        warnings.warn(f"{name} {failure}; it has no figures", RuntimeWarning, stacklevel=3)
    if place is not None:
        write_report(comparison, place, PageExtras(list(own), setup, run.text))
        if run.frames:
            write_frames(comparison, place, run.frames)
    return comparison


def divide_schedulers(
    schedulers: str | Scheduler | TrainedPolicy | Iterable[str | Scheduler | TrainedPolicy] | Mapping[str, Scheduler],
) -> tuple[list[str], dict[str, Scheduler]]:
    """Return the names of schedulers of the library, and the user's own by name.

    Raises:
        ChoiceError: two have one name, or one is neither a name nor a scheduler.
    """
    if isinstance(schedulers, Mapping):
        for name, each in schedulers.items():
            if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
                raise ChoiceError(
                    f"schedulers: {shorten(name)} is no name; give a text of 1 to {LONGEST_NAME} characters"
                )
            if not isinstance(each, Scheduler):
                raise ChoiceError(f"schedulers: {name} is {shorten(each)}; give an object with reset and schedule")
        return [], dict(schedulers)
    each_once = schedulers if isinstance(schedulers, Iterable) and not isinstance(schedulers, str) else [schedulers]
    names: list[str] = []
    own: dict[str, Scheduler] = {}
    for each in each_once:
        if isinstance(each, str):
            names.append(check_text("a scheduler", each))
            continue
        name, found = type(each).__name__, each
        if isinstance(each, TrainedPolicy):
            name, found = each.folder.name, each.scheduler()
        if not isinstance(found, Scheduler):
            raise ChoiceError(f"schedulers: {name} is no scheduler; give a name, or an object with reset and schedule")
        if name in own:
            raise ChoiceError(f"schedulers: two are called {name}; give a mapping of names to schedulers")
        own[name] = found
    return names, own


@short_errors()
def train(
    task: str | LibraryTask = "shared-16",
    method: str = "group_ppo",
    *options: str,
    minutes: float | None = None,
    baselines: Sequence[str] = (),
    folder: str | Path | None = None,
) -> TrainedPolicy:
    """Train a policy, as `scripts/train.py` does, and return its best checkpoint.

    The folder of the run can be given to `load`, and to the commands `evaluate`, `film` and `train resume=`.

    Args:
        task: a name, or the result of `make_task`.
        method: a file of `conf/trainer`, or an experiment of `conf/experiment`, such as "bidding".
        options: further ones as on the command line, such as "trainer.iterations=20".
        minutes: after which the method ends, besides validation; None trains to the last iteration.
        baselines: schedulers of the library that the policy is compared with in validation.
        folder: of the run; None for `runs/train/<date_time>`.

    Raises:
        ChoiceError: there is no such task, method or option, the folder holds files, or the extra `learn` is missing.
    """
    from murmuration.runs.seeds import train_and_evaluate  # needs torch and ray

    if isinstance(minutes, bool) or not isinstance(minutes, int | float | None):
        raise ChoiceError(f"minutes is {shorten(minutes)}; it must be a number or None")
    if isinstance(baselines, str | Mapping) or not isinstance(baselines, Iterable):
        raise ChoiceError(f"baselines is {shorten(baselines)}; it must be a list of names of schedulers")
    asked = None if folder is None else check_folder("folder", folder)
    limit = [] if minutes is None else [f"trainer.minutes={float(minutes)}"]
    compared = ",".join(check_text("a baseline", each) for each in baselines)
    further = [check_text("an option", each) for each in options]
    words = [*_options_of(task), f"scheduler=[{compared}]", *limit, *further]
    with own_configs():
        words.insert(1, _choose_method(check_text("method", method)))
        run, cfg = compose_training(words)
        place = asked or make_run_folder(Path("runs") / "train", datetime.now())
        if asked and place.is_dir() and any(place.iterdir()):
            raise ChoiceError(f"folder={place}: holds files; choose another folder, or remove this one")
        (place / SAVED).parent.mkdir(parents=True)
        (place / SAVED).touch()
        write_provenance(place, "train", cfg, words, ("murmuration", "train"))
        share_modules()
        train_and_evaluate(run, place)
    return TrainedPolicy(place, run.trusted)


@short_errors()
def load(path: str | Path, trusted: Iterable[str] = ()) -> TrainedPolicy:
    """Return the policy of a checkpoint or of a training run, or one of those that the project ships.

    Args:
        path: a folder, or the name of one in `checkpoints/`, such as "bids-64".
        trusted: import paths of network classes of the user's own that it may name; see docs/security.md.

    Raises:
        ChoiceError: there is no such folder, it has no policy, or the extra `learn` is not installed.
    """
    place = find_shipped(check_folder("path", path))
    if not place.is_dir():
        shipped = sorted(each.name for each in CHECKPOINTS.iterdir() if each.is_dir())
        hint = did_you_mean(place.name, shipped, lead=", ")
        raise ChoiceError(f"{shorten(str(path))}: no such folder{hint}; the project ships: {', '.join(shipped)}")
    if isinstance(trusted, str | Mapping) or not isinstance(trusted, Iterable):
        raise ChoiceError(f"trusted is {shorten(trusted)}; it must be a list of import paths")
    from agents.policies.checkpoint import find_checkpoint  # needs torch

    find_checkpoint(place)
    return TrainedPolicy(Path(path), frozenset(check_text("a trusted class", each) for each in trusted))


def check_text(key: str, value: object) -> str:
    """Return a text that a user gave.

    Raises:
        ChoiceError: it is none, or has more characters than any option.
    """
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise ChoiceError(f"{key} is {shorten(value)}; it must be a text of at most {LONGEST_TEXT:,} characters")
    return value


def check_folder(key: str, value: object) -> Path:
    """Return the path of a folder that a user gave.

    Raises:
        ChoiceError: it is no path, one of its names is too long, or one of the folders is a file.
    """
    try:
        place = Path(value) if isinstance(value, str | Path) and str(value) and "\0" not in str(value) else None
        nearest = place and next((each for each in (place, *place.parents) if each.exists()), place)
    except OSError as error:
        raise ChoiceError(f"{key} is {shorten(value)}: {error.strerror}; give the path of a folder") from None
    if place is None or (nearest and nearest.is_file()):
        raise ChoiceError(f"{key} is {shorten(value)}; it must be the path of a folder")
    return place


def _options_of(task: str | LibraryTask) -> Sequence[str]:
    if isinstance(task, LibraryTask):
        return task.options
    if not isinstance(task, str):
        raise ChoiceError(f"task is {shorten(task)}; it must be a name, or the result of make_task")
    return [f"task={check_text('task', task)}"]


def _choose_method(method: str) -> str:
    trainers, experiments = list_choices("trainer"), list_choices("experiment")
    experiments = [each for each in experiments if not each.startswith("xval_")]  # those compare
    name = EXPERIMENTS_OF_METHODS.get(method, method)
    if name in experiments:
        return f"experiment={name}"
    if name not in trainers:
        known = sorted({*trainers, *experiments})
        raise ChoiceError(
            f"method={method}: no such method{did_you_mean(method, known, lead=', ')}; there are: {', '.join(known)}"
        )
    return f"trainer={name}"
