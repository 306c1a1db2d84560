"""The rules of a comparison in two sentences: what schedulers knew, and what was theirs to change and to choose."""

from collections.abc import Sequence

from envs.simulation import Setup
from envs.workloads import Workload

WORK = {
    "exact": "how much work every job has left, exactly",
    "estimate": "an estimate of the work that each job has left",
    "limit": "of remaining work what users' time limits leave",
    "predicted": "remaining work as it is predicted from jobs that have ended",
    "none": "nothing of how much work jobs have left",
}
THROUGHPUT = {
    "exact": "every job's throughput on all GPUs",
    "profiled": "throughputs as they are estimated from a few profiles of each model and from jobs that run",
    "observed": "throughputs as they are estimated from what users state and from jobs that run",
}

MOVE = {
    "allowed": "stop and move running jobs, which costs a restart",
    "never": "not stop or move running jobs",
}


def describe_rules(workloads: Sequence[Workload], setup: Setup) -> list[str]:
    """Say what schedulers knew of jobs, and what they might change and choose; a scheduler may use less.

    Args:
        workloads: those that were played.
        setup: the world.
    """
    scenario, information = setup.scenario, setup.scenario.information
    jobs = sum(map(len, workloads))
    elastic = sum(int((load.jobs["min_gpus"] < load.jobs["max_gpus"]).sum()) for load in workloads)
    sizes = (
        "of no job" if not elastic else "of every job" if elastic == jobs else f"of {elastic / jobs:.0%} of the jobs"
    )
    chosen = [f"the number of GPUs {sizes}"]
    if scenario.batch_sizes == "chosen":
        chosen.append("batch sizes where the performance model offers them")
    if scenario.cpu_memory == "shared":
        chosen.append("cores and memory")
    if scenario.sharing != "off":
        chosen.append("which jobs share GPUs")
    return [
        f"Schedulers know {WORK[information.work]}, and {THROUGHPUT[information.throughput]}.",
        f"They may {MOVE[scenario.preemption]}, and choose {_listed(chosen)}; each uses of that what it is made for.",
    ]


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
