"""Learning curves of training runs: read from their folders, drawn, compared. Needs torch."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from agents.bidding.curves import LearningCurve, compare_curves, learning_curves
from agents.bidding.training import BidTrainingState
from agents.branching.training import BRANCHING_STATE
from agents.evolution.training import STATE
from agents.expert_iteration.training import EXPERT_STATE
from agents.options.curves import JctCurve, jct_curves
from agents.options.training import STATE as OPTION_STATE
from agents.options.training import OptionTrainingState
from agents.saving import read_state
from agents.training import STATE as CHOICE_STATE
from agents.training import TrainingState
from envs.evaluation.report import DOTS_PER_INCH
from launch.errors import ChoiceError
from launch.policies import seed_folders
from launch.runs import print_frame

BID_STATES = (STATE, BRANCHING_STATE, EXPERT_STATE)  # the files with the progress of policies that bid


def read_curve(folder: Path) -> tuple[str, LearningCurve] | None:
    """Return the name of the training seed of a run without further seeds, and its curve; None if it has none.

    Runs of the discrete environment have curves if they begin with a market's proposals.
    """
    for name in BID_STATES:
        if (folder / name).exists():
            bids = read_state(folder / name, BidTrainingState)
            return f"seed {bids.seed}", LearningCurve(bids.validation, bids.num_episodes, bids.cpu_time)
    if (folder / CHOICE_STATE).exists():
        choices = read_state(folder / CHOICE_STATE, TrainingState)
        if choices.gains:
            return f"seed {choices.seed}", LearningCurve(choices.gains, choices.num_episodes, choices.cpu_time)
    return None


def read_curves(folder: Path) -> dict[str, LearningCurve]:
    """Return the curves of a run by training seed."""
    return dict(found for each in seed_folders(folder) or [folder] if (found := read_curve(each)))


def has_options(folder: Path) -> bool:
    """Whether a folder holds the progress of a policy that chooses options."""
    return (folder / OPTION_STATE).exists()


def write_learning_curves(folder: Path) -> None:
    """Write `learning_curves.png` into the folder of a run, over all its training seeds, if it has curves."""
    folders = seed_folders(folder) or [folder]
    if states := [read_state(each / OPTION_STATE, OptionTrainingState) for each in folders if has_options(each)]:
        title = f"{next(iter(states[0].validation['0']))}, {len(states)} training seed{'s'[: len(states) > 1]}"
        jct_curves([JctCurve.of(state) for state in states], title).savefig(folder / "learning_curves.png", dpi=120)
        return
    if runs := read_curves(folder):
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
                "policy bids, or amends a market's proposals"
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
