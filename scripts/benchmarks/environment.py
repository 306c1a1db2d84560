"""The environment's decision step: in and out of caches, by candidates, beside the reference, through PettingZoo."""

import time
from dataclasses import replace

import numpy as np

from benchmarks.report import Report
from benchmarks.snapshots import (
    bytes_per_environment,
    draw_trajectory,
    loaded_state,
    make_batch,
    restore,
    seconds_per_step,
)
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import FULL, Size
from envs.gpu_cluster import GpuClusterBatch, GpuClusterEnv
from envs.gpu_cluster.reference import ReferenceEnvironment
from envs.performance import default_model
from envs.simulation import Setup, State
from envs.simulation.reference import reference_at
from envs.types import IntArray
from envs.workloads import Workload

HOT_MEGABYTES = 4.0  # of arrays: a batch of this size stays in the caches
MOST_ENVS = 1024
PETTINGZOO_STEPS = 20
LEAST_STEP_SPEEDUP = {8: 60, 64: 60, 1000: 100, 12500: 100}  # over the reference environment, by nodes


def measure_environment(report: Report, suite: Suite) -> None:
    """Time the step at all sizes: hot with 16 candidates beside the reference, hot with more candidates, cold."""
    for size in suite.sizes:
        _measure_steps(report, suite, replace(size, elastic=True))


def _measure_steps(report: Report, suite: Suite, size: Size) -> None:
    start = loaded_state(size)
    single, now = make_batch(size, 1), start.episode[0, 0]
    waiting = now.num_active - now.num_running
    report.add("environment", size, "jobs that wait at the loaded instant", waiting, "jobs")
    report.add("environment", size, "jobs that run at the loaded instant", now.num_running, "jobs")
    each = bytes_per_environment(single)
    report.add("memory", size, "state of the engine", single.state.nbytes / 1e3, "kB/env")
    report.add("memory", size, "all arrays of an environment", each / 1e3, "kB/env")
    hot = max(1, min(16, int(HOT_MEGABYTES * 1e6 / each)))
    for candidates in (16, *suite.candidates):
        batch = make_batch(size, hot, candidates)
        actions = draw_trajectory(batch, start, suite.steps)
        cost = seconds_per_step(batch, start, actions, suite.repeats)
        _add_step(report, size, f"hot, {candidates} candidates", cost)
        if candidates == 16:
            measure_reference_environment(report, suite, size, batch, start, actions)
    cold = min(MOST_ENVS, int(np.ceil(suite.cold * 1e6 / each)))
    batch = make_batch(size, cold)
    cost = seconds_per_step(batch, start, draw_trajectory(batch, start, 4), 1)
    _add_step(report, size, "cold, 16 candidates", cost)
    report.add("environment", size, "environments of a batch, hot", hot, "")
    report.add("environment", size, "environments of a batch, cold", cold, "")


def _add_step(report: Report, size: Size, how: str, cost: float) -> None:
    report.add("environment", size, f"step, {how}", 1e6 * cost, "us")
    report.add("environment", size, f"env-steps, {how}", 1 / cost, "1/s")
    report.add("environment", size, f"agent-steps, {how}", size.nodes / cost, "1/s")


def measure_reference_environment(
    report: Report, suite: Suite, size: Size, batch: GpuClusterBatch, start: State, actions: list[IntArray]
) -> None:
    """Time the reference environment for `suite.reference_seconds` and check that the batch observes the same.

    Every environment of the batch takes the decisions of the first one.
    """
    same = [np.repeat(joint[:1], batch.batch_size, axis=0) for joint in actions]
    reference = ReferenceEnvironment(reference_at(start, 0, size.workload(), batch.setup), batch.rules)
    reference.proceed()
    restore(batch, start)
    spent, steps, differ = 0.0, 0, set[str]()
    while steps < len(same) and spent < suite.reference_seconds:
        began = time.process_time()
        reference.step(same[steps][0].tolist())
        spent += time.process_time() - began
        batch.step(same[steps])
        steps += 1
        differ |= {name for name, seen in reference.observation.items() if (seen != batch.observation[name]).any()}
    where = f"after {steps} decisions of {size}"
    report.same(f"what differs between observations {where}", sorted(differ), [])
    report.same(f"counters {where}", batch.counters(), reference.counters)
    report.same(f"instant {where}", float(batch.time[0]), reference.simulator.time)
    report.same(f"rounds {where}", int(batch.state.episode["num_rounds"][0, 0]), reference.simulator.num_rounds)
    speedup = spent / steps / seconds_per_step(batch, start, same[:steps], suite.repeats)
    report.add("environment", size, "decisions that both take", steps, "")
    report.add("environment", size, "reference environment", 1e6 * spent / steps, "us")
    report.add("environment", size, "faster than the reference", speedup, "x", least=LEAST_STEP_SPEEDUP[size.nodes])


class SingleWorkload:
    """A workload source that has one workload only."""

    name = "benchmark"

    def __init__(self, workload: Workload) -> None:
        self.workload, self.models, self.num_jobs = workload, workload.models, len(workload)

    def episode(self, rng: object, split: str = "train") -> Workload:
        """Return the workload for any episode."""
        return self.workload

    def evaluation(self, split: str | None = None) -> tuple[Workload, ...]:
        """Return the workload alone for any split."""
        return (self.workload,)


def measure_pettingzoo(report: Report, suite: Suite) -> None:
    """Time the same decisions through a batch of one and through PettingZoo's dicts, at all sizes."""
    for size in suite.sizes:
        _measure_dicts(report, suite, replace(size, elastic=True))


def _measure_dicts(report: Report, suite: Suite, size: Size) -> None:
    start, batch = loaded_state(size), make_batch(size, 1)
    actions = draw_trajectory(batch, start, PETTINGZOO_STEPS)
    alone = seconds_per_step(batch, start, actions, suite.repeats)
    env = GpuClusterEnv(Setup(size.cluster(), default_model(), FULL), SingleWorkload(size.workload()))
    env.reset(seed=0)
    joint = [dict(zip(env.agents, step[0].tolist(), strict=True)) for step in actions]
    seconds = cpu_seconds(lambda: [env.step(one) for one in joint], suite.repeats, lambda: restore(env.batch, start))
    spent = seconds / PETTINGZOO_STEPS
    report.same(f"counters of {size} by both interfaces", env.batch.counters(), batch.counters())
    report.same(f"instant of {size} by both interfaces", float(env.batch.time[0]), float(batch.time[0]))
    report.add("pettingzoo", size, "step of a batch of one", 1e6 * alone, "us")
    report.add("pettingzoo", size, "step of the PettingZoo environment", 1e6 * spent, "us")
    report.add("pettingzoo", size, "PettingZoo's dicts alone, by agent", 1e6 * (spent - alone) / size.nodes, "us")
