"""The tables beside the errors of predictions: forms of the step time, uneven placements, and what is known.

Forms of the step time are fitted to the same points, on slow and on fast links.
"""

from pathlib import Path

import pandas as pd

from envs.performance.measurements import TESTBEDS, measured_points, points_to_steps, priors
from envs.performance.zoo import model_profile
from experiments.performance.forms import FORMS, Fit, fit_ours
from experiments.performance.known import check_h100, describe_measured, describe_scaled
from experiments.performance.predictions import elasticflow_errors, gavel_errors
from experiments.performance.profiles import PREDICTION_COLUMNS
from experiments.performance.reproduction import Reproduction
from experiments.performance.t4 import FITTED_NODES, compare_two_with_three_nodes, t4_errors
from experiments.performance.uneven import arrangement_scatter, summarise_uneven, uneven_ratios


def describe_model(profiles: Path | str, *, seed: int = 0) -> Reproduction:
    """Compute the tables that say how far the default model's throughputs can be trusted.

    Args:
        profiles: folder with the public profiles.
        seed: of the drawn points.

    Raises:
        PerformanceError: a file is missing or malformed.
    """
    root = Path(profiles)
    forms = compare_forms(root, seed=seed)
    slow = forms[forms["gpu_type"] == "T4"].sort_values("num_nodes", kind="stable")
    by_nodes = tabulate_forms(slow, ("protocol", "num_nodes")).sort_values("protocol", kind="stable")
    tables = (
        ("Forms of the step time, fitted to the same points", tabulate_forms(forms)),
        ("The same on T4, by number of nodes", by_nodes),
        ("Measured step times on two T4 nodes over those on three", compare_two_with_three_nodes(root / "pollux_t4")),
        ("Step time of uneven over even placements, same GPUs and nodes", summarise_uneven(uneven_ratios(root))),
        ("Measured pairs of model and GPU type", describe_measured()),
        ("Guessed pairs: throughputs scaled from another GPU type", describe_scaled()),
        ("H100 over A100: the rule, and language models", check_h100(root / "llm_foundry" / "mpt_throughput.csv")),
    )
    note = (
        "Uneven placements are priced like even ones. T4 placements that differ only in the order of their nodes "
        f"scatter by {arrangement_scatter(root):.1f} % at the median."
    )
    return Reproduction(tables, (note,))


def a800_errors(*, fit: Fit = fit_ours, most_nodes: int = 4) -> pd.DataFrame:
    """Predict Rubick's best plans on more nodes from the project's own points on up to `most_nodes`.

    Args:
        fit: the form of the surface.
        most_nodes: of the fitted points; models without a fitted point on several nodes are left out.
    """
    testbed = TESTBEDS["rubick"]
    found = []
    for (model, gpu_type), points in measured_points().items():
        seen = tuple(point for point in points if point.num_nodes <= most_nodes)
        unseen = tuple(point for point in points if point.num_nodes > most_nodes)
        if gpu_type != "A800" or not unseen or all(point.num_nodes == 1 for point in seen):
            continue
        known = priors(model_profile(model), gpu_type, testbed)
        surface = fit(points_to_steps(seen), known, testbed.gpus_per_node, testbed.network_cards)
        steps = points_to_steps(unseen)
        seconds = surface.seconds(steps.num_gpus, steps.num_nodes, steps.local_batch)
        protocol = f"Rubick A800, more nodes from up to {most_nodes}"
        for point, predicted in zip(unseen, seconds.tolist(), strict=True):
            throughput = point.batch_size / predicted
            place = (point.num_gpus, point.num_nodes, point.batch_size)
            error = throughput / point.samples_per_s - 1.0
            found.append((protocol, "samples/s", model, gpu_type, *place, point.samples_per_s, throughput, error))
    return pd.DataFrame(found, columns=list(PREDICTION_COLUMNS))


def compare_forms(profiles: Path | str, *, seed: int = 0, forms: dict[str, Fit] | None = None) -> pd.DataFrame:
    """Run the protocols that fit a form with each form.

    Args:
        profiles: folder with `gavel`, `elasticflow` and `pollux_t4`.
        seed: of the drawn points.
        forms: by name; None for all of `FORMS`.

    Returns:
        The columns of `PREDICTION_COLUMNS` and `form`.
    """
    scaling_table = Path(profiles) / "elasticflow" / "elasticflow_throughputs_long.csv"
    found = []
    for name, fit in (FORMS if forms is None else forms).items():
        frames = (
            *(t4_errors(Path(profiles) / "pollux_t4", variant=each, seed=seed, fit=fit) for each in FITTED_NODES),
            *(elasticflow_errors(scaling_table, multi_node_points=count, fit=fit) for count in (0, 1)),
            gavel_errors(Path(profiles) / "gavel" / "simulation_throughputs_isolated.csv", seed=seed, fit=fit),
            *(a800_errors(fit=fit, most_nodes=count) for count in (4, 2)),
        )
        found.append(pd.concat(frames, ignore_index=True).assign(form=name))
    return pd.concat(found, ignore_index=True)


def tabulate_forms(predictions: pd.DataFrame, by: tuple[str, ...] = ("protocol", "quantity")) -> pd.DataFrame:
    """Tabulate bias (median error), and median and 90th percentile of |error| in per cent, the forms side by side."""
    columns: dict[str, pd.Series] = {}
    for name, rows in predictions.groupby("form", sort=False):
        groups = rows.groupby(list(by), sort=False)["error"]
        sizes = rows.assign(size=rows["error"].abs()).groupby(list(by), sort=False)["size"]
        columns.setdefault("points", groups.size())
        columns[f"{name}: bias %"] = groups.median() * 100
        columns[f"{name}: median %"] = sizes.median() * 100
        columns[f"{name}: p90 %"] = sizes.quantile(0.9) * 100
    return pd.DataFrame(columns).reset_index()
