"""PPO on the discrete environment with advantages from branches; the counterpart of `agents.rllib.branching`.

The policy's loss is PPO's, with a ratio and a clip for each node that an arm lets explore. All else is shared: pieces
are games, `LocalChoiceBranching` runs in this process, `ChoiceBranchingOnRay` on RLlib's workers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ray.rllib.core import DEFAULT_MODULE_ID
from torch import Tensor, nn

from agents.branching import BranchSettings
from agents.branching.choices import ChoiceSampler, choice_log_ratios
from agents.branching.playing import BranchedPlay
from agents.networks import Blueprint
from agents.rllib.branching import BranchConfig, BranchedSetup, BranchingPPO, BranchLearner, BranchModule, BranchRunner
from agents.rllib.config import TrainingSetup
from agents.rllib.distribution import entropies
from agents.rllib.pieces import LocalTraining, TrainingOnRay
from envs.gpu_cluster import EnvSpec
from envs.workloads import WorkloadSource


@dataclass(frozen=True)
class ChoiceSetup(BranchedSetup):
    """Everything that the parts of a run share; see `agents.rllib.pieces.PieceSetup`.

    Attributes:
        training_setup: what episodes are made of; it has a market.
        blueprint: the network, which implements `agents.networks.PolicyNetwork`.
        settings: parameters of PPO and of branches.
        seed: seed of the run.
    """

    training_setup: TrainingSetup
    blueprint: Blueprint
    settings: BranchSettings
    seed: int

    @property
    def spec(self) -> EnvSpec:
        """Sizes of observation and action."""
        return self.training_setup.spec

    @property
    def sources(self) -> Sequence[WorkloadSource]:
        """Workloads of the only task."""
        return [self.training_setup.source]

    def build(self) -> nn.Module:
        """Build a policy; training gives it its first weights."""
        return self.blueprint.build(self.spec)

    def sampler(self, index: int) -> BranchedPlay:
        """Return what plays and branches games."""
        return ChoiceSampler(self.training_setup, self.settings)


class ChoiceModule(BranchModule):
    """A policy of the discrete environment and a tail value as an RLlib module."""

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"logits": self.network.logits(batch["observation"]), "tail_values": self.tail(batch["backlog"])}


class ChoiceLearner(BranchLearner):
    """PPO's loss, with a ratio and a clip for each node that an arm lets explore."""

    def _log_ratios(self, batch: dict[str, Any], fwd_out: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        explored = batch["explored"].float()
        return choice_log_ratios(fwd_out["logits"], batch["actions"], batch["log_probs"], explored), explored

    def _bonus(self, batch: dict[str, Any], fwd_out: dict[str, Tensor]) -> Tensor:
        """Return the entropy of the nodes' choices, a mean over those that have one, times its weight."""
        choosing = (batch["observation"]["mask"] > 0).sum(-1) > 1
        entropy = (entropies(fwd_out["logits"].log_softmax(-1)) * choosing).sum() / choosing.sum().clamp(min=1)
        self.metrics.log_value((DEFAULT_MODULE_ID, "entropy"), entropy, window=1)
        bonus: Tensor = self._setup.settings.entropy_coeff * entropy
        return bonus

    def set_policy(self, weights: Mapping[str, Tensor]) -> None:
        """Copy the weights of a policy."""
        self._own.network.load_state_dict(weights)


class ChoiceConfig(BranchConfig):
    """RLlib's configuration for a `ChoiceSetup`."""

    runner, learner, module, algorithm = BranchRunner, ChoiceLearner, ChoiceModule, BranchingPPO


class LocalChoiceBranching(LocalTraining):
    """Runner and learner in this process, without Ray."""

    def __init__(self, setup: ChoiceSetup, iteration: int = 0) -> None:
        super().__init__(setup, ChoiceConfig, iteration)

    def set_network(self, network: nn.Module) -> None:
        """Copy the weights of a policy."""
        set_policy(self._learner, network.state_dict())


class ChoiceBranchingOnRay(TrainingOnRay):
    """RLlib's `Algorithm` on Ray: several workers, several machines."""

    def __init__(self, setup: ChoiceSetup) -> None:
        super().__init__(setup, ChoiceConfig, "trainer.branching")

    def set_network(self, network: nn.Module) -> None:
        """Copy the weights of a policy."""
        self._algorithm.learner_group.foreach_learner(partial(set_policy, weights=network.state_dict()))


def set_policy(learner: Any, weights: Mapping[str, Tensor]) -> None:
    """Copy the weights of a policy into a learner; a function, because RLlib sends it to the workers."""
    learner.set_policy(weights)
