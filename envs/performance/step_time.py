"""Time of one data-parallel step: a model that is linear in its parameters, corrected by the measurements.

    t(n, N, b) = alpha + beta b                                computation of b samples on one GPU
               + kappa_1 (n-1)/n + kappa_2 log2 n              all-reduce among n GPUs: volume, and steps or stragglers
               + (kappa_3 (n-1)/n + kappa_4 log2(N/2)) / c     the same over the links between nodes, if N > 1

for n GPUs on N nodes, with all six parameters at least zero, in seconds. (n-1)/n is the share of the gradients' bytes
that crosses each link in a ring all-reduce: as soon as a job has two nodes, the slow link between them carries that
share. log2 is the depth of a tree; it also grows as slowly as the largest of n similar random delays. c is the number
of network cards in use on the node with the fewest GPUs (`cards_in_use`); it is 1 unless the machine has several cards
per node. There is no overlap term: computation that hides communication makes kappa smaller. The form is ours, and
linear in its parameters, so that one non-negative least squares fits it in well under a millisecond.
`experiments.performance.forms` compares it with other forms on the same fitted points; docs/performance.md has
the errors. With (N-1)/N and log2 N between nodes, steps over slow links were predicted much too long beyond the node
counts of the fit.

The surface passes through every measured point: the residual, the logarithm of measured over fitted time, is
interpolated around the points by inverse distance weighting, and fades to nothing a factor of `FADE` away.
`BATCH_WEIGHT` was chosen on Gavel's points, on halves drawn with seeds 100 to 103, which the validation does not use.
With 1 instead, errors are half a per cent higher.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from envs.types import FloatArray, IntArray, PerformanceError

NumberArray: TypeAlias = FloatArray | IntArray

FADE = 16.0  # factor in GPUs, batch or spread at which a residual has the same weight as no correction
_PRIOR_WEIGHT = 1e-3  # of a deviation from the prior by one step's time, against an error of one step's time
_NOTHING_WEIGHT = 1e3  # the same of a parameter that no point can tell from another and that is left out
POWER = 4.0  # of the inverse distance
BATCH_WEIGHT = 0.5  # of a factor in batch against one in GPUs: residuals depend on machines more than on batches


@dataclass(frozen=True, slots=True)
class StepPoints:
    """Measured steps: arrays of equal length."""

    num_gpus: FloatArray
    num_nodes: FloatArray
    local_batch: FloatArray  # samples per GPU and step
    seconds: FloatArray  # of one step

    def __post_init__(self) -> None:
        for column in ("num_gpus", "num_nodes", "local_batch", "seconds"):
            values = getattr(self, column)
            bad = ~(np.isfinite(values) & (values > 0))
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise PerformanceError(
                    f"profile: row {row}: {column} is {values[row]}; it must be positive and finite, remove the row"
                )

    def __len__(self) -> int:
        return len(self.seconds)


@dataclass(frozen=True, slots=True)
class Priors:
    """Values of the parameters that no measured point determines.

    By default computation takes all of the time. For a zoo model the all-reduce follows from the bytes of its gradients
    and the links (`envs.performance.measurements.priors`).
    """

    fixed_share: float = 0.1  # alpha as a share of the shortest one-GPU step
    intra_seconds: float = 0.0  # kappa_1
    inter_seconds: float = 0.0  # kappa_3


def features(num_gpus: FloatArray, num_nodes: FloatArray, local_batch: FloatArray, cards: FloatArray) -> FloatArray:
    """Return float64[..., 6]: the factors of the six parameters; arguments of equal shapes."""
    across = (num_nodes > 1) / cards
    return np.stack(
        (
            np.ones_like(num_gpus),
            local_batch,
            (num_gpus - 1) / num_gpus,
            np.log2(num_gpus),
            across * (num_gpus - 1) / num_gpus,
            across * np.log2(np.maximum(num_nodes, 2) / 2),
        ),
        axis=-1,
    )


def cards_in_use(num_gpus: FloatArray, num_nodes: FloatArray, gpus_per_node: int, network_cards: int) -> FloatArray:
    """Return the network cards of the GPUs on the node with the fewest: an even spread, cards shared by equal groups.

    A ring between nodes runs at the bandwidth of the node that has the fewest cards in it.
    """
    cards = np.ceil(np.floor(num_gpus / num_nodes) * network_cards / gpus_per_node)
    return np.asarray(np.clip(cards, 1, network_cards))


@dataclass(frozen=True, slots=True)
class StepTime:
    """A fitted surface of step times."""

    parameters: FloatArray  # float64[6], seconds: alpha, beta, kappa_1 ... kappa_4
    gpus_per_node: int
    points: StepPoints | None = None  # measured points of the residuals
    residuals: FloatArray | None = None  # float64[num_points]: log(measured / fitted)
    network_cards: int = 1  # per node, in the measurement

    def fitted_seconds(self, num_gpus: NumberArray, num_nodes: NumberArray, local_batch: NumberArray) -> FloatArray:
        """Return seconds per step by the six parameters alone; arguments broadcast."""
        n, nodes, b = _broadcast(num_gpus, num_nodes, local_batch)
        cards = cards_in_use(n, nodes, self.gpus_per_node, self.network_cards)
        return np.asarray(features(n, nodes, b, cards) @ self.parameters)

    def seconds(self, num_gpus: NumberArray, num_nodes: NumberArray, local_batch: NumberArray) -> FloatArray:
        """Return seconds per step, corrected by the measured points; arguments broadcast."""
        base = self.fitted_seconds(num_gpus, num_nodes, local_batch)
        if self.points is None or self.residuals is None:
            return base
        here = coordinates(num_gpus, num_nodes, local_batch, self.gpus_per_node)
        there = coordinates(self.points.num_gpus, self.points.num_nodes, self.points.local_batch, self.gpus_per_node)
        return np.asarray(base * np.exp(_weigh_residuals(here, there, self.residuals)))

    def scale(self, ratio: float, gpu_share: float) -> "StepTime":
        """Return the surface on a GPU `ratio` times as fast: only the GPU's share of computation shrinks."""
        factor = (1.0 - gpu_share) + gpu_share / ratio
        parameters = self.parameters.copy()
        parameters[:2] *= factor
        return replace(self, parameters=parameters)


def coordinates(
    num_gpus: NumberArray, num_nodes: NumberArray, local_batch: NumberArray, gpus_per_node: int
) -> FloatArray:
    """Return float64[..., 3]: log2 of GPUs, of samples per GPU (times `BATCH_WEIGHT`), and of nodes over the fewest."""
    n, nodes, b = _broadcast(num_gpus, num_nodes, local_batch)
    fewest = np.minimum(np.ceil(n / gpus_per_node), nodes)
    return np.stack((np.log2(n), BATCH_WEIGHT * np.log2(b), np.log2(nodes / fewest)), axis=-1)


def _broadcast(num_gpus: NumberArray, num_nodes: NumberArray, local_batch: NumberArray) -> tuple[FloatArray, ...]:
    return np.broadcast_arrays(
        np.asarray(num_gpus, np.float64), np.asarray(num_nodes, np.float64), np.asarray(local_batch, np.float64)
    )


def _weigh_residuals(here: FloatArray, there: FloatArray, residuals: FloatArray) -> FloatArray:
    square = ((here[..., None, :] - there) ** 2).sum(axis=-1)
    weight = 1.0 / np.maximum(square, 1e-12) ** (POWER / 2)
    nothing = 1.0 / np.log2(FADE) ** POWER
    return np.asarray((weight @ residuals) / (weight.sum(axis=-1) + nothing))


def fit_step_time(
    points: StepPoints,
    priors: Priors,
    gpus_per_node: int = 8,
    *,
    network_cards: int = 1,
    carry: bool = True,
) -> StepTime:
    """Fit the surface of least relative error to measured steps.

    Args:
        points: measured steps, at least one.
        priors: for parameters that the points do not determine.
        gpus_per_node: of the machines in the measurement.
        network_cards: per node of these machines.
        carry: whether the surface keeps residuals, or only the six parameters.

    Raises:
        PerformanceError: no points.
    """
    from scipy.optimize import nnls  # slow to load, and only fits come here

    if len(points) == 0:
        raise PerformanceError("profile: has no measured point; give at least one")
    cards = cards_in_use(points.num_gpus, points.num_nodes, gpus_per_node, network_cards)
    design = features(points.num_gpus, points.num_nodes, points.local_batch, cards) / points.seconds[:, None]
    shortest = float(points.seconds.min())
    smallest = float(points.local_batch.min())
    guesses = np.array(
        (
            priors.fixed_share * shortest,
            (1 - priors.fixed_share) * shortest / smallest,
            priors.intra_seconds,
            0.0,
            priors.inter_seconds,
            0.0,
        )
    )
    weights = np.full(6, _PRIOR_WEIGHT)
    if (points.num_gpus / points.num_nodes).min() >= gpus_per_node:
        # No point tells communication within a node from computation. It is left in the computation, so that fewer
        # GPUs than a node has are not extrapolated to a higher throughput per GPU than was ever measured.
        guesses[2:4], weights[2:4] = 0.0, _NOTHING_WEIGHT
    # Parameters are in units of the shortest step so that all priors have the same weight.
    prior_rows = np.diag(weights / np.array((shortest, shortest / smallest, *[shortest] * 4)))
    stacked = np.vstack((design, prior_rows))
    parameters, _ = nnls(stacked, np.concatenate((np.ones(len(points)), prior_rows @ guesses)))
    bare = StepTime(np.asarray(parameters, np.float64), gpus_per_node, network_cards=network_cards)
    return surface_through(points, bare) if carry else bare


def surface_through(points: StepPoints, bare: StepTime) -> StepTime:
    """Return a fitted surface, corrected by residuals so that it passes through measured steps.

    Args:
        points: measured steps.
        bare: the surface of the parameters alone.
    """
    residuals = np.log(points.seconds / bare.fitted_seconds(points.num_gpus, points.num_nodes, points.local_batch))
    return replace(bare, points=points, residuals=residuals)
