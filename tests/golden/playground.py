"""Helpers to write schedules worked by hand."""

from dataclasses import dataclass

from envs.performance import EfficiencySetting, IdealModel, PerformanceModel
from envs.scheduling import Scheduler
from envs.simulation import EventKind, Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec, Placement, Seconds
from envs.workloads import Workload

EVERY_SECOND = Rounds(on_events=True, interval=1.0)


def jobs(*rows: tuple[Seconds, int, Seconds], elastic: tuple[int, int] | None = None) -> Workload:
    """Create jobs from (submit time, GPUs, seconds on these GPUs) at one sample per GPU and second.

    All jobs have the same elastic range.
    """
    least, most = elastic or (0, 0)
    return Workload.of(
        [
            JobSpec(i, submit, gpus, gpus * seconds, "any", min_gpus=least, max_gpus=most)
            for i, (submit, gpus, seconds) in enumerate(rows)
        ]
    )


def two_nodes() -> ClusterSpec:
    """Two nodes of four GPUs of one type: node 0 and node 1."""
    return ClusterSpec((NodeSpec("plain", 4), NodeSpec("plain", 4)), "two nodes")


def fast_and_slow() -> ClusterSpec:
    """Two nodes of four GPUs: node 0 slow, node 1 fast."""
    return ClusterSpec((NodeSpec("slow", 4), NodeSpec("fast", 4)), "fast and slow")


@dataclass(frozen=True)
class TwoThroughputs:
    """Linear scaling; a fast GPU processes two samples per second, other GPUs one."""

    models: tuple[str, ...] = ("any",)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return float(configuration.num_gpus) * (2.0 if configuration.gpu_type == "fast" else 1.0)


@dataclass(frozen=True)
class SlowerBeyondTwo:
    """On fast GPUs the third and fourth GPU make a job slower; slow GPUs scale."""

    models: tuple[str, ...] = ("any",)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        curves = {"fast": (4.0, 5.0, 4.9, 4.8), "slow": (1.0, 2.0, 4.0, 6.0)}
        return curves[configuration.gpu_type][min(configuration.num_gpus, 4) - 1]


def play(
    scheduler: Scheduler,
    workload: Workload,
    cluster: ClusterSpec,
    *,
    restart_delay: Seconds = 0.0,
    rounds: Rounds | None = None,
    performance: PerformanceModel | None = None,
    statistical_efficiency: EfficiencySetting = "measured",
    seed: int = 0,
) -> RunResult:
    """Play one run; by default restarts are free and decisions are taken at events."""
    scenario = Scenario(
        restart_delay=restart_delay, rounds=rounds or Rounds(), statistical_efficiency=statistical_efficiency
    )
    return run_episode(scheduler, Simulator(workload, Setup(cluster, performance or IdealModel(), scenario), seed))


def times(result: RunResult) -> list[tuple[Seconds, Seconds]]:
    """(first start, finish) of each job, in order of submission, to the microsecond."""
    return [(round(record.start_time, 6), round(record.finish_time, 6)) for record in result]


def restarts(result: RunResult) -> list[int]:
    """Restarts of each job, in order of submission."""
    return [record.num_restarts for record in result]


def places(result: RunResult, job: int) -> list[tuple[Seconds, dict[int, int]]]:
    """(time, GPUs by node) of every start and change of one job."""
    rows = result.log.events
    changes = (EventKind.START, EventKind.RESIZE)
    found: list[tuple[Seconds, dict[int, int]]] = []
    for event in range(len(rows)):
        if rows[event]["job"] == job and rows[event]["kind"] in changes:
            placement: Placement = result.log.placement(event)
            found.append((round(float(rows[event]["time"]), 6), dict(placement.gpus)))
    return found
