"""Training: RLlib's PPO beside a plain loop on the same network, and the environment's share of it."""

import torch

from agents.networks import Blueprint
from agents.rllib import PPOSettings, World
from agents.rllib.algorithm import LocalAlgorithm
from benchmarks.plain_ppo import PlainPPO
from benchmarks.report import Report
from benchmarks.scenarios import FULL
from benchmarks.suite import SIZES, Suite
from benchmarks.timing import cpu_seconds
from envs.performance import default_model
from envs.workloads import SyntheticSource

SIZE = SIZES[0]
LEAST_PACE, MOST_SHARE = 0.8, 0.05  # RLlib's of the plain loop's steps; the environment's of an iteration


def measure(report: Report, suite: Suite) -> None:
    """Iterations of equal size, one of each in turn, so that a change in the machine's load meets both."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cluster, performance = SIZE.cluster(), default_model()
    source = SyntheticSource(cluster, performance, num_jobs=SIZE.jobs)
    world = World(cluster, source, performance, FULL)
    settings = PPOSettings(train_batch_size=suite.batch, minibatch_size=suite.batch // 8, critic_warmup=0)
    plain, rllib = PlainPPO(world, settings, 0), LocalAlgorithm(world, Blueprint(), settings, 0)
    slow, fast, shares = [], [], []
    for _ in range(1 + suite.iterations):
        fast.append(cpu_seconds(plain.train))
        shares.append(plain.env_seconds / fast[-1])
        slow.append(cpu_seconds(rllib.train))
    rllib.stop()
    best, other, share = min(fast[1:]), min(slow[1:]), min(shares[1:])
    report.add("training", SIZE, "plain PPO loop", suite.batch / best, "env-steps/CPU-s")
    report.add("training", SIZE, "RLlib", suite.batch / other, "env-steps/CPU-s")
    report.add("training", SIZE, "RLlib beside the plain loop", best / other, "x", least=LEAST_PACE)
    report.add("training", SIZE, "the environment's share of a plain iteration", share, "", most=MOST_SHARE)
