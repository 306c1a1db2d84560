"""Two jobs on the same GPUs: what each keeps of its throughput."""

from numbers import Real

from envs.performance.model import PerformanceModel
from envs.types import PerformanceError, plain_type, without_constraints


def find_pair_factor(performance: PerformanceModel, model: str, other: str, gpu_type: str) -> float:
    """Return the fraction of its throughput alone that a job keeps on GPUs that it shares with another job.

    It is the result of the performance model's `pair_factor(model, other, gpu_type)`, and 0 where the two do not fit
    into a GPU's memory together. Everything that asks for it goes through here, since a user's own performance model
    may return anything.

    Args:
        performance: the performance model.
        model: of the job.
        other: of the job beside it.
        gpu_type: of the GPUs.

    Raises:
        PerformanceError: the performance model has no such method, or its result is not a number from 0 to 1; and what
            the method raises.
    """
    asked = getattr(performance, "pair_factor", None)
    if asked is None:
        raise PerformanceError(
            f"{type(performance).__name__} does not say how two jobs share a GPU: it has no pair_factor(model, other, "
            "gpu_type); add it, or set scenario.sharing=off"
        )
    found = asked(without_constraints(model), without_constraints(other), plain_type(gpu_type))
    if isinstance(found, Real) and not isinstance(found, bool) and 0.0 <= float(found) <= 1.0:
        return float(found)
    text = " ".join(repr(found).split())
    raise PerformanceError(
        f"{type(performance).__name__}.pair_factor({model!r}, {other!r}, {gpu_type!r}) is {text[:80]}; it must be a "
        "number from 0, where the two do not fit together, to 1"
    )
