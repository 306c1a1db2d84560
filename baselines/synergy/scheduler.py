"""Synergy: cores and memory as fungible resources beside GPUs."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from baselines.parts.arrays import gang_sizes
from baselines.parts.estimates import remaining_time
from baselines.parts.pace import Pace
from baselines.parts.placing import Gpus, best_fit, could_fit, start_waiting, types_by_speed
from baselines.parts.priority import jobs_present, place_in_order
from baselines.synergy.hosts import Hosts, Sensitivities
from baselines.synergy.mechanisms import Greedy, Mechanism, Opt, Plan, Proportional, Tune
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Seconds

MECHANISMS = ("proportional", "greedy", "tune", "opt")
POLICIES = ("fifo", "srtf", "srsf", "las")


class Synergy:
    """Gangs in the order of a policy, with cores and memory by their sensitivity (Mohan et al., OSDI'22).

    In rounds, jobs are chosen in the order of the policy until the GPUs are used up (section 3); then a mechanism
    places them and divides cores and memory (section 4). A job's demand is the least of both that saturates it.
    "proportional" gives each GPU its share of the server. "greedy" gives the demand or does not start the job. "tune"
    gives the demand if some server has it; else the demand cut to the proportional share, for which jobs on the server
    that hold more are cut to theirs, so that no GPU stands idle for want of cores and nobody falls below the
    proportional share. "opt" maximises the sum of speeds over those on the proportional share by an integer program.

    What differs. A gang is not sliced over servers as long as it fits on one; there is a cost to that in this world,
    and none in Synergy's simulator: for a gang in one piece, jobs of lower priority make room. Chosen jobs that run
    stay on their GPUs, whose amounts change free of charge, and are served before those that start; after that Tune
    gives what is left to those it has cut, as much as they can use. Where demand lies below the proportional share in
    one resource, cutting to the share does not raise it, as it does in the artifact. Opt takes the places of GPUs as
    given, in place of the paper's program over merged servers and its fractional second one: a lower bound on their
    value. Speeds come from the performance model, where Synergy profiles. Servers of several GPU types are filled by
    type. Between rounds running jobs go on, and others start where GPUs are idle. Where the scenario's nodes do not
    divide cores and memory all mechanisms are the same; as a view shows that by what runs, the amounts of the very
    first wish of an episode are left to the world's rule. A gang larger than every type starts on nodes of several
    when they are free; one that asks for more GPUs than there are counts as one of the most on which it runs.

    Args:
        mechanism: "proportional", "greedy", "tune" or "opt".
        policy: "fifo" goes by submission, "srtf" by remaining time, "srsf" by remaining GPU-time, "las" by GPU-seconds
            received.
        round_length: seconds of a round.
        time_limit: wall-clock seconds for each of Opt's programs.

    Attributes:
        counters: of Opt's programs; see `baselines.synergy.mechanisms.Opt`.
    """

    preemptive = True
    elastic = False

    def __init__(
        self,
        mechanism: Literal["proportional", "greedy", "tune", "opt"] = "tune",
        policy: Literal["fifo", "srtf", "srsf", "las"] = "srtf",
        round_length: Seconds = 300.0,
        time_limit: Seconds = 2.0,
    ) -> None:
        if mechanism not in MECHANISMS:
            raise MurmurationError(f"Synergy: mechanism is {mechanism!r}; it must be one of {', '.join(MECHANISMS)}")
        if policy not in POLICIES:
            raise MurmurationError(f"Synergy: policy is {policy!r}; it must be one of {', '.join(POLICIES)}")
        if not time_limit > 0:
            raise MurmurationError(f"Synergy: time_limit is {time_limit} s; it must be positive")
        self.mechanism, self.policy, self.time_limit = mechanism, policy, time_limit
        self.information = "estimate" if policy in ("srtf", "srsf") else "none"
        self._pace = Pace("Synergy", round_length)
        self._sensitivities = Sensitivities()
        self._opt = Opt(time_limit)
        self._shared: bool | None = None  # whether nodes divide their cores and memory; None until it shows

    @property
    def counters(self) -> dict[str, int]:
        """What the solver did in this episode; nothing for mechanisms without one."""
        return self._opt.counters if self.mechanism == "opt" else {}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the last episode."""
        self._pace.forget()
        self._sensitivities = Sensitivities()
        self._opt = Opt(self.time_limit)
        self._shared = None

    def schedule(self, view: ClusterView) -> Allocation:
        """The jobs of the round, each with its cores and memory.

        Raises:
            MurmurationError: the policy needs remaining work, and the scenario hides it.
        """
        if self._shared is None and view.running.size:
            self._shared = view.placement(int(view.running[0])).cpus is not None
        present = jobs_present(view)
        order = present[np.lexsort((present, self._key(view, present)))].tolist()
        chosen = select(view, order, keep=not self._pace.begin(view.time))
        plan = Plan(view, view.allocation(keep_running=True), Hosts(view.cluster), self._sensitivities)
        self._carry_out(plan, chosen, order)
        if self._shared:
            for job in order:
                if plan.wish.placement(job):
                    plan.wish.place(job, plan.hosts.placement(job))
        return plan.wish

    def _carry_out(self, plan: Plan, chosen: dict[JobId, Gpus], order: Sequence[JobId]) -> None:
        """Places and amounts for the chosen jobs, those that go on first, then for whoever fits beside them."""
        held = {job: dict(plan.view.placement(job).gpus) for job in plan.view.running.tolist()}
        mechanism = self._mechanism()
        for job in held:
            if chosen.get(job) != held[job]:
                plan.wish.stop(job)
        for job, gpus in chosen.items():
            if held.get(job) == gpus:
                mechanism.keep(plan, job, gpus)
        for job, gpus in chosen.items():
            if held.get(job) != gpus:
                mechanism.start(plan, job, gpus)
        for job, gpus in _still_fitting(plan, order):
            mechanism.start(plan, job, gpus)
        mechanism.finish(plan, order)

    def _mechanism(self) -> Mechanism:
        """The mechanism; without shared cores and memory the one that looks at GPUs alone."""
        if not self._shared:
            return Proportional()
        others: dict[str, Mechanism] = {"proportional": Proportional(), "greedy": Greedy(), "tune": Tune()}
        return others.get(self.mechanism, self._opt)

    def _key(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: by which the policy orders jobs, smallest first."""
        if self.policy == "fifo":
            return view.submit_time[jobs]
        if self.policy == "las":
            return view.attained_service(jobs)
        left = remaining_time(view, jobs, f"Synergy with policy={self.policy}")
        return left * view.num_gpus[jobs] if self.policy == "srsf" else left


def _still_fitting(plan: Plan, order: Sequence[JobId]) -> Iterator[tuple[JobId, Gpus]]:
    """Jobs without GPUs that find some, as the wish stands when each is asked for."""
    view = plan.view
    waiting = np.array([job for job in order if plan.wish.placement(job) is None], dtype=np.int64)
    sizes = gang_sizes(view, waiting)
    able = could_fit(view.cluster, plan.wish.free_gpus, sizes)
    for job, size in zip(waiting[able].tolist(), sizes[able].tolist(), strict=True):
        if found := best_fit(view, plan.wish.free_gpus, job, size, types_by_speed(view, job, size)):
            yield job, found


def select(view: ClusterView, order: Sequence[JobId], *, keep: bool) -> dict[JobId, Gpus]:
    """The jobs of a round with GPUs by node, in order of priority; gangs in one piece, who does not fit is passed.

    Args:
        view: the round.
        order: jobs by falling priority.
        keep: whether jobs that run go on whatever their priority, so that only idle GPUs are given away.
    """
    draft = view.allocation(keep_running=True)
    gangs = gang_sizes(view, np.array(order, dtype=np.int64)).tolist()
    sizes = dict(zip(order, gangs, strict=True))
    if keep:
        start_waiting(view, draft, [job for job in order if draft.placement(job) is None], best_fit, sizes)
    else:
        place_in_order(view, draft, order, sizes)
    return {job: dict(place.gpus) for job in order if (place := draft.placement(job))}
