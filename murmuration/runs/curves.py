"""Learning curves of training runs: read from their folders, drawn, compared. Needs torch."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from agents.cost_curves import CostCurve, compare_progress, cost_curves
from agents.curves import MINUTE, LearningCurve, learning_curves
from agents.saving import read_state
from agents.training import STATE, TrainingState
from envs.evaluation.aggregate import interquartile_mean
from envs.evaluation.files import write_figure, write_frame
from murmuration.config.descriptions import CurvesRun
from murmuration.config.errors import ChoiceError
from murmuration.reports.report import DOTS_PER_INCH
from murmuration.runs.comparing import print_frame
from murmuration.runs.policies import seed_folders


def read_curve(folder: Path) -> tuple[str, LearningCurve] | None:
    """Return the name of the training seed of a run without further seeds, and its curve; None if it has none.

    Raises:
        ChoiceError: its figures are no curve.
        CheckpointError: it has no training state.
    """
    path = folder / STATE
    if not path.exists():
        return None
    state = read_state(path, TrainingState)
    try:
        if not all("merit" in figures for each in state.validation.values() for figures in each.values()):
            return None  # its policy has no market to gain over
        return f"seed {state.seed}", checked(LearningCurve(state.validation, state.num_episodes, state.cpu_time))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ChoiceError(f"{path}: has no figures of validations ({reason}); give the folder of a run") from error


def checked(curve: LearningCurve) -> LearningCurve:
    """Return a curve after all that is drawn of it has been computed once.

    Raises:
        ValueError: a figure is not finite. Figures of another form raise other errors.
    """
    figures = [curve.episodes(), curve.cpu_minutes(), *(each for task in curve.tasks for each in curve.gains(task))]
    if not all(np.isfinite(each).all() for each in figures):
        raise ValueError("a figure is not finite")
    return curve


def read_curves(folder: Path) -> dict[str, LearningCurve]:
    """Return the curves of a run by training seed."""
    return dict(found for each in seed_folders(folder) or [folder] if (found := read_curve(each)))


def write_learning_curves(folder: Path) -> None:
    """Write `learning_curves.png` into the folder of a run, over all its training seeds, if it has curves."""
    folders = seed_folders(folder) or [folder]
    states = [read_state(each / STATE, TrainingState) for each in folders if (each / STATE).exists()]
    if states and all("compared_cost" in own for state in states for own in state.latest.values()):
        curves = [CostCurve.of(state) for state in states]
        title = f"{curves[0].task}, {len(states)} training seed{'s'[: len(states) > 1]}"
        write_figure(folder / "learning_curves.png", cost_curves(curves, title), 120)
    elif runs := read_curves(folder):
        write_figure(folder / "learning_curves.png", learning_curves(runs), 120)


def compare_runs(run: CurvesRun, folder: Path) -> None:
    """Compare training runs by method; print a row for each method and task, and write curves.csv and curves.png.

    Raises:
        ChoiceError: a folder has no learning curves from nothing, a baseline was not measured, or seeds of a method
            were validated after different iterations.
        CheckpointError: a folder has no training state.
    """
    methods = {name: list(curves_of(name, folders, run)) for name, folders in run.runs.items()}
    groups = [
        (name, task, [curve for curve in curves if curve.task == task])
        for name, curves in methods.items()
        for task in dict.fromkeys(curve.task for curve in curves)
    ]
    for name, task, curves in groups:
        if len({curve.iterations for curve in curves}) > 1:
            raise ChoiceError(f"runs.{name}: seeds on {task} were validated after different iterations")
    summary = pd.DataFrame([summarise_seeds(name, task, curves, run) for name, task, curves in groups])
    print_frame(f"Progress in validation from {run.zero} (0) to {run.one} (1), at the last validation", summary)
    rows = pd.DataFrame([row for name, task, curves in groups for row in list_validations(name, curves, run)])
    write_frame(folder / "curves.csv", rows)
    write_figure(folder / "curves.png", compare_progress(methods, run.zero, run.one), DOTS_PER_INCH)


def curves_of(method: str, folders: Sequence[str], run: CurvesRun) -> Iterator[CostCurve]:
    """Yield the curves of all training seeds in the folders of a method.

    Raises:
        ChoiceError: a folder has none, or a baseline was not measured.
        CheckpointError: a folder has no training state.
    """
    for each in folders:
        place = Path(os.path.expanduser(each))
        for own in seed_folders(place) or [place]:
            state = read_state(own / STATE, TrainingState)
            try:
                curve = CostCurve.of(state)
            except (TypeError, ValueError, KeyError, AttributeError, OverflowError, IndexError) as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                raise ChoiceError(
                    f"runs.{method}: {own / STATE} has no learning curve from nothing ({reason}); give the folder of a "
                    "run of scripts/train.py with env=options"
                ) from error
            for key, name in (("zero", run.zero), ("one", run.one), ("passed", run.passed)):
                if name not in curve.baselines:
                    known = ", ".join(curve.baselines) or "none"
                    raise ChoiceError(f"{key}={name}: {own} has measured no such baseline; it has {known}")
            yield curve


def list_validations(method: str, curves: list[CostCurve], run: CurvesRun) -> Iterator[dict[str, Any]]:
    """Yield a row for each validation of the training seeds of a method on a task."""
    for curve in curves:
        points = zip(curve.iterations, curve.seconds, curve.cost, curve.progress(run.zero, run.one), strict=True)
        for iteration, seconds, cost, progress in points:
            yield {
                "task": curve.task,
                "method": method,
                "seed": curve.seed,
                "iteration": iteration,
                "CPU-seconds": seconds,
                str(curve.goal): cost,
                "progress": progress,
            }


def summarise_seeds(method: str, task: str, curves: list[CostCurve], run: CurvesRun) -> dict[str, Any]:
    """Return the row of a method and a task: the last validation over its training seeds, and when all have passed."""
    last = np.array([curve.progress(run.zero, run.one)[-1] for curve in curves])
    return {
        "task": task,
        "method": method,
        "seeds": len(curves),
        "CPU-minutes": float(np.mean([curve.seconds[-1] for curve in curves]) / MINUTE),
        "progress": interquartile_mean(last),
        "lowest": float(last.min()),
        "highest": float(last.max()),
        f"of {run.passed}": float(np.mean([curve.cost[-1] / curve.baselines[run.passed] for curve in curves])),
        f"all past {run.passed} (s)": max(curve.first_below(run.passed) for curve in curves),
    }
