"""Resource sensitivity curves (Rubick, section 5): what one more GPU, host thread or gigabyte is worth to a job.

Each curve is a monotone envelope over best plans. A flat step also remembers the smallest amount that gives the same
speed within one per cent (the artifact's threshold), so that a scheduler does not hand out what brings nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from envs.performance.plans import SATURATING_CPUS, BestPlan, PlanSearch
from envs.types import ExecutionPlan, FloatArray, IntArray, PerformanceError

GAIN = 0.01  # what brings less than this share is not worth its resources
MEMORY_LEVELS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 200.0)  # GB of host memory per GPU


@dataclass(frozen=True)
class Curve:
    """Speed over growing amounts of one resource."""

    resource: str
    amounts: FloatArray  # float64[n], ascending
    throughput: FloatArray  # float64[n], samples per second, non-decreasing; 0.0 where nothing fits
    needed: IntArray  # int64[n]: index of the smallest amount whose speed is within one per cent
    plans: tuple[ExecutionPlan | None, ...]

    def at(self, amount: float) -> float:
        """Speed with at least this much: that of the largest tabulated amount not above it, 0.0 below the first."""
        index = int(np.searchsorted(self.amounts, amount, side="right")) - 1
        return float(self.throughput[index]) if index >= 0 else 0.0

    def slope(self, amount: float, step: float) -> float:
        """Samples per second gained for each unit of `step` more; with a negative step, lost for each unit less.

        Raises:
            PerformanceError: a step of 0.
        """
        if step == 0:
            raise PerformanceError(f"slope of {self.resource}: step is 0; give a positive or negative amount")
        return (self.at(amount + step) - self.at(amount)) / step


@dataclass(frozen=True)
class SensitivityTable:
    """The curves of one model and batch, computed when first asked for and kept.

    Attributes:
        search_at: plan search for given host threads and memory per GPU (None: saturating).
        max_gpus: largest number of GPUs.
        gpus_per_node: GPUs of a node; a job is packed on the fewest nodes.
    """

    search_at: Callable[[float | None, float | None], PlanSearch]
    max_gpus: int = 64
    gpus_per_node: int = 8

    @cached_property
    def gpus(self) -> Curve:
        """Speed over 1 to `max_gpus` GPUs, host threads and memory saturating."""
        search = self.search_at(None, None)
        counts = range(1, self.max_gpus + 1)
        best = [search.within(count, self._nodes(count)) for count in counts]
        return envelope("gpus", np.array(counts, dtype=np.float64), best)

    def cpus(self, num_gpus: int, levels: Sequence[float] = tuple(range(1, int(SATURATING_CPUS) + 1))) -> Curve:
        """Speed over host threads per GPU on a number of GPUs."""
        best = [self.search_at(float(c), None).within(num_gpus, self._nodes(num_gpus)) for c in levels]
        return envelope("cpus per gpu", np.array(levels, dtype=np.float64), best)

    def memory(self, num_gpus: int, levels: Sequence[float] = MEMORY_LEVELS) -> Curve:
        """Speed over gigabytes of host memory per GPU on a number of GPUs."""
        best = [self.search_at(None, float(m)).within(num_gpus, self._nodes(num_gpus)) for m in levels]
        return envelope("memory per gpu", np.array(levels, dtype=np.float64), best)

    def _nodes(self, num_gpus: int) -> int:
        return -(-num_gpus // self.gpus_per_node)


def envelope(resource: str, amounts: FloatArray, best: Sequence[BestPlan]) -> Curve:
    """The monotone envelope of best plans over ascending amounts: where more is slower, the smaller amount's plan.

    Raises:
        PerformanceError: amounts that do not ascend.
    """
    if (np.diff(amounts) <= 0).any():
        raise PerformanceError(f"curve of {resource}: amounts must ascend, are {amounts.tolist()}")
    speed, needed = np.zeros(len(best)), np.zeros(len(best), dtype=np.int64)
    plans: list[ExecutionPlan | None] = []
    for i, one in enumerate(best):
        if i and speed[i - 1] >= one.throughput:
            speed[i] = speed[i - 1]
            plans.append(plans[i - 1])
        else:
            speed[i] = one.throughput
            plans.append(one.plan)
        needed[i] = int(np.argmax(speed[: i + 1] * (1.0 + GAIN) >= speed[i]))
    return Curve(resource, amounts, speed, needed, tuple(plans))
