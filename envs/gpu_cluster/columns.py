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


def _names(prefix: str, num_gpu_types: int | None = None) -> tuple[str, ...]:
    """This module's constants with a prefix, in lower case and in order; the last once for each GPU type, if given."""
    names = [name.removeprefix(prefix).lower() for name in globals() if name.startswith(prefix)]
    if num_gpu_types is None:
        return tuple(names)
    *single, by_type = names
    return (*single, *(f"{by_type}_{gpu_type}" for gpu_type in range(num_gpu_types)))
