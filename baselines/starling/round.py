"""Arguments of the kernels of Starling: one round's jobs, the nodes, and the parameters."""

from typing import Any, NamedTuple

import numpy as np

from envs.types import BoolArray, FloatArray, IntArray, ResourceTables, Seconds

# GPUs of one job on one node, up to `envs.types.cluster.MAX_NODE_GPUS`. Candidates have an entry for each job and node,
# so short ones save time on large clusters.
ROW: Any = np.int16


class SharedNodes(NamedTuple):
    """The resources that jobs on one node share.

    Attributes:
        counted: whether candidates count it; if not, the rest is not read.
        mode: contention, an index into `envs.performance.contention.MODES`.
        cpus: float64[num_nodes], cores of each node; infinite where they are not shared.
        memory: float64[num_nodes], GB of each node; infinite where it is not shared.
        link: float64[num_nodes], GB/s to other nodes.
        tables: the effects on jobs, by model.
    """

    counted: bool
    mode: int
    cpus: FloatArray
    memory: FloatArray
    link: FloatArray
    tables: ResourceTables


class Nodes(NamedTuple):
    """The nodes.

    Attributes:
        capacity: int64[num_nodes], GPUs of each node to share out.
        types: int64[num_nodes], GPU type of each.
        shared: what the jobs on each share.
    """

    capacity: IntArray
    types: IntArray
    shared: SharedNodes


class Jobs(NamedTuple):
    """The jobs that are planned for, at one instant. Jobs with the same scaling belong to one group.

    Attributes:
        throughputs: float64[num_groups, num_gpu_types, sizes], samples/s on the fewest nodes; 0 where a job does not
            run.
        most_nodes: int64[num_groups, num_gpu_types, sizes], the most nodes on which a job runs.
        group: int64[num_jobs], index of each job in these tables.
        model: int64[num_jobs], index of each job's model in `SharedNodes.tables`.
        work: float64[num_jobs], samples left.
        delay: float64[num_jobs], seconds without progress that a change costs a job.
        weight: float64[num_jobs], worth of one sample/s of a job.
        wanted: int64[num_jobs, num_gpu_types], GPUs to give; 0 where a job does not run.
        present: int16[num_jobs, num_nodes], GPUs that a job holds now, by node.
        appetite: float64[num_jobs], factor on a job's weight when GPUs left over are given out.
        core_weight: float64[num_jobs], factor on the weight of a job's shortage of cores and memory.
        affinity: float64[num_jobs, num_nodes], logarithm of the factor on the value of GPUs of a node for a job;
            float64[num_jobs, 0] where there is none.
    """

    throughputs: FloatArray
    most_nodes: IntArray
    group: IntArray
    model: IntArray
    work: FloatArray
    delay: FloatArray
    weight: FloatArray
    wanted: IntArray
    present: IntArray
    appetite: FloatArray
    core_weight: FloatArray
    affinity: FloatArray


class JobForecast(NamedTuple):
    """Data of the same jobs for the forecast of later instants.

    Attributes:
        restart: float64[num_jobs], seconds that a change costs a job that has begun.
        begun: bool[num_jobs], whether a job has begun.
        knee_throughput: float64[num_jobs], samples/s of a job at its knee.
        knee_gpus: int64[num_jobs], GPUs at that knee.
    """

    restart: FloatArray
    begun: BoolArray
    knee_throughput: FloatArray
    knee_gpus: IntArray


class Variants(NamedTuple):
    """Orders and sizes of the same jobs, one of each per variant.

    Attributes:
        orders: int64[num_variants, num_jobs], jobs by falling priority.
        wanted: int64[num_variants, num_jobs, num_gpu_types], as in `Jobs`.
    """

    orders: IntArray
    wanted: IntArray


class StarlingRules(NamedTuple):
    """The parameters of Starling that the kernels use: those of `StarlingParameters`, and the discount."""

    horizon: Seconds
    stickiness: float
    tolerance: float
    hysteresis: float
    floor: Seconds
    urgency: float
    shortage: float
    slowdown: float
    starving: float
    crowding: float
    prior: Seconds
    spread: float
    residual: float
    restart_weight: float
    discount: float


class Present(NamedTuple):
    """The jobs in the system and the nodes at one instant, before a decision.

    Attributes:
        jobs: int64[num_present], ascending.
        runs: bool[num_present], whether a job holds GPUs.
        work: float64[num_present], samples left; NaN where the scenario hides them.
        service: float64[num_present], GPU-seconds received.
        restart: float64[num_present], seconds without progress that a change costs a job which has begun.
        shares: int64[num_shares, 3], what running jobs hold, as (index in `jobs`, node, GPUs).
        capacity: int64[num_nodes], GPUs of each node; 0 while it is down.
        ran: float64[num_submitted], seconds that each job has run on its requested GPUs, see
            `baselines.starling.hidden_work`; without jobs where no work is hidden.
        ended: bool[num_submitted], whether that was all; likewise.
    """

    jobs: IntArray
    runs: BoolArray
    work: FloatArray
    service: FloatArray
    restart: FloatArray
    shares: IntArray
    capacity: IntArray
    ran: FloatArray
    ended: BoolArray


class Proposal(NamedTuple):
    """The outcome of one round; jobs that are not in it keep what they hold.

    Attributes:
        jobs: int64[num_jobs], the jobs that were planned for, and those that start besides.
        present: int16[num_jobs, num_nodes], GPUs that each holds now.
        grid: int16[num_jobs, num_nodes], GPUs that each is to hold.
    """

    jobs: IntArray
    present: IntArray
    grid: IntArray


class Found(NamedTuple):
    """GPUs found for a job.

    Attributes:
        value: throughput on them, or what it is worth to the job.
        gpu_type: their GPU type; -1 if none were found.
        size: how many.
        node: the node; -1 if it is still to be chosen, or if they are on several nodes.
        liking: the factor by affinity in `value`.
    """

    value: float
    gpu_type: int
    size: int
    node: int
    liking: float
