"""Arguments of the kernels of Starling: one round's jobs, the nodes, and the parameters."""

from typing import NamedTuple

from envs.types import BoolArray, FloatArray, IntArray, Seconds


class SharedNodes(NamedTuple):
    """The resources that jobs on one node share; the tables are those of `envs.types.SharedResources`.

    Attributes:
        counted: whether plans count it; if not, the rest is not read.
        mode: contention, an index into `envs.performance.contention.MODES`.
        model: int64[num_jobs], index of each job's model in the tables.
        cpus: float64[num_nodes], cores of each node; infinite where they are not shared.
        memory: float64[num_nodes], GB of each node; infinite where it is not shared.
        link: float64[num_nodes], GB/s to other nodes.
        cpu_grid: float64[c].
        memory_grid: float64[m].
        factor: float64[num_models, num_gpu_types, widths, c, m].
        saturating: float64[num_models, num_gpu_types, widths, 2].
        scale: float64[num_models, num_gpu_types].
        traffic: float64[num_models, sizes].
        cpu_stage: float64[num_models].
    """

    counted: bool
    mode: int
    model: IntArray
    cpus: FloatArray
    memory: FloatArray
    link: FloatArray
    cpu_grid: FloatArray
    memory_grid: FloatArray
    factor: FloatArray
    saturating: FloatArray
    scale: FloatArray
    traffic: FloatArray
    cpu_stage: FloatArray


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
    """The jobs that are planned for, at one instant.

    Attributes:
        throughputs: float64[num_jobs, num_gpu_types, sizes], samples/s on the fewest nodes; 0 where a job does not run.
        work: float64[num_jobs], samples left.
        delay: float64[num_jobs], seconds without progress that a change costs a job.
        weight: float64[num_jobs], worth of one sample/s of a job.
        wanted: int64[num_jobs, num_gpu_types], GPUs to give; 0 where a job does not run.
        present: int64[num_jobs, num_nodes], GPUs that a job holds now, by node.
    """

    throughputs: FloatArray
    work: FloatArray
    delay: FloatArray
    weight: FloatArray
    wanted: IntArray
    present: IntArray


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
    """Orders and sizes of the same jobs, one of each per variant of the plan.

    Attributes:
        orders: int64[num_variants, num_jobs], jobs by falling priority.
        wanted: int64[num_variants, num_jobs, num_gpu_types], as in `Jobs`.
    """

    orders: IntArray
    wanted: IntArray


class StarlingRules(NamedTuple):
    """The parameters of `baselines.starling.scheduler.StarlingParameters` that the kernels use."""

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


class Found(NamedTuple):
    """GPUs found for a job, not yet by node; GPU type -1 for none."""

    throughput: float
    gpu_type: int
    size: int
