"""Tiny training setups, networks and batches for tests of `agents`; everything follows from a seed."""

from dataclasses import replace

import numpy as np
import torch

from agents.methods.ppo import PPOSettings, TrainingSetup
from agents.networks import AttentionPolicy
from envs.gpu_cluster import DecisionRules, EnvSpec
from envs.gpu_cluster.columns import JOB_PRESENT, PASS
from envs.performance import default_model
from envs.simulation import Scenario, Setup
from envs.types import ClusterSpec, NodeSpec
from envs.workloads import SyntheticSource

SPEC = EnvSpec(num_nodes=3, num_gpu_types=2, node_gpus=2, num_candidates=4, num_slots=2)
PPO = PPOSettings(train_batch_size=64, minibatch_size=32, num_epochs=1, num_envs=4, critic_warmup=0)


def small_world(
    num_nodes=3, num_gpus=4, num_jobs=12, num_evaluation=1, load=1.2, scenario=None, **changes
) -> TrainingSetup:
    """`num_nodes` equal nodes under synthetic jobs that fit on one of them."""
    cluster = ClusterSpec(tuple(NodeSpec("V100", num_gpus) for _ in range(num_nodes)), "tiny")
    source = SyntheticSource(
        cluster, default_model(), num_jobs=num_jobs, load=load, max_gpus=num_gpus, num_evaluation=num_evaluation
    )
    setup = Setup(cluster, default_model(), scenario or Scenario())
    return replace(TrainingSetup(setup, source, rules=DecisionRules(num_candidates=6)), **changes)


def network(spec=SPEC, seed=0, **options) -> AttentionPolicy:
    """A narrow network with weights drawn from a seed."""
    torch.manual_seed(seed)
    return AttentionPolicy(spec, **{"width": 16, "layers": 1, "heads": 2, **options})


def observation(spec=SPEC, batch=5, seed=0) -> dict[str, torch.Tensor]:
    """Random features and masks of the shapes that `EnvSpec` states; some jobs absent, passing always allowed."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return torch.from_numpy(rng.normal(size=(batch, *shape)).astype(np.float32))

    found = {
        "nodes": draw(spec.num_nodes, spec.node_features),
        "slots": draw(spec.num_nodes, spec.num_slots, spec.slot_features),
        "queue": draw(spec.num_candidates, spec.job_features),
        "cluster": draw(spec.cluster_features),
        "mask": torch.from_numpy((rng.random((batch, spec.num_nodes, spec.num_actions)) < 0.4).astype(np.int8)),
    }
    for name in ("slots", "queue"):
        present = torch.from_numpy(rng.random(found[name].shape[:-1]) < 0.7)
        found[name][..., JOB_PRESENT] = present
        found[name] *= present.unsqueeze(-1)
    if spec.effects:
        found["effects"] = draw(spec.num_nodes, spec.num_choices, spec.effect_features)
    found["mask"][..., PASS] = 1
    return found
