"""PPO on bids with advantages from branches as an RLlib `Algorithm`: runners branch games, the learner takes the steps.

`BranchingPPO` is RLlib's `Algorithm` on Ray, `LocalBranching` connects the same runner and learner in this process,
without Ray; both give the same weights. See `agents.rllib.pieces`: a piece is a game.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor

from agents.branching import BranchSampler, BranchSettings, TailValue, log_ratios
from agents.branching.playing import Branched, BranchedPlay
from agents.branching.targets import RoundTargets, targets_of
from agents.networks import Blueprint
from agents.rllib.algorithm import DIVERGED
from agents.rllib.evolution import BiddingTask, build_policy, spec_of
from agents.rllib.games import GameConfig, GameRunner, GameSetup
from agents.rllib.pieces import SETUP, LocalTraining, PieceAlgorithm, PieceLearner, TrainingOnRay
from agents.seeding import Phase, derive_seed
from envs.bidding import BiddingSpec
from envs.types import MurmurationError
from envs.workloads import WorkloadSource

SCALE_WEIGHT = 0.1  # of new targets in the running scale of the tail value
PlayedGames = Mapping[int, Branched | None]  # by the number of the game


class BranchedSetup(GameSetup):
    """The part of a setup that bids and the discrete environment share.

    Attributes:
        settings: parameters of PPO and of branches.
        seed: seed of the run.
    """

    settings: BranchSettings
    seed: int

    @abstractmethod
    def sampler(self, index: int) -> BranchedPlay:
        """Return what plays and branches the games of a task."""

    def build_tail(self) -> TailValue:
        """Build the tail value."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.seed, Phase.LEARNING, 1))
            return TailValue(self.settings.discount_time)


@dataclass(frozen=True)
class BranchSetup(BranchedSetup):
    """Everything that the parts of a run share.

    Attributes:
        tasks: episodes are drawn from all of them in turn.
        blueprint: the network, which implements `agents.networks.bidding.BidNetwork`.
        settings: parameters of PPO and of branches.
        seed: seed of the run.
        start: weights by name with which the policy starts; None for fresh ones. Layers that it lacks start fresh.
    """

    tasks: tuple[BiddingTask, ...]
    blueprint: Blueprint
    settings: BranchSettings
    seed: int
    start: Mapping[str, Tensor] | None = None

    @property
    def spec(self) -> BiddingSpec:
        """Sizes of observation and action of the first task with most bids, for which policies are built."""
        return spec_of(self.tasks)

    @property
    def sources(self) -> Sequence[WorkloadSource]:
        """Workloads of the tasks."""
        return [task.source for task in self.tasks]

    def build(self) -> Any:
        """Build the policy that training starts with; random weights follow from the seed."""
        return build_policy(self.blueprint, self.spec, self.seed, self.start)

    def sampler(self, index: int) -> BranchedPlay:
        """Return what plays and branches the games of a task."""
        return BranchSampler(self.tasks[index], self.settings)


class BranchModule(TorchRLModule):
    """A bidding network and a tail value as an RLlib module."""

    def setup(self) -> None:
        """Build both networks."""
        setup: BranchSetup = self.model_config[SETUP]
        self.network, self.tail = setup.build(), setup.build_tail()

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"bids": self.network.bids(batch["observation"]), "tail_values": self.tail(batch["backlog"])}


class BranchLearner(PieceLearner):
    """PPO's loss, with a ratio and a clip for each job that an arm explores."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Register Adam for the policy, and another with its own learning rate for the tail value."""
        module, settings = self.module[module_id].unwrapped(), self._setup.settings
        for name, network, learning_rate in (
            ("policy", module.network, settings.lr),
            ("tail", module.tail, settings.tail_lr),
        ):
            weights = [weight for weight in network.parameters() if weight.requires_grad]
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=torch.optim.Adam(weights),
                params=weights,
                lr_or_lr_schedule=learning_rate,
            )

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """Return the clipped policy loss and the Huber loss of the tail value, each a mean."""
        settings, module = self._setup.settings, self.module[module_id].unwrapped()
        log_ratio, explored = self._log_ratios(batch, fwd_out)
        ratio = log_ratio.exp()
        advantage = batch["advantages"].unsqueeze(-1)
        clipped = ratio.clamp(1.0 - settings.clip_param, 1.0 + settings.clip_param)
        count = explored.sum().clamp(min=1.0)
        gain = (torch.minimum(advantage * ratio, advantage * clipped) * explored).sum() / count
        values, targets = fwd_out["tail_values"] / module.tail.scale, batch["tails"] / module.tail.scale
        tail_loss = torch.nn.functional.huber_loss(values, targets, delta=10.0)
        unexplained = ((values - targets) ** 2).mean() / targets.var().clamp(min=1e-6)
        self.metrics.log_dict(
            {
                "policy_loss": -gain,
                "tail_loss": tail_loss,
                "tail_explained_variance": 1.0 - unexplained,
                "kl": ((ratio - 1.0 - log_ratio) * explored).sum() / count,
                "clip_fraction": (((ratio - 1.0).abs() > settings.clip_param) * explored).sum() / count,
            },
            key=module_id,
            window=1,
        )
        loss: Tensor = tail_loss - gain - self._bonus(batch, fwd_out)
        return loss

    def _log_ratios(self, batch: dict[str, Any], fwd_out: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return logarithms of ratios of probabilities, [B, num_arms, n], and 1 where an arm explored, else 0."""
        sigma, noise = self._setup.settings.sigma, batch["noise"]
        ratios = log_ratios(fwd_out["bids"], batch["means"], batch["observation"], noise, sigma)
        return ratios, noise["explored"].float()

    def _bonus(self, _batch: dict[str, Any], fwd_out: dict[str, Tensor]) -> Tensor:
        """Return what exploring for its own sake is worth; Gaussian bids keep their deviation, so nothing."""
        return fwd_out["tail_values"].new_zeros(())

    def learn(self, played: PlayedGames, iteration: int) -> dict[str, float]:
        """Take the steps of one iteration; return figures to log.

        Raises:
            MurmurationError: a loss is not finite.
        """
        setup, settings = self._setup, self._setup.settings
        figures: dict[str, float] = {}
        for index in range(len(setup.sources)):
            rounds = [each for number, each in sorted(played.items()) if setup.task_of(number) == index and each]
            if not rounds:
                continue
            targets = targets_of(rounds, settings, np.random.default_rng([setup.seed, iteration, index]))
            self._own.tail.track_scale(torch.from_numpy(targets.columns["tails"]), SCALE_WEIGHT)
            figures |= targets.figures | self._fit(targets)
        for name, value in figures.items():
            if not np.isfinite(value):
                raise MurmurationError(
                    f"branching: {name} is {value}; {DIVERGED.replace('ppo.lr and ppo.critic_lr', 'branching.lr')}"
                )
        return figures

    def _fit(self, targets: RoundTargets) -> dict[str, float]:
        """Take the steps on the rounds of one task."""
        settings, count = self._setup.settings, targets.num_rounds
        batch = MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(targets.columns)}, env_steps=count)
        result = self.update(
            batch=batch,
            timesteps={"num_env_steps_sampled_lifetime": 0},
            num_epochs=settings.num_epochs,
            minibatch_size=-(-count // settings.num_minibatches),
            shuffle_batch_per_epoch=False,  # by RLlib from a global generator; the rounds are in random order already
        )
        found = result[DEFAULT_MODULE_ID]
        names = ("policy_loss", "tail_loss", "tail_explained_variance", "kl", "clip_fraction", "entropy")
        return {f"learner/{name}": float(found[name]) for name in names if name in found}

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """Return the weights of policy and tail value."""
        return {
            part: {name: value.detach().clone() for name, value in getattr(self._own, part).state_dict().items()}
            for part in ("network", "tail")
        }

    def policy(self) -> dict[str, Tensor]:
        """Return the weights of the policy."""
        return self.weights()["network"]


class BranchRunner(GameRunner):
    """Plays and branches training games."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._tail = self._setup.build_tail()

    def play(self, weights: Mapping[str, Any], iteration: int, numbers: Sequence[int]) -> dict[int, Branched | None]:
        """Play and branch games; return what is learnt from each."""
        self._network.load_state_dict(weights["network"])
        self._network.eval()
        self._tail.load_state_dict(weights["tail"])
        return self.play_games(
            iteration, numbers, lambda sampler, games: sampler.play(self._network, self._tail, games)
        )


class BranchingPPO(PieceAlgorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the games, then the learner steps."""

    @classmethod
    def get_default_config(cls) -> "BranchConfig":
        """Return an empty configuration; use `BranchConfig.of`."""
        return BranchConfig(cls)


class BranchConfig(GameConfig):
    """RLlib's configuration for a `BranchSetup`."""

    runner, learner, module, algorithm = BranchRunner, BranchLearner, BranchModule, BranchingPPO


class LocalBranching(LocalTraining):
    """Runner and learner in this process, without Ray."""

    def __init__(self, setup: BranchSetup, iteration: int = 0) -> None:
        super().__init__(setup, BranchConfig, iteration)


class BranchingOnRay(TrainingOnRay):
    """RLlib's `Algorithm` on Ray: several workers, several machines."""

    def __init__(self, setup: BranchSetup, iteration: int = 0) -> None:
        super().__init__(setup, BranchConfig, "trainer.branching")
