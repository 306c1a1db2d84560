"""Offered load, worked by hand and compared with a plain sum over jobs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.cluster import build_cluster
from envs.performance import IdealModel
from envs.types import Configuration, JobSpec
from envs.workloads import Workload
from envs.workloads.workload import JOB_COLUMNS

MIXED = build_cluster(
    "mixed",
    [
        {"gpu_type": "fast", "num_nodes": 1, "num_gpus": 4},
        {"gpu_type": "slow", "num_nodes": 3, "num_gpus": 2},
    ],
)


class Uneven:
    """Fast GPUs are three times as fast; "big" runs on fast ones only; a second node costs a fifth."""

    models = ("small", "big")

    def __init__(self):
        self.questions = []

    def throughput(self, model, configuration):
        self.questions.append((model, configuration.gpu_type, configuration.num_gpus, configuration.num_nodes))
        if model == "big" and configuration.gpu_type == "slow":
            return 0.0
        return (
            (3.0 if configuration.gpu_type == "fast" else 1.0)
            * configuration.num_gpus
            * (1.0 if configuration.num_nodes == 1 else 0.8)
        )


def test_one_type_by_hand(cluster, ideal):
    """16 GPUs for 100 s between first and last; 8 GPUs x 50 s and 4 GPUs x 100 s requested: 800 of "
    "1,600 GPU-seconds."""
    workload = Workload.of([JobSpec(0, 0.0, 8, 400.0, "a"), JobSpec(1, 100.0, 4, 400.0, "b")])
    assert workload.offered_load(cluster, ideal) == pytest.approx({"V100": 0.5, "all": 0.5})


def test_two_types_by_hand():
    """One GPU's work of 120 samples and again: 40 s each on fast, 120 s on slow; the cluster as a "
    "whole does 18 a second."""
    workload = Workload.of([JobSpec(0, 0.0, 1, 120.0, "small"), JobSpec(1, 10.0, 1, 120.0, "small")])
    load = workload.offered_load(MIXED, Uneven())
    assert load == pytest.approx({"fast": 80 / 100, "slow": 240 / 100, "all": 240 / (18 * 10)})
    # With one class of jobs, the harmonic mean relates the loads of the types to that of the whole cluster.
    assert 10 / load["all"] == pytest.approx(4 / load["fast"] + 6 / load["slow"])


def test_a_type_on_which_a_job_does_not_run_has_infinite_load_and_no_share_in_the_whole():
    workload = Workload.of([JobSpec(0, 0.0, 2, 60.0, "big"), JobSpec(1, 10.0, 2, 60.0, "big")])
    load = workload.offered_load(MIXED, Uneven())
    assert load["slow"] == np.inf
    assert load["fast"] == pytest.approx(2 * 60 / (6 * 10) * 2 / 10)
    assert load["all"] == pytest.approx(120 / (4 * 3 * 10))


def test_jobs_submitted_all_at_once_are_an_infinite_load(cluster, ideal):
    workload = Workload.of([JobSpec(0, 0.0, 1, 1.0, "a"), JobSpec(1, 0.0, 1, 1.0, "a")])
    assert workload.offered_load(cluster, ideal) == {"V100": np.inf, "all": np.inf}


@given(
    st.lists(
        st.tuples(st.floats(0, 1e4), st.integers(1, 6), st.floats(1, 1e5), st.sampled_from(["small", "big"])),
        min_size=2,
        max_size=25,
    )
)
def test_the_load_equals_the_sum_over_jobs(rows):
    workload = Workload.of([JobSpec(i, submit, n, work, model) for i, (submit, n, work, model) in enumerate(rows)])
    span = float(np.ptp(workload.jobs["submit_time"]))
    load = workload.offered_load(MIXED, Uneven())
    if span == 0:
        assert load["all"] == np.inf
        return
    performance, whole, fast = Uneven(), 0.0, 0.0
    for job in workload:
        throughputs = [
            performance.throughput(job.model, Configuration(gpu_type, job.num_gpus, -(-job.num_gpus // size)))
            / job.num_gpus
            for gpu_type, size in (("fast", 4), ("slow", 2))
        ]
        whole += job.work / (4 * throughputs[0] + 6 * throughputs[1])
        fast += job.work / throughputs[0]
    assert load["all"] == pytest.approx(whole / span, rel=1e-9)
    assert load["fast"] == pytest.approx(fast / (10 * span), rel=1e-9)


def test_throughputs_are_computed_once_per_class_of_jobs_so_that_large_workloads_are_fast():
    rng = np.random.default_rng(0)
    table = np.zeros(100_000, JOB_COLUMNS)
    table["submit_time"] = np.sort(rng.random(len(table))) * 1e6
    table["work"], table["num_gpus"] = 10.0, rng.integers(1, 5, len(table))
    table["model"] = rng.integers(0, 2, len(table))
    table["min_gpus"] = table["max_gpus"] = table["num_gpus"]
    workload, performance = Workload("large", table, ("small", "big")), Uneven()
    workload.offered_load(MIXED, performance)
    assert len(performance.questions) == len(set(performance.questions)) == 2 * 4 * 2


def test_the_names_of_models_count_and_not_their_numbers(cluster):
    table = Workload.of([JobSpec(0, 0.0, 1, 1.0, "b"), JobSpec(1, 1.0, 1, 1.0, "b")])
    assert table.offered_load(cluster, IdealModel(models=("b",)))["all"] == pytest.approx(2 / 16)
