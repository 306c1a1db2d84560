"""TorchRL: MAPPO, one actor for all nodes, a central critic. `python scripts/recipes/torchrl_mappo.py [iterations]`."""

import sys

import torch
from tensordict.nn import TensorDictModule as Module
from torchrl.collectors import Collector
from torchrl.envs import PettingZooWrapper, RewardSum
from torchrl.modules import MaskedCategorical, MultiAgentMLP, ProbabilisticActor
from torchrl.objectives.multiagent import MAPPOLoss

from envs import FlatObservations, OptionRules, Setup, SyntheticSource, TeamReward, default_model, parallel_env
from envs.cluster import NodeGroup, build_cluster

torch.manual_seed(0)
iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 20
setup = Setup(build_cluster("two_nodes", [NodeGroup("V100", num_nodes=2, num_gpus=4)]), default_model())
source = SyntheticSource(setup.cluster, setup.performance, num_jobs=10, max_gpus=8)
rules, reward = OptionRules(turn="turns"), TeamReward(scale=36000.0)  # return: minus the mean JCT in h
nodes = FlatObservations(parallel_env(setup, source, rules, reward, seed=0, max_options=16))
env = PettingZooWrapper(nodes).append_transform(RewardSum())
features, num_actions = env.observation_spec["node", "observation"].shape[-1], nodes.action_space("node_0").n
names = ("observation", "logits", "action_mask", "action", "action_log_prob", "state_value", "reward", "episode_reward")
seen, logits, mask, action, log_prob, value, paid, total = (("node", name) for name in names)
form = {"n_agents": 2, "share_params": True, "depth": 2, "num_cells": 64}
masked = {"distribution_class": MaskedCategorical, "return_log_prob": True}
actor = Module(MultiAgentMLP(features, num_actions, centralized=False, **form), [seen], [logits])
actor = ProbabilisticActor(actor, {"logits": logits, "mask": mask}, [action], **masked)
loss = MAPPOLoss(actor, Module(MultiAgentMLP(features, 1, centralized=True, **form), [seen], [value]))
loss.set_keys(value=value, action=action, sample_log_prob=log_prob, reward=paid)
loss.make_value_estimator(gamma=0.999, lmbda=0.95)
optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
for iteration, batch in enumerate(Collector(env, actor, frames_per_batch=1024, total_frames=1024 * iterations)):
    print(f"iteration {iteration}: mean JCT {-batch['next'][total][batch['next', 'done'].squeeze(-1)].mean():.2f} h")
    loss.value_estimator(batch, params=loss.critic_network_params, target_params=loss.target_critic_network_params)
    for chosen in torch.stack([torch.randperm(len(batch)) for _ in range(4)]).view(-1, 256):
        sum(value for name, value in loss(batch[chosen]).items() if name.startswith("loss_")).backward()
        optimizer.step()
        optimizer.zero_grad()
