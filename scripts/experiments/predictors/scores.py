"""How well predicted run times agree with those of held-out jobs: coverage, score and error of the logarithm."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from envs.scheduling import WorkPredictor
from envs.simulation import Setup, ThroughputTable
from envs.simulation.known.predictions import facts_of, ideal_throughputs
from envs.simulation.pooled_history import LEVELS
from envs.types import FloatArray
from envs.workloads import Workload

INSIDE = (0.5, 0.75, 0.9)  # central intervals


def score_predictors(
    predictors: Mapping[str, WorkPredictor], workloads: Sequence[Workload], setup: Setup
) -> pd.DataFrame:
    """Ask each predictor about every job at its submission, beside the earlier jobs of its workload.

    Earlier jobs have run since their submission, as if none had waited, and have ended once that is their run time.

    Args:
        predictors: by name, trained.
        workloads: held out from their training.
        setup: for throughputs on the requested GPUs.

    Returns:
        One row for each predictor and job: `crps` of the logarithm of its run time, `error` of the median, and whether
        the run time is in each central interval, such as `inside 50%`.
    """
    rows = []
    for workload in workloads:
        table = ThroughputTable.of(setup, workload.models, int(workload.jobs["max_gpus"].max()))
        facts = facts_of(workload, workload.jobs["work"] / ideal_throughputs(workload, setup, table))
        for job in range(len(workload)):
            past = np.arange(job + 1)
            so_far = facts.submit[job] - facts.submit[past]
            over = so_far >= facts.run_time[past]
            over[job] = False
            asked = facts.rows(past[~over])._replace(run_time=so_far[~over])
            ended = facts.rows(past[over])
            truth = float(np.log(facts.run_time[job]))
            for name, predictor in predictors.items():
                outcomes = np.log(np.maximum(predictor.predict(asked, ended)[-1], 1e-3))
                rows.append({"predictor": name} | score_outcomes(outcomes, truth))
    return pd.DataFrame(rows)


def score_outcomes(outcomes: FloatArray, truth: float) -> dict[str, float]:
    """Score equally likely outcomes, float64[NUM_OUTCOMES] in ascending order, against the true one.

    The score is the continuous ranked probability score of the outcomes as a distribution (Gneiting and Raftery, JASA
    2007, eq. 20). The ends of intervals lie between outcomes, in proportion.
    """
    spread = np.abs(outcomes[:, None] - outcomes[None, :]).mean() / 2
    scores = {"crps": float(np.abs(outcomes - truth).mean() - spread), "error": truth - float(np.median(outcomes))}
    for level in INSIDE:
        low, high = np.interp([(1 - level) / 2, (1 + level) / 2], LEVELS, outcomes)
        scores[f"inside {level:.0%}"] = float(low <= truth <= high)
    return scores


def summarise_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each predictor: shares inside intervals, mean score, root of the mean squared error."""
    grouped = scores.groupby("predictor", sort=False)
    table = grouped[[*(f"inside {level:.0%}" for level in INSIDE), "crps"]].mean()
    return table.assign(rmse=grouped["error"].apply(lambda error: float(np.sqrt((error**2).mean())))).reset_index()
