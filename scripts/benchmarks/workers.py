"""Throughput over Ray's workers: episodes of a comparison, and steps of training, with 1 to N of them."""

import time

import ray

from agents.methods.group_ppo import GroupPPOSettings
from agents.networks import Blueprint
from agents.on_ray.connecting import LOCAL, connect
from agents.problems.options import OptionProblem, OptionTask
from baselines import Las
from benchmarks.report import Report
from benchmarks.suite import SIZES, Suite
from benchmarks.worlds import FULL
from envs.evaluation.playing import play_elsewhere
from envs.performance import default_model
from envs.simulation import Setup
from envs.workloads import SyntheticSource
from murmuration.runs.spreading import spread_over_ray

EPISODES = 16  # of a comparison, for each worker
GROUPS = 4  # of training episodes, for each worker
LEAST_OF_LINEAR = 0.7  # episodes with N workers relative to N times those with one; training has one learner
STORE = 400_000_000  # bytes of Ray's object store


def measure_workers(report: Report, suite: Suite) -> None:
    """Play and train with each number of workers of the suite, on a Ray that has as many CPUs.

    Seconds are those of the clock, so the machine must be idle, with a core for each worker.
    """
    size = SIZES[0]
    cluster, performance = size.cluster(), default_model()
    source = SyntheticSource(cluster, performance, num_jobs=size.jobs, num_evaluation=EPISODES)
    world = OptionTask(str(size), Setup(cluster, performance, FULL), source)
    one: dict[str, float] = {}
    for count in suite.workers:
        connect(LOCAL, "parts=workers", num_cpus=count, object_store_memory=STORE)
        try:
            found = {
                "episodes/s": episodes_per_second(world, count),
                "training episodes/s": trained_per_second(world, count),
            }
        finally:
            ray.shutdown()
        for unit, value in found.items():
            one.setdefault(unit, value / count)
            report.add("workers", size, f"{count} workers", value, unit)
            if count > 1:
                linear, least = value / (count * one[unit]), LEAST_OF_LINEAR if unit == "episodes/s" else 0
                report.add("workers", size, f"{count} workers, {unit}", linear, "of linear", least=least)


def episodes_per_second(world: OptionTask, count: int) -> float:
    """Play the same number of episodes on each worker, after one that loads what they need."""
    shared = ({"las": Las()}, list(world.source.evaluation()), world.setup, 0)
    calls = [("las", number % EPISODES, False) for number in range(EPISODES * count)]
    list(spread_over_ray(play_elsewhere, shared, calls[:count]))
    began = time.perf_counter()
    list(spread_over_ray(play_elsewhere, shared, calls))
    return len(calls) / (time.perf_counter() - began)


def trained_per_second(world: OptionTask, count: int) -> float:
    """Run an iteration of group PPO, after one that loads what the runners need; the learner is in this process."""
    settings = GroupPPOSettings(num_workloads=GROUPS * count, num_env_runners=count)
    problem = OptionProblem([world], Blueprint())
    algorithm = settings.start(problem, problem.build(0, None), 0)
    algorithm.train()
    began = time.perf_counter()
    algorithm.train()
    spent = time.perf_counter() - began
    algorithm.stop()
    return settings.num_episodes / spent
