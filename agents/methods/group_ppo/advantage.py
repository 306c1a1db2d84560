"""Advantages of decisions: discounted cost to go against that of other episodes of the same workload."""

import numpy as np

from envs.simulation.jit import jit
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
