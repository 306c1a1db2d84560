"""Starling for a short makespan: the longest job first."""

from dataclasses import replace
from typing import Literal

import numpy as np

from baselines.starling.decide import remaining_work_of
from baselines.starling.offsets import NO_OFFSETS, Offsets
from baselines.starling.round import Present, StarlingRules
from baselines.starling.scheduler import KNOWN, UNKNOWN, Starling, StarlingParameters
from baselines.starling.tables import JobTables
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec

# Chosen on six training workloads each of full-64 and rigid-64.
MAKESPAN_KNOWN = replace(KNOWN, gang=0.0, urgency=-0.5)
MAKESPAN_UNKNOWN = replace(UNKNOWN, gang=0.0, urgency=-0.5)


class _LongestFirst(Starling):
    """Starling with the order of the jobs reversed."""

    def _offsets(self, present: Present, tables: JobTables, rules: StarlingRules) -> Offsets:
        """Return offsets with which the key of each job becomes its inverse."""
        group = tables.group[present.jobs]
        throughput, work = tables.knee_throughput[group], remaining_work_of(present, tables, rules)
        runs = (throughput > 0) & (work > 0)
        seconds = np.divide(work, throughput, out=np.ones(len(work)), where=runs) * tables.gpu_factor[0, group]
        priority = np.zeros(len(tables.group))
        priority[present.jobs] = np.where(runs, -2.0 * np.log(np.maximum(seconds, 1e-9)), 0.0)
        return NO_OFFSETS._replace(priority=priority)


class StarlingMakespan:
    """Starling with the order reversed: the longest job first, sized at its knee, so that none is left at the end.

    Throughput is worth more the longer a job still takes. There are no further variants and no forecast, which compare
    sums of completion times. The order is that of the longest processing time (Graham 1969). Where work is hidden it
    gains nothing: which job is the longest is a guess. It is no `Starling`, whose whole episodes compiled code can
    play: the order follows from the remaining work of each round.

    Args:
        known: parameters if remaining work is known; all five are as for `Starling`.
        unknown: parameters if it is hidden.
        batch: "best" chooses batch sizes, "usual" leaves them to the world.
        measured_only: whether a chosen batch size puts at most as many samples on a GPU as were measured on one.
        shared: "counted" plans with shared cores, memory and contention, "ignored" without.

    Raises:
        MurmurationError: as `Starling`.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(
        self,
        known: StarlingParameters = MAKESPAN_KNOWN,
        unknown: StarlingParameters = MAKESPAN_UNKNOWN,
        batch: Literal["usual", "best"] = "best",
        measured_only: bool = True,
        shared: Literal["counted", "ignored"] = "counted",
    ) -> None:
        self._starling = _LongestFirst(known, unknown, 0, (), batch, measured_only, shared)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._starling.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Plan the jobs at the head of the order, then start others on GPUs left over."""
        return self._starling.schedule(view)
