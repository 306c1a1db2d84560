"""RLTune: learned priorities, then an integer program that maps the jobs to nodes."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import Bounds, LinearConstraint

from baselines.parts.arrays import gang_sizes
from baselines.parts.highs import milp
from baselines.parts.placing import pack
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, NodeId

LEAST_WEIGHT = 0.01  # of the highest; a job of low priority starts on GPUs that no other job can use
PLACE_COST = 1e-3  # of a job's nodes; less than the least weight, so that it never keeps a job from starting


class Priorities(Protocol):
    """Which waiting jobs shall start, learned."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def rank(self, view: ClusterView) -> tuple[IntArray, FloatArray]:
        """Return jobs int64[n] by falling priority, and their positive weights float64[n]."""
        ...


class Rltune:
    """Jobs in order of learned priorities, which an integer program maps to nodes; nothing is ever preempted.

    Dongare et al., "Hybrid learning and optimization-based dynamic scheduling for DL workloads on heterogeneous GPU
    clusters", SoCC'25 (arXiv:2512.10271). This is a reconstruction from the paper's summary. The objective and the
    constraints of its program were not at hand; ours are:

    - It maximises the sum of the weights of the jobs that start, among the first ones by priority.
    - A job gets the GPUs that it requests, all of one type on which it runs, on the fewest nodes: whole nodes and one
      with the rest. Of several choices it prefers nodes that have few free GPUs left afterwards.
    - A node gives no more GPUs than it has free. Jobs here state no cores and no memory, and the world divides both by
      GPU, so a node with free GPUs has cores and memory for them.
    - It knows no throughputs. It asks the view for one thing: the types on which a job runs at all.

    A gang too large for every type starts on several types when they are free.

    Args:
        priorities: the learned part, such as `agents.policies.options.priorities.LearnedPriorities`.
        most_jobs: jobs of a program.
        node_limit: nodes of its search tree; beyond it, jobs are placed in order by best fit.

    Attributes:
        counters: programs of this episode, and those that were stopped by the limit.

    Raises:
        MurmurationError: a number is not positive.
    """

    information = "estimate"
    preemptive = False
    elastic = False

    def __init__(self, priorities: Priorities, most_jobs: int = 16, node_limit: int = 1000) -> None:
        for name, value in (("most_jobs", most_jobs), ("node_limit", node_limit)):
            if value < 1:
                raise MurmurationError(f"Rltune: {name} is {value}; it must be at least 1")
        self.priorities, self.most_jobs, self.node_limit = priorities, most_jobs, node_limit
        self.counters = {"programs": 0, "stopped_programs": 0}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the last episode."""
        self.priorities.reset()
        self.counters = {"programs": 0, "stopped_programs": 0}

    def schedule(self, view: ClusterView) -> Allocation:
        """Keep running jobs and start waiting ones."""
        allocation = view.allocation(keep_running=True)
        jobs, weights = self.priorities.rank(view)
        sizes = gang_sizes(view, jobs)
        able = np.flatnonzero(sizes <= allocation.free_gpus.sum())[: self.most_jobs]
        columns = list_columns(view, allocation.free_gpus, jobs[able], sizes[able])
        if len(columns.gpus):
            self._place(view, allocation, columns, jobs[able], np.maximum(weights[able] / weights.max(), LEAST_WEIGHT))
        for job, size in zip(jobs[able].tolist(), sizes[able].tolist(), strict=True):
            if not (view.throughputs(job)[:, size] > 0).any():
                pack(view, allocation, job, size)
        return allocation

    def _place(
        self, view: ClusterView, allocation: Allocation, columns: "GangParts", jobs: IntArray, weights: FloatArray
    ) -> None:
        """Solve the program and write its choice into the allocation."""
        self.counters["programs"] += 1
        found = solve(columns, allocation.free_gpus, weights, self.node_limit)
        if found is None:
            self.counters["stopped_programs"] += 1
            for job in jobs.tolist():
                pack(view, allocation, job)
            return
        for place, job in enumerate(jobs.tolist()):
            gpus: dict[NodeId, int] = {
                int(columns.node[c]): int(columns.gpus[c]) for c in found if columns.job[c] == place
            }
            if gpus:
                allocation.place(job, gpus)


class GangParts(NamedTuple):
    """GPUs that nodes could give: each column is a part of one job on one node. int64[num_columns] each.

    Attributes:
        job: place of the job.
        node: the node.
        gpus: GPUs that it would give.
        part: number of the part. All of a part's columns belong to one job and one GPU type.
        start: number of the start, a job on a GPU type, which consists of one or two parts.
        taken: columns of the part that a start takes.
    """

    job: IntArray
    node: IntArray
    gpus: IntArray
    part: IntArray
    start: IntArray
    taken: IntArray


def list_columns(view: ClusterView, free: IntArray, jobs: Sequence[JobId] | IntArray, sizes: IntArray) -> GangParts:
    """List what nodes could give to jobs: whole nodes and the rest, on each type that could start the job now.

    Args:
        view: the round.
        free: int64[num_nodes], free GPUs.
        jobs: int64[num_jobs].
        sizes: int64[num_jobs], GPUs of each.
    """
    cluster, rows = view.cluster, list[tuple[int, ...]]()
    parts = starts = 0
    for place, (job, size) in enumerate(zip(np.asarray(jobs).tolist(), sizes.tolist(), strict=True)):
        for gpu_type in np.flatnonzero(view.throughputs(job)[:, size] > 0).tolist():
            nodes = np.flatnonzero(cluster.node_types == gpu_type)
            largest = int(cluster.node_gpus[nodes].max())
            found = list[tuple[int, ...]]()
            split = (largest, size // largest), (size % largest, 1)  # whole nodes, and one with the rest
            wanted = [(gpus, count) for gpus, count in split if gpus * count]
            for number, (gpus, count) in enumerate(wanted):
                able = nodes[free[nodes] >= gpus].tolist()
                if len(able) < count:
                    break
                found += [(place, node, gpus, parts + number, starts, count) for node in able]
            else:
                rows += found
                parts, starts = parts + len(wanted), starts + 1
    return GangParts(*np.array(rows, np.int64).reshape(-1, len(GangParts._fields)).T)


def solve(columns: GangParts, free: IntArray, weights: FloatArray, node_limit: int) -> Sequence[int] | None:
    """Choose columns of the largest sum of weights; None if no choice is found within the limit.

    Args:
        columns: what nodes could give.
        free: int64[num_nodes], free GPUs.
        weights: float64[num_jobs], of each job that starts.
        node_limit: nodes of the search tree.
    """
    width, starts = len(columns.gpus), int(columns.start.max()) + 1
    every, first = np.arange(width), np.unique(columns.start, return_index=True)[1]
    heads = np.unique(columns.part, return_index=True)[1]  # the first column of each part
    left = (free[columns.node] - columns.gpus) / free.max()
    parts_of = np.bincount(columns.start[heads], columns.taken[heads], starts)  # nodes of each start
    cost = np.concatenate([PLACE_COST * (1 + left) / 2 / parts_of[columns.start], -weights[columns.job[first]]])
    rooms = np.zeros((len(free), width + starts))
    rooms[columns.node, every] = columns.gpus
    complete = np.zeros((len(heads), width + starts))
    complete[columns.part, every] = 1
    complete[np.arange(len(heads)), width + columns.start[heads]] = -columns.taken[heads]
    once = np.zeros((len(weights), width + starts))
    once[columns.job[first], width + np.arange(starts)] = 1
    found = milp(
        cost,
        integrality=np.ones(width + starts, np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=[
            LinearConstraint(rooms, ub=free),
            LinearConstraint(complete, 0.0, 0.0),
            LinearConstraint(once, ub=1.0),
        ],
        options={"node_limit": node_limit, "mip_rel_gap": 1e-6},
    )
    return None if found.x is None else np.flatnonzero(found.x[:width] > 0.5).tolist()
