"""Whole episodes of the discrete environment; in some rounds, single nodes' other choices are branched."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from agents.branching.playing import BranchedPlay
from agents.branching.settings import BranchSettings
from agents.branching.tail import TailValue
from agents.evolution.playing import Score
from agents.rllib.config import TrainingSetup
from agents.rllib.distribution import chosen_log_probabilities
from envs.episodes.backlog import Backlog
from envs.gpu_cluster.branches import ChoiceBranches
from envs.gpu_cluster.columns import PASS
from envs.gpu_cluster.negotiation import Observation
from envs.types import BoolArray, FloatArray, IntArray, MurmurationError


class BranchedChoices(NamedTuple):
    """The D branched decisions of one game, to learn from; the other fields are those of `Branched`.

    Attributes:
        observation: by name, with a leading axis of D.
        actions: int64[D, num_arms, num_nodes].
        log_probs: float32[D, num_arms, num_nodes], of these actions under the policy that played.
        explored: bool[D, num_arms, num_nodes], nodes that drew their actions; the others chose as the policy plays.
    """

    observation: Observation
    actions: IntArray
    log_probs: npt.NDArray[np.float32]
    explored: BoolArray
    gains: FloatArray
    same: BoolArray
    backlog: Backlog
    tails: FloatArray
    score: Score

    def lesson(self) -> dict[str, Any]:
        """Return observation, actions, their log-probabilities, and which nodes explored."""
        return {name: getattr(self, name) for name in ("observation", "actions", "log_probs", "explored")}


class PolicyChoices(NamedTuple):
    """The policy's probabilities and its likeliest choices in some episodes.

    Attributes:
        log_probs: float32[n, num_nodes, num_actions].
        likeliest: int64[n, num_nodes], what it plays.
        episodes: int64[n], of the batch.
    """

    log_probs: Tensor
    likeliest: IntArray
    episodes: IntArray


class ChoiceSampler(BranchedPlay):
    """Plays games by the policy's likeliest choices and branches their decisions.

    In an arm some nodes draw their choices from the policy, and the others choose what is likeliest, so that a gain
    belongs to few nodes. Which nodes draw does not depend on the policy. The baseline is what is likeliest for all.

    Args:
        training_setup: world, workloads, rules, and the market that proposes and that goes on in the branches.
        settings: see its class; `explored_share` is that of the nodes with a choice, at least one.

    Raises:
        MurmurationError: the training setup has no market.
    """

    def __init__(self, training_setup: TrainingSetup, settings: BranchSettings) -> None:
        if training_setup.market is None:
            raise MurmurationError(
                "branching: a market goes on in the branches; choose env=amended and a market, such as market=starling"
            )
        self.batch = training_setup.vector_env(settings.num_envs).batch
        size = settings.num_envs * (1 + settings.num_arms)
        super().__init__(self.batch, ChoiceBranches(self.batch, size, training_setup.market), settings)

    branches: ChoiceBranches

    def _decide(self, network: nn.Module, playing: IntArray) -> tuple[PolicyChoices, BoolArray]:
        observation = {name: torch.from_numpy(array[playing]) for name, array in self.batch.observation.items()}
        log_probs = network.logits(observation).log_softmax(-1)  # type: ignore[operator]
        policy = PolicyChoices(log_probs, log_probs.argmax(-1).numpy(), playing)
        matters: BoolArray = has_choice(observation["mask"].numpy()).max(axis=1)
        return policy, matters

    def _step(self, decisions: PolicyChoices, playing: IntArray) -> None:
        actions = np.full((self.batch.batch_size, self.batch.spec.num_nodes), PASS, np.int64)
        actions[playing] = decisions.likeliest
        self.batch.step(actions)

    def _learnt(self, rounds: dict[str, Any], score: Score) -> BranchedChoices:
        return BranchedChoices(**rounds, score=score)

    def _branch(
        self, decisions: PolicyChoices, episodes: IntArray, rngs: Sequence[np.random.Generator], tail: TailValue
    ) -> list[dict[str, Any]]:
        settings, observation = self.settings, self.batch.observation
        rows = np.searchsorted(decisions.episodes, episodes)
        log_probs, likeliest = decisions.log_probs[rows], decisions.likeliest[rows]
        explored = np.stack(
            [
                explored_nodes(has_choice(np.asarray(observation["mask"][b])), settings, rng)
                for b, rng in zip(episodes.tolist(), rngs, strict=True)
            ]
        )
        drawn = np.stack(
            [
                draw_explored(log_probs[i].numpy(), each, rng)
                for i, (each, rng) in enumerate(zip(explored, rngs, strict=True))
            ]
        )
        actions = np.where(explored, drawn, likeliest[:, None])
        of_arms = log_probs[:, None].expand(-1, settings.num_arms, -1, -1)
        chosen = chosen_log_probabilities(of_arms, torch.from_numpy(actions)).numpy()
        same = (actions == likeliest[:, None]).all(axis=-1)
        places = self._places(episodes)
        played = np.concatenate([np.ones((len(episodes), 1), np.bool_), ~same], axis=1)
        self.branches.copy(places[played], np.broadcast_to(episodes[:, None], places.shape)[played])
        self.branches.decide(places[played], np.concatenate([likeliest[:, None], actions], axis=1)[played])
        prices = self._price(places, same, tail)
        return [
            {
                "observation": {name: array[b].copy() for name, array in observation.items()},
                "actions": actions[e],
                "log_probs": chosen[e],
                "explored": explored[e],
                "same": same[e],
                **prices.of_round(e),
            }
            for e, b in enumerate(episodes.tolist())
        ]


def has_choice(mask: npt.NDArray[np.int8]) -> BoolArray:
    """Whether each node may choose among two actions or more, bool[..., num_nodes].

    Args:
        mask: int8[..., num_nodes, num_actions].
    """
    found: BoolArray = mask.sum(axis=-1, dtype=np.int64) > 1
    return found


def explored_nodes(choosing: BoolArray, settings: BranchSettings, rng: np.random.Generator) -> BoolArray:
    """Draw which nodes explore in each arm, bool[num_arms, num_nodes]; in each arm at least one.

    Args:
        choosing: bool[num_nodes], nodes with a choice, at least one.
        settings: `num_arms` and `explored_share`.
        rng: source of the draw.
    """
    places = np.flatnonzero(choosing)
    drawn = rng.random((settings.num_arms, len(places))) < settings.explored_share
    drawn[np.arange(settings.num_arms), rng.integers(len(places), size=settings.num_arms)] = True
    explored = np.zeros((settings.num_arms, len(choosing)), np.bool_)
    explored[:, places] = drawn
    return explored


def draw_explored(log_probs: npt.NDArray[np.float32], explored: BoolArray, rng: np.random.Generator) -> IntArray:
    """Draw an action of each exploring node of each arm, int64[num_arms, num_nodes]; 0 for the others.

    Args:
        log_probs: float32[num_nodes, num_actions].
        explored: bool[num_arms, num_nodes].
        rng: source of the draw (the Gumbel-max trick).
    """
    arms, nodes = np.nonzero(explored)
    actions = np.zeros(explored.shape, np.int64)
    scores = log_probs[nodes].astype(np.float64)
    actions[arms, nodes] = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return actions


def choice_log_ratios(logits: Tensor, actions: Tensor, log_probs: Tensor, explored: Tensor) -> Tensor:
    """Return logarithms of new over old probabilities of nodes' choices, [B, num_arms, num_nodes]; 0 if not explored.

    Args:
        logits: float32[B, num_nodes, num_actions], of the new policy.
        actions: int64[B, num_arms, num_nodes].
        log_probs: float32[B, num_arms, num_nodes], under the policy that drew them.
        explored: bool[B, num_arms, num_nodes].
    """
    new = logits.log_softmax(-1).gather(-1, actions.long().transpose(1, 2)).transpose(1, 2)
    found: Tensor = (new - log_probs) * explored
    return found
