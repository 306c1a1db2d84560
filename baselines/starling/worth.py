"""Kernels that compute what a job's GPUs are worth to it, restarts included."""

from baselines.starling.room import count_gpus, equal, gpu_type_of
from baselines.starling.round import Jobs
from envs.simulation.compiled.jit import leaf
from envs.types import IntArray, Seconds

NEGLIGIBLE_GAIN = 1e-12  # smaller gains, relative to a job's present throughput, are rounding
MARGIN = 1e-9  # relative, far more than rounding
LEAST_SHARE = 0.02  # lower bound on the share of its throughput that a job keeps after a change


@leaf
def after_delay(throughput: float, work: float, delay: Seconds, horizon: Seconds) -> float:
    """Return the mean throughput over the horizon, or up to the job's end if earlier, after a pause of `delay`."""
    if throughput <= 0 or delay <= 0:
        return throughput
    return throughput * max(LEAST_SHARE, 1.0 - delay / min(horizon, work / throughput + delay))


@leaf
def throughput_under(job: int, jobs: Jobs, row: IntArray, types: IntArray, horizon: Seconds) -> float:
    """Return a job's mean throughput under a candidate, restart included; 0 if it gets no GPUs."""
    gpu_type = gpu_type_of(row, types)
    if gpu_type < 0:
        return 0.0
    throughput = jobs.throughputs[jobs.group[job], gpu_type, count_gpus(row)]
    return (
        throughput
        if equal(row, jobs.present[job])
        else after_delay(throughput, jobs.work[job], jobs.delay[job], horizon)
    )
