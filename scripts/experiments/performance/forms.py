"""Forms of the step time, side by side: each is fitted to the same points and predicts the same other points.

- *ours*: `envs.performance.step_time.features`.
- *before*: the form that the project used earlier. Between nodes it has (N-1)/N and log2 N in place of (n-1)/n and
  log2(N/2), and it knows no network cards.
- *Pollux*: the form of Pollux (Qiao et al., OSDI'21, section 3.2): computation linear in the batch and communication
  linear in the number of GPUs, with other parameters on one node than on several, overlap in a p-norm.

Every form is corrected by the residuals of its fitted points in the same way, so that all of them pass through these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from envs.performance.step_time import (
    NumberArray,
    Priors,
    StepPoints,
    StepTime,
    fit_step_time,
    surface_through,
)
from envs.types import FloatArray

Fit: TypeAlias = Callable[[StepPoints, Priors, int, int], StepTime]
"""Measured steps, priors, GPUs per node, network cards per node -> surface."""

LARGEST_NORM = 10.0  # Pollux's gamma is between 1 and this
FLAT_NORM = 1e-3  # penalties as in Pollux's implementation (adaptdl): of a gamma other than 1,
FLAT_GROWTH = 1e-2  # and of growth with the number of GPUs
UNSEEN_NODES = 1.1  # communication over several nodes relative to one, as long as only one was measured (adaptdl)


def fit_ours(points: StepPoints, priors: Priors, gpus_per_node: int = 8, network_cards: int = 1) -> StepTime:
    """Fit the form of the performance model."""
    return fit_step_time(points, priors, gpus_per_node, network_cards=network_cards)


def fit_before(points: StepPoints, priors: Priors, gpus_per_node: int = 8, network_cards: int = 1) -> StepTime:
    """Fit the earlier form; `network_cards` is not used."""
    return fit_step_time(points, priors, gpus_per_node, form=earlier_features)


def earlier_features(
    num_gpus: FloatArray, num_nodes: FloatArray, local_batch: FloatArray, cards: FloatArray
) -> FloatArray:
    """Return float64[..., 6]: the factors of the earlier form's parameters; `cards` is not used."""
    columns = (
        np.ones_like(num_gpus),
        local_batch,
        (num_gpus - 1) / num_gpus,
        np.log2(num_gpus),
        (num_nodes - 1) / num_nodes,
        np.log2(num_nodes),
    )
    return np.stack(columns, axis=-1)


@dataclass(frozen=True, slots=True)
class PolluxStepTime(StepTime):
    """Pollux's form; `parameters` are its seven: alpha and beta of computation, of one node, of several; and gamma."""

    def fitted_seconds(self, num_gpus: NumberArray, num_nodes: NumberArray, local_batch: NumberArray) -> FloatArray:
        """Return seconds per step; arguments broadcast."""
        n, nodes, batch = np.broadcast_arrays(
            np.asarray(num_gpus, np.float64), np.asarray(num_nodes, np.float64), np.asarray(local_batch, np.float64)
        )
        fixed, per_sample, local, local_growth, across, growth, norm = self.parameters
        computing = fixed + per_sample * batch
        more = np.maximum(n - 2, 0)
        syncing = np.where(nodes > 1, across + growth * more, np.where(n > 1, local + local_growth * more, 0.0))
        longer, shorter = np.maximum(computing, syncing), np.minimum(computing, syncing)
        return np.asarray(longer * (1.0 + (shorter / longer) ** norm) ** (1.0 / norm))


def fit_pollux(points: StepPoints, priors: Priors, gpus_per_node: int = 8, network_cards: int = 1) -> StepTime:
    """Fit Pollux's form to the logarithms of the step times, as Pollux does; no prior is used.

    The search (L-BFGS-B over the logarithms of the parameters) starts from three norms, and the best result counts.
    """
    from scipy.optimize import minimize  # slow to load, and only fits come here

    target = np.log(points.seconds)
    shortest = float(points.seconds.min())

    def surface(x: FloatArray) -> PolluxStepTime:
        norm = 1.0 + (LARGEST_NORM - 1.0) / (1.0 + np.exp(-x[6]))
        return PolluxStepTime(np.append(np.exp(x[:6]), norm), gpus_per_node)

    def loss(x: FloatArray) -> float:
        found = surface(x)
        error = np.log(found.fitted_seconds(points.num_gpus, points.num_nodes, points.local_batch)) - target
        growth = np.exp(2 * (x[3] - x[2])) + np.exp(2 * (x[5] - x[4]))
        flat = FLAT_NORM * (found.parameters[6] - 1) ** 2 + FLAT_GROWTH * growth
        return float(np.sqrt((error**2).mean()) + flat)

    usual = np.log(shortest * np.array((0.3, 0.7 / points.local_batch.min(), 0.1, 0.02, 0.5, 0.05)))
    bounds = [(-30.0, 8.0)] * 6 + [(-10.0, 10.0)]
    results = [
        minimize(loss, np.append(usual, start), method="L-BFGS-B", bounds=bounds, options={"maxfun": 20000})
        for start in (-3.0, -1.0, 0.0)
    ]
    best = min(results, key=lambda result: float(result.fun)).x.copy()
    if not (points.num_nodes > 1).any():
        best[4:6] = best[2:4] + np.log(UNSEEN_NODES)
    return surface_through(points, surface(best))


FORMS: dict[str, Fit] = {"before": fit_before, "ours": fit_ours, "Pollux": fit_pollux}
