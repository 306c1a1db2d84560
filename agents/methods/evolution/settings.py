"""Settings of training by evolution strategies."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from agents.method import Algorithm, Needs
from agents.problems.bids import BidProblem
from envs.types import MurmurationError


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """Evolution strategies on bids; the defaults were chosen on training workloads.

    Attributes:
        num_pairs: antithetic pairs of variants in an iteration.
        num_workloads: fresh training workloads that each pair plays, both variants the same ones.
        sigma: standard deviation of a changed weight.
        rank: rank of the change of a weight matrix.
        lr: learning rate of Adam.
        decay: weight decay; each step takes `lr * decay` of the weights away.
        averaging: weight of the newest weights in the moving average that is validated and saved.
        num_envs: episodes that each runner steps in one call.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
        layers: names of the network's linear layers to train, such as `volume`; empty for all. The others keep their
            weights.
    """

    name: ClassVar[str] = "evolution"
    needs: ClassVar[Needs] = Needs(("bids",), "env=bidding agent=bidding market=fifo (experiment=bidding)")

    num_pairs: int = 16
    num_workloads: int = 3
    sigma: float = 0.06
    rank: int = 1
    lr: float = 0.02
    decay: float = 0.02
    averaging: float = 0.06
    num_envs: int = 32
    num_env_runners: int = 0
    layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("num_pairs", "num_workloads", "sigma", "rank", "lr", "averaging", "num_envs"):
            if not getattr(self, name) > 0:
                raise MurmurationError(f"evolution.{name} is {getattr(self, name)}; it must be positive")
        for name in ("decay", "num_env_runners"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"evolution.{name} is {getattr(self, name)}; it must not be negative")
        if not self.averaging <= 1:
            raise MurmurationError(f"evolution.averaging is {self.averaging}; it must be from 0 to 1")

    @property
    def num_episodes(self) -> int:
        """Training episodes of an iteration."""
        return 2 * self.num_pairs * self.num_workloads

    def start(self, problem: BidProblem, network: nn.Module, seed: int) -> Algorithm:
        """Begin a search from a network."""
        from agents.methods.evolution.learning import EvolutionOnRay, EvolutionSetup, LocalEvolution

        start = {name: value.detach().clone() for name, value in network.state_dict().items()}
        setup = EvolutionSetup(problem.worlds, problem.blueprint, self, seed, start, problem.objective)
        return LocalEvolution(setup) if self.num_env_runners == 0 else EvolutionOnRay(setup)
