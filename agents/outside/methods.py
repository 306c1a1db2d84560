"""MAPPO and QMIX of TorchRL, as algorithms of a training run (`agents.training.Trainer`).

Policy and action values are networks of the project (`agents.networks`), so that these methods begin where the others
do: with a bias on passing, as what a market proposes. All else is TorchRL's: losses, advantages, value normalisation,
mixing network, replay buffer, exploration.
"""

import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.postprocs import MultiStep
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import EGreedyModule, PopArtValueNorm, ProbabilisticActor, QMixer, QValueModule
from torchrl.objectives import SoftUpdate
from torchrl.objectives.multiagent import MAPPOLoss, QMixerLoss

from agents.networks import Blueprint
from agents.outside.environment import ACTION, MASK, NODES, OBSERVATION, STATE, ClusterEnv, OnObservation
from agents.outside.settings import OutsideSettings
from agents.rllib import TrainingSetup
from agents.rllib.algorithm import require_finite
from agents.seeding import Phase, derive_seed
from envs.gpu_cluster.vector import GpuClusterVectorEnv
from envs.types import CheckpointError, MurmurationError

SAVED = "torchrl.pt"
PAID = ("reward", "done", "terminated")  # what follows from a step, beside what is seen then

logging.getLogger("torchrl").setLevel(logging.WARNING)  # it logs every new buffer


def make_outside(setup: TrainingSetup, blueprint: Blueprint, settings: OutsideSettings, seed: int) -> "OutsideMethod":
    """Return the method that the settings name."""
    return (Mappo if settings.method == "mappo" else Qmix)(setup, blueprint, settings, seed)


class OutsideMethod(ABC):
    """One of TorchRL's methods; it plays whole episodes in each iteration and learns from their steps.

    Args:
        setup: what episodes are made of.
        blueprint: the network.
        settings: see its class.
        seed: of the run.
    """

    def __init__(self, setup: TrainingSetup, blueprint: Blueprint, settings: OutsideSettings, seed: int) -> None:
        self.setup, self.blueprint, self.settings, self.seed = setup, blueprint, settings, seed
        self.iteration = 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, Phase.LEARNING))
            self.policy = blueprint.build(setup.spec)
            episodes = setup.vector_env(settings.num_envs)
            self.env = ClusterEnv(episodes, reward_scale(episodes))
            self.names = list(episodes.batch.observation)
            self.build()

    @abstractmethod
    def build(self) -> None:
        """Build loss, optimizer and the policy that plays."""

    @property
    @abstractmethod
    def player(self) -> Any:
        """The policy that plays training episodes."""

    @abstractmethod
    def learn(self, steps: Any) -> dict[str, float]:
        """Learn from the steps of an iteration, [B, T]; return figures to log."""

    @property
    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """What is saved, by name: everything with a `state_dict`."""

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Where the parts of an observation stand."""
        return [(OBSERVATION, name) for name in self.names]

    def set_network(self, network: nn.Module) -> None:
        """Copy the weights of a policy."""
        self.policy.load_state_dict(network.state_dict())

    def network(self) -> nn.Module:
        """Return a copy of the policy."""
        found = self.blueprint.build(self.setup.spec)
        found.load_state_dict(self.policy.state_dict())
        return require_finite(found)

    def train(self) -> dict[str, float]:
        """Play and learn; return figures to log.

        Raises:
            MurmurationError: a figure is not finite.
        """
        seed = derive_seed(self.seed, Phase.SAMPLING, self.iteration)
        torch.manual_seed(seed)
        self.env.set_seed(seed)
        steps = self._play()
        figures = self.learn(steps)
        self.iteration += 1
        rewards, ended = steps["next", "reward"], steps["next", "done"]
        figures |= {
            "train/steps": float(rewards.numel()),
            "train/ended": float(ended.sum()),
            "train/passes": float((steps[ACTION] == 0).float().mean()),
            "train/reward": float(rewards.sum() / self.settings.num_envs),
        }
        for name, value in figures.items():
            if not np.isfinite(value):
                raise MurmurationError(f"{self.settings.method}: {name} is {value}; training has diverged, lower lr")
        return figures

    @torch.no_grad()
    def _play(self) -> Any:
        """Return the steps [B, T] until every episode has ended once."""
        current, found = self.env.reset(), []
        unended = torch.ones(self.settings.num_envs, dtype=torch.bool)
        while unended.any():
            with set_exploration_type(ExplorationType.RANDOM):  # else actors take their likeliest actions
                acting = self.player(current)
            step, current = self.env.step_and_maybe_reset(acting)
            found.append(step)
            unended &= ~step["next", "done"].squeeze(-1)
        return torch.stack(found, dim=1).contiguous()

    def save(self, folder: Path) -> None:
        """Write the state, which is a pickle: restore only your own."""
        state = {name: part.state_dict() for name, part in self.parts.items()}
        torch.save({"iteration": self.iteration, **state}, folder / SAVED)

    def restore(self, folder: Path) -> None:
        """Continue from a saved state.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        try:
            state = torch.load(folder / SAVED, weights_only=True)
            for name, part in self.parts.items():
                part.load_state_dict(state[name])
            self.iteration = int(state["iteration"])
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"{folder / SAVED}: cannot be restored ({error}); start a new run") from error

    def stop(self) -> None:
        """Close the environment."""
        self.env.close()

    def _step(self, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
        """Take a step of an optimizer."""
        optimizer.zero_grad()
        loss.backward()
        weights = [each for group in optimizer.param_groups for each in group["params"]]
        nn.utils.clip_grad_norm_(weights, self.settings.grad_clip)
        optimizer.step()


def reward_scale(episodes: GpuClusterVectorEnv) -> float:
    """Return the factor with which the mean return of episodes is -100 if all nodes always pass.

    Args:
        episodes: are played once from their beginning.
    """
    actions, total = np.zeros((episodes.num_envs, episodes.batch.spec.num_nodes), np.int64), 0.0
    for b in range(episodes.num_envs):
        episodes.begin(b)
    while not episodes.batch.ended.all():
        going = ~episodes.batch.ended
        total += float(episodes.batch.step(actions)[0][going].sum())
    return -100.0 * episodes.num_envs / min(total, -1e-9)


class Mappo(OutsideMethod):
    """Multi-agent PPO: an actor for each node, a central critic with a normalised value."""

    def build(self) -> None:
        """Build actor, critic, loss and optimizer."""
        settings = self.settings
        logits = OnObservation(self.policy, self.names, "logits")
        self.actor = ProbabilisticActor(
            TensorDictModule(logits, self.keys, [(NODES, "logits")]),
            in_keys={"logits": (NODES, "logits")},
            out_keys=[ACTION],
            distribution_class=Categorical,
            return_log_prob=True,
            log_prob_key=(NODES, "action_log_prob"),
        )
        self.values = self.blueprint.build(self.setup.spec)
        value = OnObservation(self.values, self.names, "value", self.setup.spec.num_nodes)
        critic = TensorDictModule(value, self.keys, [(NODES, "state_value")])
        self.loss = MAPPOLoss(
            self.actor,
            critic,
            value_norm=PopArtValueNorm(shape=1),
            clip_epsilon=settings.clip_param,
            entropy_coeff=settings.entropy_coeff,
        )
        self.loss.set_keys(
            value=(NODES, "state_value"), action=ACTION, sample_log_prob=(NODES, "action_log_prob"), reward="reward"
        )
        self.loss.make_value_estimator(gamma=settings.gamma, lmbda=settings.gae_lambda)
        weights = [each for each in self.policy.parameters() if each.requires_grad]
        central = [each for each in self.values.parameters() if each.requires_grad]
        self.optimizer = torch.optim.Adam(
            [{"params": weights, "lr": settings.lr}, {"params": central, "lr": settings.critic_lr}]
        )

    @property
    def player(self) -> Any:
        """The actor, which draws actions."""
        return self.actor

    @property
    def parts(self) -> dict[str, Any]:
        """Actor, critic, normalisation and optimizer."""
        return {"policy": self.policy, "values": self.values, "loss": self.loss, "optimizer": self.optimizer}

    def learn(self, steps: Any) -> dict[str, float]:
        """Take the steps of PPO."""
        settings, figures = self.settings, dict[str, list[float]]()
        judged = steps.select(OBSERVATION, ("next", OBSERVATION), *(("next", name) for name in PAID))
        with torch.no_grad():
            self.loss.value_estimator(
                judged,
                params=self.loss.critic_network_params,
                target_params=self.loss.target_critic_network_params,
            )
        flat = steps.exclude("next").update(judged.exclude("next", OBSERVATION)).reshape(-1)
        for _ in range(settings.num_epochs):
            for chosen in torch.randperm(len(flat)).split(settings.minibatch_size):
                found = self.loss(flat[chosen])
                losses = {name: value for name, value in found.items() if name.startswith("loss_")}
                self._step(self.optimizer, sum(losses.values()))
                for name in (*losses, "entropy", "kl_approx", "clip_fraction"):
                    if (value := found.get(name, None)) is not None:
                        figures.setdefault(f"learner/{name}", []).append(float(value.detach().mean()))
        return {name: float(np.mean(values)) for name, values in figures.items()}


class RelativeToPassing(nn.Module):
    """Action values less that of passing, [..., num_nodes, num_actions]; `values` returns action values.

    What a state is worth if all nodes pass is then the mixing network's to learn, from the state.
    """

    def __init__(self, values: nn.Module) -> None:
        super().__init__()
        self.values = values

    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        """Return the values on the parts of an observation."""
        found: torch.Tensor = self.values(*parts)
        return found - found[..., :1]


class NegativeMixer(nn.Module):
    """A mixing network with negative values, log(sigmoid(value)), which hardly changes values far below 0.

    The function is monotone, so each node's best action is still part of the best joint action.
    """

    def __init__(self, mixer: QMixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, chosen: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return the value [..., 1] of the nodes' chosen action values [..., num_nodes, 1] in a state."""
        return nn.functional.logsigmoid(self.mixer(chosen, state))


def sum_rewards(steps: Any, n_steps: int, gamma: float) -> Any:
    """Replace the reward of each step [B, T] by the discounted sum over `n_steps`, and its next state by the one after.

    TorchRL's `MultiStep` does not mark steps whose episode ends within these `n_steps`; this is done here.
    """
    found = MultiStep(gamma, n_steps)(steps)
    last = torch.arange(steps.shape[1]) + found["steps_to_next_obs"] - 1
    for name in ("done", "terminated"):
        found["next", name] = steps["next", name].gather(1, last.unsqueeze(-1))
    return found.select(*steps.keys(True, True), "steps_to_next_obs")


class Qmix(OutsideMethod):
    """QMIX: nodes' action values, mixed monotonically into one, learnt off-policy by Q-learning with a target network.

    Unlike the published method, a node's values are relative to that of passing, a dueling form. Nodes nearly always
    pass here. Values of their own would follow the cost of an episode for passing alone, and passing would soon look
    worse than actions that were hardly tried. Unless `positive` is set, the mixed value is at most 0, since no
    reward is positive. This bounds the overestimation that the maximum over all nodes' actions causes.
    """

    def build(self) -> None:
        """Build action values, mixing network, loss, buffer and optimizer."""
        settings = self.settings
        values = RelativeToPassing(OnObservation(self.policy, self.names, "logits"))
        local = TensorDictSequential(
            TensorDictModule(values, self.keys, [(NODES, "action_value")]),
            QValueModule(
                action_value_key=(NODES, "action_value"),
                out_keys=[ACTION, (NODES, "action_value"), (NODES, "chosen_action_value")],
                action_space="categorical",
            ),
        )
        explore = EGreedyModule(
            self.env.full_action_spec[ACTION],
            eps_init=settings.exploration,
            eps_end=settings.exploration,
            action_key=ACTION,
            action_mask_key=MASK,
        )
        self._player = TensorDictSequential(local, explore)
        state = self.env.observation_spec[STATE].shape[-1]
        mixer = QMixer((state,), settings.mixing_width, self.setup.spec.num_nodes, "cpu")
        mixed = mixer if settings.positive else NegativeMixer(mixer)
        mixing = TensorDictModule(mixed, [(NODES, "chosen_action_value"), STATE], ["chosen_action_value"])
        self.judge = TensorDictSequential(local, mixing)
        self.loss = QMixerLoss(local, mixing, action_space="categorical", delay_value=True)
        self.loss.set_keys(
            action_value=(NODES, "action_value"),
            local_value=(NODES, "chosen_action_value"),
            global_value="chosen_action_value",
            action=ACTION,
        )
        self.loss.make_value_estimator(gamma=settings.gamma)
        self.targets = SoftUpdate(self.loss, tau=settings.target_step)
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(settings.buffer_size), batch_size=settings.minibatch_size
        )
        self.optimizer = torch.optim.Adam(
            [
                {"params": [each for each in self.policy.parameters() if each.requires_grad], "lr": settings.lr},
                {"params": list(mixed.parameters()), "lr": settings.critic_lr},
            ]
        )

    @property
    def player(self) -> Any:
        """The highest action values, and now and then a random action."""
        return self._player

    @property
    def parts(self) -> dict[str, Any]:
        """Action values, mixing network, their targets and the optimizer."""
        return {"policy": self.policy, "loss": self.loss, "optimizer": self.optimizer}

    def learn(self, steps: Any) -> dict[str, float]:
        """Remember the steps, and learn from steps drawn from the buffer."""
        settings, losses = self.settings, []
        kept = steps.select(
            OBSERVATION, STATE, ACTION, ("next", OBSERVATION), ("next", STATE), *(("next", name) for name in PAID)
        )
        self.buffer.extend(sum_rewards(kept, settings.n_steps, settings.gamma).reshape(-1))
        for _ in range(settings.num_epochs * -(-steps.numel() // settings.minibatch_size)):
            found = self.loss(self.buffer.sample())
            self._step(self.optimizer, found["loss"])
            self.targets.step()
            losses.append(float(found["loss"].detach()))
        return {"learner/loss": float(np.mean(losses)), "learner/value": self._value(kept)}

    @torch.no_grad()
    def _value(self, steps: Any) -> float:
        """Return the mean value of the best joint action in the first step of each episode [B, T]."""
        return float(self.judge(steps[:, 0].select(OBSERVATION, STATE))["chosen_action_value"].mean())
