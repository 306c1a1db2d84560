"""The interface of performance models, and the simplest model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Protocol

from envs.performance.constrained import allows
from envs.types import Configuration, PerformanceError, plain_type, without_constraints

GREATEST_THROUGHPUT = 1e15  # samples/s; products with numbers of GPUs and seconds stay finite


class PerformanceModel(Protocol):
    """Throughput of a job on given resources. Pure: equal arguments give equal results.

    Throughputs are in samples per second, memory is in gigabytes, bandwidth in gigabytes per second. With a plan of
    None, more GPUs, cores or memory never lower the throughput, and more nodes with equal GPUs never raise it: a job
    leaves resources idle that do not help it. A given plan or batch size is used as it is. The world may lower a
    throughput over several nodes to what their links carry; see `counts_links`.
    """

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that the performance model knows."""
        ...

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return samples per second of one job; 0.0 if the job does not fit.

        Args:
            model: a name in `models`.
            configuration: GPUs, plan, batch size, CPU and memory of the job.

        Raises:
            PerformanceError: the model or GPU type is unknown, the plan cannot be laid out on the GPUs, or the batch
                size is out of the model's range.
        """
        ...


def find_throughput(performance: PerformanceModel, model: str, configuration: Configuration) -> float:
    """Return what a performance model states for a configuration, which must be a possible throughput.

    Everything that asks a performance model goes through here, since a user's own may return anything. It knows neither
    constraints of jobs nor pools and features of nodes: a throughput is 0 where constraints forbid the configuration.

    Raises:
        PerformanceError: it is not a number from 0 to `GREATEST_THROUGHPUT`; and what the performance model raises.
    """
    if not allows(model, configuration):
        return 0.0
    plain, model = plain_type(configuration.gpu_type), without_constraints(model)
    if plain != configuration.gpu_type:
        configuration = replace(configuration, gpu_type=plain)
    found = performance.throughput(model, configuration)
    if isinstance(found, Real) and not isinstance(found, bool) and 0.0 <= found <= GREATEST_THROUGHPUT:
        return float(found)
    text = " ".join(repr(found).split())
    raise PerformanceError(
        f"{type(performance).__name__}.throughput({model!r}, {configuration}) is {text[:80]}; it must be a number of "
        f"samples/s from 0, where the job does not fit, to {GREATEST_THROUGHPUT:g}"
    )


def check_nodes_have_gpus(model: str, configuration: Configuration) -> None:
    """Check that a configuration has a GPU on each of its nodes.

    Raises:
        PerformanceError: it has not; the message names the model of the job.
    """
    num_gpus, num_nodes = configuration.num_gpus, configuration.num_nodes
    if not 1 <= num_nodes <= num_gpus:
        raise PerformanceError(
            f"model {model}: {num_gpus} GPUs on {num_nodes} nodes; use at least one node, and a GPU on each node"
        )


def throughput_sources(
    performance: PerformanceModel, models: Sequence[str], gpu_types: Sequence[str]
) -> dict[str, list[str]]:
    """Group "model on GPU type" pairs by the provenance of their throughput.

    Returns:
        Pairs by the result of the performance model's `provenance(model, gpu_type)`, for example "measured" or
        "guessed". All pairs are under "not stated" if the performance model has no such method.
    """
    provenance = getattr(performance, "provenance", None)
    found: dict[str, list[str]] = {}
    for model in dict.fromkeys(map(without_constraints, models)):
        for gpu_type in dict.fromkeys(map(plain_type, gpu_types)):
            source = str(provenance(model, gpu_type)) if provenance else "not stated"
            found.setdefault(source, []).append(f"{model} on {gpu_type}")
    return found


def cpu_scale(performance: PerformanceModel, model: str, gpu_type: str) -> float:
    """Return how many cores a GPU of a type needs for one core in the performance model's figures on cores.

    It is the result of the performance model's `cpu_scale(model, gpu_type)`, and 1 if it has no such method.
    """
    scale = getattr(performance, "cpu_scale", None)
    return float(scale(without_constraints(model), plain_type(gpu_type))) if scale else 1.0


def counts_links(performance: PerformanceModel) -> bool:
    """Return whether a performance model's throughputs count the links between nodes at their own bandwidth.

    It is the performance model's attribute `counts_links`, and False if it has none. The world adds no limit by links
    to the throughputs of such a model (`docs/world.md`).
    """
    return bool(getattr(performance, "counts_links", False))


@dataclass(frozen=True)
class IdealModel:
    """Every GPU of every type processes one sample per second, in any placement.

    Scaling is linear, so work is in GPU-seconds. Used for schedules computed by hand and for comparison with simulators
    that know only durations.
    """

    models: tuple[str, ...] = ("any",)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return one sample per second for each GPU."""
        if model not in self.models:
            raise PerformanceError(f"model {model!r} is unknown; known: {', '.join(self.models)}")
        return float(configuration.num_gpus)
