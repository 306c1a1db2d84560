"""Starling: a tuned heuristic, with which learned policies are compared. The forecast planner extends it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from baselines.parts.priority import jobs_present
from baselines.parts.scalability import AnalysedJobs, Analyser
from baselines.parts.submitted import SubmittedJobs
from baselines.starling.compiled import Deciding, EveryJob, deciding, play_starling
from baselines.starling.decide import candidate_writer, decide_round, remaining_work_of
from baselines.starling.exploring import Exploration, ExplorationRules
from baselines.starling.knee import Knees
from baselines.starling.offsets import NO_OFFSETS, Offsets
from baselines.starling.round import Present, Proposal, StarlingRules
from baselines.starling.tables import JobTables, NodeTables, tables_of_jobs, tables_of_nodes
from baselines.starling.two_candidates import WriteCandidate
from envs.scheduling import ClusterView
from envs.simulation import SimulatedEpisode
from envs.simulation.world.kernels import LOG_FULL
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


@dataclass(frozen=True, slots=True)
class StarlingParameters:
    """The parameters of `Starling`. None of them depends on the size of the cluster.

    Attributes:
        knee: least throughput that a further GPU must add, as a share of the most that a GPU can add.
        gang: exponent of a job's GPUs in its priority: 0 orders by remaining time, 1 by remaining GPU-time.
        urgency: exponent of a job's remaining time in the worth of its throughput: 0 for equal worth, 1 for inverse;
            below 0, throughput is worth more the longer a job still takes.
        floor: seconds added to the remaining time in that worth, so that the worth of a job about to end is bounded.
        horizon: seconds for which a candidate is assumed to last when its gain is compared with the cost of restarts.
        stickiness: share by which other GPUs must be faster than the present ones.
        tolerance: share of its new size by which a job's present size may differ without a change.
        hysteresis: share by which planning anew must be better than keeping the running jobs.
        prior: median of the run times that are assumed where work is hidden, until jobs have ended; seconds on the
            requested GPUs.
        spread: standard deviation of the logarithm of these run times.
        residual: further seconds that a job is assumed to need for each second that it has run, if it has run longer
            than every job that has ended, where work is hidden.
        shortage: exponent of the fraction of its throughput that a job keeps with the cores and memory that it gets, in
            the choice of its GPUs; 0 ignores it.
        slowdown: exponent of the fraction that it keeps under contention.
        starving: weight of what others lose by having fewer cores and less memory; 1 counts it like own throughput.
        crowding: weight of what others lose by contention.
        restart_weight: factor on the restart delays in candidates and forecasts. 1 counts what the world takes. Both
            assume that nothing further arrives; arrivals end candidates early and cause further restarts.
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
    spread: float = 1.2
    residual: float = 1.0
    shortage: float = 1.0
    slowdown: float = 1.0
    starving: float = 1.0
    crowding: float = 1.0
    restart_weight: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = -1.0 if field.name in ("hysteresis", "urgency") else 0.0
            if not (math.isfinite(value) and value >= least):
                raise MurmurationError(f"Starling: {field.name} is {value}; it must be finite and at least {least:g}")
        for name in ("floor", "horizon", "prior"):
            if getattr(self, name) == 0:
                raise MurmurationError(f"Starling: {name} is 0 s; it must be positive")

    @property
    def rules(self) -> StarlingRules:
        """The parameters that the kernels use, without discount."""
        *own, _ = StarlingRules._fields  # the last is the discount
        return StarlingRules._make([*(float(getattr(self, name)) for name in own), 0.0])


# The best of 80 candidates that `scripts/tune.py tuning=starling_traces` compared, with the look-ahead of several
# variants, on 16 training workloads: synthetic ones at loads of 0.75 to 1.0, and days of Philly, ITP and Muri. It is
# 0.2 % better there than the starting point (knee 0.35, gang 0.7, hysteresis 0, the rest as in UNKNOWN), and 0.1 %
# better on 16 validation workloads. The variants, chosen by hand on training workloads, matter more: 1 to 2 % there,
# and 0.6 to 0.8 % on validation workloads.
# Hysteresis, restart weight, shortage and starving were chosen later, on training workloads of shared-64, full-64,
# rigid-64, adaptive-40 and types-64, one at a time and then together; before, they were 0.071, 4, 1 and 1
# (`docs/schedulers.md` has the gain on validation workloads).
KNOWN = StarlingParameters(
    knee=0.457,
    gang=0.9,
    urgency=0.376,
    floor=18.7,
    horizon=6230.0,
    stickiness=0.275,
    tolerance=0.078,
    hysteresis=0.0,
    shortage=2.0,
    starving=1.6,
    restart_weight=5.0,
)
# Round numbers, chosen on training workloads of unknown-64 and checked on training days of Philly with hidden work. The
# prior is that of the synthetic training episodes.
UNKNOWN = StarlingParameters(
    knee=0.4,
    gang=0.8,
    urgency=0.3,
    floor=60.0,
    horizon=1500.0,
    stickiness=0.5,
    tolerance=0.15,
    hysteresis=0.02,
    shortage=2.0,
    starving=1.6,
    restart_weight=4.0,
)


class Variant(NamedTuple):
    """Another order and other sizes to try.

    Attributes:
        gang: as in `StarlingParameters`.
        knee: as in `StarlingParameters`.
    """

    gang: float
    knee: float


# Few GPUs for each job, small jobs first, for long queues; the shortest first at any size; many GPUs for each job.
OTHER_VARIANTS = (Variant(gang=1.0, knee=0.6), Variant(gang=0.0, knee=0.35), Variant(gang=1.0, knee=0.15))

# Chosen on the first 20 validation episodes of profile-24; see `docs/schedulers.md`, and `docs/archive.md`.
EXPLORING = ExplorationRules()


class Starling:
    """Shortest first, each job up to its knee; two candidates in each round, merged by whether restarts pay.

    1. Order: by remaining time at the knee, times GPUs there to the power `gang`. Size: the job's knee.
    2. Build two candidates for the whole cluster, node by node. One keeps running jobs and adds waiting ones. The other
       places all anew, but a job stays where it is unless it would be clearly faster elsewhere. In both a job that does
       not fit at its knee shrinks, and GPUs left over go where a GPU is worth most.
    3. Split the nodes into parts that no job connects under either candidate. In each part take the one that is worth
       more: the sum of throughputs, with restarts counted over a horizon, weighted by the inverse of remaining time.
    4. Build further merged candidates from other variants, which order and size the jobs differently.
    5. Forecast all merged candidates, both of the first variant alone, and keeping without growth, up to the next
       completions of the jobs present, each under its own variant, assuming that no further job arrives. Apply the one
       with the least sum of completion times. If jobs times nodes is very large, the forecast covers fewer
       completions, in the limit none.

    Where jobs share cores, memory or links, all steps use the throughput that a job will have on its GPUs, by the rules
    of the world, also in the forecast. The choice of node and size deducts what the co-located jobs lose, weighted as
    in step 3. A job waits if it would cost them more than it gains. Sizes at the knee and the backlog after the
    forecast still assume ample cores and no co-located jobs.

    Where throughputs must be found out, it takes the medians of beliefs for facts, but long jobs try GPU types of which
    little is known (`baselines.starling.exploring`).

    Not from a paper. Its parts are: shortest remaining first (Schrage 1968), sizing by efficiency at the knee
    (Eager, Zahorjan, Lazowska, IEEE TC 1989), marginal gains (Optimus, EuroSys'18), hysteresis, and rollouts of several
    heuristics in parallel (Chang, Givan, Chong, Discrete Event Dynamic Systems 2004). It works with exact, estimated
    and hidden remaining work. With hidden work, it orders by the Gittins index of the run times that the
    jobs of the same episode have had so far (`hidden_work`). Jobs that are not elastic keep their size. A gang over
    several GPU types is placed when there is room and then left alone.

    The parameters, `KNOWN` and `UNKNOWN`, were chosen on training workloads. A result of `scripts/tune.py`, with
    `tuning=starling_traces` or `tuning=starling_unknown`, is adopted only if it is better on validation workloads too.

    `play` plays whole episodes in compiled code and takes offsets from another decision maker. Both it and `schedule`
    call the kernel `baselines.starling.decide.decide_round`.

    With batch sizes "best" a job runs at the offered batch size of highest goodput for its GPUs, found by the analyser
    of elastic scaling (MASCOTS'20), and all steps above use these goodputs. The batch size is left to the world where
    none that is offered is better than the usual one, and for gangs over several GPU types.

    Args:
        known: parameters if remaining work is known or estimated.
        unknown: parameters if it is hidden.
        look_ahead: completions in the forecast; 0 takes the first merged candidate at once, in a tenth of the time.
        variants: other variants; if empty, only the candidates of the first variant are compared.
        batch: "best" chooses batch sizes from the first job on to which the world offers a choice; "usual" leaves them
            to the world.
        measured_only: whether a chosen batch size puts at most as many samples on a GPU as were measured on one.
        shared: "counted" plans with the throughput that jobs have on the cores and memory that they get and beside the
            other jobs; "ignored" assumes ample cores and memory and no contention.
        hidden_look_ahead: `look_ahead` if remaining work is hidden. The forecast takes guesses for facts, and is of no
            use there.
        exploration: what `schedule` tries where throughputs must be found out and remaining work is known, see
            `Exploration`; None takes the medians of beliefs for facts. `play` always does.

    Raises:
        MurmurationError: a look-ahead is negative, a variant has an invalid number, or `batch` or `shared` is unknown.

    Attributes:
        discount: how much less late completions count where forecasts are compared, per hour: one in t hours counts as
            t / (1 + discount * t) hours. 0 here, so that sums of completion times are compared.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(
        self,
        known: StarlingParameters = KNOWN,
        unknown: StarlingParameters = UNKNOWN,
        look_ahead: int = 12,
        variants: Sequence[Variant] = OTHER_VARIANTS,
        batch: Literal["usual", "best"] = "best",
        measured_only: bool = True,
        shared: Literal["counted", "ignored"] = "counted",
        hidden_look_ahead: int = 0,
        exploration: ExplorationRules | None = EXPLORING,
    ) -> None:
        for name, depth in (("look_ahead", look_ahead), ("hidden_look_ahead", hidden_look_ahead)):
            if depth < 0:
                raise MurmurationError(f"Starling: {name} is {depth}; it must not be negative (0: no forecast)")
        if batch not in ("usual", "best"):
            raise MurmurationError(f"Starling: batch is {batch!r}; it must be usual or best")
        if shared not in ("counted", "ignored"):
            raise MurmurationError(f"Starling: shared is {shared!r}; it must be counted or ignored")
        self.shared = shared
        self.known = known
        self.unknown = unknown
        self.batch = batch
        self.measured_only = measured_only
        for variant in variants:
            replace(known, gang=variant.gang, knee=variant.knee)  # checks them
        self.look_ahead, self.hidden_look_ahead = look_ahead, hidden_look_ahead
        self.variants = tuple(variants)
        self.discount: float = 0.0
        self.exploration = None if exploration is None else Exploration(exploration)
        self._tuning = known
        self._hidden = False  # whether remaining work is hidden in this episode
        self._analysed: AnalysedJobs | None = None
        self._num_seen = 0  # jobs of which it is known whether they may choose a batch size
        self._knees = self._new_knees()
        self._tables: JobTables | None = None
        self._site: NodeTables | None = None
        self._write: WriteCandidate | None = None
        self._decisions: dict[tuple[bool, ...], Deciding] = {}  # of `play`, by the memory layout of the offsets

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the kernels' addresses, which mean nothing in another process."""
        return self.__dict__ | {"_write": None, "_decisions": {}}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._tuning, self._hidden = self.known, False
        self._analysed, self._num_seen = None, 0
        self._knees = self._new_knees()
        self._tables = self._site = None
        if self.exploration is not None:
            self.exploration.reset()

    def schedule(self, view: ClusterView) -> Allocation:
        """Plan the jobs at the head of the order, then start others on GPUs left over."""
        allocation = view.allocation(keep_running=True)
        jobs = jobs_present(view)
        if jobs.size:
            work = view.remaining_work(jobs)
            self._look_for_batches(view)
            hidden = bool(np.isnan(work).any())
            exploring = None if hidden else self.exploration
            seen = view if exploring is None else exploring.hope(view)
            arguments = self._arguments(seen, hidden=hidden)
            self._write = self._write or candidate_writer(*arguments)
            present = _gather(view, jobs, work)
            offsets = self._offsets(present, arguments[0], arguments[2])
            self._carry_out(allocation, decide_round(self._write, present, *arguments, self._depth, offsets))
            if exploring is not None:
                look = exploring.next_look(view, allocation.changes)
                allocation.next_decision = min(allocation.next_decision, look)
        return allocation

    def assumed_work(self, view: ClusterView) -> FloatArray | None:
        """float64[num_submitted]: the guess of the samples left, NaN for jobs that are done; None if none is hidden."""
        jobs = jobs_present(view)
        work = view.remaining_work(jobs)
        if not np.isnan(work).any():
            return None
        tables, _, rules = self._arguments(view, hidden=True)
        assumed = np.full(len(view.num_gpus), np.nan)
        assumed[jobs] = remaining_work_of(_gather(view, jobs, work), tables, rules)
        return assumed

    def play(
        self,
        simulator: SimulatedEpisode,
        *,
        rounds: int | None = None,
        until: Seconds = math.inf,
        offsets: Offsets = NO_OFFSETS,
    ) -> bool:
        """Play an episode in compiled code, exactly as `schedule` would.

        It returns False and does nothing where batch sizes are to be chosen.

        A round that the simulator is in ends with what has been applied to it. Without limits the episode is played to
        its end. On a snapshot, only the jobs submitted so far are played.

        Args:
            simulator: an episode, or a snapshot of one.
            rounds: stop when so many further rounds have taken effect.
            until: end the episode at this time, in seconds, as the scenario's horizon would.
            offsets: shifts of the decisions.

        Raises:
            MurmurationError: `rounds` is negative, or the offsets do not fit.
        """
        if rounds is not None and rounds < 0:
            raise MurmurationError(f"Starling: rounds is {rounds}; it must not be negative")
        if self.batch == "best" and _offers_choice(simulator):
            return False
        arguments = self.kernel_arguments(simulator)
        offsets.check(len(arguments[0].group), simulator.cluster.num_nodes)
        episode = simulator.state.episode[0, 0]
        horizon, left = float(episode.horizon), -1 if rounds is None else rounds
        episode.horizon, outcome = min(until, horizon), LOG_FULL
        layout = tuple(flag for array in offsets for flag in (array.flags.c_contiguous, array.flags.writeable))
        decision = self._decisions.get(layout) or self._decisions.setdefault(layout, deciding(*arguments, offsets))
        while outcome == LOG_FULL:
            outcome, left = play_starling(decision, simulator.world, *arguments, self._depth, offsets, left)
            if outcome == LOG_FULL:
                simulator.grow_log()
        episode.horizon = horizon
        return True

    def kernel_arguments(self, simulator: SimulatedEpisode) -> tuple[JobTables, NodeTables, StarlingRules]:
        """Return what `baselines.starling.compiled.propose` needs to know about an episode at usual batch sizes.

        `reset` must have been called for the episode; a snapshot belongs to the episode from which it was taken.
        """
        everything, hidden = EveryJob(simulator), not simulator.state.episode[0, 0].knows_work
        if self._site is None:
            shared = simulator.table.shared_resources(simulator.scenario)
            self._site = tables_of_nodes(simulator.cluster, shared, counted=self.shared == "counted")
        return self._arguments(everything.view, hidden=hidden)

    def _arguments(self, view: ClusterView, *, hidden: bool) -> tuple[JobTables, NodeTables, StarlingRules]:
        """Look up new jobs, and return the fixed arguments of the kernels."""
        if hidden and not self._hidden:
            self._tuning, self._hidden, self._tables = self.unknown, True, None
            self._knees = self._new_knees()
        if self._knees.look_up(view) or self._tables is None:
            gangs = self._tuning.gang, *(variant.gang for variant in self.variants)
            self._tables = tables_of_jobs(self._knees, gangs)
        if self._site is None:
            self._site = tables_of_nodes(view.cluster, view.shared_resources, counted=self.shared == "counted")
        return self._tables, self._site, self.rules(self._tuning)

    def _offsets(self, present: Present, tables: JobTables, rules: StarlingRules) -> Offsets:
        """Return shifts of this round's decisions: none."""
        return NO_OFFSETS

    def _look_for_batches(self, view: ClusterView) -> None:
        """Begin to choose batch sizes at the first job to which the world offers a choice."""
        submitted = len(view.num_gpus)
        if self.batch == "best" and self._analysed is None:
            if any(_may_choose(view, job) for job in range(self._num_seen, submitted)):
                self._analysed, self._tables = AnalysedJobs(Analyser("best", self.measured_only), view.cluster), None
                self._knees = self._new_knees()
            self._num_seen = submitted

    def rules(self, parameters: StarlingParameters) -> StarlingRules:
        """Return some parameters, and the discount, in the form that the kernels take."""
        return parameters.rules._replace(discount=self.discount)

    @property
    def _depth(self) -> int:
        """Completions to look ahead with what is known of remaining work."""
        return self.hidden_look_ahead if self._hidden else self.look_ahead

    def _new_knees(self) -> Knees:
        """Create the knees of the first variant and of the others, without jobs."""
        return Knees([self._tuning.knee, *(variant.knee for variant in self.variants)], self._analysed)

    def _carry_out(self, allocation: Allocation, proposal: Proposal) -> None:
        """Write the changes of a proposal into the allocation; stops come first, to make room."""
        grid, present = proposal.grid, proposal.present
        changed = (grid != present).any(axis=1)
        for at in np.flatnonzero(changed & (present > 0).any(axis=1)).tolist():
            allocation.stop(int(proposal.jobs[at]))
        for at in np.flatnonzero(changed & (grid > 0).any(axis=1)).tolist():
            nodes = np.flatnonzero(grid[at])
            gpus = dict(zip(nodes.tolist(), grid[at, nodes].tolist(), strict=True))
            _place(allocation, int(proposal.jobs[at]), gpus, self._knees.submitted)


def _gather(view: ClusterView, jobs: IntArray, work: FloatArray) -> Present:
    """Return the jobs in the system and the nodes as arrays."""
    shares = view.shares.astype(np.int64)
    shares[:, 0] = np.searchsorted(jobs, shares[:, 0])
    ran, ended = np.zeros(0), np.zeros(0, np.bool_)
    if np.isnan(work).any():
        submitted = np.arange(len(view.num_gpus))
        ran = view.attained_service(submitted) / view.num_gpus
        ended = ran > 0  # of held jobs, and of those that never ran, nothing can be learnt
        ended[view.queued] = ended[view.running] = False
    return Present(
        jobs,
        np.isin(jobs, view.running),
        work,
        view.attained_service(jobs),
        np.asarray(view.restart_delay[jobs], dtype=np.float64),
        shares,
        view.capacity.astype(np.int64),
        ran,
        ended,
    )


def _may_choose(view: ClusterView, job: JobId) -> bool:
    """Whether the world offers a job other batch sizes than the usual one, on some size of its range."""
    sizes = range(int(view.min_gpus[job]), int(view.max_gpus[job]) + 1)
    return any(view.batch_range(job, name, size) is not None for name in view.cluster.gpu_types for size in sizes)


def _offers_choice(simulator: SimulatedEpisode) -> bool:
    """Whether the world offers any job of an episode other batch sizes than the usual one."""
    workload, gpu_types = simulator.workload, simulator.cluster.gpu_types
    columns = [workload.jobs[name] for name in ("model", "min_gpus", "max_gpus", "min_batch", "max_batch")]
    classes = np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0).tolist()
    return any(
        simulator.exact.batches.offered(workload.models[model], gpu_type, size, low, high) is not None
        for model, least, most, low, high in classes
        for gpu_type in gpu_types
        for size in range(least, most + 1)
    )


def _place(allocation: Allocation, job: JobId, gpus: Mapping[NodeId, int], submitted: SubmittedJobs) -> None:
    """Place a job, on GPUs of one type at the batch size for them."""
    gpu_types = {int(allocation.cluster.node_types[node]) for node in gpus}
    batch = submitted.batch(job, gpu_types.pop(), sum(gpus.values())) if len(gpu_types) == 1 else None
    allocation.place(job, Placement(gpus, batch_size=batch))


def change_parameters(part: Literal["known", "unknown"], changes: Mapping[str, float]) -> Starling:
    """Create Starling with some parameters changed, for `scripts/tune.py`.

    Args:
        part: which parameters to change: those for known or for unknown remaining work.
        changes: new values by name, as in `StarlingParameters`.

    Raises:
        MurmurationError: `StarlingParameters` has no parameter of a name, or a value is out of range.
    """
    names = [field.name for field in fields(StarlingParameters)]
    for name in changes:
        if name not in names:
            raise MurmurationError(f"Starling: there is no {name!r} to tune; there are {', '.join(names)}")
    if part == "unknown":
        return Starling(unknown=replace(UNKNOWN, **changes))
    return Starling(known=replace(KNOWN, **changes))
