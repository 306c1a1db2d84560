"""Muri's trace 3 by the rules of Muri's simulator, compared with its output (with its start-up overhead set to 0)."""

import pandas as pd
import pytest

from baselines import Srtf
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.golden.playground import play

SERVICE_FACTOR = 1.015  # that simulator's own: service time = iterations x iteration time x this


@pytest.fixture(scope="module")
def trace(real_data):
    rows = pd.read_csv(real_data("traces/muri/trace3.csv.gz"))
    seconds = rows["iterations"] * rows["iteration_time"] / 1000 * SERVICE_FACTOR
    return Workload.of(
        [
            JobSpec(0, float(submit) / 1000, int(gpus), float(gpus * duration), "any")
            for submit, gpus, duration in zip(rows["submit_time"], rows["num_gpu"], seconds, strict=True)
        ]
    )


@pytest.mark.parametrize(
    ("by", "mean", "p99"), [("time", 190377.377380, 4501678.817), ("gpu_time", 183965.977985, 3666482.586)]
)
def test_to_the_last_printed_digit(trace, by, mean, p99):
    """Mean JCT, makespan, and the 99th percentile as `sorted(jct)[int(0.99 n)]`."""
    cluster = ClusterSpec(tuple(NodeSpec("V100", 8) for _ in range(8)))
    result = play(Srtf(by=by, sticky=False), trace, cluster)
    jct = sorted(result.records["finish_time"] - result.records["submit_time"])
    assert len(jct) == 992
    assert f"{sum(jct) / len(jct):.6f}" == f"{mean:.6f}"
    assert f"{result.records['finish_time'].max():.6f}" == "8173902.669030"
    assert f"{jct[int(0.99 * len(jct))]:.3f}" == f"{p99:.3f}"
