"""Job mixes: the models that are assigned to jobs, drawn with a seed, where a trace names none."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from envs.performance import PerformanceModel, find_throughput
from envs.performance.zoo import ALIASES, zoo_name
from envs.types import (
    BoolArray,
    ClusterSpec,
    Configuration,
    FloatArray,
    IntArray,
    PerformanceError,
    TraceError,
    constraints_of,
)


@dataclass(frozen=True)
class JobMix:
    """Models, their weights and the jobs that they are of.

    Args:
        models: names, each once.
        weights: of each model, among those that a job of its size may be of; equal if none are given.
        sizes: least and most GPUs that jobs of each model request; any if none are given.
    """

    models: Sequence[str]
    weights: Sequence[float] = ()
    sizes: Sequence[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))
        object.__setattr__(self, "weights", tuple(self.weights) or (1.0,) * len(self.models))
        if not self.models or len(set(self.models)) != len(self.models):
            raise TraceError(f"job mix: models are {list(self.models)}; name at least one, each once")
        if len(self.weights) != len(self.models):
            raise TraceError(
                f"job mix: {len(self.weights)} weights for {len(self.models)} models; give one for each model, or none"
            )
        if not all(math.isfinite(weight) and weight >= 0 for weight in self.weights) or sum(self.weights) <= 0:
            raise TraceError(f"job mix: weights are {list(self.weights)}; they must be finite, not negative, not all 0")
        object.__setattr__(self, "sizes", tuple((int(least), int(most)) for least, most in self.sizes))
        if self.sizes and len(self.sizes) != len(self.models):
            raise TraceError(
                f"job mix: {len(self.sizes)} sizes for {len(self.models)} models; give least and most GPUs for each "
                "model, or none"
            )
        if wrong := next((size for size in self.sizes if not 1 <= size[0] <= size[1]), None):
            raise TraceError(f"job mix: sizes have {list(wrong)}; least and most GPUs must be at least 1 and in order")

    def suits(self, num_gpus: int) -> BoolArray:
        """Return which models jobs of a size may be of, bool[num_models]."""
        return np.array([least <= num_gpus <= most for least, most in self.sizes or [(1, num_gpus)] * len(self.models)])


# The five models that Gavel (OSDI'20) measured on K80, P100 and V100 with 1 to 8 GPUs. None of their figures is
# extrapolated from another GPU type, so schedules on mixed clusters rest on measurements.
DEFAULT_MIX = JobMix(("resnet18", "resnet50", "transformer", "lm", "recommendation"))


def mix_for(performance: PerformanceModel, mix: JobMix | None = None) -> JobMix:
    """Return `mix` if given; else `DEFAULT_MIX` if all its models have figures; else all models with equal weights.

    Raises:
        TraceError: the mix names a model without throughput figures.
    """
    known = set(performance.models)
    if mix is None:
        return DEFAULT_MIX if known.issuperset(DEFAULT_MIX.models) else JobMix(performance.models)
    for model in mix.models:
        if model not in known:
            known_models = ", ".join(performance.models)
            raise TraceError(f"job mix: model {model!r} has no throughput figures; known: {known_models}")
    return mix


def known_as(model: str, source: str, performance: PerformanceModel) -> str | None:
    """Return the performance model's name for what a trace calls `model`; None if it has no figures for it.

    The zoo's name takes precedence: Rubick's "bert" is the zoo's bert_large, which is not the zoo's bert.
    """
    try:
        candidates = (zoo_name(model, source), ALIASES.get(model, model), model)
    except PerformanceError:
        candidates = (model, model, model)
    return next((name for name in candidates if name in performance.models), None)


class ModelThroughputs:
    """Throughputs by model, GPU type and number of GPUs on the fewest nodes; cached, in samples/s."""

    def __init__(self, performance: PerformanceModel) -> None:
        @cache
        def ask(model: str, gpu_type: str, num_gpus: int, num_nodes: int) -> float:
            return find_throughput(performance, model, Configuration(gpu_type, num_gpus, num_nodes))

        self._ask = ask

    def of(self, model: str, gpu_type: str, num_gpus: int, gpus_per_node: int) -> float:
        """Samples/s on `num_gpus` GPUs of the fewest nodes that are allowed; 0 if the model does not run there."""
        demanded = constraints_of(model).demand_nodes(num_gpus)
        return self._ask(model, gpu_type, num_gpus, max(-(-num_gpus // gpus_per_node), demanded))

    def capacity(self, model: str, num_gpus: int, cluster: ClusterSpec) -> float:
        """Samples/s if the whole cluster ran only such jobs; 0 if they run on none of its types.

        A type with fewer GPUs than one job requests counts too, because this measures demand and not fit.
        """
        per_node = node_sizes(cluster)
        return sum(
            count * self.of(model, gpu_type, num_gpus, per_node[gpu_type]) / num_gpus
            for gpu_type, count in cluster.gpus_by_type.items()
        )

    def runs(self, model: str, num_gpus: int, cluster: ClusterSpec) -> bool:
        """Whether such a job runs on a GPU type of which the cluster has enough GPUs."""
        per_node = node_sizes(cluster)
        return any(
            count >= num_gpus and self.of(model, gpu_type, num_gpus, per_node[gpu_type]) > 0
            for gpu_type, count in cluster.gpus_by_type.items()
        )


def node_sizes(cluster: ClusterSpec) -> dict[str, int]:
    """Return the GPUs of the largest node of each GPU type."""
    return {
        name: int(cluster.node_gpus[cluster.node_types == index].max()) for index, name in enumerate(cluster.gpu_types)
    }


def draw_models(
    rng: np.random.Generator, num_gpus: IntArray, mix: JobMix, runs: Callable[[str, int], bool]
) -> IntArray:
    """Draw for each job an index into `mix.models`, int64[num_jobs], from the models that run on its number of GPUs.

    Raises:
        TraceError: no model of the mix runs on a job's number of GPUs.
    """
    uniform = rng.random(len(num_gpus))
    drawn = np.zeros(len(num_gpus), dtype=np.int64)
    for size in np.unique(num_gpus):
        mask: BoolArray = mix.suits(int(size)) & [runs(model, int(size)) for model in mix.models]
        weights: FloatArray = np.asarray(mix.weights, dtype=np.float64) * mask
        if weights.sum() <= 0:
            raise TraceError(
                f"job mix: none of {', '.join(mix.models)} runs on {size} GPUs here; add a model that does, "
                f"or leave out such jobs with workload.max_gpus={size - 1}"
            )
        rows = num_gpus == size
        edges = np.cumsum(weights) / weights.sum()
        drawn[rows] = np.minimum(np.searchsorted(edges, uniform[rows], side="right"), np.flatnonzero(weights)[-1])
    return drawn
