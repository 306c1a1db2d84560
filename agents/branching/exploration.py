"""Gaussian bids: noise around a policy's means, on a few jobs at a time, and its probability under another policy.

The market averages most of what nodes say about a job. Noise that each node drew for itself would cancel out there. So
all nodes share the noise of a job's other bids, and a policy's mean is the average that
the market takes. Only affinity has noise of its own for each node. Jobs that are not explored keep their means; which
ones are explored does not depend on the policy.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from envs.bidding.columns import BID_AFFINITY, PAIR_GPUS, PAIR_PROPOSED_GPUS
from envs.episodes.candidates import Features


def shared_bids(num_bids: int) -> tuple[int, ...]:
    """Return the columns of an action in which all nodes share the noise: all but affinity."""
    return tuple(i for i in range(num_bids) if i != BID_AFFINITY)


class Exploration(NamedTuple):
    """Standard normal noise of the arms of one round.

    Attributes:
        jobs: float32[num_arms, num_job_rows, num_bids - 1], 0 for jobs that are not explored.
        pairs: float32[num_arms, num_nodes, num_pairs], of affinities, likewise.
        explored: bool[num_arms, num_job_rows].
    """

    jobs: Features
    pairs: Features
    explored: npt.NDArray[np.bool_]


def explore(
    pair_jobs: npt.NDArray[np.int32],
    num_rows: int,
    num_arms: int,
    num_bids: int,
    share: float,
    rng: np.random.Generator,
) -> Exploration:
    """Draw the noise of one round, in which at least one job must be shown.

    Args:
        pair_jobs: int32[num_nodes, num_pairs], the row of each pair, -1 for none.
        num_rows: rows of jobs.
        num_arms: number of arms.
        num_bids: bids for each pair.
        share: share of the jobs that each arm explores; at least one.
        rng: source of the noise.
    """
    shown = np.unique(pair_jobs[pair_jobs >= 0])
    explored = np.zeros((num_arms, num_rows), np.bool_)
    drawn = rng.random((num_arms, len(shown))) < share
    drawn[np.arange(num_arms), rng.integers(len(shown), size=num_arms)] = True
    explored[:, shown] = drawn
    jobs = rng.standard_normal((num_arms, num_rows, num_bids - 1), dtype=np.float32)
    pairs = rng.standard_normal((num_arms, *pair_jobs.shape), dtype=np.float32)
    of_pairs = explored[:, np.maximum(pair_jobs, 0)] & (pair_jobs >= 0)
    return Exploration(jobs * explored[..., None], pairs * of_pairs, explored)


def arms_around(means: Features, noise: Exploration, pair_jobs: npt.NDArray[np.int32], sigma: float) -> Features:
    """Return the bids of all arms, within -1 ... 1.

    Args:
        means: float32[num_nodes, num_pairs, num_bids], the policy's.
        noise: of the round.
        pair_jobs: as in `explore`.
        sigma: standard deviation of a bid.

    Returns:
        float32[num_arms, num_nodes, num_pairs, num_bids].
    """
    arms = np.repeat(means[None], len(noise.jobs), axis=0)
    arms[..., BID_AFFINITY] += sigma * noise.pairs
    present = (pair_jobs >= 0)[..., None]
    arms[..., shared_bids(means.shape[-1])] += sigma * noise.jobs[:, np.maximum(pair_jobs, 0)] * present
    return np.clip(arms, -1.0, 1.0, out=arms)


def log_ratios(
    means: Tensor, before: Tensor, observation: dict[str, Tensor], noise: dict[str, Tensor], sigma: float
) -> Tensor:
    """Return the logarithms of new over old probabilities of what arms did to each job, [B, num_arms, num_job_rows].

    With d the change of a mean in units of `sigma`, a bid with noise e has log ratio e d - d^2 / 2; a job's is the sum
    over its bids. It is 0 for jobs that are not explored.

    Args:
        means: float32[B, N, P, num_bids], of the new policy.
        before: likewise, of the policy that sampled.
        observation: of the rounds.
        noise: `jobs`, `pairs` and `explored` of `Exploration` with a leading axis B.
        sigma: standard deviation of a bid.
    """
    change = (means - before) / sigma
    pair_jobs = observation["pair_jobs"].long()
    batch, rows = len(pair_jobs), noise["jobs"].shape[2]
    place = torch.where(pair_jobs >= 0, pair_jobs, rows).flatten(1)  # pairs without a job go to one more row
    weight = market_weights(observation["pairs"]).flatten(1)
    total = weight.new_zeros(batch, rows + 1).scatter_add(1, place, weight)
    shared = change[..., shared_bids(means.shape[-1])].flatten(1, 2) * weight[..., None]
    index = place[..., None].expand_as(shared)
    of_jobs = shared.new_zeros(batch, rows + 1, shared.shape[-1]).scatter_add(1, index, shared)
    of_jobs = (of_jobs / total.clamp(min=1.0)[..., None])[:, None, :rows]
    ratios = (noise["jobs"] * of_jobs - of_jobs**2 / 2).sum(-1)
    affinity = change[:, None, :, :, BID_AFFINITY]
    of_pairs = (noise["pairs"] * affinity - affinity**2 / 2).flatten(2)
    arms = of_pairs.shape[1]
    own = of_pairs.new_zeros(batch, arms, rows + 1).scatter_add(2, place[:, None].expand(-1, arms, -1), of_pairs)
    found: Tensor = (ratios + own[..., :rows]) * noise["explored"]
    return found


def market_weights(pairs: Tensor) -> Tensor:
    """Return what each node's word counts in the market's average, [B, N, P]; see `envs.bidding.bids`."""
    return torch.exp2(8.0 * pairs[..., PAIR_GPUS]) + torch.exp2(8.0 * pairs[..., PAIR_PROPOSED_GPUS]) - 1.0
