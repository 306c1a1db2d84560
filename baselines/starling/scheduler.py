"""Starling: the strongest heuristic here, tuned; the bar for everything learned."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple

import numpy as np

from baselines.parts.placing import best_fit, could_fit, pack, start_waiting
from baselines.parts.priority import jobs_present
from baselines.parts.scalability import AnalysedJobs, Analyser
from baselines.parts.submitted import SubmittedJobs
from baselines.starling.forecast import plan_ahead, weights
from baselines.starling.knee import Knees
from baselines.starling.round import Jobs, Nodes, Outlook, Rules, Ways
from envs.scheduling import ClusterView
from envs.types import (
    Allocation,
    ClusterSpec,
    FloatArray,
    IntArray,
    JobId,
    MurmurationError,
    NodeId,
    Placement,
    Seconds,
)

DEPTH = 8  # the queue is looked at until its least sizes would fill the cluster so many times
EFFORT = 3_000_000  # jobs times nodes times completions that one plan is played out for, at most


@dataclass(frozen=True, slots=True)
class Tuning:
    """The numbers of `Starling`. None of them depends on the size of the cluster.

    Attributes:
        knee: least speed that a further GPU must bring, as a share of what a GPU can bring at best.
        gang: exponent of a job's GPUs in its priority: 0 orders by remaining time, 1 by remaining GPU-time.
        urgency: exponent of a job's remaining time in the worth of its speed: 0 all alike, 1 inverse.
        floor: seconds that are added to the remaining time there, so that what is about to end does not count
            without bound.
        horizon: seconds for which a plan is taken to last, when what it wins is held against restarts.
        stickiness: share by which another place must be faster than the present one.
        tolerance: share of its new size by which a job's present size may differ without a change.
        hysteresis: share by which planning anew must be better than keeping what runs.
        prior: seconds that a job which has not run is taken to need on its requested GPUs, where nothing is known.
        residual: seconds it is taken to need yet for each second that it has run, where nothing is known.
    """

    knee: float
    gang: float
    urgency: float
    floor: Seconds
    horizon: Seconds
    stickiness: float
    tolerance: float
    hysteresis: float
    prior: Seconds = 1800.0
    residual: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = -1.0 if field.name == "hysteresis" else 0.0
            if not (math.isfinite(value) and value >= least):
                raise MurmurationError(f"Starling: {field.name} is {value}; it must be finite and at least {least:g}")
        for name in ("floor", "horizon", "prior"):
            if getattr(self, name) == 0:
                raise MurmurationError(f"Starling: {name} is 0 s; it must be positive")

    @property
    def rules(self) -> Rules:
        """Those of them that kernels go by."""
        return Rules(*(float(getattr(self, name)) for name in Rules._fields))


# `scripts/tune.py tuning=starling_traces` compared 80 candidates, beside the look-ahead of several ways, on 16 training
# workloads: synthetic ones at loads of 0.75 to 1.0, and days of Philly, ITP and Muri. This is the best of them: 0.2 %
# better there than what it began with (knee 0.35, gang 0.7, hysteresis 0, the rest as in UNKNOWN), 0.1 % better on 16
# validation workloads. The ways, chosen by hand on training workloads, make more of a difference: 1 to 2 % there, and
# 0.6 to 0.8 % on validation workloads.
KNOWN = Tuning(
    knee=0.457, gang=0.9, urgency=0.376, floor=18.7, horizon=6230.0, stickiness=0.275, tolerance=0.078, hysteresis=0.071
)
# Round numbers: what a search on an earlier engine found, with nothing known, did not hold on validation workloads.
UNKNOWN = Tuning(
    knee=0.25, gang=0.5, urgency=0.6, floor=60.0, horizon=600.0, stickiness=0.2, tolerance=0.15, hysteresis=0.02
)


class Way(NamedTuple):
    """Another order and other sizes that are tried.

    Attributes:
        gang: as in `Tuning`.
        knee: as in `Tuning`.
    """

    gang: float
    knee: float


# Few GPUs for each and the small ones first, where many wait; the shortest first whatever it takes; many GPUs for each.
WAYS = (Way(gang=1.0, knee=0.6), Way(gang=0.0, knee=0.35), Way(gang=1.0, knee=0.15))


class Starling:
    """Shortest first, each job up to its knee; two plans at every round, and the one that is worth its restarts.

    1. Order: by remaining time at the knee, times GPUs there to the power `gang`. Size: the job's knee.
    2. Two plans of the whole cluster, node by node. One keeps what runs and fills up with waiting jobs; the other plans
       anew, though a job stays where it is unless it would be clearly faster elsewhere. In both a job that does not fit
       at its knee shrinks, and GPUs left over go where a GPU is worth most.
    3. Nodes fall into parts that no job connects under either plan. In each part the plan wins that is worth more: the
       sum of speeds, restarts counted over a horizon, weighted by the inverse of remaining time.
    4. The same mixture is made in some other ways, by other orders and other sizes.
    5. All mixtures, both plans of the first way pure, and keeping without growth are played out to the next completions
       of the jobs present, each in its own way, as if nobody else came. The one after which they end soonest in sum is
       carried out. Where jobs times nodes are very many, fewer completions are played out, in the end none.

    Not from a paper. Its parts are: shortest remaining first (Schrage 1968), sizing by efficiency at the knee
    (Eager, Zahorjan, Lazowska, IEEE TC 1989), marginal gains (Optimus, EuroSys'18), hysteresis, rollouts of several
    heuristics side by side (Chang, Givan, Chong, Discrete Event Dynamic Systems 2004). It works with exact,
    estimated and hidden remaining work; hidden, it takes a job to need the longer yet the longer it has run. Jobs that
    are not elastic keep their size. A gang over several GPU types is placed when there is room and then left alone.

    The numbers, `KNOWN` and `UNKNOWN`, were chosen on training workloads; what `scripts/tune.py`, with
    `tuning=starling_traces` or `tuning=starling_unknown`, finds is taken over only where it is better on validation
    workloads too.

    With batch sizes "best" a job runs at the fastest batch size of its range for its GPUs, found by the analyser of
    elastic scaling (MASCOTS'20), and all of the above goes by these speeds. As there, samples count alike at every
    batch size of the range: a larger batch needs no more of them. Where nothing in the range is faster than the usual
    batch size, that is left to the world, and so it is for gangs over several GPU types.

    Args:
        known: where remaining work is known or estimated.
        unknown: where it is hidden.
        look_ahead: completions that are played out; 0 takes the first mixture at once, in a tenth of the time.
        ways: other ways; none compares the plans of the first way alone.
        batch: "usual" leaves batch sizes to the world, "best" chooses them.
        measured_only: whether a chosen batch size puts no more samples on a GPU than were measured on one.

    Raises:
        MurmurationError: it is to look back, a way has a number that cannot be, or there is no such `batch`.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(
        self,
        known: Tuning = KNOWN,
        unknown: Tuning = UNKNOWN,
        look_ahead: int = 12,
        ways: Sequence[Way] = WAYS,
        batch: Literal["usual", "best"] = "usual",
        measured_only: bool = True,
    ) -> None:
        if look_ahead < 0:
            raise MurmurationError(f"Starling: look_ahead is {look_ahead}; it must not be negative (0: no forecast)")
        if batch not in ("usual", "best"):
            raise MurmurationError(f"Starling: batch is {batch!r}; it must be usual or best")
        self.known = known
        self.unknown = unknown
        self.batch = batch
        self.measured_only = measured_only
        for way in ways:
            replace(known, gang=way.gang, knee=way.knee)  # checks them
        self.look_ahead = look_ahead
        self.ways = tuple(ways)
        self._tuning = known
        self._analysed: AnalysedJobs | None = None
        self._knees = self._new_knees()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._tuning = self.known
        self._analysed = AnalysedJobs(Analyser("best", self.measured_only), cluster) if self.batch == "best" else None
        self._knees = self._new_knees()

    def schedule(self, view: ClusterView) -> Allocation:
        """Shortest first at the knee, by the better of two plans."""
        wish = view.allocation(keep_running=True)
        jobs = jobs_present(view)
        if jobs.size:
            order, work = self._ranked(view, jobs)
            considered, beyond = self._considered(view, order)
            self._plan(view, wish, considered, work[np.searchsorted(jobs, considered)])
            self._squeeze_in(view, wish, beyond)
        return wish

    def _ranked(self, view: ClusterView, jobs: IntArray) -> tuple[IntArray, FloatArray]:
        """`jobs` by falling priority; and the remaining work of `jobs`, in their order, guessed where it is hidden."""
        work = view.remaining_work(jobs)
        if np.isnan(work).any() and self._tuning is not self.unknown:
            self._tuning = self.unknown
            self._knees = self._new_knees()
        self._knees.look_up(view)
        hidden = np.isnan(work)
        work[hidden] = self._guessed(view, jobs[hidden])
        return jobs[self._order(jobs, work, self._tuning.gang)], work

    def _order(self, jobs: IntArray, work: FloatArray, gang: float) -> IntArray:
        """int64[len(jobs)]: places in `jobs` by falling priority; a gang over several types has no knee and is last."""
        speed, gpus = self._knees.speed[jobs], self._knees.gpus[jobs]
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(speed > 0, work / speed, np.inf) * np.maximum(gpus, 1.0) ** gang
        return np.lexsort((jobs, left))

    def _new_knees(self) -> Knees:
        """Knees of the first way and of the others, of no jobs yet."""
        return Knees([self._tuning.knee, *(way.knee for way in self.ways)], self._analysed)

    def _guessed(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """Samples left, where nothing is known but how long jobs have run."""
        ran = view.attained_service(jobs) / view.num_gpus[jobs]
        seconds = self._tuning.prior + self._tuning.residual * ran
        return np.asarray(seconds * self._knees.requested_speed[jobs])

    def _considered(self, view: ClusterView, order: IntArray) -> tuple[IntArray, IntArray]:
        """Jobs to plan for, by falling priority: those that run and the head of the queue; and the other ones."""
        runs = np.isin(order, view.running)
        need = self._knees.least[order]
        single = need > 0
        gpus = int(view.capacity.sum())
        waits = single & ~runs
        ahead = (np.cumsum(np.where(runs, 0, need)) <= DEPTH * gpus) & (np.cumsum(waits) <= gpus)
        chosen = single & (runs | ahead)
        return order[chosen], order[~chosen & ~runs]

    def _plan(self, view: ClusterView, wish: Allocation, order: IntArray, work: FloatArray) -> None:
        """Both plans, and what the chosen one changes."""
        tuning, knees = self._tuning, self._knees
        present = np.zeros((len(order), view.cluster.num_nodes), np.int64)
        capacity = view.capacity.astype(np.int64)
        place = {job: at for at, job in enumerate(order.tolist())}
        for job in view.running.tolist():
            for node, gpus in view.placement(job).gpus.items():
                if job in place:
                    present[place[job], node] = gpus
                else:
                    capacity[node] -= gpus  # a gang over several types is left alone
        begun = view.attained_service(order) > 0
        restart = np.asarray(view.restart_delay[order], dtype=np.float64)
        outlook = Outlook(restart, begun, knees.speed[order], knees.gpus[order])
        orders = [np.arange(len(order)), *(self._order(order, work, way.gang) for way in self.ways)]
        ways = Ways(np.array(orders), np.ascontiguousarray(knees.sizes[:, order]))
        weight = weights(work, outlook.knee_speed, tuning.rules)
        speeds = np.ascontiguousarray(knees.submitted.speed(view, order))
        grid = plan_ahead(
            ways,
            Jobs(speeds, work, np.where(begun, restart, 0.0), weight, ways.wanted[0], present),
            outlook,
            Nodes(capacity, view.cluster.node_types),
            tuning.rules,
            min(self.look_ahead, EFFORT // max(present.size, 1)),
        )
        _carry_out(wish, order, present, grid, knees.submitted)

    def _squeeze_in(self, view: ClusterView, wish: Allocation, waiting: IntArray) -> None:
        """Jobs beyond those planned for, on their least size where there is room; gangs over several types too."""
        if not (waiting.size and wish.free_gpus.any()):
            return
        need = self._knees.least[waiting]
        single = waiting[(need > 0) & could_fit(view.cluster, wish.free_gpus, need)]
        sizes, types = dict(zip(single.tolist(), self._knees.least[single].tolist(), strict=True)), None
        if self._analysed is not None:
            types = {job: self._knees.submitted.fastest_first(job, size) for job, size in sizes.items()}
        start_waiting(view, wish, single.tolist(), best_fit, sizes, types)
        for job in sizes:
            if placement := wish.placement(job):
                _place(wish, job, placement.gpus, self._knees.submitted)
        for job in waiting[need == 0].tolist():
            pack(view, wish, job, int(view.min_gpus[job]))


def _carry_out(wish: Allocation, order: IntArray, present: IntArray, grid: IntArray, submitted: SubmittedJobs) -> None:
    """What a plan changes, into the wish: first what makes room."""
    changed = (grid != present).any(axis=1)
    for at in np.flatnonzero(changed & (present > 0).any(axis=1)).tolist():
        wish.stop(int(order[at]))
    for at in np.flatnonzero(changed & (grid > 0).any(axis=1)).tolist():
        nodes = np.flatnonzero(grid[at])
        _place(wish, int(order[at]), dict(zip(nodes.tolist(), grid[at, nodes].tolist(), strict=True)), submitted)


def _place(wish: Allocation, job: JobId, gpus: Mapping[NodeId, int], submitted: SubmittedJobs) -> None:
    """Let a job run on GPUs of one type, at the batch size that goes with them."""
    kind = int(wish.cluster.node_types[next(iter(gpus))])
    wish.place(job, Placement(gpus, batch_size=submitted.batch(job, kind, sum(gpus.values()))))


def varied(part: Literal["known", "unknown"], changes: Mapping[str, float]) -> Starling:
    """Starling with some numbers of one part changed: what the search for better ones plays.

    Args:
        part: which of its two tunings.
        changes: new values by name, as in `Tuning`.

    Raises:
        MurmurationError: a name that `Tuning` does not have, or a value out of its range.
    """
    names = [field.name for field in fields(Tuning)]
    for name in changes:
        if name not in names:
            raise MurmurationError(f"Starling: there is no {name!r} to tune; there are {', '.join(names)}")
    if part == "unknown":
        return Starling(unknown=replace(UNKNOWN, **changes))
    return Starling(known=replace(KNOWN, **changes))
