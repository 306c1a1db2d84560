"""Shares of running time by limiting resource, and share of rounds with a queue, over the workload's window."""

from dataclasses import dataclass

from envs.simulation.result import RunResult


@dataclass(frozen=True, slots=True)
class LimitShares:
    """Shares of running job-time by what limits the job; they add up to 1. NaN if no job ran in the window.

    `LimitedTime` defines what limits a job. "GPUs" means that neither cores, memory nor the network slow it down; so it
    is 1 where a scenario shares nothing but GPUs.
    """

    gpus: float
    cpus: float
    memory: float
    network: float


def limit_shares(result: RunResult) -> LimitShares:
    """Return the shares of job-time, over all jobs that ran in the window, that each resource limited."""
    limited = result.limited
    if limited is None or limited.running == 0:
        return LimitShares(*[float("nan")] * 4)
    if limited.running != limited.running:  # nothing but GPUs is shared
        return LimitShares(1.0, 0.0, 0.0, 0.0)
    cpus, memory, network = (part / limited.running for part in (limited.cpus, limited.memory, limited.network))
    return LimitShares(1.0 - cpus - memory - network, cpus, memory, network)


def queue_share(result: RunResult) -> float:
    """Return the share of the window's scheduling rounds after which a job waited; NaN without rounds."""
    limited = result.limited
    if limited is None or limited.num_rounds == 0:
        return float("nan")
    return limited.num_queue_rounds / limited.num_rounds
