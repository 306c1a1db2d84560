"""RLlib: its own PPO with nodes as agents, shared weights and action masks. `python scripts/recipes/rllib_ppo.py`."""

import sys
from typing import Any

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module import MultiRLModuleSpec, RLModuleSpec
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

from agents.on_ray.connecting import connect
from envs import FlatObservations, OptionRules, Setup, SyntheticSource, TeamReward, default_model, parallel_env
from envs.cluster import NodeGroup, build_cluster

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 20
setup = Setup(build_cluster("two_nodes", [NodeGroup("V100", num_nodes=2, num_gpus=4)]), default_model())
source = SyntheticSource(setup.cluster, setup.performance, num_jobs=10, max_gpus=8)


def make_nodes(_: Any) -> ParallelPettingZooEnv:
    """Return the environment; the reward makes an episode's return minus the mean JCT in hours."""
    rules, reward = OptionRules(turn="turns"), TeamReward(scale=36000.0)
    nodes = parallel_env(setup, source, rules, reward, max_options=16)
    return ParallelPettingZooEnv(FlatObservations(nodes, key="observations"))


connect("local", "rllib_ppo.py", num_cpus=1)
register_env("nodes", make_nodes)
config = PPOConfig().environment("nodes").env_runners(num_env_runners=0).debugging(seed=0, log_level="ERROR")
config.multi_agent(policies={"node"}, policy_mapping_fn=lambda *_, **__: "node")
module = RLModuleSpec(module_class=ActionMaskingTorchRLModule, model_config={"fcnet_hiddens": [64, 64]})
config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"node": module}))
config.training(lr=1e-3, gamma=0.999, train_batch_size_per_learner=1024, minibatch_size=256, num_epochs=4)
config.reporting(metrics_num_episodes_for_smoothing=30)
algorithm = config.build_algo()
for iteration in range(iterations):
    returns = algorithm.train()["env_runners"]["agent_episode_returns_mean"]
    print(f"iteration {iteration}: mean JCT {-returns['node_0']:.2f} h")
