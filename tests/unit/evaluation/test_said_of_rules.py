"""What a caption says of the rules: what schedulers know, may change, and may choose."""

import pytest

from envs.evaluation.said_of_rules import describe_rules
from envs.performance import IdealModel
from envs.simulation import Information, Scenario, Setup
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload

RIGID, ELASTIC = JobSpec(0, 0.0, 1, 9.0, "any"), JobSpec(1, 0.0, 1, 9.0, "any", max_gpus=2)


@pytest.mark.parametrize(
    ("jobs", "scenario", "known", "open_to_them"),
    [
        ([RIGID], Scenario(batch_sizes="usual"), "how much work every job has left, exactly", "GPUs of no job;"),
        ([RIGID, ELASTIC], Scenario(), "exactly", "GPUs of 50% of the jobs and batch sizes where"),
        (
            [ELASTIC],
            Scenario(batch_sizes="usual", cpu_memory="shared", sharing="pairs", information=Information("limit")),
            "of remaining work what users' time limits leave, and every job's throughput on all GPUs.",
            "GPUs of every job, cores and memory and which jobs share GPUs;",
        ),
        (
            [RIGID],
            Scenario(batch_sizes="usual", information=Information("none", throughput="observed")),
            "nothing of how much work jobs have left, and throughputs as they are estimated from what users state",
            "GPUs of no job;",
        ),
    ],
)
def test_the_rules_are_said_in_two_sentences(jobs, scenario, known, open_to_them):
    workload = Workload.of([JobSpec(i, 0.0, 1, 9.0, "any", max_gpus=job.max_gpus) for i, job in enumerate(jobs)])
    found = describe_rules([workload], Setup(ClusterSpec((NodeSpec("V100", 2),)), IdealModel(), scenario))
    assert len(found) == 2
    assert known in found[0]
    assert open_to_them in found[1]
