"""Settings of training by TorchRL's methods."""

from dataclasses import dataclass
from typing import Literal

from envs.types import MurmurationError

METHODS = ("mappo", "qmix")
POSITIVE = (
    "num_envs",
    "lr",
    "critic_lr",
    "num_epochs",
    "minibatch_size",
    "clip_param",
    "grad_clip",
    "buffer_size",
    "n_steps",
    "mixing_width",
)


@dataclass(frozen=True, slots=True)
class OutsideSettings:
    """Parameters of MAPPO or QMIX, with their usual names.

    Attributes:
        method: "mappo" (Yu et al., NeurIPS'22) or "qmix" (Rashid et al., ICML'18).
        num_envs: episodes of an iteration, played at once; an iteration ends when each has ended. Those that end early
            are followed by others, whose beginnings are learnt from too.
        gamma: discount of a step, which is a joint decision of all nodes.
        lr: learning rate of policy or action values.
        critic_lr: learning rate of MAPPO's value function and of QMIX's mixing network.
        num_epochs: passes over the steps of an iteration; with QMIX, minibatches from the buffer are drawn as often.
        minibatch_size: steps.
        gae_lambda: of MAPPO's advantages.
        clip_param: bound on the change of MAPPO's ratios.
        entropy_coeff: weight of the entropy of nodes' choices in MAPPO's loss.
        grad_clip: bound on the norm of a gradient.
        exploration: of QMIX, probability with which a node acts at random instead of by its highest value.
        buffer_size: of QMIX, steps that are remembered. They are not part of a saved state: a run that is resumed
            begins with an empty buffer, and need not give what an unbroken one would.
        n_steps: of QMIX, number of steps whose rewards are summed before the value of the next state is added. With one
            step, the cost of an episode is learnt slowly: each update of the target network carries it one step back.
        mixing_width: of QMIX's mixing network.
        target_step: of QMIX, share by which the target network moves at each step.
        positive: of QMIX, whether returns may be positive. If not, the mixed value is at most 0.
    """

    method: Literal["mappo", "qmix"] = "mappo"
    num_envs: int = 16
    gamma: float = 0.999
    lr: float = 3e-4
    critic_lr: float = 1e-3
    num_epochs: int = 2
    minibatch_size: int = 512
    gae_lambda: float = 0.95
    clip_param: float = 0.2
    entropy_coeff: float = 0.003
    grad_clip: float = 1.0
    exploration: float = 0.01
    buffer_size: int = 16_000
    n_steps: int = 20
    mixing_width: int = 32
    target_step: float = 0.01
    positive: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise MurmurationError(f"outside.method is {self.method!r}; it must be one of {', '.join(METHODS)}")
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise MurmurationError(f"outside.{name} is {getattr(self, name)}; it must be positive")
        for name in ("gamma", "gae_lambda", "exploration", "target_step"):
            if not 0 <= getattr(self, name) <= 1:
                raise MurmurationError(f"outside.{name} is {getattr(self, name)}; it must be from 0 to 1")
        if not self.entropy_coeff >= 0:
            raise MurmurationError(f"outside.entropy_coeff is {self.entropy_coeff}; it must not be negative")
