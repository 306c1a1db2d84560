"""A joint module whose value estimate is the observation itself, so that tests can set the values."""

from dataclasses import asdict

import torch

from agents.methods.ppo.module import JointModule
from envs.gpu_cluster.vector import joint_spaces
from tests.unit.agents.worlds import SPEC


class Echo(torch.nn.Module):
    """Values are the observations; nothing is chosen."""

    def logits(self, observation):
        return observation

    def value(self, observation):
        return observation


class ValueModule(JointModule):
    """`JointModule` with the echo as its network; `unwrapped` as RLlib's own modules have it."""

    def __init__(self):
        observation_space, action_space = joint_spaces(SPEC)
        blueprint = {"target": "agents.networks.AttentionPolicy", "options": {"width": 8, "layers": 0, "heads": 1}}
        super().__init__(
            observation_space=observation_space,
            action_space=action_space,
            model_config={"blueprint": blueprint, "spec": asdict(SPEC)},
        )

    def setup(self):
        super().setup()
        self.network = Echo()
