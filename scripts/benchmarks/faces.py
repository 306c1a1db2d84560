"""What PettingZoo's dicts cost on top of the arrays."""

from dataclasses import replace

from benchmarks.report import Report
from benchmarks.scenarios import FULL
from benchmarks.snapshots import batch_of, loaded_state, put
from benchmarks.stepping import step_seconds, trajectory
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import Size
from envs.gpu_cluster import GpuClusterEnv
from envs.performance import default_model
from envs.workloads import Workload

STEPS = 20


class OneWorkload:
    """A source that has one workload only."""

    name = "benchmark"

    def __init__(self, workload: Workload) -> None:
        self.workload, self.models, self.num_jobs = workload, workload.models, len(workload)

    def episode(self, rng: object, split: str = "train") -> Workload:
        """It."""
        return self.workload

    def evaluation(self, split: str | None = None) -> tuple[Workload, ...]:
        """It."""
        return (self.workload,)


def measure(report: Report, suite: Suite) -> None:
    """All sizes."""
    for size in suite.sizes:
        measure_size(report, suite, replace(size, elastic=True))


def measure_size(report: Report, suite: Suite, size: Size) -> None:
    """The same decisions through a batch of one and through the parallel environment."""
    start, batch = loaded_state(size), batch_of(size, 1)
    actions = trajectory(batch, start, STEPS)
    alone = step_seconds(batch, start, actions, suite.repeats)
    env = GpuClusterEnv(size.cluster(), OneWorkload(size.workload()), default_model(), FULL)
    env.reset(seed=0)
    joint = [dict(zip(env.agents, step[0].tolist(), strict=True)) for step in actions]
    spent = cpu_seconds(lambda: [env.step(one) for one in joint], suite.repeats, lambda: put(env.batch, start))
    report.same(f"counters of {size} by both faces", env.batch.counters(), batch.counters())
    report.same(f"instant of {size} by both faces", float(env.batch.time[0]), float(batch.time[0]))
    report.add("faces", size, "step of a batch of one", 1e6 * alone, "us")
    report.add("faces", size, "step of the PettingZoo environment", 1e6 * spent / STEPS, "us")
    report.add("faces", size, "PettingZoo's dicts alone, by agent", 1e6 * (spent / STEPS - alone) / size.servers, "us")
