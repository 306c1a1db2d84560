"""Learning curves of training runs: read from their folders, drawn, compared. Needs torch."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from agents.curves import LearningCurve, compare_curves, learning_curves
from agents.jct_curves import JctCurve, jct_curves
from agents.saving import read_state
from agents.training import STATE, TrainingState
from envs.evaluation.report import DOTS_PER_INCH
from launch.errors import ChoiceError
from launch.policies import seed_folders
from launch.runs import print_frame


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
    if states and all("compared_jct" in own for state in states for own in state.latest.values()):
        title = f"{next(iter(states[0].latest))}, {len(states)} training seed{'s'[: len(states) > 1]}"
        curves = [JctCurve.of(state.validation, state.cpu_time, state.baselines) for state in states]
        jct_curves(curves, title).savefig(folder / "learning_curves.png", dpi=120)
    elif runs := read_curves(folder):
        learning_curves(runs).savefig(folder / "learning_curves.png", dpi=120)


def compare_runs(cfg: DictConfig, folder: Path) -> None:
    """Compare the runs of `cfg.runs`; print a row for each method and task, and write curves.csv and curves.png.

    Raises:
        ChoiceError: `runs` is no mapping of names to folders, or a folder has no learning curves.
    """
    methods = {name: list(curves_of(name, folders)) for name, folders in named_folders(cfg).items()}
    rows = pd.DataFrame([row for name, curves in methods.items() for row in describe_curves(name, curves)])
    groups = rows.groupby(["task", "method"], sort=False)
    summary = pd.DataFrame([summarise_seeds(str(task), str(method), own) for (task, method), own in groups])
    print_frame("Gain in mean JCT over the market alone in validation (%), after the last iteration", summary)
    rows.to_csv(folder / "curves.csv", index=False)
    compare_curves(methods).savefig(folder / "curves.png", dpi=DOTS_PER_INCH)


def named_folders(cfg: DictConfig) -> dict[str, list[str]]:
    """Return the folders of each method.

    Raises:
        ChoiceError: `runs` is no mapping of names to folders.
    """
    runs: Any = OmegaConf.to_container(cfg, throw_on_missing=False)
    runs = runs["runs"] if isinstance(runs, Mapping) else None
    if not isinstance(runs, Mapping) or not runs:
        raise ChoiceError(f'runs is {runs!r}; give folders by name, as in "runs={{evolution: runs/train/a}}"')
    return {
        str(name): [str(each) for each in (value if isinstance(value, list) else [value])]
        for name, value in runs.items()
    }


def curves_of(method: str, folders: list[str]) -> Iterator[LearningCurve]:
    """Yield the curves of all training seeds in the folders of a method.

    Raises:
        ChoiceError: a folder has none.
    """
    for each in folders:
        found = read_curves(Path(each))
        if not found:
            raise ChoiceError(
                f"runs.{method}: {each} has no learning curves; give the folder of a run of scripts/train.py whose "
                "policy bids"
            )
        yield from found.values()


def describe_curves(method: str, curves: list[LearningCurve]) -> Iterator[dict[str, Any]]:
    """Yield a row for each validation of each task and training seed."""
    for number, curve in enumerate(curves):
        for task in curve.tasks:
            gains, errors = curve.gains(task)
            points = zip(curve.iterations, curve.episodes(), curve.cpu_minutes(), gains, errors, strict=True)
            for iteration, episodes, minutes, gain, error in points:
                yield {
                    "task": task,
                    "method": method,
                    "curve": number,
                    "iteration": iteration,
                    "episodes": episodes,
                    "CPU-minutes": minutes,
                    "gain": gain,
                    "error": error,
                }


def summarise_seeds(task: str, method: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the row of a method and a task: the last validation of each training seed, and their mean."""
    last = rows.sort_values("iteration").groupby("curve").last()
    gains = last["gain"].to_numpy()
    return {
        "task": task,
        "method": method,
        "seeds": len(last),
        "episodes": float(last["episodes"].mean()),
        "CPU-minutes": float(last["CPU-minutes"].mean()),
        "gain": float(gains.mean()),
        "lowest": float(gains.min()),
        "highest": float(gains.max()),
        "error of one": float(np.sqrt((last["error"] ** 2).mean())),
    }
