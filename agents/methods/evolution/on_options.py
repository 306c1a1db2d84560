"""Evolution strategies on options, as an RLlib `Algorithm`: all variants of the network play the same workloads.

The merit of a variant on a workload is its return, relative to the mean return of all variants on this workload. So
workloads with many jobs count as much as others. See `agents.on_ray.pieces`: a piece is a workload, played by all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from agents.method import Algorithm, Needs
from agents.methods.evolution.learning import EvolutionLearner
from agents.on_options.learner import OptionModule
from agents.on_options.runner import episode_returns
from agents.on_ray.pieces import PieceAlgorithm, PieceConfig, PieceRunner, start_training
from agents.policies.options.playing import Player
from agents.problems.options import OptionProblem, OptionSetup
from agents.seeding import Phase, derive_seed
from envs.options import OptionRules
from envs.types import FloatArray, MurmurationError


@dataclass(frozen=True, slots=True)
class OptionEvolutionSettings:
    """Parameters of evolution strategies on options.

    Attributes:
        num_pairs: antithetic pairs of variants in an iteration.
        num_workloads: fresh training workloads in an iteration; every variant plays all of them.
        sigma: standard deviation of a changed weight.
        lr: step size of Adam.
        decay: weight decay; each step takes `lr * decay` of the weights away.
        averaging: weight of the newest weights in the moving average that is validated and saved.
        temperature: of the softmax over scores; 0 plays the likeliest options.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
    """

    name: ClassVar[str] = "evolution_options"
    needs: ClassVar[Needs] = Needs(("options",), "env=options agent=options (experiment=from_nothing)")
    has_critic: ClassVar[bool] = False

    num_pairs: int = 16
    num_workloads: int = 4
    sigma: float = 0.05
    lr: float = 0.04
    decay: float = 0.0
    averaging: float = 0.1
    temperature: float = 0.0
    num_env_runners: int = 0

    def __post_init__(self) -> None:
        for name in ("num_pairs", "num_workloads", "sigma", "lr", "averaging"):
            if not getattr(self, name) > 0:
                raise MurmurationError(f"{self.name}.{name} is {getattr(self, name)}; it must be positive")
        for name in ("decay", "temperature", "num_env_runners"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"{self.name}.{name} is {getattr(self, name)}; it must be 0 or more")
        if not self.averaging <= 1:
            raise MurmurationError(f"{self.name}.averaging is {self.averaging}; it must be above 0 and at most 1")

    @property
    def num_episodes(self) -> int:
        """Training episodes of an iteration."""
        return 2 * self.num_pairs * self.num_workloads

    @property
    def num_envs(self) -> int:
        """Episodes that are played in one call."""
        return 1

    def adapt(self, rules: OptionRules, iteration: int) -> OptionRules:
        """Return the rules of the environment."""
        return rules

    def start(self, problem: OptionProblem, network: nn.Module, seed: int) -> Algorithm:
        """Begin a search from a network."""
        return start_training(OptionSetup.of(problem, self, network, seed), OptionEvolutionConfig)


class DensePerturbations:
    """Antithetic pairs of variants: variant 2 i adds change i to all weights, variant 2 i + 1 deducts it.

    As in Salimans et al. (2017, section 2): every weight changes by normal noise of its own.

    Args:
        network: the network; it is never written to.
        num_pairs: number of pairs of variants.
        sigma: standard deviation of a changed weight.
        rng: generator of the changes.
    """

    def __init__(self, network: nn.Module, num_pairs: int, sigma: float, rng: np.random.Generator) -> None:
        self._state = {name: value.detach() for name, value in network.state_dict().items()}
        self.num_pairs, self.sigma = num_pairs, sigma
        self.changes = {
            name: torch.from_numpy(rng.standard_normal((num_pairs, *value.shape), dtype=np.float32))
            for name, value in network.named_parameters()
        }

    def gradient(self, weights: FloatArray) -> dict[str, Tensor]:
        """Return sum over pairs of weights * change / (num_pairs * sigma), float32 in each parameter's shape.

        Args:
            weights: float64[num_pairs], half the difference in merit between the two variants of each pair.
        """
        share = torch.from_numpy(np.asarray(weights, np.float32)) / (self.num_pairs * self.sigma)
        return {name: torch.tensordot(share, change, 1) for name, change in self.changes.items()}

    def variant(self, index: int) -> Mapping[str, Tensor]:
        """Return all weights of a variant, by name."""
        pair, sign = index // 2, 1.0 - 2.0 * (index % 2)
        changed = {name: self._state[name] + sign * self.sigma * change[pair] for name, change in self.changes.items()}
        return self._state | changed


def draw_variants(
    setup: OptionSetup[OptionEvolutionSettings], network: nn.Module, iteration: int
) -> DensePerturbations:
    """Draw the variants of an iteration: the same in every process."""
    rng = np.random.default_rng(derive_seed(setup.seed, Phase.LEARNING, iteration + 1))
    return DensePerturbations(network, setup.settings.num_pairs, setup.settings.sigma, rng)


class WorkloadScores(NamedTuple):
    """What all variants have reached on one workload.

    Attributes:
        returns: float64[2 * num_pairs].
        mean_jct: mean over variants, in s.
    """

    returns: FloatArray
    mean_jct: float

    @property
    def merits(self) -> FloatArray:
        """float64[2 * num_pairs], returns relative to the size of their mean."""
        found: FloatArray = self.returns / max(abs(float(self.returns.mean())), 1e-9)
        return found


class OptionEvolutionRunner(PieceRunner):
    """Plays variants of the network, one after another."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._network = self._setup.build()
        self._players: dict[str, Player] = {}

    def play(self, weights: Mapping[str, Tensor], iteration: int, numbers: Sequence[int]) -> dict[int, WorkloadScores]:
        """Play workloads with all variants."""
        self._network.load_state_dict(weights)
        if self._setup.drawn:
            self._players.clear()  # each world is played once
        variants = draw_variants(self._setup, self._network, iteration)
        network = self._setup.build()
        found = {number: ([], []) for number in numbers}  # type: dict[int, tuple[list[float], list[float]]]
        drawn = {number: self._setup.draw(iteration, number) for number in numbers}
        for index in range(2 * variants.num_pairs):
            network.load_state_dict(variants.variant(index))
            for number, (task, workload, seed) in drawn.items():
                if task.name not in self._players:
                    self._players[task.name] = Player(task.batch(1))
                player = self._players[task.name]
                jct = player.play([workload], network, [seed], temperature=self._setup.settings.temperature)
                found[number][0].append(float(episode_returns(player, task.reward)[0]))
                found[number][1].append(float(jct[0]))
        return {number: WorkloadScores(np.array(own), float(np.mean(jct))) for number, (own, jct) in found.items()}


class OptionEvolutionLearner(EvolutionLearner):
    """Holds the search: weights, Adam's moments, moving average."""

    def learn(self, played: Mapping[int, WorkloadScores], iteration: int) -> dict[str, float]:  # type: ignore[override]
        """Take one step from the scores of all variants; return figures to log."""
        scores = [played[number] for number in sorted(played)]
        merits = np.stack([own.merits for own in scores], axis=-1).reshape(-1, 2, len(scores))
        with torch.no_grad():
            figures = self.ascent.step(draw_variants(self._setup, self.network, iteration), merits)
        mean_jct = float(np.mean([own.mean_jct for own in scores]))
        return {"train/mean_jct": mean_jct, **{f"learner/{name}": value for name, value in figures.items()}}


class OptionEvolution(PieceAlgorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the workloads, then the learner steps."""

    @classmethod
    def get_default_config(cls) -> "OptionEvolutionConfig":
        """Return an empty configuration; use `OptionEvolutionConfig.of`."""
        return OptionEvolutionConfig(cls)


class OptionEvolutionConfig(PieceConfig):
    """RLlib's configuration for evolution strategies on options."""

    runner, learner, module, algorithm = OptionEvolutionRunner, OptionEvolutionLearner, OptionModule, OptionEvolution
