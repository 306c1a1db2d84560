"""Expert iteration as an RLlib `Algorithm`: runners play and ask the expert, the learner takes the steps.

`ExpertIteration` is RLlib's `Algorithm` on Ray, `LocalExpertIteration` connects the same runner and learner in this
process, without Ray; both give the same weights. See `agents.rllib.pieces`: a piece is a game.

Sources: expert iteration by Anthony, Tian and Barber (NeurIPS'17); that other futures than the search's judge what is
learnt is our own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor

from agents.expert_iteration import AskedRounds, ExpertSampler, ExpertSettings
from agents.networks import Blueprint
from agents.rllib.algorithm import DIVERGED
from agents.rllib.evolution import BiddingTask, build_policy, spec_of
from agents.rllib.games import GameConfig, GameRunner, GameSetup
from agents.rllib.pieces import SETUP, LocalTraining, PieceAlgorithm, PieceLearner, TrainingOnRay
from envs.bidding import BiddingSpec
from envs.bidding.columns import PAIR_PRESENT
from envs.types import FloatArray, MurmurationError
from envs.workloads import WorkloadSource

AskedGames = Mapping[int, AskedRounds | None]  # by the number of the game


@dataclass(frozen=True)
class ExpertSetup(GameSetup):
    """Everything that the parts of a run share.

    Attributes:
        tasks: episodes are drawn from all of them in turn.
        blueprint: the network, which implements `agents.networks.bidding.BidNetwork`.
        settings: parameters of expert iteration.
        seed: seed of the run.
        start: weights by name with which the policy starts; None for fresh ones. Layers that it lacks start fresh.
    """

    tasks: tuple[BiddingTask, ...]
    blueprint: Blueprint
    settings: ExpertSettings
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

    def sampler(self, index: int) -> ExpertSampler:
        """Return what plays the games of a task and asks the expert."""
        return ExpertSampler(self.tasks[index], self.settings)

    def build(self) -> Any:
        """Build the policy that training starts with; random weights follow from the seed."""
        return build_policy(self.blueprint, self.spec, self.seed, self.start)


class ExpertModule(TorchRLModule):
    """A bidding network as an RLlib module."""

    def setup(self) -> None:
        """Build the network."""
        self.network = self.model_config[SETUP].build()

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"bids": self.network.bids(batch["observation"])}


class ExpertLearner(PieceLearner):
    """Regression of the bids found for the expert, where they are worth it; elsewhere of the policy's own."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Register Adam."""
        weights = [each for each in self.module[module_id].unwrapped().parameters() if each.requires_grad]
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.Adam(weights),
            params=weights,
            lr_or_lr_schedule=self._setup.settings.lr,
        )

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """Return the weighted Huber loss over the pairs that hold a job."""
        target = batch["targets"]
        said = fwd_out["bids"][..., : target.shape[-1]]  # without the batch size, where the task fixes it
        wrong = torch.nn.functional.huber_loss(said, target, reduction="none", delta=self._setup.settings.huber)
        present = batch["observation"]["pairs"][..., PAIR_PRESENT, None]
        weight = batch["weights"][:, None, None, None]
        loss: Tensor = (wrong * present * weight).sum() / (present.sum().clamp(min=1.0) * wrong.shape[-1])
        self.metrics.log_value((module_id, "loss"), loss, window=1)
        return loss

    def learn(self, played: AskedGames, iteration: int) -> dict[str, float]:
        """Take the steps of one iteration; return figures to log.

        Raises:
            MurmurationError: the loss is not finite.
        """
        setup, settings = self._setup, self._setup.settings
        figures: dict[str, float] = {}
        for index in range(len(setup.sources)):
            games = [each for number, each in sorted(played.items()) if setup.task_of(number) == index and each]
            if not games:
                continue
            rng = np.random.default_rng([setup.seed, iteration, index])
            columns, found = lessons_of(games, settings, rng)
            count = len(columns["weights"])
            result = self.update(
                batch=MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(columns)}, env_steps=count),
                timesteps={"num_env_steps_sampled_lifetime": 0},
                num_epochs=settings.num_epochs,
                minibatch_size=-(-count // settings.num_minibatches),
                shuffle_batch_per_epoch=False,  # by RLlib from a global generator; rounds are in random order already
            )
            figures |= found | {"learner/loss": float(result[DEFAULT_MODULE_ID]["loss"])}
        for name, value in figures.items():
            if not np.isfinite(value):
                advice = DIVERGED.replace("ppo.lr and ppo.critic_lr", "expert_iteration.lr")
                raise MurmurationError(f"expert iteration: {name} is {value}; {advice}")
        return figures

    def weights(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return {name: value.detach().clone() for name, value in self._own.network.state_dict().items()}

    def policy(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return self.weights()


def lessons_of(
    games: Sequence[AskedRounds], settings: ExpertSettings, rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, float]]:
    """Join the rounds of games of one task, in random order.

    Args:
        games: at least one.
        settings: `confidence` and `most_weight`.
        rng: of the order.

    Returns:
        `observation`, `targets` and `weights` of the rounds, and figures to log. Where the expert's choice is better,
        the target is the bids found for it, and the weight what it saves, relative to what such choices
        save on average. Elsewhere the target is the policy's own bids, and the weight 1.
    """
    saved: FloatArray = np.concatenate([game.gains for game in games])
    gains = saved.mean(axis=1)
    errors = saved.std(axis=1, ddof=1) / np.sqrt(saved.shape[1])
    own, bids = (np.concatenate([getattr(game, name) for game in games]) for name in ("own", "bids"))
    better = (gains > 0) & (gains > settings.confidence * errors)
    usual = max(float(gains[better].mean()) if better.any() else 0.0, 1e-9)
    order = rng.permutation(len(gains))
    columns = {
        "observation": {
            name: np.concatenate([game.observation[name] for game in games])[order] for name in games[0].observation
        },
        "targets": np.where(better[:, None, None, None], bids, own[..., : bids.shape[-1]])[order],
        "weights": np.where(better, np.minimum(gains / usual, settings.most_weight), 1.0).astype(np.float32)[order],
    }
    scores = np.array([game.score for game in games], np.float64)
    differs = np.concatenate([game.differs for game in games])
    found = np.concatenate([game.found for game in games])
    figures = {
        "train/mean_jct": float(scores[:, 0].mean()),
        "train/makespan": float(scores[:, 1].mean()),
        "train/unfinished": float(scores[:, 2].mean()),
        "expert/rounds": float(len(gains)),
        "expert/differs": float(differs.mean()),
        "expert/found": float(found[differs].mean()) if differs.any() else 1.0,
        "expert/better": float(better[differs].mean()) if differs.any() else 0.0,
        "expert/gain": float(gains[differs].mean()) if differs.any() else 0.0,
        "expert/gain_where_better": usual if better.any() else 0.0,
    }
    return columns, figures


class ExpertRunner(GameRunner):
    """Plays training games and asks the expert."""

    def play(
        self, weights: Mapping[str, Tensor], iteration: int, numbers: Sequence[int]
    ) -> dict[int, AskedRounds | None]:
        """Play games; return what is learnt from each."""
        self._network.load_state_dict(weights)
        self._network.eval()
        return self.play_games(iteration, numbers, lambda sampler, games: sampler.play(self._network, games))


class ExpertIteration(PieceAlgorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the games, then the learner steps."""

    @classmethod
    def get_default_config(cls) -> "ExpertConfig":
        """Return an empty configuration; use `ExpertConfig.of`."""
        return ExpertConfig(cls)


class ExpertConfig(GameConfig):
    """RLlib's configuration for an `ExpertSetup`."""

    runner, learner, module, algorithm = ExpertRunner, ExpertLearner, ExpertModule, ExpertIteration


class LocalExpertIteration(LocalTraining):
    """Runner and learner in this process, without Ray."""

    def __init__(self, setup: ExpertSetup, iteration: int = 0) -> None:
        super().__init__(setup, ExpertConfig, iteration)


class ExpertIterationOnRay(TrainingOnRay):
    """RLlib's `Algorithm` on Ray: several workers, several machines."""

    def __init__(self, setup: ExpertSetup, iteration: int = 0) -> None:
        super().__init__(setup, ExpertConfig, "trainer.expert_iteration")
