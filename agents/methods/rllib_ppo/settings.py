"""Settings of RLlib's own PPO."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from agents.method import Algorithm, Needs
from agents.problems.options import OptionProblem
from envs.types import MurmurationError


@dataclass(frozen=True, slots=True)
class RLlibPPOSettings:
    """Parameters of RLlib's PPO, with nodes as agents that share one network.

    Everything but the network is RLlib's: sampling (`MultiAgentEnvRunner`), generalised advantages, loss and steps.

    Attributes:
        name: of the method, in messages and checkpoints.
        critic: "own": of what the node itself sees, IPPO (de Witt et al. 2020). "all": of the joint state, MAPPO (Yu et
            al. 2022).
        steps: environment steps (sub-rounds) of an iteration.
        minibatch: choices of a step of Adam.
        num_epochs: passes over the choices of an iteration.
        lr: step size of Adam.
        gamma: discount of each step of an agent.
        gae_lambda: decay of generalised advantages.
        clip: of the ratio of probabilities.
        entropy: weight of the bonus on the entropy of the choice.
        max_grad_norm: gradients are scaled down to this norm.
        hidden: width of the critic's layers.
        max_options: of each node that its observation has room for.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
    """

    needs: ClassVar[Needs] = Needs(("options",), "env=options agent=options (experiment=together trainer=rllib_ppo)")

    name: str = "rllib_ppo"
    critic: Literal["own", "all"] = "own"
    steps: int = 2000
    minibatch: int = 512
    num_epochs: int = 4
    lr: float = 2e-3
    gamma: float = 0.995
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.003
    max_grad_norm: float = 0.5
    hidden: int = 64
    max_options: int = 64
    num_env_runners: int = 0

    def __post_init__(self) -> None:
        if self.critic not in ("own", "all"):
            self._refuse("critic", "own or all")
        for name in ("steps", "minibatch", "num_epochs", "hidden", "max_options"):
            if getattr(self, name) < 1:
                self._refuse(name, "at least 1")
        if self.minibatch > self.steps:
            self._refuse("minibatch", f"at most steps, {self.steps}")
        for name in ("lr", "clip", "max_grad_norm"):
            if not getattr(self, name) > 0:
                self._refuse(name, "positive")
        for name in ("entropy", "num_env_runners"):
            if not getattr(self, name) >= 0:
                self._refuse(name, "0 or more")
        for name in ("gamma", "gae_lambda"):
            if not 0 < getattr(self, name) <= 1:
                self._refuse(name, "above 0 and at most 1")

    def _refuse(self, name: str, allowed: str) -> None:
        raise MurmurationError(f"{self.name}.{name} is {getattr(self, name)}; it must be {allowed}")

    @property
    def num_episodes(self) -> int:
        """Training episodes of an iteration: no fixed number."""
        return 0

    @property
    def num_envs(self) -> int:
        """Episodes that are stepped in one call."""
        return 1

    def start(self, problem: OptionProblem, network: nn.Module, seed: int) -> Algorithm:
        """Begin training from a network.

        Raises:
            MurmurationError: in this environment an action is more than the number of an option, or worlds are drawn.
        """
        from agents.methods.rllib_ppo.learning import RLlibTraining

        rules = problem.worlds[0].rules
        if (rules.turn, rules.contested, rules.losers) != ("together", "drawn", "nothing"):
            raise MurmurationError(
                f"{self.name} trains agents that name an option, and env.rules has turn={rules.turn}, "
                f"contested={rules.contested}, losers={rules.losers}; set env.rules.turn=together "
                "env.rules.contested=drawn env.rules.losers=nothing"
            )
        if problem.drawn is not None:
            raise MurmurationError(f"{self.name} trains on tasks, not in drawn worlds; set world=null")
        if len({task.setup.cluster.num_nodes for task in problem.worlds}) > 1:
            raise MurmurationError(f"{self.name} trains on clusters of equally many nodes; choose one task")
        return RLlibTraining(problem, self, network, seed)
