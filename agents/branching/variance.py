"""How much of what a branch is worth belongs to its decision, and how much to what follows, by the branch's length.

At random rounds of training episodes, several decisions are drawn around a policy's. Each is played on in several
sampled futures, the same ones for all. A gain is what a decision saves against the mean of all in one future. By the
two-way analysis of variance without replication (decisions x futures; McGraw and Wong, Psychological Methods 1996, the
case C,1), its variance is the sum of a part that belongs to the decision, in whichever future, and of the rest.

A short branch has a large share, and may be wrong all the same: what a decision gains at first it may lose later. So
the parts that belong to the decision are compared, too, by their covariance over decisions: by how much a decision
is better over the whole episode for each job-second by which it is better in the short branch.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import bootstrap

from agents.bidding.scheduler import bids_on
from agents.branching.exploration import arms_around, explore
from agents.branching.sampling import copy_changes, equal_changes
from agents.networks.bidding import BidNetwork
from agents.rllib.evolution import BiddingTask
from agents.seeding import Phase, derive_seed
from envs.bidding import BiddingBatch
from envs.episodes.backlog import backlog_seconds, observe_backlog
from envs.episodes.branches import Branches
from envs.episodes.candidates import Features
from envs.types import FloatArray, MurmurationError, Seconds

TAILS = ("none", "backlog")  # what is added where a branch is cut
DRAWS = 8  # sets of arms that are drawn until enough of them change the market's decision
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class VarianceSettings:
    """What is measured.

    Attributes:
        decisions: branched rounds.
        arms: decisions that are compared in each, the policy's own among them.
        futures: sampled futures of each, in which other jobs arrive.
        horizons: lengths of branches in s, ascending; infinite for the whole episode.
        round_share: share of the rounds that are branched, in as many episodes as are needed.
        explored_share: see `BranchSettings`.
        sigma: see `BranchSettings`.
        confidence: of the intervals.
    """

    decisions: int = 40
    arms: int = 6
    futures: int = 8
    horizons: tuple[Seconds, ...] = (250.0, 500.0, 1000.0, 2000.0, 5000.0, 20_000.0, math.inf)
    round_share: float = 0.05
    explored_share: float = 0.25
    sigma: float = 0.2
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name, least in (("decisions", 2), ("arms", 2), ("futures", 2)):
            if not getattr(self, name) >= least:
                raise MurmurationError(f"measure.{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("round_share", "explored_share", "confidence"):
            if not 0 < getattr(self, name) <= 1:
                raise MurmurationError(f"measure.{name} is {getattr(self, name)}; it must be above 0 and at most 1")
        if not self.sigma > 0:
            raise MurmurationError(f"measure.sigma is {self.sigma}; it must be positive")
        ascending = all(one < other for one, other in zip(self.horizons, self.horizons[1:], strict=False))
        if not self.horizons or self.horizons[0] <= 0 or not ascending:
            raise MurmurationError(f"measure.horizons is {list(self.horizons)}; it must be positive and ascending")


class VarianceShare(NamedTuple):
    """The result for one horizon and tail.

    Attributes:
        horizon: in s.
        tail: one of `TAILS`.
        share: of the variance that belongs to the decision; an unbiased estimate of a small one can be negative.
        low, high: its confidence interval, over branched rounds.
        worth: job-seconds that a decision saves over the longest horizon, without tail, for each one that it saves
            here; 1 would be right, and 0 would say nothing about it.
        worth_low, worth_high: its confidence interval.
        own: standard deviation over decisions of what they save on average, in job-seconds; 0 if not seen.
        whole: standard deviation of what they save in one future, in job-seconds.
    """

    horizon: Seconds
    tail: str
    share: float
    low: float
    high: float
    worth: float
    worth_low: float
    worth_high: float
    own: float
    whole: float


def measure_shares(
    task: BiddingTask, network: BidNetwork, settings: VarianceSettings, seed: int, tell: Callable[[int], None]
) -> list[VarianceShare]:
    """Measure the share of variance that belongs to decisions of a policy, by horizon and tail.

    Args:
        task: world, training workloads, and the market that plays branches.
        network: the policy.
        settings: see its class.
        seed: of workloads, rounds and bids.
        tell: called with the number of rounds that have been branched.
    """
    costs = []
    for cost in branch_costs(task, network, settings, seed):
        costs.append(cost)
        tell(len(costs))
        if len(costs) == settings.decisions:
            break
    shaped = np.array(costs)  # [decisions, tails, horizons, arms, futures]
    last = shaped[:, 0, -1]
    rng = np.random.default_rng(derive_seed(seed, Phase.AUDIT))
    return [
        summarise_share(horizon, name, shaped[:, i, h], last, settings.confidence, rng)
        for h, horizon in enumerate(settings.horizons)
        for i, name in enumerate(TAILS)
        if not (math.isinf(horizon) and name != "none")
    ]


def covariance_parts(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Return unbiased estimates of the covariance of two costs that belongs to decisions, and of the rest.

    Args:
        one, other: float64[arms, futures]; twice the same for variances.
    """
    arms, futures = one.shape
    centred = [costs - costs.mean(axis=0) for costs in (one, other)]
    by_arm = [costs.mean(axis=1) for costs in centred]
    within = [costs - means[:, None] for costs, means in zip(centred, by_arm, strict=True)]
    rest = float((within[0] * within[1]).sum()) / ((arms - 1) * (futures - 1))
    return float((by_arm[0] * by_arm[1]).sum()) / (arms - 1) - rest / futures, rest


def summarise_share(
    horizon: Seconds, tail: str, costs: FloatArray, last: FloatArray, confidence: float, rng: np.random.Generator
) -> VarianceShare:
    """Join the costs of branched rounds, float64[decisions, arms, futures], for one horizon and for the longest."""
    own, rest = np.array([covariance_parts(each, each) for each in costs]).T
    shared = np.array([covariance_parts(each, long)[0] for each, long in zip(costs, last, strict=True)])
    share = interval_of_ratio(own, own + rest, confidence, rng)
    worth = interval_of_ratio(shared, own, confidence, rng)
    whole = float((own + rest).mean())
    deviations = math.sqrt(max(float(own.mean()), 0.0)), math.sqrt(whole)
    return VarianceShare(horizon, tail, *share, *worth, *deviations)


def interval_of_ratio(
    above: FloatArray, below: FloatArray, confidence: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return a ratio of sums, float64[n] each, and its bootstrap interval; 0 where the sum below is not positive."""

    def ratio(above: FloatArray, below: FloatArray, axis: int = -1) -> FloatArray:
        total = below.sum(axis=axis)
        found: FloatArray = np.where(total > 0, above.sum(axis=axis) / np.where(total > 0, total, 1.0), 0.0)
        return found

    found = bootstrap(
        (above, below),
        ratio,
        paired=True,
        vectorized=True,
        method="percentile",
        confidence_level=confidence,
        n_resamples=RESAMPLES,
        rng=rng,
    ).confidence_interval
    return float(ratio(above, below)), float(found.low), float(found.high)


@torch.inference_mode()
def branch_costs(task: BiddingTask, network: BidNetwork, settings: VarianceSettings, seed: int) -> Iterator[FloatArray]:
    """Yield, without end, what branches of a round cost: float64[len(TAILS), horizons, arms, futures] in job-seconds.

    Rounds are those of training episodes that the policy plays. Those in which too few decisions differ are left out.
    """
    batch = task.batch(1)
    branches = Branches(batch, settings.arms * settings.futures, task.market)
    for number in range(10**9):
        rng = np.random.default_rng(derive_seed(seed, Phase.SAMPLING, number))
        batch.load(0, task.source.episode(rng, "train"), rng)
        while not batch.ended[0]:
            means = bids_on(network, batch.observation)
            if rng.random() < settings.round_share:
                arms = differing_arms(batch, means[0], settings, rng)
                if len(arms) == settings.arms:
                    yield costs_of_arms(task, batch, branches, arms, settings, rng)
            batch.step(means)


def differing_arms(
    batch: BiddingBatch, means: Features, settings: VarianceSettings, rng: np.random.Generator
) -> list[Features]:
    """Draw bids around a policy's for the present round, on each of which the market decides differently.

    Returns:
        Up to `settings.arms` bids float32[num_nodes, num_pairs, num_bids]; the policy's are the first.
    """
    pair_jobs = batch.auction.arrays.pair_jobs[0]
    arms, known = [means], [copy_changes(batch.auction.clear(means[None]))]
    shape = batch.spec.num_job_rows, settings.arms, means.shape[-1]
    for _ in range(DRAWS if (pair_jobs >= 0).any() else 0):
        noise = explore(pair_jobs, *shape, settings.explored_share, rng)
        for bids in arms_around(means, noise, pair_jobs, settings.sigma):
            changes = batch.auction.clear(bids[None])
            if len(arms) < settings.arms and not any(equal_changes(each, changes, 0) for each in known):
                arms.append(bids.copy())
                known.append(copy_changes(changes))
    return arms


def costs_of_arms(
    task: BiddingTask,
    batch: BiddingBatch,
    branches: Branches,
    arms: Sequence[Features],
    settings: VarianceSettings,
    rng: np.random.Generator,
) -> FloatArray:
    """Play all arms of a round in all futures; return their costs, see `branch_costs`."""
    everywhere = np.arange(branches.size)
    here = np.zeros(settings.futures, np.int64)  # the only episode of the batch
    futures = [task.source.episode(rng, "train") for _ in range(settings.futures)]
    branches.copy(everywhere, np.zeros(branches.size, np.int64))
    for place in everywhere.tolist():
        branches.redraw_arrivals(place, 0, futures[place % settings.futures])
    for arm, bids in enumerate(arms):
        own = everywhere.reshape(settings.arms, settings.futures)[arm]
        branches.plan(own, batch.auction.clear(bids[None]), here)
    began, paid, costs = float(batch.time[0]), np.zeros(branches.size), []
    for horizon in settings.horizons:
        paid += branches.play(everywhere, np.full(branches.size, began + horizon)).total()
        left = backlog_seconds(observe_backlog(branches.state, branches.table, everywhere))
        costs.append([paid.copy(), paid + left])
    shaped = np.array(costs).reshape(len(costs), len(TAILS), settings.arms, settings.futures)
    return np.ascontiguousarray(shaped.swapaxes(0, 1))
