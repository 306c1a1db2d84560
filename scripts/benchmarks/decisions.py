"""The environment's decision step with observation and mask: hot and cold, by candidates, beside its plain twin."""

from dataclasses import replace

import numpy as np

from benchmarks.report import Report
from benchmarks.snapshots import batch_of, loaded_state, memory
from benchmarks.stepping import step_seconds, trajectory
from benchmarks.suite import Suite
from benchmarks.twin import beside_twin
from benchmarks.worlds import Size

HOT = 4.0  # MB of arrays that a batch may have to stay in the caches
MOST_ENVS = 1024


def measure(report: Report, suite: Suite) -> None:
    """All sizes."""
    for size in suite.sizes:
        measure_size(report, suite, replace(size, elastic=True))


def measure_size(report: Report, suite: Suite, size: Size) -> None:
    """Hot with 16 candidates beside the twin, hot with more candidates, cold; and memory."""
    start = loaded_state(size)
    single, now = batch_of(size, 1), start.episode[0, 0]
    report.add("decisions", size, "jobs that wait at the loaded instant", now.num_active - now.num_running, "jobs")
    report.add("decisions", size, "jobs that run at the loaded instant", now.num_running, "jobs")
    each = memory(single)
    report.add("memory", size, "state of the engine", single.state.nbytes / 1e3, "kB/env")
    report.add("memory", size, "all arrays of an environment", each / 1e3, "kB/env")
    hot = max(1, min(16, int(HOT * 1e6 / each)))
    for candidates in (16, *suite.candidates):
        batch = batch_of(size, hot, candidates)
        actions = trajectory(batch, start, suite.steps)
        cost = step_seconds(batch, start, actions, suite.repeats)
        tell(report, size, f"hot, {candidates} candidates", cost)
        if candidates == 16:
            beside_twin(report, suite, size, batch, start, actions)
    cold = min(MOST_ENVS, int(np.ceil(suite.cold * 1e6 / each)))
    batch = batch_of(size, cold)
    cost = step_seconds(batch, start, trajectory(batch, start, 4), 1)
    tell(report, size, "cold, 16 candidates", cost)
    report.add("decisions", size, "environments of a batch, hot", hot, "")
    report.add("decisions", size, "environments of a batch, cold", cold, "")


def tell(report: Report, size: Size, how: str, cost: float) -> None:
    """One way of stepping."""
    report.add("decisions", size, f"step, {how}", 1e6 * cost, "us")
    report.add("decisions", size, f"env-steps, {how}", 1 / cost, "1/s")
    report.add("decisions", size, f"agent-steps, {how}", size.servers / cost, "1/s")
