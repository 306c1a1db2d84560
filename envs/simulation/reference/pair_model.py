"""What the reference engine believes of two jobs on the same GPUs: `docs/world.md`, "What does a scheduler know?".

The logarithm of what model m keeps beside model n on GPU type t is a mean of the type, plus what m loses, plus how
much n harms, plus what is peculiar to the two, plus what is peculiar to the two on this type. All but the mean are
normal. Here each sample updates mean and covariance of all pairs, one after the other.
"""

import math
from collections.abc import Callable, Hashable, Iterable
from itertools import permutations, product

import numpy as np

from envs.types import FloatArray

LEAST_KEPT = 0.01  # fraction of its throughput that a job is believed to keep at least
LEAST_VARIANCE = 1e-6  # of what is peculiar to two models on a GPU type
KNOWN = 1e-15  # variance of what a sample without error tells nothing new of

ModelPair = tuple[int, int, int]  # GPU type, model, the model beside it


class PairModel:
    """Beliefs about the pairs of some models.

    Args:
        names: of the models.
        truth: float64[num_gpu_types, num_models, num_models], what they keep; 0 where they do not fit.
        every: the same of all models that the performance model knows, from which means and variances follow.
    """

    def __init__(self, names: list[str], truth: FloatArray, every: FloatArray) -> None:
        self.names, self.truth = names, truth
        self.pairs: list[ModelPair] = list(np.ndindex(*truth.shape))
        types, off = deviations(every)
        loss, harm, both, together, rest = variances(off)
        self.mean = np.array([types[gpu_type] for gpu_type, _, _ in self.pairs])
        self.covariance = np.zeros((len(self.pairs), len(self.pairs)))
        for (i, one), (j, other) in product(enumerate(self.pairs), repeat=2):
            same_two = one[1:] == other[1:]
            self.covariance[i, j] = (
                loss * (one[1] == other[1])
                + harm * (one[2] == other[2])
                + both * ((one[1] == other[2]) + (one[2] == other[1]))
                + together * same_two
                + rest * (one == other)
            )

    def see(self, gpu_type: int, model: str, beside: str, error: float, spread: float) -> None:
        """Take a sample: what a model keeps beside another, whose logarithm has an error of this standard deviation."""
        pair = gpu_type, self.names.index(model), self.names.index(beside)
        i = self.pairs.index(pair)
        column = self.covariance[:, i].copy()
        uncertain = column[i] + spread**2
        if uncertain > KNOWN:
            self.mean += column * ((math.log(self.truth[pair]) + error - self.mean[i]) / uncertain)
            self.covariance -= np.outer(column, column) / uncertain

    def factors(self) -> FloatArray:
        """float64[num_gpu_types, num_models, num_models]: medians; 0 where two models do not fit together."""
        found = np.zeros(self.truth.shape)
        for pair, mean in zip(self.pairs, self.mean.tolist(), strict=True):
            if self.truth[pair] > 0:
                found[pair] = min(max(math.exp(mean), LEAST_KEPT), 1.0)
        return found


def deviations(factors: FloatArray) -> tuple[list[float], dict[ModelPair, float]]:
    """Return the mean logarithm of each GPU type, and how far each pair that fits is from it."""
    logs = {pair: math.log(factors[pair]) for pair in np.ndindex(*factors.shape) if factors[pair] > 0}
    means = [_mean(log for pair, log in logs.items() if pair[0] == gpu_type) for gpu_type in range(len(factors))]
    return means, {pair: log - means[pair[0]] for pair, log in logs.items()}


def variances(off: dict[ModelPair, float]) -> tuple[float, float, float, float, float]:
    """Variances of loss and harm, their covariance, and the variances of what is peculiar to two models and to a type.

    Each is a mean product of two deviations that have nothing else in common: two pairs of one model on one type share
    what it loses, and so on. The covariance of a model's loss and harm is that of its pairs beside other models.
    """
    loss = max(_common(off, lambda pair: (pair[0], pair[1])), 0.0)
    harm = max(_common(off, lambda pair: (pair[0], pair[2])), 0.0)
    together = max(_common(off, lambda pair: (pair[1], pair[2])) - loss - harm, 0.0)
    rest = max(_mean(value**2 for value in off.values()) - loss - harm - together, LEAST_VARIANCE)
    lost: dict[tuple[int, int], list[float]] = {}
    harmed: dict[tuple[int, int], list[float]] = {}
    for (gpu_type, model, beside), value in off.items():
        if model != beside:
            lost.setdefault((gpu_type, model), []).append(value)
            harmed.setdefault((gpu_type, beside), []).append(value)
    products = [one * other for model in lost for one in lost[model] for other in harmed.get(model, ())]
    most = math.sqrt(loss * harm)
    both = min(max(_mean(products), -most), most)
    return loss, harm, both, together, rest


def _common(off: dict[ModelPair, float], shared: Callable[[ModelPair], Hashable]) -> float:
    """Mean product of two different deviations that share something."""
    groups: dict[Hashable, list[float]] = {}
    for pair, value in off.items():
        groups.setdefault(shared(pair), []).append(value)
    return _mean(one * other for group in groups.values() for one, other in permutations(group, 2))


def _mean(values: Iterable[float]) -> float:
    """Mean of some values; 0 without any."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else 0.0
