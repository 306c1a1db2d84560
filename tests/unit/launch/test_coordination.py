"""The comparison of ways to choose together: one policy, each way, and its figures."""

from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from agents.checkpoint import Checkpoint
from agents.networks import Blueprint
from envs.gpu_cluster import DecisionRules
from launch.coordination import against, chooser, compare_choosing, measure_choosing
from launch.errors import ChoiceError
from tests.unit.agents.worlds import small_world

WORLD = small_world(num_nodes=4, num_jobs=10, num_evaluation=2, load=2.0, rules=DecisionRules(num_candidates=6))
OPTIONS = {"width": 16, "layers": 1, "heads": 2, "pass_bias": -3.0}  # nodes seldom pass, so that they conflict


def checkpoint(target="agents.networks.CoordinatedPolicy"):
    torch.manual_seed(0)
    blueprint = Blueprint(target, OPTIONS)
    network = blueprint.build(WORLD.spec)
    if "Coordinated" in target:
        with torch.no_grad():
            network.get_parameter("same_job").fill_(-50.0)
    return Checkpoint(network, blueprint, WORLD.spec, WORLD.rules, WORLD.setup.cluster.gpu_types, {})


@pytest.mark.parametrize("most", [1, 8])
def test_coordination_removes_conflicts_between_nodes(most):
    """Four nodes claim a job or two; a payoff of -50 for the same candidate forbids it, as the assignment does."""
    workloads = WORLD.source.evaluation("validation")
    found: dict[str, dict[str, Any]] = {}
    for choosing in ("independent", "assignment", "max_plus"):
        policy = chooser(checkpoint(), choosing, most, sampled=True)
        assert policy.rules.max_decisions == most
        found[choosing], jct = measure_choosing(policy, workloads, WORLD.setup, 0)
        assert found[choosing]["mean JCT (s)"] == pytest.approx(jct.mean())
    for figures in found.values():
        assert figures["unfinished"] == 0
        assert figures["ms per decision"] > 0
        assert figures["mean JCT (s)"] > 0
    assert found["independent"]["conflicts %"] > 5
    for choosing in ("assignment", "max_plus"):
        assert found[choosing]["conflicts %"] < 0.7 * found["independent"]["conflicts %"]


def test_ways_are_compared_episode_by_episode():
    """Ratios of 2 and 0.5 have a geometric mean of 1, and logarithms of +-0.69."""
    found = against(np.array([20.0, 5.0]), np.array([10.0, 10.0]))
    assert found["/ first row"] == pytest.approx(1.0)
    assert found["+- paired"] == pytest.approx(np.log(2.0) * np.sqrt(2.0) / np.sqrt(2.0))
    assert np.isnan(against(np.array([3.0]), np.array([2.0]))["+- paired"])


def test_what_cannot_be_compared_is_refused(tmp_path):
    checkpoint("agents.networks.AttentionPolicy").save(tmp_path / "plain")
    checkpoint().save(tmp_path / "together")
    cfg = {"trust": [], "choosing": ["max_plus"], "checkpoint": str(tmp_path / "plain")}
    with pytest.raises(ChoiceError, match="train with agent=coordinated"):
        compare_choosing(OmegaConf.create(cfg), tmp_path / "table.csv")
    cfg |= {"choosing": ["max_plus", "auction"], "checkpoint": str(tmp_path / "together")}
    with pytest.raises(ChoiceError, match="auction: no such way; there are: max_plus, assignment, independent"):
        compare_choosing(OmegaConf.create(cfg), tmp_path / "table.csv")
    assert not list(tmp_path.glob("*.csv"))
