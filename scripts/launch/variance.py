"""The task and the table of scripts/variance.py."""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from agents.branching.variance import VarianceShare
from agents.rllib.evolution import BiddingTask
from envs.bidding import BiddingRules
from launch.building import build_object
from launch.errors import ChoiceError
from launch.inputs import RunInputs
from launch.runs import print_frame
from launch.training import bidding_tasks


def branched_task(cfg: DictConfig, inputs: RunInputs) -> BiddingTask:
    """Build the task whose rounds are branched.

    Raises:
        ChoiceError: its nodes do not bid, or there is no market.
    """
    rules = build_object(cfg.env)
    if not isinstance(rules, BiddingRules) or not cfg.market:
        raise ChoiceError("env: only nodes that bid in a market are branched; choose env=bidding market=starling")
    name = cfg.task.name if cfg.get("task") else "workload"
    (task,) = bidding_tasks({name: inputs}, build_object(cfg.market), rules)
    return task


def print_shares(shares: Sequence[VarianceShare], confidence: float, path: Path) -> None:
    """Print a row for each horizon and tail, and write them as CSV."""
    rows = [
        {
            "horizon (s)": "whole episode" if math.isinf(found.horizon) else f"{found.horizon:g}",
            "tail": found.tail,
            "decision's share %": f"{100 * found.share:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]",
            "worth in the end": f"{found.worth:.2f} [{found.worth_low:.2f}, {found.worth_high:.2f}]",
            "deviation between decisions (job-s)": found.own,
            "deviation in one future (job-s)": found.whole,
        }
        for found in shares
    ]
    frame = pd.DataFrame(rows)
    print_frame(f"Share of the variance of a gain that belongs to the decision, {confidence:.0%} interval", frame)
    pd.DataFrame(shares).to_csv(path, index=False)
