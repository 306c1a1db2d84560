"""Settings of training by evolution strategies."""

import math
from dataclasses import dataclass

from agents.evolution.playing import Score
from envs.types import MurmurationError


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """Parameters of evolution strategies; the defaults were chosen on training workloads.

    Attributes:
        num_pairs: antithetic pairs of variants in an iteration.
        num_workloads: fresh training workloads that each pair plays, both variants the same ones.
        sigma: standard deviation of a changed weight.
        rank: rank of the change of a weight matrix.
        lr: learning rate of Adam.
        decay: weight decay; each step takes `lr * decay` of the weights away.
        averaging: weight of the newest weights in the moving average that is validated and saved.
        makespan_share: share of makespan in the objective; the rest is mean JCT.
        num_envs: episodes that each runner steps in one call.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
        layers: names of the network's linear layers to train, such as `volume`; empty for all. The others keep their
            weights.
    """

    num_pairs: int = 16
    num_workloads: int = 3
    sigma: float = 0.06
    rank: int = 1
    lr: float = 0.02
    decay: float = 0.02
    averaging: float = 0.06
    makespan_share: float = 0.2
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
        for name in ("averaging", "makespan_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise MurmurationError(f"evolution.{name} is {getattr(self, name)}; it must be from 0 to 1")

    def merit(self, score: Score) -> float:
        """Return the merit of an episode, higher is better; see `log_merit`."""
        return log_merit(score, self.makespan_share)


def log_merit(score: Score, makespan_share: float) -> float:
    """Return the merit of an episode, higher is better: the negative weighted mean logarithm of JCT and makespan.

    Logarithms make a relative gain count the same on any task and workload.
    """
    return -((1.0 - makespan_share) * math.log(score.mean_jct) + makespan_share * math.log(score.makespan))
