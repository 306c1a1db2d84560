"""Units of a round, in which rows have times: what is typical of the jobs in the system when the round begins."""

import numpy as np

from envs.episodes.candidates import estimated_time
from envs.options.arrays import OptionArrays
from envs.simulation.compiled.jit import leaf
from envs.simulation.world.kernels import attained_service
from envs.simulation.world.ordered_set import next_member

SMALL = 0.01  # of a unit: times below it look alike


@leaf
def relative(value: float, unit: float) -> float:
    """Return log(value / unit + SMALL) / 5, which is 0 for about one unit; 0 without a unit."""
    return float(np.log(max(value, 0.0) / unit + SMALL) / 5.0) if unit > 0 else 0.0


@leaf
def doublings(value: float, unit: float) -> float:
    """Return log2(value / unit) / 4; 0 for nothing."""
    return float(np.log2(value / unit) / 4.0) if value > 0 and unit > 0 else 0.0


@leaf
def measure_system(a: OptionArrays) -> None:
    """Write the units of a round that begins: `time` and `gpu_time` are geometric means, `age` and `service` means.

    The former are of estimates, and 0 where work is unknown. The latter are of what any scheduler sees.
    """
    world, rules, time = a.world, a.rules[0], a.world.episode[0].time
    active, known, logs, gpu_logs, age, service = 0, 0, 0.0, 0.0, 0.0, 0.0
    for members in (world.queued, world.running):
        j = next_member(members, len(world.jobs), 0)
        while j >= 0:
            job = world.jobs[j]
            active += 1
            age += time - job.submit
            service += attained_service(job, time)
            estimate = estimated_time(job, time, world.reference) if world.episode[0].knows_work else 0.0
            if estimate > 0:
                known += 1
                logs += np.log(estimate)
                gpu_logs += np.log(estimate * job.num_gpus)
            j = next_member(members, len(world.jobs), j + 1)
    rules.active = active
    rules.time_unit = np.exp(logs / known) if known > 0 else 0.0
    rules.gpu_time_unit = np.exp(gpu_logs / known) if known > 0 else 0.0
    rules.age_unit = age / max(active, 1)
    rules.service_unit = service / max(active, 1)
