"""Rubick's prediction errors under the protocols of the project: tables, CSV, JSON, pictures and fitted figures."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import yaml

from envs.evaluation.files import write_frame, write_whole
from envs.performance.rubick.data import find_profiles
from envs.performance.rubick.fitting import FitReport
from experiments.performance.plot import plot_predictions
from experiments.performance.reproduction import Reproduction
from experiments.performance.rubick_protocols import (
    PROTOCOLS,
    distribution,
    fit_profiles,
    prediction_errors,
    read_measured_runs,
    worst_points,
)

NUM_WORST = 10


def prediction_error(data: str, folder: Path) -> Reproduction:
    """Run the protocols on all of Rubick's public measurements.

    Writes into the run's folder `predictions.csv` (every point), `summary.json`, a picture of predicted against
    measured for each protocol, and `rubick_figures.yaml`, the fits of the `profile` protocol in the form of the
    package's own table.

    Args:
        data: folder that holds `profiles/rubick` and `profiles/rubick_fit_points`.
        folder: folder for the files.

    Raises:
        PerformanceError: the data are missing or broken.
    """
    root = find_profiles(data)
    reports = fit_profiles(read_measured_runs(root))
    errors = {protocol: prediction_errors(root, protocol, reports) for protocol in PROTOCOLS}
    whole = summarise_protocols(errors)
    _write(folder, errors, whole, reports)
    profile = errors["profile"]
    shown = [
        ("Fits of the profile protocol", _fits(reports)),
        ("Relative error in %", _percent(whole)),
        (
            "Profile protocol: error in % by model and plan class",
            _percent(distribution(profile, ("folder", "plan_class"))),
        ),
        (f"Profile protocol: the {NUM_WORST} largest errors", _worst(profile)),
    ]
    first = whole.iloc[0]
    causes = [f"cause {number}: {cause}" for number, cause in enumerate(_causes(profile), start=1)]
    return Reproduction(shown, [*causes, f"median error {first['median']:.1%} over {int(first['points'])} points"])


def summarise_protocols(errors: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Tabulate the relative errors by protocol; `profile` also without the points of its fit."""
    rows = [distribution(frame).assign(group=protocol) for protocol, frame in errors.items()]
    unseen = errors["profile"][~errors["profile"]["fitted"]]
    rows.insert(1, distribution(unseen).assign(group="profile, points not fitted on"))
    return pd.concat(rows, ignore_index=True).rename(columns={"group": "protocol"})


def figures_table(reports: Mapping[str, FitReport]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the fitted figures by model, rounded to five digits, in the form of `tables/rubick_figures.yaml`."""
    return {
        model: {
            part: {name: float(f"{value:.5g}") for name, value in values.items()}
            for part, values in asdict(report.figures).items()
        }
        for model, report in reports.items()
    }


def _write(
    folder: Path,
    errors: Mapping[str, pd.DataFrame],
    whole: pd.DataFrame,
    reports: Mapping[str, FitReport],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    every = pd.concat([frame.assign(protocol=name) for name, frame in errors.items()], ignore_index=True)
    write_frame(folder / "predictions.csv", every)
    text = json.dumps(
        {
            "predictive": whole.to_dict(orient="records"),
            "fits": {model: asdict(report) for model, report in reports.items()},
        },
        indent=1,
    )
    write_whole(folder / "summary.json", text)
    table = yaml.safe_dump(figures_table(reports), sort_keys=False, default_flow_style=None, width=120)
    write_whole(folder / "rubick_figures.yaml", table)
    for name, frame in errors.items():
        both = frame.rename(columns={"predicted_s": "predicted", "measured_s": "measured"})
        plot_predictions(both, folder / f"predicted_{name}.png", title=f"iteration in s, {name}")


def _percent(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{name: 100.0 * frame[name] for name in ("median", "mean", "p90", "maximum")})


def _fits(reports: Mapping[str, FitReport]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": list(reports),
            "points": [one.num_points for one in reports.values()],
            "RMSLE": [round(one.rmsle, 3) for one in reports.values()],
            "from the prior": [", ".join(one.from_prior) for one in reports.values()],
            "at a bound": [", ".join(one.at_bound) for one in reports.values()],
        }
    )


def _causes(errors: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(worst_points(errors, NUM_WORST)["cause"]))


def _worst(errors: pd.DataFrame) -> pd.DataFrame:
    chosen, causes = worst_points(errors, NUM_WORST), _causes(errors)
    return pd.DataFrame(
        {
            "folder": chosen["folder"],
            "plan": chosen["exec_plan"],
            "placement": chosen["placement"],
            "predicted s": chosen["predicted_s"],
            "measured s": chosen["measured_s"],
            "error %": 100.0 * chosen["error"],
            "cause": [causes.index(cause) + 1 for cause in chosen["cause"]],
        }
    )
