"""Memory that large workloads need, and that a process can still get."""

import os
from pathlib import Path

from envs.types import TraceError

# Peak memory of scripts/compare.py scheduler=fifo task=none workload=synthetic with 1,000 to 100,000 jobs.
BYTES_PER_JOB_OF_EPISODE = 1_500  # while it is played
BYTES_PER_JOB = 600  # of each workload that is kept for results

_MEMINFO, _CGROUP, _STATM = Path("/proc/meminfo"), Path("/sys/fs/cgroup"), Path("/proc/self/statm")


def require_memory(num_jobs: int, num_workloads: int) -> None:
    """Assert that there is memory for workloads of `num_jobs` jobs and for the episode of one of them.

    Raises:
        TraceError: there is not; the message gives the number of jobs for which there is.
    """
    per_job = BYTES_PER_JOB_OF_EPISODE + BYTES_PER_JOB * num_workloads
    needed, free = num_jobs * per_job, free_memory()
    if needed > free:
        raise TraceError(
            f"workload.num_jobs is {num_jobs:,}; {num_workloads:,} workloads of so many jobs and the episode of one "
            f"need about {needed / 1e9:.3g} GB of memory, and {free / 1e9:.3g} GB are free; set it to at most "
            f"{int(free // per_job):,}, or lower workload.num_evaluation"
        )


def free_memory() -> float:
    """Return the bytes that this process can still allocate: the least by machine, control group and `ulimit -v`.

    It is infinite where the operating system does not say.
    """
    return min(_free_of_machine(), _free_of_group(), _free_of_process())


def _free_of_machine() -> float:
    for line in _read(_MEMINFO).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return float(value.split()[0]) * 1024
    return float("inf")


def _free_of_group() -> float:
    """Return what the limit of the control group leaves, without the files that the kernel only keeps at hand."""
    most, used = _read(_CGROUP / "memory.max").strip(), _read(_CGROUP / "memory.current").strip()
    if not (most.isdigit() and used.isdigit()):
        return float("inf")
    files = [line.split()[1] for line in _read(_CGROUP / "memory.stat").splitlines() if line.startswith("file ")]
    return float(max(0, int(most) - int(used) + sum(map(int, files))))


def _free_of_process() -> float:
    try:
        import resource  # Unix only
    except ImportError:
        return float("inf")
    most, size = resource.getrlimit(resource.RLIMIT_AS)[0], _read(_STATM).split()
    if most == resource.RLIM_INFINITY or not size:
        return float("inf")
    return float(max(0, most - int(size[0]) * os.sysconf("SC_PAGE_SIZE")))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
