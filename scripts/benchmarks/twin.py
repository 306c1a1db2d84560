"""The environment beside its twin in plain Python, decision by decision."""

import time

import numpy as np

from benchmarks.report import Report
from benchmarks.snapshots import put
from benchmarks.stepping import step_seconds
from benchmarks.suite import Suite
from benchmarks.worlds import Size
from envs.gpu_cluster import GpuClusterBatch
from envs.gpu_cluster.reference import ReferenceEnvironment
from envs.simulation import State
from envs.simulation.reference_state import reference_at
from envs.types import IntArray

FASTER = {8: 60, 64: 60, 1000: 100, 12500: 100}  # than the twin, by servers


def beside_twin(
    report: Report, suite: Suite, size: Size, batch: GpuClusterBatch, start: State, actions: list[IntArray]
) -> None:
    """The first episode's decisions, in every place of the batch and by the twin, for `suite.twin_seconds`."""
    same = [np.repeat(joint[:1], batch.batch_size, axis=0) for joint in actions]
    world = size.workload(), batch.cluster, batch.performance, batch.scenario
    twin = ReferenceEnvironment(reference_at(start, 0, *world), batch.rules)
    twin.proceed()
    put(batch, start)
    spent, steps, differ = 0.0, 0, set[str]()
    while steps < len(same) and spent < suite.twin_seconds:
        began = time.process_time()
        twin.step(same[steps][0].tolist())
        spent += time.process_time() - began
        batch.step(same[steps])
        steps += 1
        differ |= {name for name, seen in twin.observation.items() if (seen != batch.observation[name]).any()}
    where = f"after {steps} decisions of {size}"
    report.same(f"what differs between observations {where}", sorted(differ), [])
    report.same(f"counters {where}", batch.counters(), twin.counters)
    report.same(f"instant {where}", float(batch.time[0]), twin.simulator.time)
    report.same(f"rounds {where}", int(batch.state.episode["num_rounds"][0, 0]), twin.simulator.num_rounds)
    fast = step_seconds(batch, start, same[:steps], suite.repeats)
    report.add("decisions", size, "decisions that both take", steps, "")
    report.add("decisions", size, "plain twin", 1e6 * spent / steps, "us")
    report.add("decisions", size, "faster than the plain twin", spent / steps / fast, "x", least=FASTER[size.servers])
