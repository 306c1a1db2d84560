"""Starling's default: batch sizes are chosen where the world offers a choice, and only there."""

import numpy as np
import pytest

from baselines import Starling
from envs.performance import TableModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.golden.test_starling_batch import batches

TYPES = ClusterSpec((NodeSpec("V100", 4), NodeSpec("K80", 4)), "two types")


def mixed() -> Workload:
    """Ten jobs of one model without a choice of batch size, then ten of ResNet-18."""
    models = ["recommendation"] * 10 + ["resnet18"] * 10
    return Workload.of([JobSpec(i, 60.0 * i, 2, 4e5, model, 1, 4) for i, model in enumerate(models)])


def log_under(batch: str, rules: Scenario):
    """Play one run."""
    return run_episode(Starling(batch=batch), Simulator(mixed(), Setup(TYPES, TableModel(), rules))).log  # type: ignore[arg-type]


def test_nothing_is_analysed_where_batch_sizes_are_usual():
    starling = Starling()
    run_episode(starling, Simulator(mixed(), Setup(TYPES, TableModel(), Scenario(batch_sizes="usual"))))
    assert starling._analysed is None


def test_runs_are_equal_where_batch_sizes_are_usual():
    usual = Scenario(batch_sizes="usual")
    assert log_under("best", usual) == log_under("usual", usual)


def test_batch_sizes_are_chosen_from_the_first_job_with_a_choice_on():
    """With `measured`, the world offers ResNet-18 other batch sizes. Jobs end sooner with them."""
    simulator = Simulator(mixed(), Setup(TYPES, TableModel(), Scenario(statistical_efficiency="measured")))
    result = run_episode(Starling(), simulator)
    named = {job for job in range(20) if any(batch for batch in batches(result, job))}
    assert named
    assert named <= set(range(10, 20))


def test_batch_sizes_by_goodput_end_jobs_sooner():
    rules = Scenario(statistical_efficiency="measured")
    best, usual = (
        np.mean(
            run_episode(Starling(batch=batch), Simulator(mixed(), Setup(TYPES, TableModel(), rules))).records[
                "finish_time"
            ]
        )
        for batch in ("best", "usual")
    )
    assert best < usual


def test_a_negative_hidden_look_ahead_is_refused():
    with pytest.raises(ValueError, match="hidden_look_ahead is -1; it must not be negative"):
        Starling(hidden_look_ahead=-1)
