"""The table of scripts/interface.py."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from envs.evaluation.files import write_frame
from envs.options.interface import InterfaceLoss
from murmuration.runs.comparing import print_frame


def print_interface(found: Mapping[str, InterfaceLoss], path: Path) -> None:
    """Print a row for each scheduler and the jobs that differ by reason, and write both as CSV."""
    rows = []
    for name, loss in found.items():
        count = loss.count
        rows.append(
            {
                "scheduler": name,
                "rounds": count.rounds,
                "equal rounds %": 100 * loss.equal_rounds,
                "equal GPUs %": 100 * loss.equal_gpus,
                "rounds naming more %": 100 * loss.named_rounds,
                "changed jobs": count.jobs,
                "equal jobs %": 100 * loss.equal_jobs,
                "decisions per round": count.decisions / max(count.rounds, 1),
                "mean JCT (s)": loss.mean_jct,
                "through options (s)": loss.demonstrated_jct,
                "ratio": loss.jct_ratio,
            }
        )
    frame = pd.DataFrame(rows)
    print_frame("Allocations through options", frame)
    reasons = pd.DataFrame({name: loss.count.reasons for name, loss in found.items()}).fillna(0).astype(int)
    reasons.index.name = "jobs that differ"
    if len(reasons):
        print_frame("Jobs that differ from what the scheduler asked for", reasons.sort_index().reset_index())
    write_frame(path, frame.merge(reasons.T.rename_axis("scheduler").reset_index(), how="left"))
