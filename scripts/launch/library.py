"""The library `murmuration`: tasks, comparisons, training and policies from Python, built as the scripts build them.

Options are the words of the command line, such as "workload.load=0.8". Errors of the user are a `ChoiceError` of one
line.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from envs.evaluation import Comparison
from envs.evaluation.report import write_report
from envs.evaluation.webpage import PageExtras
from envs.scheduling import Scheduler
from envs.simulation import Setup
from envs.types import did_you_mean
from envs.workloads import Workload, WorkloadSource
from launch.choices import list_choices, own_configs
from launch.commands import make_run_folder, share_modules
from launch.describe import compose_comparison, compose_training
from launch.descriptions import ProblemSpec
from launch.errors import ChoiceError, short_errors
from launch.inputs import RunInputs, build_inputs
from launch.provenance import SAVED, write_provenance
from launch.runs import play_comparison

EXPERIMENTS_OF_METHODS = {"evolution": "bidding"}  # methods that need another environment than the default


@dataclass(frozen=True)
class LibraryTask:
    """A task, with options of the user: what `compare` and `train` take."""

    options: Sequence[str]  # as on the command line, the name of the task first
    problem: ProblemSpec
    inputs: RunInputs

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
        return self.source.evaluation(split)


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
        from launch.policies import load_policy  # needs torch

        return load_policy(self.folder, self.trusted, sampled=sampled)


@short_errors()
def make_task(name: str = "full-64", *options: str) -> LibraryTask:
    """Return a task by name, changed by options; "none" is no task, whose parts are all chosen by options.

    Args:
        name: of a file in `conf/task`.
        options: as on the command line, such as "cluster=mixed_16" or "workload.load=0.8".

    Raises:
        ChoiceError: there is no such task or option.
    """
    words = [f"task={name}", *options]
    with own_configs():
        problem = compose_comparison(words).problem
        return LibraryTask(words, problem, build_inputs(problem))


@short_errors()
def compare(
    schedulers: str | Scheduler | Iterable[str | Scheduler] | Mapping[str, Scheduler],
    task: str | LibraryTask = "full-64",
    *,
    episodes: int | None = None,
    split: str | None = None,
    reference: str = "",
    folder: str | Path | None = None,
    quiet: bool = False,
) -> Comparison:
    """Compare schedulers on the same workloads, and print the table.

    Args:
        schedulers: names of the library, "all", "fast", or schedulers of the user's own, which are named after their
            classes; with a mapping, these by name.
        task: a name, or the result of `make_task`.
        episodes: the number of workloads, the first ones; None for all.
        split: of the workloads; None for the source's default.
        reference: the scheduler that ratios are relative to; "fifo" or the first one if empty.
        folder: where the report is written; None writes nothing.
        quiet: print nothing.

    Raises:
        ChoiceError: there is no such task or scheduler, two have one name, or none could run.
    """
    names, own = divide_schedulers(schedulers)
    chosen = {"episodes": episodes, "split": split, "reference": reference or None}
    words = [f"{key}={value}" for key, value in chosen.items() if value is not None]
    with own_configs():
        run = compose_comparison([*_options_of(task), f"scheduler=[{','.join(names)}]", *words])
        comparison, setup, _ = play_comparison(run, None, own, quiet=quiet)
    if folder is not None:
        write_report(comparison, Path(folder), PageExtras(list(own), setup, run.text))
    return comparison


def divide_schedulers(
    schedulers: str | Scheduler | Iterable[str | Scheduler] | Mapping[str, Scheduler],
) -> tuple[list[str], dict[str, Scheduler]]:
    """Return the names of schedulers of the library, and the user's own by name.

    Raises:
        ChoiceError: two have one name, or one is neither a name nor a scheduler.
    """
    if isinstance(schedulers, Mapping):
        return [], dict(schedulers)
    each_once = schedulers if isinstance(schedulers, Iterable) and not isinstance(schedulers, str) else [schedulers]
    names: list[str] = []
    own: dict[str, Scheduler] = {}
    for each in each_once:
        if isinstance(each, str):
            names.append(each)
            continue
        name = type(each).__name__
        if not isinstance(each, Scheduler):
            raise ChoiceError(f"schedulers: {name} is no scheduler; give a name, or an object with reset and schedule")
        if name in own:
            raise ChoiceError(f"schedulers: two are called {name}; give a mapping of names to schedulers")
        own[name] = each
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
    from launch.seeds import train_and_evaluate  # needs torch and ray

    limit = [] if minutes is None else [f"trainer.minutes={float(minutes)}"]
    words = [*_options_of(task), f"scheduler=[{','.join(baselines)}]", *limit, *options]
    with own_configs():
        words.insert(1, _choose_method(method))
        run, cfg = compose_training(words)
        place = make_run_folder(Path("runs") / "train", datetime.now()) if folder is None else Path(folder)
        if place.is_dir() and folder is not None and any(place.iterdir()):
            raise ChoiceError(f"folder={place}: holds files; choose another folder, or remove this one")
        (place / SAVED).parent.mkdir(parents=True)
        (place / SAVED).touch()
        write_provenance(place, "train", cfg, words, ("murmuration", "train"))
        share_modules()
        train_and_evaluate(run, place)
    return TrainedPolicy(place, run.trusted)


def load(path: str | Path, trusted: Iterable[str] = ()) -> TrainedPolicy:
    """Return the policy of a checkpoint or of a training run, or one of those that the project ships.

    Args:
        path: a folder, or the name of one in `checkpoints/`, such as "bids-64".
        trusted: import paths of network classes of the user's own that it may name; see docs/security.md.
    """
    return TrainedPolicy(Path(path), frozenset(trusted))


def _options_of(task: str | LibraryTask) -> Sequence[str]:
    return [f"task={task}"] if isinstance(task, str) else task.options


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
