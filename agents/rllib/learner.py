"""PPO whose ratio and clip are taken server by server, not over the product of all servers' choices."""

from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME
from torch import Tensor

from agents.rllib.advantage import TimeDiscountedAdvantages
from agents.rllib.distribution import chosen, entropies, log_probabilities


class ServerPPOLearner(PPOTorchLearner):
    """MAPPO's loss (NeurIPS'22, section 3) on the joint module: shared policy, central value, normalised values.

    `config.learner_config_dict` holds `time_constant`, the discount's time scale in simulated seconds, `critic_lr`, and
    `critic_warmup`, the steps in which the critic alone learns: advantages of a fresh critic would only undo what
    imitation has taught the policy.
    """

    _sampled = 0

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Adam for the policy and, if the network keeps its critic apart, one with a rate of its own for that."""
        module = self.module[module_id].unwrapped()
        critic = list(module.network.critic.parameters()) if hasattr(module.network, "critic") else []
        apart = set(map(id, critic))
        policy = [weight for weight in self.get_parameters(module) if id(weight) not in apart]
        for name, weights, rate in (
            ("policy", policy, config.lr),
            ("critic", critic, config.learner_config_dict["critic_lr"]),
        ):
            if weights:
                self.register_optimizer(
                    module_id=module_id,
                    optimizer_name=name,
                    optimizer=torch.optim.Adam(weights),
                    params=weights,
                    lr_or_lr_schedule=rate,
                )

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Note how many steps have been sampled so far."""
        super().before_gradient_based_update(timesteps=timesteps)
        self._sampled = int(timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0))

    def build(self) -> None:
        """Put the time-discounted advantages where RLlib has its own."""
        super().build()
        if self._learner_connector is not None:
            self._learner_connector.remove(GeneralAdvantageEstimation)
            self._learner_connector.append(
                TimeDiscountedAdvantages(
                    time_constant=self.config.learner_config_dict["time_constant"], decay=self.config.lambda_
                )
            )

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """Clipped policy loss, Huber value loss and entropy bonus, each a mean over real steps."""
        module = self.module[module_id].unwrapped()
        actions = batch[Columns.ACTIONS]
        servers = actions.shape[1]
        new = log_probabilities(fwd_out[Columns.ACTION_DIST_INPUTS], servers)
        with torch.no_grad():
            old = log_probabilities(batch[Columns.ACTION_DIST_INPUTS], servers)
        log_ratio = chosen(new, actions) - chosen(old, actions)
        ratio = log_ratio.exp()
        advantage = batch[Postprocessing.ADVANTAGES].unsqueeze(1)
        clipped = ratio.clamp(1 - config.clip_param, 1 + config.clip_param)
        gain = torch.minimum(advantage * ratio, advantage * clipped).mean(1)
        entropy = entropies(new).mean(1)
        values = module.normalised_values(batch)
        targets = (batch[Postprocessing.VALUE_TARGETS] - module.value_mean) / module.value_scale
        value_loss = torch.nn.functional.huber_loss(values, targets, reduction="none", delta=10.0)
        mean = _masked_mean(batch.get(Columns.LOSS_MASK))
        bonus = self.entropy_coeff_schedulers_per_module[module_id].get_current_value()
        acting = float(self._sampled > config.learner_config_dict["critic_warmup"])
        total: Tensor = mean(config.vf_loss_coeff * value_loss - acting * (gain + bonus * entropy))
        self.metrics.log_dict(
            {
                "policy_loss": -mean(gain),
                "value_loss": mean(value_loss),
                "entropy": mean(entropy),
                "kl": mean((ratio - 1 - log_ratio).mean(1)),
                "clip_fraction": mean(((ratio - 1).abs() > config.clip_param).float().mean(1)),
                "explained_variance": 1
                - mean((values - targets) ** 2) / mean((targets - mean(targets)) ** 2).clamp(min=1e-6),
            },
            key=module_id,
            window=1,
        )
        return total


def _masked_mean(mask: Tensor | None) -> Any:
    if mask is None:
        return torch.mean
    weight = mask.float()
    return lambda x: (x * weight).sum() / weight.sum()
