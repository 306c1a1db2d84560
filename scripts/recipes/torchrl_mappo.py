"""TorchRL: MAPPO, nodes that act together, a central critic. `python scripts/recipes/torchrl_mappo.py [iterations]`."""

import sys
import time

import torch
from tensordict.nn import TensorDictModule as Module
from torchrl.collectors import Collector
from torchrl.envs import PettingZooWrapper, RewardSum
from torchrl.modules import MaskedCategorical, MultiAgentMLP, ProbabilisticActor
from torchrl.objectives.multiagent import MAPPOLoss

from envs import FlatObservations, OptionRules, TeamReward, parallel_env
from murmuration import make_task

torch.manual_seed(0)
iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 20
task, rules = make_task("shared-16"), OptionRules(turn="together", contested="drawn", changes="resize")
reward = TeamReward(scale=3600.0 * task.source.num_jobs)  # return: minus the mean JCT in h
nodes = FlatObservations(parallel_env(task.setup, task.source, rules, reward, seed=0, max_options=16))
env = PettingZooWrapper(nodes).append_transform(RewardSum())
features, num_actions = env.observation_spec["node", "observation"].shape[-1], nodes.action_space("node_0").n
names = ("observation", "logits", "action_mask", "action", "action_log_prob", "state_value", "reward", "episode_reward")
seen, logits, mask, action, log_prob, value, paid, total = (("node", name) for name in names)
form = {"n_agents": nodes.num_agents, "share_params": True, "depth": 2, "num_cells": 64}
masked = {"distribution_class": MaskedCategorical, "return_log_prob": True}
actor = Module(MultiAgentMLP(features, num_actions, centralized=False, **form), [seen], [logits])
actor = ProbabilisticActor(actor, {"logits": logits, "mask": mask}, [action], **masked)
loss = MAPPOLoss(actor, Module(MultiAgentMLP(features, 1, centralized=True, **form), [seen], [value]))
loss.set_keys(value=value, action=action, sample_log_prob=log_prob, reward=paid)
loss.make_value_estimator(gamma=0.999, lmbda=0.95)
optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
for iteration, batch in enumerate(Collector(env, actor, frames_per_batch=1024, total_frames=1024 * iterations)):
    hours = -batch["next"][total][batch["next", "done"].squeeze(-1)].mean()
    print(f"iteration {iteration}, {time.process_time():.0f} CPU-s: mean JCT {hours:.2f} h", flush=True)
    loss.value_estimator(batch, params=loss.critic_network_params, target_params=loss.target_critic_network_params)
    for chosen in torch.stack([torch.randperm(len(batch)) for _ in range(4)]).view(-1, 256):
        sum(value for name, value in loss(batch[chosen]).items() if name.startswith("loss_")).backward()
        optimizer.step()
        optimizer.zero_grad()
