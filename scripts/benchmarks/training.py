"""Training: RLlib's PPO beside a plain loop on the same network, and the environment's share of it."""

import torch

from agents.methods.ppo import PPOSettings, TrainingSetup
from agents.methods.ppo.algorithm import LocalAlgorithm
from agents.networks import Blueprint
from benchmarks.plain_ppo import PlainPPO
from benchmarks.report import Report
from benchmarks.suite import SIZES, Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import FULL
from envs.performance import default_model
from envs.simulation import Setup
from envs.workloads import SyntheticSource

TRAINING_SIZE = SIZES[0]
LEAST_OF_PLAIN = 0.8  # steps per second of RLlib, relative to the plain loop
MOST_SHARE = 0.05  # of the environment in an iteration


def measure_training(report: Report, suite: Suite) -> None:
    """Time iterations of equal size in turn, so that a change in the machine's load affects both."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    size = TRAINING_SIZE
    cluster, performance = size.cluster(), default_model()
    source = SyntheticSource(cluster, performance, num_jobs=size.jobs)
    world = TrainingSetup(Setup(cluster, performance, FULL), source)
    settings = PPOSettings(train_batch_size=suite.batch, minibatch_size=suite.batch // 8, critic_warmup=0)
    plain, rllib = PlainPPO(world, settings, 0), LocalAlgorithm(world, Blueprint(), settings, 0)
    slow, fast, shares = [], [], []
    for _ in range(1 + suite.iterations):
        fast.append(cpu_seconds(plain.train))
        shares.append(plain.env_seconds / fast[-1])
        slow.append(cpu_seconds(rllib.train))
    rllib.stop()
    best, other, share = min(fast[1:]), min(slow[1:]), min(shares[1:])
    report.add("training", size, "plain PPO loop", suite.batch / best, "env-steps/CPU-s")
    report.add("training", size, "RLlib", suite.batch / other, "env-steps/CPU-s")
    report.add("training", size, "RLlib beside the plain loop", best / other, "x", least=LEAST_OF_PLAIN)
    report.add("training", size, "the environment's share of a plain iteration", share, "", most=MOST_SHARE)
