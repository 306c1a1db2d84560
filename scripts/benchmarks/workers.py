"""Throughput over Ray's workers: episodes of a comparison, and steps of training, with 1 to N of them."""

import time
from dataclasses import replace

import ray

from agents.methods.ppo import PPOSettings, TrainingSetup
from agents.methods.ppo.algorithm import PPOAlgorithm
from agents.networks import Blueprint
from baselines import Las
from benchmarks.report import Report
from benchmarks.suite import SIZES, Suite
from benchmarks.worlds import FULL
from envs.evaluation.playing import play_elsewhere
from envs.performance import default_model
from envs.simulation import Setup
from envs.workloads import SyntheticSource
from launch.spreading import spread_over_ray

EPISODES = 16  # for each worker
LEAST_OF_LINEAR = 0.7  # episodes with N workers relative to N times those with one; training has one learner
STORE = 400_000_000  # bytes of Ray's object store


def measure_workers(report: Report, suite: Suite) -> None:
    """Play and train with each number of workers of the suite, on a Ray that has as many CPUs.

    Seconds are those of the clock, so the machine must be idle, with a core for each worker.
    """
    size = SIZES[0]
    cluster, performance = size.cluster(), default_model()
    source = SyntheticSource(cluster, performance, num_jobs=size.jobs, num_evaluation=EPISODES)
    world = TrainingSetup(Setup(cluster, performance, FULL), source)
    one: dict[str, float] = {}
    for count in suite.workers:
        ray.init(
            address="local", num_cpus=count, include_dashboard=False, log_to_driver=False, object_store_memory=STORE
        )
        try:
            found = {"episodes/s": episodes_per_second(world, count), "env-steps/s": steps_per_second(world, count)}
        finally:
            ray.shutdown()
        for unit, value in found.items():
            one.setdefault(unit, value / count)
            report.add("workers", size, f"{count} workers", value, unit)
            if count > 1:
                linear, least = value / (count * one[unit]), LEAST_OF_LINEAR if unit == "episodes/s" else 0
                report.add("workers", size, f"{count} workers, {unit}", linear, "of linear", least=least)


def episodes_per_second(world: TrainingSetup, count: int) -> float:
    """Play the same number of episodes on each worker, after one that loads what they need."""
    shared = ({"las": Las()}, list(world.source.evaluation()), world.setup, 0)
    calls = [("las", number % EPISODES, False) for number in range(EPISODES * count)]
    list(spread_over_ray(play_elsewhere, shared, calls[:count]))
    began = time.perf_counter()
    list(spread_over_ray(play_elsewhere, shared, calls))
    return len(calls) / (time.perf_counter() - began)


def steps_per_second(world: TrainingSetup, count: int) -> float:
    """Run an iteration of PPO, after one that loads what the runners need; the learner is in this process."""
    batch = 2048 * count
    settings = PPOSettings(train_batch_size=batch, minibatch_size=batch // 8, num_epochs=1, critic_warmup=0)
    algorithm = PPOAlgorithm(world, Blueprint(), replace(settings, num_env_runners=count), 0)
    algorithm.train()
    began = time.perf_counter()
    figures = algorithm.train()
    spent = time.perf_counter() - began
    algorithm.stop()
    return figures["train/env_steps"] / spent
