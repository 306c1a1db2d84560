"""May a replay be believed? What was recorded beside what the incumbent does with the jobs, and why they differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from envs.types import BoolArray, ClusterSpec
from envs.types.units import DAY
from envs.workloads import Workload
from murmuration.what_if.held_back import HeldBack
from murmuration.what_if.played import Fates
from murmuration.what_if.waits import figures_of, groups_of

RESAMPLES = 2000
CLOSE, FAIR = 0.1, 1 / 3  # how far figures may be from the recorded ones


@dataclass(frozen=True)
class ReplayTrust:
    """How well a replay repeats what was recorded.

    Attributes:
        overlap: from 0 to 1, the share of GPU-hours waited that both have in the same partition on the same day: twice
            the sum of the smaller ones over the sum of both (the Bray-Curtis similarity).
        low: end of its 95 % interval, by a bootstrap over days.
        high: the other end.
        recorded: figures of the waits, see `waits.figures_of`.
        replayed: the same of the replay.
        reasons: what probably explains the difference, most GPU-hours first.
    """

    overlap: float
    low: float
    high: float
    recorded: dict[str, float]
    replayed: dict[str, float]
    reasons: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """GPU-hours waited in the replay over the recorded ones."""
        return self.replayed["GPU-hours"] / self.recorded["GPU-hours"] if self.recorded["GPU-hours"] else np.nan

    @property
    def verdict(self) -> str:
        """One sentence on whether to believe what is played."""
        if not self.recorded["GPU-hours"]:
            return "No job waited in the record, so there is nothing to compare."
        apart = {
            name: abs(self.replayed[key] - self.recorded[key]) / max(self.recorded[key], 0.01)
            for name, key in (
                ("GPU-hours", "GPU-hours"),
                ("jobs over a minute", "over a minute"),
                ("mean wait", "mean"),
            )
        }
        off = max(apart.values())
        word = "agrees with" if off <= CLOSE else "is within a third of" if off <= FAIR else "does not explain"
        advice = {
            "agrees with": "the changes below can be believed as far as their intervals say",
            "is within a third of": "read the changes below as directions, not as figures",
            "does not explain": "do not believe the changes below before the reasons are dealt with",
        }[word]
        said = ", ".join(f"{name} {value:.0%}" for name, value in apart.items())
        return f"The replay {word} the record ({said} apart): {advice}."


def compare_with_record(
    recorded: Fates, replayed: Fates, workload: Workload, cluster: ClusterSpec, jobs: BoolArray
) -> ReplayTrust:
    """Compare a replay with what was recorded.

    Args:
        recorded: of the jobs.
        replayed: of the same jobs under the incumbent.
        workload: the jobs.
        cluster: on which they were replayed.
        jobs: bool[num_jobs], those that count.
    """
    both = recorded.known & replayed.known & jobs
    overlap, low, high = overlap_of(recorded, replayed, groups_of(workload), both)
    reasons = HeldBack(recorded, replayed, workload, cluster, both).reasons() if both.any() else ()
    return ReplayTrust(overlap, low, high, figures_of(recorded, both), figures_of(replayed, both), tuple(reasons))


def overlap_of(
    recorded: Fates, replayed: Fates, groups: Sequence[str], jobs: BoolArray, seed: int = 0
) -> tuple[float, float, float]:
    """Return the overlap of GPU-hours waited by group and day, and its 95 % interval; see `ReplayTrust`."""
    if not jobs.any():
        return np.nan, np.nan, np.nan
    first = recorded.enter[jobs].min()
    length = min(DAY, max((recorded.enter[jobs].max() - first) / 20, 1.0))  # short recordings have twenty parts
    day = ((recorded.enter - first) // length)[jobs].astype(np.int64)
    _, codes = np.unique(np.asarray(groups, dtype=object)[jobs].astype(str), return_inverse=True)
    shape = (int(codes.max()) + 1, int(day.max()) + 1)
    cells = codes * shape[1] + day
    waited = [
        np.bincount(cells, (each.wait * each.gpus)[jobs], minlength=shape[0] * shape[1]).reshape(shape)
        for each in (recorded, replayed)
    ]
    common, total = 2 * np.minimum(*waited).sum(axis=0), (waited[0] + waited[1]).sum(axis=0)
    if not total.sum():
        return 1.0, 1.0, 1.0
    drawn = np.random.default_rng(seed).integers(0, shape[1], (RESAMPLES, shape[1]))
    with np.errstate(invalid="ignore"):
        shares = common[drawn].sum(axis=1) / total[drawn].sum(axis=1)
    low, high = np.nanquantile(shares, [0.025, 0.975])
    return float(common.sum() / total.sum()), float(low), float(high)
