"""Checks that a cluster can run a workload."""

import pytest

from envs.cluster import build_cluster
from envs.types import ClusterError, JobSpec
from envs.workloads import Workload, check_workload_fits

MIXED = build_cluster(
    "mixed",
    [{"gpu_type": "V100", "num_nodes": 3, "num_gpus": 8}, {"gpu_type": "K80", "num_nodes": 2, "num_gpus": 8}],
)


class OnlyOnV100:
    models = ("a", "large")

    def throughput(self, model, configuration):
        return (
            float(configuration.num_gpus)
            if model == "a" or (configuration.gpu_type == "V100" and configuration.num_gpus >= 8)
            else 0.0
        )


def workload(*sizes: int, model: str = "a", name: str = "") -> Workload:
    return Workload.of([JobSpec(i, float(i), size, 1.0, model, name=name) for i, size in enumerate(sizes)], "toy")


def test_workloads_that_fit_pass():
    check_workload_fits(workload(1, 8, 24), MIXED)
    check_workload_fits(workload(8, 24, model="large"), MIXED, OnlyOnV100())


def test_the_error_names_the_first_job_that_is_too_large_and_the_fix():
    with pytest.raises(ClusterError) as error:
        check_workload_fits(workload(8, 25, 64), MIXED)
    assert str(error.value) == (
        "workload toy: job 1: num_gpus is 25; cluster mixed has 24 GPUs of one type (V100); "
        "leave larger jobs out with workload.max_gpus=24, or take a larger cluster"
    )


def test_the_error_states_the_traces_own_name_too():
    with pytest.raises(ClusterError, match=r"job 0 \(llama-3\): num_gpus is 32"):
        check_workload_fits(workload(32, name="llama-3"), MIXED)


def test_the_error_names_a_model_that_does_not_run_on_the_cluster():
    with pytest.raises(ClusterError, match=r"job 1 \(large\) does not run on 4 GPUs of any type of cluster mixed"):
        check_workload_fits(workload(8, 4, model="large"), MIXED, OnlyOnV100())


def test_without_a_performance_model_only_sizes_are_checked():
    check_workload_fits(workload(4, model="large"), MIXED)
