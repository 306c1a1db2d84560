"""Arguments of the kernels of Starling: one round's jobs, the nodes, and the parameters."""

from typing import NamedTuple

from envs.types import BoolArray, FloatArray, IntArray, Seconds


class Nodes(NamedTuple):
    """The nodes.

    Attributes:
        capacity: int64[num_nodes], GPUs of each node to share out.
        types: int64[num_nodes], GPU type of each.
    """

    capacity: IntArray
    types: IntArray


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


class Found(NamedTuple):
    """GPUs found for a job, not yet by node; GPU type -1 for none."""

    throughput: float
    gpu_type: int
    size: int
