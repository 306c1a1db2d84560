"""Explore where throughputs must be found out: what trying a GPU type would teach is worth something to a long job."""

import math
from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np

from envs.scheduling import ClusterView
from envs.types import (
    BoolArray,
    Configuration,
    FloatArray,
    JobId,
    MurmurationError,
    Placement,
    Seconds,
)

JUST_AFTER: Seconds = 1.0  # a sample shows at the first round in which a job has made progress


class ExplorationRules(NamedTuple):
    """How much is tried.

    Attributes:
        optimism: a GPU type's throughputs are multiplied by exp of this times the difference between the spread of its
            belief and that of the job's best-known type; 0 for none.
        long: seconds that a job must still need, on its requested GPUs, for a type to be tried.
    """

    optimism: float = 2.0
    long: Seconds = 3600.0


class HopefulView:
    """A view in which long jobs are faster on GPU types of which little is known.

    Args:
        view: the scheduler's view.
        hopeful: the tables that it shows by job, in place of the view's own.
        version: takes the place of `ClusterView.num_beliefs`: another number whenever a table has changed.
    """

    def __init__(self, view: ClusterView, hopeful: dict[JobId, FloatArray], version: int) -> None:
        self.cluster, self.shared_resources = view.cluster, view.shared_resources
        self.num_gpus, self.min_gpus, self.max_gpus = view.num_gpus, view.min_gpus, view.max_gpus
        self.model, self.models, self.num_beliefs = view.model, view.models, version
        self.job, self.most_nodes, self.batch_range, self.goodput = (
            view.job,
            view.most_nodes,
            view.batch_range,
            view.goodput,
        )
        self._view, self._hopeful = view, hopeful

    def throughputs(self, job: JobId) -> FloatArray:
        """See `ClusterView.throughputs`."""
        return self._hopeful[job] if job in self._hopeful else self._view.throughputs(job)


class Exploration:
    """Optimism about GPU types that a job has not tried, and decisions as soon as a try has shown its throughput.

    A job that moves to another type of GPUs shows its throughput there. If it is better than believed, all of the job's
    remaining work gains; if it is worse, the job moves back and loses a restart. So a long job's throughputs on a type
    are raised with the spread of their belief beyond that on its best-known type (upper confidence bounds: Auer,
    Cesa-Bianchi, Fischer, "Finite-time analysis of the multiarmed bandit problem", Machine Learning 2002). A job that
    was placed where it was not measured yet asks for a decision just after it has begun to make progress there. Without
    that, a failed try would last until the next arrival or completion.

    It does nothing where throughputs are exact. Starling leaves it out where remaining work is hidden: on blind-24 it
    gains nothing (`docs/schedulers.md`). Belongs to one scheduler; `reset` begins an episode.

    Args:
        rules: how much is tried.

    Raises:
        MurmurationError: a rule is negative, or no number.
    """

    def __init__(self, rules: ExplorationRules) -> None:
        for name, value in zip(rules._fields, rules, strict=True):
            if not value >= 0:
                raise MurmurationError(f"exploration: {name} is {value}; it must not be negative")
        self.rules = rules
        self.reset()

    def reset(self) -> None:
        """Forget the last episode."""
        self._looks: dict[JobId, Seconds] = {}  # when the present placement of a job will have shown its throughput
        self._raised: dict[JobId, tuple[bytes, FloatArray]] = {}
        self._known: tuple[int, frozenset[JobId]] = (0, frozenset())
        self._version = 0

    def hope(self, view: ClusterView) -> ClusterView:
        """Return the view with the throughputs of long jobs raised where little is known; itself where all is exact."""
        if view.num_beliefs == 0:
            return view
        jobs = np.concatenate([view.queued, view.running])
        long = frozenset(jobs[view.remaining_time(jobs) >= self.rules.long].tolist())
        if (view.num_beliefs, long) != self._known:
            self._known, self._version = (view.num_beliefs, long), self._version + 1
        hopeful = {job: self._raise(view, job) for job in long} if self.rules.optimism > 0 else {}
        return cast(ClusterView, HopefulView(view, hopeful, self._version))

    def next_look(self, view: ClusterView, changes: Mapping[JobId, Placement | None]) -> Seconds:
        """Return when the first of the new placements will have shown its throughput, in s; infinite if none will.

        Args:
            view: the round.
            changes: the placements that it decides on, None for jobs that are stopped; see `Allocation.changes`.
        """
        if view.num_beliefs == 0:
            return math.inf
        for job, placement in changes.items():
            self._looks.pop(job, None)
            if placement is not None and _is_new(view, job, placement):
                begun = bool(view.attained_service(np.array([job]))[0] > 0)
                delay = view.restart_delay[job] if begun else view.start_delay[job]
                self._looks[job] = view.time + float(delay) + JUST_AFTER
        runs = {*view.running.tolist(), *changes}
        self._looks = {job: when for job, when in self._looks.items() if job in runs and when > view.time}
        return min(self._looks.values(), default=math.inf)

    def _raise(self, view: ClusterView, job: JobId) -> FloatArray:
        """Return the table of a job, raised by GPU type."""
        believed = view.throughputs(job)
        key = believed.tobytes()
        if job not in self._raised or self._raised[job][0] != key:
            spread = _least_spreads(view, job, believed)
            beyond = np.where(np.isfinite(spread), spread - spread.min(), 0.0) if np.isfinite(spread).any() else 0.0
            factor = np.broadcast_to(np.exp(self.rules.optimism * beyond), spread.shape)
            self._raised[job] = key, believed * factor[:, None]
        return self._raised[job][1]


def _least_spreads(view: ClusterView, job: JobId, believed: FloatArray) -> FloatArray:
    """float64[num_gpu_types]: the least spread over the sizes of a job on each type; infinite where it does not run."""
    spread = np.full(len(believed), np.inf)
    for gpu_type, name in enumerate(view.cluster.gpu_types):
        widest = int(view.cluster.node_gpus[view.cluster.node_types == gpu_type].max())
        sizes: BoolArray = believed[gpu_type] > 0
        sizes[: int(view.min_gpus[job])] = sizes[int(view.max_gpus[job]) + 1 :] = False
        for size in np.flatnonzero(sizes).tolist():
            belief = view.belief(job, Configuration(name, size, -(-size // widest)))
            spread[gpu_type] = min(spread[gpu_type], belief.spread)
    return spread


def _is_new(view: ClusterView, job: JobId, placement: Placement) -> bool:
    """Whether a placement on GPUs of one type is in a cell in which the job's model was never measured."""
    types = {int(view.cluster.node_types[node]) for node in placement.gpus}
    if len(types) != 1:
        return False  # shows nothing
    name = view.cluster.gpu_types[types.pop()]
    belief = view.belief(job, Configuration(name, placement.num_gpus, len(placement.gpus)))
    return belief.spread > 0 and belief.num_samples == 0
