"""sb3-contrib: MaskablePPO, one policy for all nodes. `python scripts/recipes/sb3_maskable_ppo.py [iterations]`."""

import sys

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.env_util import make_vec_env

from envs import OptionRules, Setup, SyntheticSource, TeamReward, default_model
from envs.cluster import NodeGroup, build_cluster

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 20
setup = Setup(build_cluster("two_nodes", [NodeGroup("V100", num_nodes=2, num_gpus=4)]), default_model())
options = {
    "setup": setup,
    "source": SyntheticSource(setup.cluster, setup.performance, num_jobs=10, max_gpus=8),
    "rules": OptionRules(),
    "max_options": 32,
    "reward": TeamReward(scale=10 * 3600.0),  # so that an episode's return is minus the mean JCT in hours
}
name = "envs.registration:murmuration/Options-v0"
training = make_vec_env(name, 4, env_kwargs=options)
validation = make_vec_env(name, 4, env_kwargs={**options, "split": "validation"})


def mean_jct() -> float:
    """Return the mean JCT in hours over 40 workloads of the validation split, the same ones in every call."""
    validation.seed(0)
    mean_return, _ = evaluate_policy(model, validation, n_eval_episodes=40, deterministic=False)
    return -float(mean_return)


hyperparameters = {"n_steps": 256, "batch_size": 256, "n_epochs": 4, "gamma": 0.999, "learning_rate": 1e-3}
model = MaskablePPO("MultiInputPolicy", training, seed=0, **hyperparameters)
print(f"before training: mean JCT {mean_jct():.2f} h")
model.learn(iterations * 1024)
print(f"after {iterations} iterations: mean JCT {mean_jct():.2f} h")
