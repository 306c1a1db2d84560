"""PPO with one ratio and clip per node, instead of one for the product of all nodes' choices."""

from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing
from torch import Tensor

from agents.methods.ppo.advantage import GroupAdvantages, TimeDiscountedAdvantages
from agents.methods.ppo.columns import NODE_LOGP
from agents.methods.ppo.distribution import chosen_log_probabilities, entropies, log_probabilities
from agents.networks import critic_of


class NodePPOLearner(PPOTorchLearner):
    """MAPPO's loss (NeurIPS'22, section 3) on the joint module: shared policy, central value, normalised values.

    `config.learner_config_dict` holds `advantage` ("gae" or "group"), `time_constant` (of the discount, in simulated
    seconds), `critic_lr` and `critic_warmup`. In the first `critic_warmup` updates (one per iteration) only the value
    loss counts, because advantages from an untrained critic would undo the imitation. With group advantages there is
    no critic and no warm-up.
    """

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Register Adam for the policy, and another with its own learning rate for a `SeparateCritic`."""
        module = self.module[module_id].unwrapped()
        separate = critic_of(module.network)
        critic = list(separate.parameters()) if separate is not None else []
        in_critic = set(map(id, critic))
        policy = [weight for weight in self.get_parameters(module) if id(weight) not in in_critic]
        for name, weights, learning_rate in (
            ("policy", policy, config.lr),
            ("critic", critic, config.learner_config_dict["critic_lr"]),
        ):
            if weights:
                self.register_optimizer(
                    module_id=module_id,
                    optimizer_name=name,
                    optimizer=torch.optim.Adam(weights),
                    params=weights,
                    lr_or_lr_schedule=learning_rate,
                )

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Count the update, independently of the number of its steps and of learners."""
        super().before_gradient_based_update(timesteps=timesteps)
        for module_id in self.module.keys():  # noqa: SIM118  RLlib's collection of modules is not a mapping
            self.module[module_id].unwrapped().num_updates += 1

    def build(self) -> None:
        """Replace RLlib's advantages by ours."""
        super().build()
        if self._learner_connector is not None:
            self._learner_connector.remove(GeneralAdvantageEstimation)
            self._learner_connector.append(
                GroupAdvantages()
                if self._grouped
                else TimeDiscountedAdvantages(
                    time_constant=self.config.learner_config_dict["time_constant"], decay=self.config.lambda_
                )
            )

    @property
    def _grouped(self) -> bool:
        return bool(self.config.learner_config_dict["advantage"] == "group")

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """Return clipped policy loss, entropy bonus and (without groups) Huber value loss: means over real steps."""
        mean = _masked_mean(batch.get(Columns.LOSS_MASK))
        actions = batch[Columns.ACTIONS]
        new = log_probabilities(fwd_out[Columns.ACTION_DIST_INPUTS], actions.shape[1])
        log_ratio = chosen_log_probabilities(new, actions) - batch[NODE_LOGP]
        ratio = log_ratio.exp()
        advantage = batch[Postprocessing.ADVANTAGES].unsqueeze(1)
        clipped = ratio.clamp(1 - config.clip_param, 1 + config.clip_param)
        gain = mean(torch.minimum(advantage * ratio, advantage * clipped).mean(1))
        entropy = mean(entropies(new).mean(1))
        self.metrics.log_dict(
            {
                "policy_loss": -gain,
                "entropy": entropy,
                "kl": mean((ratio - 1 - log_ratio).mean(1)),
                "clip_fraction": mean(((ratio - 1).abs() > config.clip_param).float().mean(1)),
            },
            key=module_id,
            window=1,
        )
        bonus = self.entropy_coeff_schedulers_per_module[module_id].get_current_value()
        loss: Tensor = -(gain + bonus * entropy)
        if self._grouped:
            return loss
        warm = float(self.module[module_id].unwrapped().num_updates > config.learner_config_dict["critic_warmup"])
        with_critic: Tensor = warm * loss + config.vf_loss_coeff * self._value_loss(module_id, batch, mean)
        return with_critic

    def _value_loss(self, module_id: str, batch: dict[str, Any], mean: Any) -> Tensor:
        module = self.module[module_id].unwrapped()
        values = module.normalised_values(batch)
        targets = (batch[Postprocessing.VALUE_TARGETS] - module.value_mean) / module.value_scale
        loss: Tensor = mean(torch.nn.functional.huber_loss(values, targets, reduction="none", delta=10.0))
        unexplained = mean((values - targets) ** 2) / mean((targets - mean(targets)) ** 2).clamp(min=1e-6)
        self.metrics.log_dict({"value_loss": loss, "explained_variance": 1 - unexplained}, key=module_id, window=1)
        return loss


def _masked_mean(mask: Tensor | None) -> Any:
    if mask is None:
        return torch.mean
    weight = mask.float()
    return lambda x: (x * weight).sum() / weight.sum()
