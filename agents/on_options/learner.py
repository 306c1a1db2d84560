"""What methods on options share: the module, with network and critic, steps of Adam, training with and without Ray."""

from typing import Any

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from agents.networks.option_critic import OptionCritic
from agents.on_ray.pieces import SETUP, LocalTraining, PieceConfig, PieceLearner, TrainingOnRay
from agents.policies.options.lesson import Lesson
from agents.policies.options.rows import Rows, gather_decisions
from agents.problems.options import OptionSetup
from agents.seeding import Phase, derive_seed
from envs.types import FloatArray, IntArray, MurmurationError


class OptionModule(TorchRLModule):
    """A network for options as an RLlib module, with a critic if the method has one."""

    def setup(self) -> None:
        """Build the network and the critic, whose weights follow from the seed of the run."""
        setup = self.model_config[SETUP]
        self.network: Any = setup.build()
        self.critic: OptionCritic | None = None
        if setup.settings.has_critic:
            self.critic = seeded_critic(setup)

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        found = {"scores": self.network.scores(batch["decisions"])}
        return found if self.critic is None else found | {"values": self.critic(batch["decisions"])}


def seeded_critic(setup: OptionSetup[Any]) -> OptionCritic:
    """Build a critic with random weights that follow from the seed of the run."""
    settings = setup.settings
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(setup.seed, Phase.LEARNING, 0, 2))
        return OptionCritic(setup.spec, settings.critic_hidden, own=settings.critic == "own")


class OptionLearner(PieceLearner):
    """Adam on the weights of network and critic, each clipped by itself.

    Attributes:
        figures: of the last step, to log.
    """

    def build(self) -> None:
        """Build the module."""
        super().build()
        self.figures: dict[str, float] = {}

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Register Adam, with the critic's weights as a second group."""
        own = self.module[module_id].unwrapped()
        parts = [list(part.parameters()) for part in (own.network, own.critic) if part is not None]
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.Adam([{"params": part} for part in parts]),
            params=[weight for part in parts for weight in part],
            lr_or_lr_schedule=self._setup.settings.lr,
        )

    def take_step(self, optimizer: Any, batch: dict[str, Any]) -> None:
        """Take one step of Adam from a batch.

        Raises:
            MurmurationError: the loss is not finite.
        """
        settings = self._setup.settings
        loss = self.compute_loss_for_module(
            module_id=DEFAULT_MODULE_ID, config=None, batch=batch, fwd_out=self._own._forward(batch)
        )
        if not bool(torch.isfinite(loss)):
            raise MurmurationError(
                f"{settings.name}: the loss is {float(loss)}; training has diverged: restart from an earlier "
                f"checkpoint or with a lower {settings.name}.lr"
            )
        optimizer.zero_grad()
        loss.backward()
        for name, part in zip(("gradient_norm", "critic_gradient_norm"), optimizer.param_groups, strict=False):
            norm = torch.nn.utils.clip_grad_norm_(part["params"], settings.max_grad_norm)
            self.figures[name] = float(norm)  # before it is clipped
        optimizer.step()

    def weights(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return weights_of(self._own.network)

    def policy(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return self.weights()


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a network's weights."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


@torch.no_grad()
def critic_values(critic: OptionCritic, lesson: Lesson, rows: Rows, chosen: IntArray, size: int = 8192) -> FloatArray:
    """Return float64[len(chosen)], the estimates of a critic for some decisions, computed `size` at a time."""
    parts = [
        critic.returns(critic(gather_decisions(lesson, rows, chosen[k : k + size])))
        for k in range(0, len(chosen), size)
    ]
    return torch.cat(parts).double().numpy()


class LocalOptionTraining(LocalTraining):
    """Runner and learner in this process, without Ray."""

    def network(self) -> nn.Module:
        """Return a copy of the policy, with the `rules` of the last iteration."""
        network: nn.Module = with_rules(super().network(), self._setup, self._iteration)
        return network


class OptionTrainingOnRay(TrainingOnRay):
    """RLlib's `Algorithm` on Ray: several workers, several machines."""

    def network(self) -> nn.Module:
        """Return a copy of the policy, with the `rules` of the last iteration."""
        network: nn.Module = with_rules(super().network(), self._setup, self._algorithm.iteration)
        return network


def start_on_options(setup: OptionSetup[Any], config: type[PieceConfig]) -> LocalOptionTraining | OptionTrainingOnRay:
    """Connect runner and learner: in this process, or on Ray where the run has workers."""
    return LocalOptionTraining(setup, config) if setup.num_env_runners == 0 else OptionTrainingOnRay(setup, config)


def with_rules(network: Any, setup: Any, iteration: int) -> Any:
    """Note on a policy the rules of the iteration before this one; see `agents.problems.options.rules_of`."""
    network.rules = setup.rules(max(iteration - 1, 0))  # a note, no weight
    return network
