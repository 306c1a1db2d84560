"""BenchMARL: a task class. `python scripts/recipes/benchmarl_task.py [iterations] [mappo, ippo, qmix, vdn ...]`."""

# mypy: ignore-errors
import sys
import time

from benchmarl.algorithms import algorithm_config_registry
from benchmarl.environments import PettingZooClass
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models import MlpConfig
from torchrl.envs import PettingZooWrapper

from envs import FlatObservations, OptionRules, TeamReward, parallel_env
from murmuration import make_task


class Murmuration(PettingZooClass):
    def get_env_fun(self, num_envs, continuous_actions, seed, device):
        task, rules = make_task("shared-16"), OptionRules(turn="together", contested="drawn", changes="resize")
        reward = TeamReward(scale=3600.0 * task.source.num_jobs)  # return: minus the mean JCT in h
        nodes = FlatObservations(parallel_env(task.setup, task.source, rules, reward, seed=seed, max_options=16))
        return lambda: PettingZooWrapper(nodes, categorical_actions=True, device=device)

    def supports_discrete_actions(self):
        return True


class Report(Callback):
    def on_batch_collected(self, batch):
        hours = -batch["next", "node", "episode_reward"][batch["next", "done"].squeeze(-1)].mean()
        print(f"\n{time.process_time():.0f} CPU-s: mean JCT {hours:.2f} h", flush=True)


iterations, algorithm = sys.argv[1:] + ["20", "mappo"][len(sys.argv) - 1 :]
config = ExperimentConfig.get_from_yaml()
config.max_n_iters, config.max_n_frames, config.gamma, config.evaluation = int(iterations), None, 0.999, False
config.on_policy_n_envs_per_worker = config.off_policy_n_envs_per_worker = 1
config.on_policy_collected_frames_per_batch = config.off_policy_collected_frames_per_batch = 1024
config.loggers, task, method = [], Murmuration("options", {"max_cycles": 10_000}), algorithm_config_registry[algorithm]
Experiment(task, method.get_from_yaml(), MlpConfig.get_from_yaml(), seed=0, config=config, callbacks=[Report()]).run()
