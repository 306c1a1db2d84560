"""RLlib's `PPO`, configured for nodes that act together, as the trainer sees it."""

from typing import Any

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module import MultiRLModuleSpec, RLModuleSpec
from ray.tune.registry import register_env
from torch import nn

from agents.methods.rllib_ppo.environment import OUTCOME, NodesOfRLlib, log_outcome
from agents.methods.rllib_ppo.module import NodeModule
from agents.on_ray.pieces import AlgorithmOnRay
from agents.on_ray.state import RESTARTS, require_finite
from agents.problems.options import OptionProblem
from agents.seeding import Phase, derive_seed
from agents.tags import ENV_STEPS

NODE, ENVIRONMENT = "node", "murmuration_nodes"
LEARNT = {  # name in RLlib's results: that of all methods
    "policy_loss": "policy_loss",
    "vf_loss": "value_loss",
    "entropy": "entropy",
    "vf_explained_var": "explained_variance",
    "gradients_default_optimizer_global_norm": "gradient_norm",
}


class RLlibTraining(AlgorithmOnRay):
    """RLlib's algorithm with the interface of `agents.method.Algorithm`.

    Args:
        problem: the placement environment.
        settings: parameters of PPO, `RLlibPPOSettings`.
        network: with the weights with which training begins.
        seed: of all random draws.
    """

    def __init__(self, problem: OptionProblem, settings: Any, network: nn.Module, seed: int) -> None:
        register_env(ENVIRONMENT, NodesOfRLlib)
        super().__init__(configure(problem, settings, network, seed), settings.num_env_runners)
        self._problem, self._rules = problem, problem.worlds[0].rules

    def network(self) -> nn.Module:
        """Return a copy of the policy."""
        network: Any = self._problem.build(0, None)
        weights = self._algorithm.learner_group.get_weights()[NODE]
        own = {name.removeprefix("network."): value for name, value in weights.items() if name.startswith("network.")}
        network.load_state_dict({name: torch.as_tensor(value) for name, value in own.items()})
        network.rules = self._rules  # a note, no weight
        return require_finite(network)

    def train(self) -> dict[str, float]:
        """Run one iteration; return figures to log."""
        found, spent = self._run_iteration()
        played, learnt = found["env_runners"], found["learners"][NODE]
        figures = {ENV_STEPS: played.get("num_env_steps_sampled", 0.0), **played.get(OUTCOME, {})}
        figures |= {f"learner/{own}": learnt[name] for name, own in LEARNT.items() if name in learnt}
        return {name: float(value) for name, value in figures.items()} | spent


def configure(problem: OptionProblem, settings: Any, network: nn.Module, seed: int) -> PPOConfig:
    """Return RLlib's configuration of a run."""
    config, central = PPOConfig(), settings.critic == "all"
    world = {
        "tasks": problem.worlds,
        "max_options": settings.max_options,
        "central": central,
        "seed": derive_seed(seed, Phase.SAMPLING),
    }
    config.environment(ENVIRONMENT, env_config=world, disable_env_checking=True)
    config.env_runners(num_env_runners=settings.num_env_runners, num_envs_per_env_runner=1)
    config.callbacks(on_episode_end=log_outcome)
    config.multi_agent(policies={NODE}, policy_mapping_fn=lambda *_, **__: NODE)
    state = NodesOfRLlib(world).state_size if central else 0
    module = RLModuleSpec(
        module_class=NodeModule,
        model_config={
            "blueprint": problem.blueprint,
            "start": {name: value.detach().clone() for name, value in network.state_dict().items()},
            "hidden": settings.hidden,
            "state": state,
        },
    )
    config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={NODE: module}))
    config.training(
        lr=settings.lr,
        gamma=settings.gamma,
        lambda_=settings.gae_lambda,
        clip_param=settings.clip,
        entropy_coeff=settings.entropy,
        use_kl_loss=False,
        vf_clip_param=float("inf"),
        train_batch_size_per_learner=settings.steps,
        minibatch_size=settings.minibatch,
        num_epochs=settings.num_epochs,
        grad_clip=settings.max_grad_norm,
    )
    config.fault_tolerance(**RESTARTS)
    config.debugging(seed=derive_seed(seed, Phase.LEARNING), log_level="ERROR")
    return config
