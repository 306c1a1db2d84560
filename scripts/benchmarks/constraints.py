"""The engine where jobs have constraints that allow every node: the cost of an episode over that without them."""

from dataclasses import replace

import numpy as np

from baselines import Las
from benchmarks.engine import FRESH, WHOLE
from benchmarks.report import Report
from benchmarks.sharing import time_event
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import FULL, FifoEpisode, Size
from envs.simulation import run_episode
from envs.types import Constraints, constrain
from envs.workloads import Workload

MOST_COST = 1.05  # of an episode with constraints, over one without
SIZES = 2  # the smallest ones
ROUNDS = 6  # both are timed in turn so many times, at least; the best of each counts


def measure_constraints(report: Report, suite: Suite) -> None:
    """Time compiled FIFO, and LAS, whose allocations are checked one by one, without and with constraints."""
    for size in suite.sizes[:SIZES]:
        workloads = {"without": size.workload(), "with": constrain_all(size)}
        compiled, checked = dict.fromkeys(workloads, np.inf), dict.fromkeys(workloads, np.inf)
        for _ in range(max(ROUNDS, FRESH if size.jobs <= WHOLE else 1)):
            for name, workload in workloads.items():
                episode = FifoEpisode(size, FULL, workload)
                compiled[name] = min(compiled[name], time_event(episode, suite))
                report.same(f"events of {size}, {name} constraints", episode.num_events, 2 * size.jobs)
                simulator = size.simulator(FULL, workload)
                spent = cpu_seconds(lambda simulator=simulator: run_episode(Las(), simulator))  # type: ignore[misc]
                checked[name] = min(checked[name], spent)
        report.add("constraints", size, "FIFO, compiled", 1e9 * compiled["without"], "ns/event")
        ratio = compiled["with"] / compiled["without"]
        report.add("constraints", size, "FIFO, compiled, with constraints", ratio, "x", most=MOST_COST)
        report.add("constraints", size, "LAS", checked["without"], "s/episode")
        ratio = checked["with"] / checked["without"]
        report.add("constraints", size, "LAS, with constraints", ratio, "x", most=MOST_COST)


def constrain_all(size: Size) -> Workload:
    """The jobs of a size, half of which ask for any of the GPU types of its cluster, and half for more."""
    workload, types = size.workload(), size.cluster().gpu_types
    asked = [Constraints(gpu_types=types), Constraints(gpu_types=types, max_nodes=size.nodes)]
    models = tuple(constrain(model, each) for each in asked for model in workload.models)
    jobs = workload.jobs.copy()
    jobs["model"] += len(workload.models) * (np.arange(len(jobs)) % len(asked))
    return replace(workload, jobs=jobs, models=models)
