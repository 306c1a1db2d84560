"""Advantages of decisions: discounted cost to go against that of other episodes, or against what a critic expects."""

import numpy as np

from envs.simulation.compiled.jit import jit
from envs.types import FloatArray, IntArray


@jit
def cost_to_go(time: FloatArray, cost: FloatArray, horizon: float) -> FloatArray:
    """Discounted cost from each of these instants to the last one; float64[K].

    Between two instants cost accrues evenly. A second that lies t seconds ahead counts exp(-t / horizon).

    Args:
        time: float64[K], ascending, in s.
        cost: float64[K], what has accrued until then.
        horizon: in s; infinite for no discount.
    """
    found = np.zeros(len(time))
    for k in range(len(time) - 2, -1, -1):
        seconds = time[k + 1] - time[k]
        kept = np.exp(-seconds / horizon)
        weight = 1.0
        if seconds > 0 and horizon < np.inf:
            weight = horizon * (1.0 - kept) / seconds
        found[k] = (cost[k + 1] - cost[k]) * weight + kept * found[k + 1]
    return found


@jit
def value_at(time: FloatArray, cost: FloatArray, to_go: FloatArray, horizon: float, when: float) -> float:
    """Discounted cost from an instant on, in an episode; 0 after its end, and that of its start before it."""
    if when >= time[-1]:
        return 0.0
    k = np.searchsorted(time, when, side="right")
    if k == 0:
        return float(to_go[0])
    seconds = time[k] - time[k - 1]
    rest = time[k] - when
    kept = np.exp(-rest / horizon)
    weight = rest
    if horizon < np.inf:
        weight = horizon * (1.0 - kept)
    return float((cost[k] - cost[k - 1]) / seconds * weight + kept * to_go[k])


@jit
def leave_one_out_advantages(
    first: IntArray, time: FloatArray, cost: FloatArray, to_go: FloatArray, group_size: int, horizon: float
) -> FloatArray:
    """Advantage of every instant: the mean cost to go of the group's other episodes at this time, minus its own.

    Args:
        first: int64[B + 1], where the instants of each episode begin; the last instant of each is its end.
        time, cost, to_go: float64[first[-1]], see `cost_to_go`.
        group_size: episodes of one workload, which follow one another.
        horizon: in s.
    """
    found = np.zeros(len(time))
    for b in range(len(first) - 1):
        group = b // group_size * group_size
        for k in range(first[b], first[b + 1]):
            others = 0.0
            for c in range(group, group + group_size):
                if c != b:
                    at, end = first[c], first[c + 1]
                    others += value_at(time[at:end], cost[at:end], to_go[at:end], horizon, time[k])
            found[k] = others / (group_size - 1) - to_go[k]
    return found


def following_decisions(trajectory: IntArray) -> IntArray:
    """Return int64[D], the place of the next decision of the same trajectory; -1 for the last one of each.

    Args:
        trajectory: int64[D], the number of the trajectory of each decision; those of one are in the order of time.
    """
    order = np.argsort(trajectory, kind="stable")
    found = np.full(len(trajectory), -1)
    same = trajectory[order[1:]] == trajectory[order[:-1]]
    found[order[:-1][same]] = order[1:][same]
    return found


def explained_variance(values: FloatArray, returns: FloatArray) -> float:
    """Return the share of the variance of returns that value estimates explain; at most 1, both float64[D]."""
    return 1.0 - float(np.var(values - returns)) / max(float(np.var(returns)), 1e-9)


@jit
def lambda_advantages(
    error: FloatArray, time: FloatArray, following: IntArray, horizon: float, decay: float
) -> FloatArray:
    """Generalised advantage estimates (Schulman et al. 2016, section 3), discounted by simulated time; float64[D].

    The next decision is t ahead and costs C accrue until then. With value estimates V the temporal difference
    is d = -C + exp(-t / horizon) V(next) - V. In terms of the errors e = V - return it is
    d = exp(-t / horizon) e(next) - e, so that no costs are needed here.

    Args:
        error: float64[D], value estimate minus the return that followed.
        time: float64[D], in any unit.
        following: int64[D], see `following_decisions`; larger than the decision's own place.
        horizon: in the unit of time; infinite for no discount.
        decay: lambda, for each decision of a trajectory; 1 gives minus the error.
    """
    found = np.zeros(len(error))
    for k in range(len(error) - 1, -1, -1):
        after = following[k]
        found[k] = -error[k]
        if after >= 0:
            found[k] += np.exp(-(time[after] - time[k]) / horizon) * (error[after] + decay * found[after])
    return found
