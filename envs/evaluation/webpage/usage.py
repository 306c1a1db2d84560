"""Resources in use over time, as averages over equal intervals."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from envs.evaluation.webpage.stays import find_stays
from envs.metrics import jobs_waiting
from envs.simulation import RunResult
from envs.types import FloatArray, Seconds

TrafficOf = Callable[[RunResult, npt.NDArray[np.void]], FloatArray]  # GB/s of each stay over all its links together


def resources_in_use(
    result: RunResult, start: Seconds, end: Seconds, num_bins: int, traffic: TrafficOf | None = None
) -> dict[str, FloatArray]:
    """Return averages over `num_bins` equal intervals between two times, by resource: float64[num_bins] each.

    "GPUs", "cores", "memory" and "links" are shares of the whole cluster from 0 to 1, "waiting" is a number of jobs.
    Cores and memory are those that jobs got at their last start or resize, at most all; they are left out where the
    scenario does not divide them. "links" is the traffic between nodes, each job alone on its links, relative to the
    bandwidth of all nodes' links; it is left out without `traffic`.
    """
    held = find_stays(result)
    nodes = result.cluster.nodes
    total = {
        "gpus": float(result.cluster.num_gpus),
        "cpus": sum(node.cpu_cores for node in nodes),
        "memory": sum(node.memory for node in nodes),
    }
    edges = np.linspace(start, end, num_bins + 1)
    shown = {"GPUs": "gpus"} | ({"cores": "cpus", "memory": "memory"} if held["cpus"].any() else {})
    found = {
        name: np.minimum(mean_held(held, held[column] / total[column], edges), 1.0) for name, column in shown.items()
    }
    if traffic is not None:
        bandwidth = sum(node.inter_node_bandwidth for node in nodes)
        found["links"] = mean_held(held, traffic(result, held) / bandwidth, edges)
    times, waiting = jobs_waiting(result)
    found["waiting"] = bin_means(times, waiting.astype(np.float64), edges)
    return found


def mean_held(held: npt.NDArray[np.void], amounts: FloatArray, edges: FloatArray) -> FloatArray:
    """Return float64[num_bins]: the sum of the amounts that are held, averaged over each interval between edges."""
    times = np.concatenate([held["start"], held["end"]])
    order = np.argsort(times, kind="stable")
    return bin_means(times[order], np.cumsum(np.concatenate([amounts, -amounts])[order]), edges)


def bin_means(times: FloatArray, values: FloatArray, edges: FloatArray) -> FloatArray:
    """Average a step function over intervals.

    Args:
        times: float64[n], ascending; `values[i]` holds from `times[i]` to `times[i + 1]`, the last one without end.
        values: float64[n]; before `times[0]` the function is 0.
        edges: float64[m + 1], the limits of m intervals, ascending.
    """
    if not len(times):
        return np.zeros(len(edges) - 1)
    last = max(times[-1], edges[-1])
    known = np.append(times, last + 1.0)
    area = np.concatenate([[0.0], np.cumsum(values * np.diff(known))])
    return np.asarray(np.diff(np.interp(edges, known, area)) / np.maximum(np.diff(edges), 1e-12))
