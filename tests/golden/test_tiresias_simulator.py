"""The 60 jobs that come with Tiresias' simulator, on its 4 nodes x 4 GPUs, compared with its output for strict FIFO."""

import pandas as pd

from baselines import Fifo
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.golden.playground import play


def test_strict_fifo_to_the_last_printed_digit(real_data):
    """Mean JCT 219.1833 s, makespan 3341 s: gangs consolidated, on the first nodes with room."""
    rows = pd.read_csv(real_data("../xval/tiresias/60_job.csv"))
    trace = Workload.of(
        [
            JobSpec(0, float(submit), int(gpus), float(gpus * duration), "any")
            for submit, gpus, duration in zip(rows["submit_time"], rows["num_gpu"], rows["duration"], strict=True)
        ]
    )
    cluster = ClusterSpec(tuple(NodeSpec("any", 4) for _ in range(4)))
    result = play(Fifo(placement="first_fit"), trace, cluster)
    jct = result.records["finish_time"] - result.records["submit_time"]
    assert f"{jct.mean():.4f}" == "219.1833"
    assert result.records["finish_time"].max() == 3341
