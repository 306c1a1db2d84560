"""Rubick's performance model in the form of its public artifact, used to reproduce the paper's table of errors.

Schedulers use the general model in `envs.performance.rubick.iteration`, which models the forward time too. Here the
forward time of every plan is *given*, and the formulas are those of the artifact, including its quirks
(`pred_throughput.py` of github.com/AlibabaPAI/reconfigurable-dl-scheduler, MLSys'25):

- time is in milliseconds, a model's size in units of 2^20 parameters;
- of the three overlaps only the one of backward pass and gradient synchronisation is a p-norm; offload and swap are
  plain sums with a constant. The repository's older branch has p-norms in all three; we assume that this is the form
  of the paper. `p_norms=True` selects it;
- tensor- and pipeline-parallel plans have no pipeline bubble: it is part of the given forward time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from envs.performance.rubick.data import ProfiledPoint
from envs.performance.rubick.iteration import MEGA, PerfParams, overlap
from envs.types import ExecutionPlan, FloatArray

Values: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
INTER_NODE = 20.0  # the artifact's constant for traffic between nodes, in M bytes per ms
_LOWER = (1.0, 1.0, 1e-8, 1e-8, 1e-8, 0.0, 0.0)  # bounds of the fit, in the order of PerfParams
_UPPER = (10.0,) + (np.inf,) * 6
_START = (1.5, 1.0, 0.001, 1.0, 1.0, 1.0, 1.0)  # the artifact starts k_sync at 0.1, outside its own bounds


@dataclass(frozen=True, slots=True)
class ArtifactLinks:
    """The two effective bandwidths of a model in the artifact, in M bytes per ms (close to GB/s)."""

    pcie: float
    nvlink: float


def data_parallel_time(
    params: PerfParams,
    links: ArtifactLinks,
    mega_params: float,
    forward: float,
    plan: ExecutionPlan,
    *,
    cpus: float = 1.0,
    recompute: float = 1.0,
    p_norms: bool = False,
) -> tuple[float, float, float]:
    """Return compute, optimizer and iteration time in ms of a data-parallel plan on one node.

    Args:
        params: the seven fitted parameters.
        links: bandwidths.
        mega_params: parameters of the model in units of 2^20.
        forward: forward time of one micro-batch, ms.
        plan: data-parallel plan; ZeRO stages count as sharded optimizer states, offload as ZeRO-Offload.
        cpus: CPU threads per GPU (ZeRO-Offload only).
        recompute: factor on the forward pass for gradient checkpointing.
        p_norms: whether the overlaps of offload and swap are p-norms instead of sums.
    """
    d, micro = plan.data, plan.accumulation
    backward = params.k_bwd * forward
    sync = micro * 8.0 * mega_params * (d - 1) / d / links.nvlink
    offload = 4.0 * mega_params / d / links.pcie if plan.offload else 0.0
    compute = float(overlap(backward, sync, params.k_sync))
    if plan.offload:
        compute = _second_overlap(compute, offload, params.k_off, p_norms)
        step = params.k_opt_off * mega_params / (d * cpus)
    else:
        step = params.k_opt * mega_params / (d if plan.zero_stage else 1)
    optimizer = _second_overlap(step, offload, params.k_swap, p_norms)
    total = recompute * micro * forward + (micro - 1) * backward + compute + optimizer + params.k_const
    return (recompute - 1) * backward + compute, optimizer, total


def model_parallel_time(
    params: PerfParams,
    links: ArtifactLinks,
    mega_params: float,
    forward: float,
    plan: ExecutionPlan,
    gpus_per_node: int,
    num_nodes: int,
    *,
    batch: int,
    sequence_hidden: float,
    layers: int,
) -> float:
    """Return the iteration time in ms of a tensor- and pipeline-parallel plan; its traffic is not overlapped."""
    d, t, p = plan.data, plan.tensor, plan.pipeline
    samples = batch // d
    tensor = 32.0 * sequence_hidden * (t - 1) / t * samples * layers / MEGA / links.nvlink
    pipeline = 16.0 * samples * sequence_hidden / t / INTER_NODE / MEGA * p if p > 1 else 0.0
    inside = gpus_per_node > t and p == num_nodes  # each pipeline stage is one node, its replicas inside
    sync = 8.0 * (d - 1) / d * mega_params / (t * p) / (links.nvlink if inside else INTER_NODE)
    compute = float(overlap(params.k_bwd * forward, sync, params.k_sync))
    return forward + compute + params.k_opt * mega_params / (t * p) + tensor + pipeline + params.k_const


def fit_artifact(
    found: Sequence[ProfiledPoint], links: ArtifactLinks, mega_params: float, *, p_norms: bool = False
) -> tuple[PerfParams, float]:
    """Fit the seven parameters to profiled points as in the artifact; return them and the remaining objective.

    The objective is the sum of the root mean squared logarithmic errors of compute, optimizer and iteration time,
    without a regulariser. Bounds, start and algorithm (L-BFGS-B with exact gradients) are the artifact's. Its
    roots have kinks where a part is fitted exactly, so the last digits depend on where the search stops.

    Args:
        found: the points.
        links: bandwidths.
        mega_params: parameters of the model in units of 2^20.
        p_norms: as in `data_parallel_time`; if true, gradients are computed by finite differences.
    """
    measured = np.log([[point.compute, point.optimizer, point.iteration] for point in found])

    from scipy import optimize  # slow to load, and only fits come here

    def errors(values: Values) -> tuple[FloatArray, FloatArray]:
        params = PerfParams(*(float(value) for value in values))
        times = [
            data_parallel_time(params, links, mega_params, q.forward, q.plan, cpus=q.cpus, p_norms=p_norms)
            for q in found
        ]
        return np.array(times), np.log(np.maximum(times, 1e-12)) - measured

    def value(values: Values) -> float:
        return float(np.sqrt((errors(values)[1] ** 2).mean(axis=0)).sum())

    def gradient(values: Values) -> FloatArray:
        if p_norms:
            return np.asarray(optimize.approx_fprime(values, value))
        times, error = errors(values)
        root = np.sqrt((error**2).mean(axis=0))
        params = PerfParams(*(float(value) for value in values))
        slopes = np.array([_slopes(params, links, mega_params, point) for point in found])
        by_part = ((error / times)[:, :, None] * slopes).mean(axis=0) / root[:, None]
        return np.asarray(by_part.sum(axis=0))

    lower = np.array(_LOWER)
    if p_norms:
        lower[5:] = 1.0
    bounds = optimize.Bounds(lower, np.array(_UPPER), keep_feasible=True)
    start = np.array(_START, dtype=np.float64)
    result = optimize.minimize(
        value, start, jac=gradient, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-11, "maxiter": 3000}
    )
    return PerfParams(*(float(value) for value in result.x)), float(result.fun)


def _slopes(params: PerfParams, links: ArtifactLinks, mega_params: float, point: ProfiledPoint) -> FloatArray:
    """Return float64[3, 7]: derivatives of compute, optimizer and iteration time by parameter; overlaps are sums."""
    d, k = point.plan.data, params.k_sync
    backward = params.k_bwd * point.forward
    sync = 8.0 * mega_params * (d - 1) / d / links.nvlink
    both = float(overlap(backward, sync, k))
    shares = np.array([backward, sync]) / both
    # (x^k + y^k)^(1/k) by k: f / k times the sum of (x / f)^k ln(x / f); x = 0 adds nothing.
    logs = np.log(shares, out=np.zeros(2), where=shares > 0)
    compute, optimizer = np.zeros(7), np.zeros(7)
    compute[0] = shares[0] ** (k - 1) * point.forward
    compute[1] = both / k * float((shares**k * logs).sum())
    if point.plan.offload:
        compute[5] = 1.0
        optimizer[3] = mega_params / (d * point.cpus)
    else:
        optimizer[2] = mega_params / (d if point.plan.zero_stage else 1)
    optimizer[6] = 1.0
    constant = np.eye(7)[4]
    return np.array([compute, optimizer, compute + optimizer + constant])


def _second_overlap(one: float, other: float, k: float, p_norms: bool) -> float:
    if p_norms:
        return float(overlap(one, other, k)) if other else one
    return one + k + other
