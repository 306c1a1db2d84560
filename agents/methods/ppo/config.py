"""RLlib's configuration, built from this project's settings."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import gymnasium as gym
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch import nn

from agents.method import Algorithm, Needs
from agents.methods.ppo.group_runner import GroupRunner
from agents.methods.ppo.learner import NodePPOLearner
from agents.methods.ppo.module import JointModule
from agents.methods.ppo.ppo import SteadyPPO
from agents.methods.ppo.runner import BatchedEnvRunner
from agents.networks import Blueprint
from agents.on_ray.state import RESTARTS
from agents.problems.choices import ChoiceProblem, TrainingSetup
from agents.seeding import Phase, derive_seed
from envs.gpu_cluster.vector import GpuClusterVectorEnv
from envs.types import MurmurationError, Seconds

ADVANTAGES = ("gae", "group")


@dataclass(frozen=True, slots=True)
class PPOSettings:
    """PPO's parameters, with their usual names.

    `advantage` selects the baseline of returns. "gae": the critic's estimate. "group": the mean return of `group_size`
    episodes of the same workload at the same time, without a critic; `critic_lr`, `critic_warmup`, `gae_lambda` and
    `vf_loss_coeff` are then ignored. Groups play whole episodes, so an iteration samples at least `train_batch_size`.
    """

    name: ClassVar[str] = "ppo"
    needs: ClassVar[Needs] = Needs(("choices",), "env=default agent=attention (experiment=discrete)", critic=True)
    num_episodes: ClassVar[int] = 0  # an iteration has so many steps, not episodes

    lr: float = 5e-5  # of the policy
    critic_lr: float = 1e-3  # of the critic, if the network has a `SeparateCritic`
    train_batch_size: int = 8192  # environment steps per iteration; a step is a joint decision of all nodes
    minibatch_size: int = 1024
    num_epochs: int = 2
    clip_param: float = 0.2
    entropy_coeff: float = 0.0
    vf_loss_coeff: float = 0.5
    grad_clip: float = 0.5
    gae_lambda: float = 0.995
    discount_time: Seconds = (
        10_000.0  # simulated seconds after which a reward is discounted to 1/e; infinite for no discount
    )
    reward_scale: float = 1000.0  # rewards are divided by it for learning only
    critic_warmup: int = 3  # first iterations, in which only the value loss counts
    num_envs: int = 16  # episodes that each runner steps in one call
    num_env_runners: int = 0  # additional Ray workers that sample; 0 samples in this process
    num_learners: int = 0
    num_gpus_per_learner: float = 0.0
    advantage: str = "gae"  # or "group"
    group_size: int = 1  # episodes that share a workload; at least 2 with advantage "group", else 1

    def __post_init__(self) -> None:
        positive = ("lr", "critic_lr", "train_batch_size", "minibatch_size", "num_epochs", "clip_param", "num_envs")
        for name in (*positive, "group_size"):
            if not getattr(self, name) > 0:
                raise MurmurationError(f"ppo.{name} is {getattr(self, name)}; it must be positive")
        for name in ("entropy_coeff", "vf_loss_coeff", "critic_warmup", "num_env_runners", "num_learners"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"ppo.{name} is {getattr(self, name)}; it must not be negative")
        if not 0 <= self.gae_lambda <= 1:
            raise MurmurationError(f"ppo.gae_lambda is {self.gae_lambda}; it must be between 0 and 1")
        if self.minibatch_size > self.train_batch_size:
            raise MurmurationError(
                f"ppo.minibatch_size is {self.minibatch_size}, more than train_batch_size, {self.train_batch_size}"
            )
        if not (self.discount_time > 0 and self.reward_scale > 0 and math.isfinite(self.reward_scale)):
            raise MurmurationError("ppo.discount_time and ppo.reward_scale must be positive")
        self._check_groups()

    def _check_groups(self) -> None:
        if self.advantage not in ADVANTAGES:
            raise MurmurationError(f"ppo.advantage is {self.advantage!r}; it must be one of {', '.join(ADVANTAGES)}")
        if self.advantage == "gae" and self.group_size > 1:
            raise MurmurationError(
                f"ppo.group_size is {self.group_size}, but advantage gae compares no episodes and would only see "
                "fewer workloads; set ppo.advantage to group or ppo.group_size to 1"
            )
        if self.advantage == "group" and self.group_size < 2:
            raise MurmurationError(
                f"ppo.group_size is {self.group_size}; ppo.advantage group needs at least 2 episodes of a workload, "
                "better 8"
            )
        if self.num_envs % self.group_size:
            raise MurmurationError(
                f"ppo.num_envs is {self.num_envs}; it must be a multiple of ppo.group_size, {self.group_size}"
            )

    @property
    def learns_values(self) -> bool:
        """Whether there is a critic."""
        return self.advantage != "group"

    def start(self, problem: ChoiceProblem, network: nn.Module, seed: int) -> Algorithm:
        """Begin training from a network."""
        from agents.methods.ppo.algorithm import LocalAlgorithm, PPOAlgorithm

        alone = self.num_env_runners == 0 and self.num_learners == 0
        made = (LocalAlgorithm if alone else PPOAlgorithm)(problem.training_setup, problem.blueprint, self, seed)
        made.set_network(network)
        return made


class TrainingEnv(GpuClusterVectorEnv):
    """The training episodes of one runner, with the constructor that RLlib expects: a mapping.

    Args:
        context: `env_config` with `training_setup`, `group_size` and, added by RLlib, `num_envs`. The first `reset`
            sets the seed, which differs between runners.
    """

    def __init__(self, context: Mapping[str, Any]) -> None:
        training_setup: TrainingSetup = context["training_setup"]
        super().__init__(
            training_setup.setup,
            training_setup.source,
            context.get("num_envs", context["group_size"]),
            training_setup.rules,
            training_setup.reward,
            context["group_size"],
        )


def algorithm_config(
    training_setup: TrainingSetup, blueprint: Blueprint, settings: PPOSettings, seed: int
) -> PPOConfig:
    """Return the configuration of RLlib's PPO with the batched environment and the per-node learner.

    Args:
        training_setup: what episodes are made of.
        blueprint: the network.
        settings: settings of PPO.
        seed: seed of the run.
    """
    config = PPOConfig(SteadyPPO)
    config.environment(
        TrainingEnv,
        env_config={
            "training_setup": training_setup,
            "group_size": settings.group_size,
            "reward_scale": settings.reward_scale,
        },
        disable_env_checking=True,
    )
    config.env_runners(
        env_runner_cls=GroupRunner if settings.advantage == "group" else BatchedEnvRunner,
        num_env_runners=settings.num_env_runners,
        num_envs_per_env_runner=settings.num_envs,
        gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT,
        create_env_on_local_worker=True,
    )
    config.rl_module(
        rl_module_spec=RLModuleSpec(
            module_class=JointModule,
            model_config={"blueprint": blueprint.to_dict(), "spec": asdict(training_setup.spec)},
        )
    )
    _learning(config, settings)
    config.fault_tolerance(**RESTARTS)
    config.debugging(seed=derive_seed(seed, Phase.LEARNING), log_level="ERROR")
    config.reporting(min_time_s_per_iteration=None, metrics_num_episodes_for_smoothing=2 * settings.num_envs)
    return config


def _learning(config: PPOConfig, settings: PPOSettings) -> None:
    config.learners(
        learner_class=NodePPOLearner,
        learner_config_dict={
            "advantage": settings.advantage,
            "time_constant": settings.discount_time,
            "critic_lr": settings.critic_lr,
            "critic_warmup": settings.critic_warmup,
        },
        num_learners=settings.num_learners,
        num_gpus_per_learner=settings.num_gpus_per_learner,
    )
    if settings.advantage == "group":
        config.framework(
            torch_ddp_kwargs={"find_unused_parameters": True}
        )  # several learners, none of which uses the critic
    config.training(
        lr=settings.lr,
        train_batch_size_per_learner=settings.train_batch_size,
        minibatch_size=settings.minibatch_size,
        num_epochs=settings.num_epochs,
        clip_param=settings.clip_param,
        entropy_coeff=settings.entropy_coeff,
        vf_loss_coeff=settings.vf_loss_coeff,
        grad_clip=settings.grad_clip,
        lambda_=settings.gae_lambda,
        use_kl_loss=False,
    )
