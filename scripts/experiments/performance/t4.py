"""Pollux's measurements on T4 machines with slow links: six fitted points per application predict the others.

The machines have 4 T4 each and one link between nodes. `placements.csv.gz` has jobs on 1 to 4 nodes, most of them
uneven, `scalability.csv.gz` on 6 to 16. The rule for the fitted points of an application: one GPU with the smallest and
with the largest batch; one point drawn from several GPUs of one node; and three drawn from even placements on several
nodes. Measured again, an arrangement differs by several per cent, so the rule is drawn `DRAWS` times.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from envs.performance.step_time import Priors, StepPoints, fit_step_time
from experiments.performance.profiles import PREDICTION_COLUMNS, read_columns

GPUS_PER_NODE = 4
DRAWS = 5
FITTED_NODES = {"up to 4 nodes": (2, 2, 4), "up to 2 nodes": (2, 2, 2)}
"""Node counts of the three fitted points on several nodes, by the name of the variant."""


def read_pollux_t4(folder: Path | str) -> pd.DataFrame:
    """Read both files of Pollux's T4 measurements.

    Returns:
        Columns model, placement (GPUs on each node as digits, ascending; empty on more than 4 nodes), num_gpus,
        num_nodes, largest and smallest (GPUs on a node; of an even spread on more than 4 nodes), local_batch
        (samples per GPU) and seconds (of a step).
    """
    common = ("application", "local_bsz", "step_time")
    small = read_columns(Path(folder) / "placements.csv.gz", ("placement", *common), text=("placement",))
    shares = small["placement"].map(lambda digits: sorted(int(digit) for digit in digits))
    small = small.assign(
        placement=shares.map(lambda gpus: "".join(map(str, gpus))),
        num_gpus=shares.map(sum),
        num_nodes=shares.map(len),
        largest=shares.map(max),
        smallest=shares.map(min),
    )
    large = read_columns(Path(folder) / "scalability.csv.gz", ("num_nodes", "num_replicas", *common))
    large = large.rename(columns={"num_replicas": "num_gpus"})
    large = large.assign(
        placement="",
        largest=-(-large["num_gpus"] // large["num_nodes"]),
        smallest=large["num_gpus"] // large["num_nodes"],
    )
    table = pd.concat((small, large), ignore_index=True)
    table = table.rename(columns={"application": "model", "local_bsz": "local_batch", "step_time": "seconds"})
    return table[["model", "placement", "num_gpus", "num_nodes", "largest", "smallest", "local_batch", "seconds"]]


def t4_errors(folder: Path | str, *, variant: str = "up to 4 nodes", seed: int = 0) -> pd.DataFrame:
    """Predict Pollux's T4 throughputs from six points per application.

    Args:
        folder: with both files.
        variant: a key of `FITTED_NODES`.
        seed: of the drawn points.

    Returns:
        The columns of `PREDICTION_COLUMNS`, with the points of all draws.
    """
    table = read_pollux_t4(folder)
    found = []
    for draw in range(DRAWS):
        rng = np.random.default_rng((seed, draw))
        for model, rows in table.groupby("model"):
            chosen = choose_fit_points(rows, FITTED_NODES[variant], rng)
            surface = fit_step_time(_steps(rows.loc[chosen]), Priors(), GPUS_PER_NODE)
            rest = rows.drop(index=chosen)
            points = _steps(rest)
            predicted = surface.seconds(points.num_gpus, points.num_nodes, points.local_batch)
            batch = rest["local_batch"] * rest["num_gpus"]
            found.append(
                rest[["num_gpus", "num_nodes"]].assign(
                    model=model,
                    batch_size=batch,
                    measured=batch / rest["seconds"],
                    predicted=batch / predicted,
                    error=rest["seconds"] / predicted - 1.0,
                )
            )
    named = pd.concat(found, ignore_index=True)
    named = named.assign(protocol=f"Pollux T4, 6 points {variant}", quantity="samples/s", gpu_type="T4")
    return named[list(PREDICTION_COLUMNS)]


def choose_fit_points(rows: pd.DataFrame, nodes: tuple[int, ...], rng: np.random.Generator) -> list[int]:
    """Return the index labels of one application's fitted points, by the rule of the module's docstring.

    Args:
        rows: of one application.
        nodes: node counts of the points on several nodes.
        rng: draws them.
    """
    small = rows[rows["placement"] != ""]
    alone = small[small["num_gpus"] == 1].sort_values("local_batch")
    chosen = [int(alone.index[0]), int(alone.index[-1])]
    node = small[(small["num_nodes"] == 1) & (small["num_gpus"] > 1)]
    chosen.append(int(rng.choice(node.index)))
    even = small[small["largest"] == small["smallest"]]
    for count in nodes:
        free = even[(even["num_nodes"] == count) & ~even.index.isin(chosen)]
        chosen.append(int(rng.choice(free.index)))
    return chosen


def _steps(rows: pd.DataFrame) -> StepPoints:
    return StepPoints(
        *(rows[name].to_numpy(np.float64) for name in ("num_gpus", "num_nodes", "local_batch", "seconds"))
    )
