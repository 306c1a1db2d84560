"""Resource sensitivity curves (Rubick, section 5): throughput gained by one more GPU, CPU thread or gigabyte.

Each curve is a monotone envelope over best plans. For each amount it also has the smallest amount that gives the same
throughput within one per cent (the artifact's threshold), so that a scheduler does not grant useless resources.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from envs.performance.rubick.plans import SATURATING_CPUS, BestPlan, PlanSearch
from envs.types import ExecutionPlan, FloatArray, IntArray, PerformanceError

GAIN = 0.01  # relative; a smaller gain does not justify more resources
MEMORY_LEVELS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 200.0)  # GB of CPU memory per GPU


@dataclass(frozen=True)
class Curve:
    """Throughput over growing amounts of one resource."""

    resource: str
    amounts: FloatArray  # float64[n], ascending
    throughput: FloatArray  # float64[n], samples per second, non-decreasing; 0.0 where no plan fits
    needed: IntArray  # int64[n]: index of the smallest amount whose throughput is within one per cent
    plans: tuple[ExecutionPlan | None, ...]

    def at(self, amount: float) -> float:
        """Return the throughput of the largest tabulated amount that is at most `amount`; 0.0 below the first."""
        index = int(np.searchsorted(self.amounts, amount, side="right")) - 1
        return float(self.throughput[index]) if index >= 0 else 0.0

    def slope(self, amount: float, step: float) -> float:
        """Return samples per second gained per unit of a positive `step`; for a negative step, lost per unit.

        Raises:
            PerformanceError: the step is 0.
        """
        if step == 0:
            raise PerformanceError(f"slope of {self.resource}: step is 0; give a positive or negative amount")
        return (self.at(amount + step) - self.at(amount)) / step


@dataclass(frozen=True)
class SensitivityTable:
    """The curves of one model and batch, computed on first use and cached.

    Attributes:
        search_at: plan search for given CPU threads and memory per GPU (None: saturating).
        max_gpus: largest number of GPUs.
        gpus_per_node: GPUs of a node; a job is packed on the fewest nodes.
    """

    search_at: Callable[[float | None, float | None], PlanSearch]
    max_gpus: int = 64
    gpus_per_node: int = 8

    @cached_property
    def gpus(self) -> Curve:
        """Throughput over 1 to `max_gpus` GPUs, with saturating CPU threads and memory."""
        search = self.search_at(None, None)
        counts = range(1, self.max_gpus + 1)
        best = [search.within(count, self._nodes(count)) for count in counts]
        return envelope("gpus", np.array(counts, dtype=np.float64), best)

    def cpus(self, num_gpus: int, levels: Sequence[float] = tuple(range(1, int(SATURATING_CPUS) + 1))) -> Curve:
        """Return the throughput over CPU threads per GPU on a number of GPUs."""
        best = [self.search_at(float(c), None).within(num_gpus, self._nodes(num_gpus)) for c in levels]
        return envelope("cpus per gpu", np.array(levels, dtype=np.float64), best)

    def memory(self, num_gpus: int, levels: Sequence[float] = MEMORY_LEVELS) -> Curve:
        """Return the throughput over gigabytes of CPU memory per GPU on a number of GPUs."""
        best = [self.search_at(None, float(m)).within(num_gpus, self._nodes(num_gpus)) for m in levels]
        return envelope("memory per gpu", np.array(levels, dtype=np.float64), best)

    def _nodes(self, num_gpus: int) -> int:
        return -(-num_gpus // self.gpus_per_node)


def envelope(resource: str, amounts: FloatArray, best: Sequence[BestPlan]) -> Curve:
    """Return the monotone envelope of best plans: where a larger amount is slower, it gets the smaller amount's plan.

    Raises:
        PerformanceError: the amounts do not ascend.
    """
    if (np.diff(amounts) <= 0).any():
        raise PerformanceError(f"curve of {resource}: amounts are {amounts.tolist()}; they must ascend")
    throughput, needed = np.zeros(len(best)), np.zeros(len(best), dtype=np.int64)
    plans: list[ExecutionPlan | None] = []
    for i, one in enumerate(best):
        if i and throughput[i - 1] >= one.throughput:
            throughput[i] = throughput[i - 1]
            plans.append(plans[i - 1])
        else:
            throughput[i] = one.throughput
            plans.append(one.plan)
        needed[i] = int(np.argmax(throughput[: i + 1] * (1.0 + GAIN) >= throughput[i]))
    return Curve(resource, amounts, throughput, needed, tuple(plans))
