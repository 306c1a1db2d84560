"""What users' time limits tell of remaining work, as Slurm knows it: compiled functions for the start of a round."""

from envs.simulation.compiled.jit import Records, leaf, part
from envs.simulation.world.arrays import World
from envs.simulation.world.kernels import PENDING, RUNNING, remaining_work
from envs.simulation.world.ordered_set import next_member

LEAST_LEFT = 1e-3  # seconds that a time limit is said to leave at least
DOUBT = 1.0 + 2.0**-52  # of factors on work; 1 would mean that it is exact


@leaf
def requested_throughput(world: World, job: Records) -> float:
    """Samples/s of a job on its requested GPUs of the fastest type, or on the most up to these that one type has."""
    throughputs = world.reference[job.model]
    size = min(job.num_gpus, len(throughputs) - 1)
    while size > 1 and throughputs[size] == 0.0:
        size -= 1
    return float(throughputs[size] if throughputs[size] > 0.0 else 1.0)


@leaf
def show_limit(world: World, j: int) -> None:
    """Let views show the remaining work of a job as what its time limit leaves, at its requested size."""
    time = world.episode[0].time
    job = world.jobs[j]
    seconds = job.deadline - time if job.status == RUNNING else job.time_limit
    left = remaining_work(job, time)
    if left > 0.0:
        job.estimate = max(seconds, LEAST_LEFT) * requested_throughput(world, job) / left
        if job.estimate == 1.0:
            job.estimate = DOUBT


@part
def show_limits(world: World) -> None:
    """Let views show the remaining work of all submitted jobs by their time limits.

    A waiting job has all of its limit, a running one the time to its deadline.
    """
    for members in (world.queued, world.running):
        j = next_member(members, len(world.jobs), 0)
        while j >= 0:
            show_limit(world, j)
            j = next_member(members, len(world.jobs), j + 1)
    for j in range(world.episode[0].next_job if world.episode[0].num_held > 0 else 0):
        if world.jobs[j].status == PENDING:
            show_limit(world, j)
