"""Tiny worlds, networks and settings of training for tests of `agents`; everything follows from a seed."""

from dataclasses import dataclass, replace

import torch

from agents.methods.group_ppo import GroupPPOSettings
from agents.networks import Blueprint
from agents.networks.option_scorer import OptionScorer
from agents.problems.options import OptionProblem, OptionTask
from envs.options import OptionRules, OptionSpec
from envs.performance import default_model
from envs.simulation import Scenario, Setup
from envs.types import ClusterSpec, NodeSpec
from envs.workloads import SyntheticSource

SCORER = Blueprint("agents.networks.option_scorer.OptionScorer", {"hidden": 8})
QUICK_PPO = GroupPPOSettings(
    num_workloads=2, group_size=2, num_minibatches=2, num_epochs=1, lr=1e-2, iterations=4, start_only=0.0
)


@dataclass(frozen=True)
class SmallWorld:
    """A setup, and a source of its workloads."""

    setup: Setup
    source: SyntheticSource

    def task(self, **rules) -> OptionTask:
        """The placement environment in this world."""
        return OptionTask("tiny", self.setup, self.source, OptionRules(num_candidates=6, **rules))

    def problem(self, blueprint: Blueprint = SCORER, **rules) -> OptionProblem:
        """The same, as the trainer sees it."""
        return OptionProblem([self.task(**rules)], blueprint)


def small_world(
    num_nodes=3, num_gpus=4, num_jobs=12, num_evaluation=1, load=1.2, scenario=None, **changes
) -> SmallWorld:
    """`num_nodes` equal nodes under synthetic jobs that fit on one of them."""
    cluster = ClusterSpec(tuple(NodeSpec("V100", num_gpus) for _ in range(num_nodes)), "tiny")
    source = SyntheticSource(
        cluster, default_model(), num_jobs=num_jobs, load=load, max_gpus=num_gpus, num_evaluation=num_evaluation
    )
    setup = Setup(cluster, default_model(), scenario or Scenario())
    return replace(SmallWorld(setup, source), **changes)


def scorer(seed=0, hidden=8) -> OptionScorer:
    """A narrow network with weights drawn from a seed; its scores differ from option to option."""
    torch.manual_seed(seed)
    return OptionScorer(OptionSpec(), hidden=hidden, output_scale=1.0)
