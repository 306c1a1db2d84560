"""Columns of the observation and of the action mask: name, meaning, unit and scaling of each.

The kernels, the reference implementation, `EnvSpec` and `agents` all index features by these names. In each list the
last name is the first of several columns, one for each GPU type in the cluster's order.

Scaling: "log time" is log(1 + minutes) / 10, see `envs.episodes.candidates.log_minutes`. "/ node" is divided by
`EnvSpec.node_gpus`, the GPUs of the largest node. An empty row, which stands for no job, is zero in every column.
"""

from envs.episodes.candidates import SCALING_POINTS as SCALING_POINTS
from envs.simulation.jit import leaf

# A job: rows of `queue` and the first columns of `slots`.
(
    JOB_PRESENT,  # 1 for a job, 0 for an empty row
    JOB_REMAINING_TIME,  # estimated, on the requested GPUs of the fastest type; log time; 0 if work is unknown
    JOB_AGE,  # since submission; log time
    JOB_ATTAINED_SERVICE,  # GPU-seconds received so far; log time
    JOB_REQUESTED_GPUS,  # / node
    JOB_MIN_GPUS,  # / node
    JOB_MAX_GPUS,  # / node
    JOB_PLANNED_GPUS,  # GPUs in this round's plan so far; / node
    JOB_RUNNING,  # 1 if it ran when the round began
    JOB_STARTING,  # 1 if it runs, but is still starting or restarting
    JOB_CHANGED,  # 1 if this round's plan has changed it
    JOB_TIME_LEFT,  # estimated, at its present throughput; log time; 0 if unknown, not running or changed
    JOB_RESTART_DELAY,  # what a restart would cost it; log time
    JOB_THROUGHPUT,  # by GPU type: throughput on the requested GPUs, as a fraction of the fastest type's
) = range(14)
# Behind the throughputs: for each of SCALING_POINTS, throughput per GPU on the fastest type, as a fraction of that on
# one GPU (or on the smallest of these counts on which the job runs). See `efficiency_column`.

# A job on one node: the columns of `slots` behind those of the job. See `slot_column`.
(
    SLOT_GPUS,  # GPUs of the job on this node in the plan; / node
    SLOT_NUM_NODES,  # log2(1 + number of nodes of the job in the plan) / 3
) = range(2)

# A node: rows of `nodes`.
(
    NODE_FREE_GPUS,  # GPUs that no job holds in the plan; / node
    NODE_GPUS,  # / node
    NODE_JOBS,  # number of jobs on it in the plan; / node
    NODE_POSITION,  # its index in the cluster, as a fraction of the number of nodes
    NODE_EQUALS_BEFORE,  # lower-indexed nodes of its type with as many free GPUs, as a fraction of the number of nodes
    NODE_TYPE,  # by GPU type: 1 for its own, else 0
) = range(6)

# What all nodes share: `cluster`.
(
    CLUSTER_WAITING,  # log(1 + waiting jobs) / 5
    CLUSTER_RUNNING,  # log(1 + jobs that ran when the round began) / 5
    CLUSTER_FREE_GPUS,  # GPUs that no job holds in the plan, as a fraction of all GPUs
    CLUSTER_DECISION,  # joint decisions taken in this round, as a fraction of the most that a round may have
    CLUSTER_FIRST_DECISION,  # 1 at the first joint decision of a round
    CLUSTER_WAITING_PER_GPU,  # waiting jobs / all GPUs
    CLUSTER_FREE_BY_TYPE,  # by GPU type: its free GPUs, as a fraction of all GPUs of the cluster
) = range(7)

# A choice of a node, where jobs share cores, memory and links: rows of `effects`, for the candidates that hold no GPUs
# on the node, then for the slots. Empty rows are zero; all features are limited to -EFFECT_LIMIT ... EFFECT_LIMIT. "Its
# size" is the GPUs that the plan gives a job, or those that it requests if there are none; "here" are its GPUs on the
# node, or as many of its size as the node has. The second group is that of `envs.episodes.coupling`, in its order.
(
    EFFECT_PRESENT,  # 1 for a choice
    EFFECT_THROUGHPUT,  # on its size of this GPU type, as a fraction of its best; 0 where it does not run
    EFFECT_FIT,  # GPUs on the node that are free or its own / its size, at most 1
    EFFECT_CPU_SHORTAGE,  # fraction of the cores wanted on the node that it would lack, with the job here
    EFFECT_CPU_HARM,  # how much of that the job adds
    EFFECT_MEMORY_SHORTAGE,  # the same two for memory
    EFFECT_MEMORY_HARM,
    EFFECT_STAGE_SUFFERED,  # fraction of its throughput that the CPU stages of the others would take (worst case)
    EFFECT_STAGE_HARM,  # how much it would stretch the CPU stages of the others, as a fraction
    EFFECT_LINK_SUFFERED,  # fraction of its throughput that the traffic of the others would take
    EFFECT_LINK_HARM,  # the same from the others' side
    EFFECT_MOVE_COST,  # delay of a change / (delay + remaining time); 0 if unknown, or if the plan has changed the job
    EFFECT_CONTENTION,  # fraction of its present throughput that co-located jobs take from it
    EFFECT_LACKS_CPUS,  # fraction of its present throughput that it lacks for want of cores
    EFFECT_LACKS_MEMORY,  # the same for memory
    EFFECT_CPUS_WANTED,  # cores per GPU that it can use here / 16; 0 if not shared
    EFFECT_MEMORY_WANTED,  # GB per GPU, likewise / 256
    EFFECT_CPUS,  # cores per GPU that it has here, or that the plan names / 16; 0 where the plan leaves them open
    EFFECT_MEMORY,  # GB per GPU, likewise / 256
) = range(19)
CORES_PER_GPU, GIGABYTES_PER_GPU, EFFECT_LIMIT = 16.0, 256.0, 2.0

# An action, and a column of `mask`.
PASS = 0  # change nothing
FIRST_CHOICE = 1  # the first action that sets the GPUs of a choice; see `EnvSpec.action`


@leaf
def efficiency_column(num_gpu_types: int) -> int:
    """The first column of a job's scaling efficiencies, one for each of `SCALING_POINTS`."""
    return JOB_THROUGHPUT + num_gpu_types


@leaf
def slot_column(num_gpu_types: int) -> int:
    """The first column of `slots` behind those of the job; add `SLOT_GPUS` or `SLOT_NUM_NODES`."""
    return JOB_THROUGHPUT + num_gpu_types + len(SCALING_POINTS)


def job_columns(num_gpu_types: int) -> tuple[str, ...]:
    """Names of the columns of `queue`."""
    return (*_names("JOB_", num_gpu_types), *(f"efficiency_{gpus}" for gpus in SCALING_POINTS))


def slot_columns(num_gpu_types: int) -> tuple[str, ...]:
    """Names of the columns of `slots`."""
    return (*job_columns(num_gpu_types), *_names("SLOT_"))


def node_columns(num_gpu_types: int) -> tuple[str, ...]:
    """Names of the columns of `nodes`."""
    return _names("NODE_", num_gpu_types)


def cluster_columns(num_gpu_types: int) -> tuple[str, ...]:
    """Names of the columns of `cluster`."""
    return _names("CLUSTER_", num_gpu_types)


def effect_columns() -> tuple[str, ...]:
    """Names of the columns of `effects`."""
    return _names("EFFECT_")


def _names(prefix: str, num_gpu_types: int | None = None) -> tuple[str, ...]:
    """This module's constants with a prefix, in lower case and in order; the last once for each GPU type, if given."""
    constants = [name for name, value in globals().items() if isinstance(value, int)]
    names = [name.removeprefix(prefix).lower() for name in constants if name.startswith(prefix)]
    if num_gpu_types is None:
        return tuple(names)
    *single, by_type = names
    return (*single, *(f"{by_type}_{gpu_type}" for gpu_type in range(num_gpu_types)))
