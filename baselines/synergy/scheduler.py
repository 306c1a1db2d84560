"""Synergy: cores and memory as fungible resources beside GPUs."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from baselines.parts.arrays import gang_sizes, shapes_at
from baselines.parts.estimates import as_long_again, remaining_time, require_remaining_work
from baselines.parts.grants import held_gpus
from baselines.parts.placing import Gpus, best_fit, could_fit, start_waiting, types_by_throughput
from baselines.parts.priority import SecondsLeft, jobs_present, place_in_order
from baselines.parts.round_timer import RoundTimer
from baselines.synergy.cpu_memory import PART, JobSensitivities, NodeResources
from baselines.synergy.mechanisms import Greedy, Mechanism, OpenRound, Opt, Proportional, Tune
from envs.scheduling import ClusterView
from envs.types import (
    Allocation,
    ClusterSpec,
    Configuration,
    FloatArray,
    IntArray,
    JobId,
    MurmurationError,
    Placement,
    Seconds,
)

MECHANISMS = ("proportional", "greedy", "tune", "opt")
POLICIES = ("fifo", "srtf", "srsf", "las")


class Synergy:
    """Gangs in the order of a policy, with cores and memory by sensitivity (Mohan et al., OSDI'22).

    Each round chooses jobs in the order of the policy until the GPUs are used up (section 3). A mechanism then places
    them and divides cores and memory (section 4). A job's demand is the least amount of both that saturates it.

    - "proportional" gives each GPU its share of the node.
    - "greedy" gives the demand, or does not start the job.
    - "tune" gives the demand if a node has it, else the demand cut to the proportional share. For the latter, jobs on
      the node that hold more than their share are cut to it. So no GPU is idle for lack of cores, and no job falls
      below its proportional share.
    - "opt" maximises the sum of throughputs, relative to the proportional share, by an integer program.

    Differences from the paper and the artifact:

    - A gang that fits on one node is not split over nodes: splitting costs throughput in this world, and nothing in
      Synergy's simulator. Jobs of lower priority are moved to keep a gang in one piece.
    - Chosen jobs that already run stay on their GPUs; their amounts change free of charge. They are served before the
      jobs that start. Tune then gives what is left to the jobs that it has cut, as much as they can use.
    - Where the demand is below the proportional share in one resource, cutting to the share does not raise it; in the
      artifact it does.
    - Opt takes the GPUs' places as given, where the paper solves a program over merged nodes and a fractional second
      one. Its value is a lower bound on theirs.
    - Throughputs come from the performance model, where Synergy profiles.
    - GPU types, which the paper does not have: a job starts on the fastest type with room. Our extension, the default:
      on its turn in a round a running job moves to free GPUs of a faster type if that pays for the restart.
      Policies without estimates expect a job to run as long again as it has run. With `literal`, a running job keeps
      its type.
    - Between rounds running jobs continue, and others start on idle GPUs.
    - If jobs do not share the cores and memory of nodes in the scenario, all mechanisms are the same.
    - Every mechanism names the amounts of every job, so that the world divides nothing by its own rule. An exception is
      a job that would not run on its amounts, for example on its share: the world gives it what the others leave. On
      GPU types other than V100, the cores that a job needs follow its throughput (`TableModel.cpu_scale`).
    - A gang larger than every type starts on nodes of several types when they are free. A gang that requests more GPUs
      than there are counts as a gang of the most GPUs on which it runs.

    Args:
        mechanism: "proportional", "greedy", "tune" or "opt".
        policy: order of jobs: "fifo" by submission, "srtf" by remaining time, "srsf" by remaining GPU-time, "las" by
            attained GPU-seconds.
        round_length: seconds of a round.
        node_limit: nodes of the search tree for each of Opt's programs.
        literal: whether running jobs keep their GPU type. In the paper there is only one.

    Attributes:
        counters: statistics of Opt's programs; see `baselines.synergy.mechanisms.Opt`.
    """

    preemptive = True
    elastic = False

    def __init__(
        self,
        mechanism: Literal["proportional", "greedy", "tune", "opt"] = "tune",
        policy: Literal["fifo", "srtf", "srsf", "las"] = "srtf",
        round_length: Seconds = 300.0,
        node_limit: int = 1000,
        literal: bool = False,
    ) -> None:
        if mechanism not in MECHANISMS:
            raise MurmurationError(f"Synergy: mechanism is {mechanism!r}; it must be one of {', '.join(MECHANISMS)}")
        if policy not in POLICIES:
            raise MurmurationError(f"Synergy: policy is {policy!r}; it must be one of {', '.join(POLICIES)}")
        if not node_limit > 0:
            raise MurmurationError(f"Synergy: node_limit is {node_limit}; it must be positive")
        self.mechanism, self.policy, self.node_limit, self.literal = mechanism, policy, node_limit, literal
        self.information = "estimate" if policy in ("srtf", "srsf") else "none"
        self._round_clock = RoundTimer("Synergy", round_length)
        self._sensitivities = JobSensitivities()
        self._opt = Opt(node_limit)

    @property
    def counters(self) -> dict[str, int]:
        """Statistics of the solver in this episode; empty for mechanisms without one."""
        return self._opt.counters if self.mechanism == "opt" else {}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the last episode."""
        self._round_clock.forget()
        self._sensitivities = JobSensitivities()
        self._opt = Opt(self.node_limit)

    def schedule(self, view: ClusterView) -> Allocation:
        """Choose the jobs of the round, each with its cores and memory.

        Raises:
            MurmurationError: the policy needs remaining work, and the scenario hides it.
        """
        present = jobs_present(view)
        order = present[np.lexsort((present, self._key(view, present)))].tolist()
        begins = self._round_clock.begin(view.time)
        chosen = select(view, order, keep=not begins, seconds_left=None if self.literal else self._seconds_left(view))
        open_round = OpenRound(
            view, view.allocation(keep_running=True), NodeResources(view.cluster), self._sensitivities
        )
        self._carry_out(open_round, chosen, order)
        if view.shares_cpu_memory:
            for job in order:
                if open_round.allocation.placement(job) and runs_with(view, job, open_round.resources.placement(job)):
                    open_round.allocation.place(job, open_round.resources.placement(job))
        return open_round.allocation

    def _carry_out(self, open_round: OpenRound, chosen: dict[JobId, Gpus], order: Sequence[JobId]) -> None:
        """Place the chosen jobs, those that stay on their GPUs first, then the other jobs that fit beside them."""
        held = held_gpus(open_round.view)
        mechanism = self._mechanism(open_round.view)
        for job in held:
            if chosen.get(job) != held[job]:
                open_round.allocation.stop(job)
        for job, gpus in chosen.items():
            if held.get(job) == gpus:
                mechanism.keep(open_round, job, gpus)
        for job, gpus in chosen.items():
            if held.get(job) != gpus:
                mechanism.start(open_round, job, gpus)
        for job, gpus in _still_fitting(open_round, order):
            mechanism.start(open_round, job, gpus)
        mechanism.finish(open_round, order)

    def _mechanism(self, view: ClusterView) -> Mechanism:
        """The mechanism; `Proportional` if cores and memory are not shared."""
        if not view.shares_cpu_memory:
            return Proportional()
        others: dict[str, Mechanism] = {"proportional": Proportional(), "greedy": Greedy(), "tune": Tune()}
        return others.get(self.mechanism, self._opt)

    def _seconds_left(self, view: ClusterView) -> SecondsLeft:
        """Return the estimate of the seconds that running jobs still need: exact, or their time so far again."""
        if self.information == "none":
            return lambda jobs, _throughputs: as_long_again(view, jobs)
        name = f"Synergy with policy={self.policy}"
        return lambda jobs, throughputs: require_remaining_work(view, jobs, name) / throughputs

    def _key(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: the policy's sort key; the smallest goes first."""
        if self.policy == "fifo":
            return view.submit_time[jobs]
        if self.policy == "las":
            return view.attained_service(jobs)
        left = remaining_time(view, jobs, f"Synergy with policy={self.policy}")
        return left * view.num_gpus[jobs] if self.policy == "srsf" else left


def runs_with(view: ClusterView, job: JobId, placement: Placement) -> bool:
    """Whether a job makes progress with the cores and memory that a placement names, as the simulator rounds them."""
    cpus, memory = (
        min(PART * int(amounts[node] / PART) / gpus for node, gpus in placement.gpus.items())
        for amounts in (placement.cpus or {}, placement.memory or {})
    )
    count, nodes = placement.num_gpus, len(placement.gpus)
    gpu_types = dict.fromkeys(view.cluster.nodes[node].gpu_type for node in placement.gpus)
    return all(
        view.throughput(job, Configuration(gpu_type, count, nodes, cpus_per_gpu=cpus, memory_per_gpu=memory)) > 0
        for gpu_type in gpu_types
    )


def _still_fitting(open_round: OpenRound, order: Sequence[JobId]) -> Iterator[tuple[JobId, Gpus]]:
    """Yield each waiting job that fits on the GPUs that are free at that moment, with its GPUs."""
    view = open_round.view
    waiting = np.array([job for job in order if open_round.allocation.placement(job) is None], dtype=np.int64)
    sizes = gang_sizes(view, waiting)
    able = could_fit(view.cluster, open_round.allocation.free_gpus, sizes, shapes_at(view, waiting))
    for job, size in zip(waiting[able].tolist(), sizes[able].tolist(), strict=True):
        if found := best_fit(view, open_round.allocation.free_gpus, job, size, types_by_throughput(view, job, size)):
            yield job, found


def select(
    view: ClusterView, order: Sequence[JobId], *, keep: bool, seconds_left: SecondsLeft | None = None
) -> dict[JobId, Gpus]:
    """Choose the jobs of a round, with GPUs by node, in order of priority; gangs that do not fit are skipped.

    Args:
        view: the round.
        order: jobs by falling priority.
        keep: whether running jobs continue whatever their priority, so that only idle GPUs are assigned.
        seconds_left: estimates the seconds that running jobs still need where they are; None: no job changes its type.
    """
    draft, held = view.allocation(keep_running=True), held_gpus(view)
    gangs = gang_sizes(view, np.array(order, dtype=np.int64)).tolist()
    sizes = dict(zip(order, gangs, strict=True))
    if keep:
        start_waiting(view, draft, [job for job in order if job not in held], best_fit, sizes)
    else:
        place_in_order(view, draft, order, sizes, seconds_left=seconds_left)
    drafted: dict[JobId, Gpus] = {job: dict(place.gpus) if place else {} for job, place in draft.changes.items()}
    return {job: gpus for job in order if (gpus := drafted.get(job, held.get(job)))}
