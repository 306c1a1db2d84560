"""The measurement of scripts/coordination.py. Needs torch."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from agents.checkpoint import Checkpoint
from agents.networks import Blueprint, CoordinatedPolicy
from agents.networks.coordinated import CHOOSING
from agents.scheduler import PolicyScheduler
from envs.metrics import job_completion_times
from envs.simulation import Setup, Simulator, run_episode
from envs.types import FloatArray
from envs.workloads import Workload
from launch.errors import ChoiceError
from launch.inputs import build_inputs
from launch.policies import build_market
from launch.registry import registered
from launch.runs import print_frame
from launch.tasks import count_episodes

FigureRow = dict[str, str | float]


def compare_choosing(cfg: DictConfig, path: Path) -> None:
    """Play the policy of `cfg.checkpoint` in each way; print a row for each, and write the rows as CSV.

    Raises:
        ChoiceError: the policy's nodes do not choose together, or there is no such way to choose.
    """
    checkpoint = Checkpoint.load(cfg.checkpoint, registered(cfg))
    if not isinstance(checkpoint.network, CoordinatedPolicy):
        raise ChoiceError(
            f"checkpoint={cfg.checkpoint}: its network is {checkpoint.blueprint.target}; train with agent=coordinated"
        )
    if wrong := [name for name in cfg.choosing if name not in CHOOSING]:
        raise ChoiceError(f"choosing: {', '.join(map(str, wrong))}: no such way; there are: {', '.join(CHOOSING)}")
    inputs = build_inputs(cfg)
    workloads = inputs.source.evaluation(cfg.split)
    workloads = workloads[: count_episodes(cfg, len(workloads))]
    rows: list[FigureRow] = []
    first: FloatArray | None = None  # mean JCTs of the first row
    for most in cfg.most_decisions:
        for choosing in cfg.choosing:
            print(f"{choosing}, at most {most} decisions in a round ...", flush=True)
            policy = chooser(checkpoint, choosing, most, sampled=cfg.sampled)
            figures, jct = measure_choosing(policy, workloads, inputs.setup, inputs.seed)
            first = jct if first is None else first
            rows.append({"choosing": choosing, "most decisions": float(most), **figures, **against(jct, first)})
    frame = pd.DataFrame(rows)
    print_frame(f"{len(workloads)} episodes of {inputs.source.name}, split {cfg.split}", frame, digits=3)
    frame.to_csv(path, index=False)


def chooser(checkpoint: Checkpoint, choosing: str, most_decisions: int, *, sampled: bool) -> PolicyScheduler:
    """Return a policy with the weights of a checkpoint that chooses in one way, with so many decisions in a round."""
    options = {**checkpoint.blueprint.options, "choosing": choosing}
    network = Blueprint(checkpoint.blueprint.target, options).build(checkpoint.spec)
    network.load_state_dict(checkpoint.network.state_dict())
    rules = replace(checkpoint.rules, max_decisions=most_decisions)
    changed = replace(checkpoint, network=network, rules=rules)
    return changed.scheduler(sampled=sampled, market=build_market(checkpoint.market) if checkpoint.market else None)


def against(jct: FloatArray, first: FloatArray) -> FigureRow:
    """Return the ratio of mean JCTs to those of the first row, in geometric mean, and its paired standard error."""
    logs = np.log(jct / first)
    ratio, several = float(np.exp(logs.mean())), len(logs) > 1
    error = ratio * float(logs.std(ddof=1)) / math.sqrt(len(logs)) if several else float("nan")
    return {"/ first row": ratio, "+- paired": error}


def measure_choosing(
    policy: PolicyScheduler, workloads: Sequence[Workload], setup: Setup, seed: int
) -> tuple[FigureRow, FloatArray]:
    """Return figures, and the mean JCT of each episode in s, float64[episodes].

    The figures are conflicts as a share of claims, mean JCT in s with its standard error over episodes, and CPU ms for
    a joint decision, which includes the observation and the network.
    """
    jct, unfinished, seconds = list[float](), 0, 0.0
    counted = dict.fromkeys(("claims", "conflicts", "decisions"), 0)
    for index, workload in enumerate(workloads):
        result = run_episode(policy, Simulator(workload, setup, seed + index))
        jct.append(float(np.mean(job_completion_times(result.records))))
        unfinished += int((~result.finished).sum())
        seconds += result.decision_seconds
        for name in counted:
            counted[name] += policy.counters[name]
    figures: FigureRow = {
        "conflicts %": 100.0 * counted["conflicts"] / max(counted["claims"], 1),
        "claims": float(counted["claims"]),
        "mean JCT (s)": float(np.mean(jct)),
        "+-": float(np.std(jct, ddof=1) / np.sqrt(len(jct))) if len(jct) > 1 else float("nan"),
        "unfinished": float(unfinished),
        "ms per decision": 1e3 * seconds / max(counted["decisions"], 1),
    }
    return figures, np.array(jct)
