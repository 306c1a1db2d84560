"""The lower bound on makespan: by hand, and below every run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Fifo, Rubick
from envs.performance.rubick.data import MeasuredRun
from envs.performance.rubick.measured import MeasuredModel
from envs.types import ExecutionPlan, JobSpec
from envs.workloads import Workload
from papers.rubick.bound import least_makespan, least_need
from papers.rubick.experiment import WithUserPlans, build_a800_cluster, run_under_artifact_rules

# Samples/s of plain replicas: 1, 2, 4 on 1, 2, 4 GPUs; on 8 only 1.6 times that on 4. Offload on 1 GPU: a quarter.
THROUGHPUTS = {1: 1.0, 2: 2.0, 4: 4.0, 8: 6.4}
OFFLOAD = ExecutionPlan(data=1, zero_stage=2, offload=True)
MEASURED = MeasuredModel(
    [
        *(
            MeasuredRun("gpt2", "gpt2", "", str(gpus), ExecutionPlan(data=gpus), (gpus,), 16, 4.0, 16.0 / throughput)
            for gpus, throughput in THROUGHPUTS.items()
        ),
        MeasuredRun("gpt2", "gpt2", "", "1", OFFLOAD, (1,), 16, 4.0, 64.0),
    ]
)


def job(submit, gpus, work, *, guaranteed=False):
    """A job of plain replicas."""
    return JobSpec(0, submit, gpus, work, "gpt2", 1, 64, plan=ExecutionPlan(data=gpus), guaranteed=guaranteed)


def test_a_short_job_keeps_the_size_with_the_cheapest_start():
    """64 samples: at least 260 + 64 / 6.4 s. On one GPU it takes 260 + 64 GPU-seconds, on two 520 + 64."""
    assert least_need(job(0, 4, 64.0), build_a800_cluster(), MEASURED) == (270.0, 324.0)


def test_a_guarantee_excludes_small_sizes():
    """Promised 4 samples/s: 4 (260 + 16) on 4 GPUs. Eased 1.5-fold to 2.67 the same; eased twofold 2 GPUs suffice."""
    promised = job(0, 4, 64.0, guaranteed=True)
    needs = [least_need(promised, build_a800_cluster(), MEASURED, slack)[1] for slack in (1.0, 1.5, 2.0, None)]
    assert needs == [4 * (260 + 16.0), 4 * (260 + 16.0), 2 * (260 + 32.0), 324.0]


def test_best_effort_jobs_have_no_guarantee():
    assert least_need(job(0, 4, 64.0), build_a800_cluster(), MEASURED, 1.0)[1] == 324.0


def test_changing_size_can_be_cheaper_than_keeping_it():
    """Two samples/s on one GPU with offloading, 64 on sixteen: a long job may start on one GPU, then move."""
    two = MeasuredModel(
        [
            MeasuredRun("gpt2", "gpt2", "", "1", OFFLOAD, (1,), 16, 4.0, 8.0),
            MeasuredRun("gpt2", "gpt2", "", "88", ExecutionPlan(data=16), (8, 8), 16, 4.0, 0.25),
        ]
    )
    work = 6400.0  # stays: min(260 + 3200, 16 (260 + 100)); changes: 520 + 16 * 100
    assert least_need(job(0, 1, work), build_a800_cluster(), two)[1] == 520 + 1600


def test_the_bound_is_the_larger_of_one_job_and_the_whole_cluster():
    """One long job: 260 + 64,000 / 6.4 after its submission. A thousand at once: 1,000 x (260 + 64) GPU-s on 64."""
    alone = Workload.of([job(100, 4, 64000.0)])
    assert least_makespan(alone, build_a800_cluster(), MEASURED) == pytest.approx(100 + 10260)
    many = Workload.of([job(50, 1, 64.0)] * 1000)
    assert least_makespan(many, build_a800_cluster(), MEASURED) == pytest.approx(50 + 1000 * 324 / 64)


rows = st.tuples(st.floats(0, 3600), st.sampled_from([1, 2, 4, 8]), st.floats(1, 20000), st.booleans())


@settings(max_examples=15, deadline=None)
@given(st.lists(rows, min_size=1, max_size=25))
def test_no_run_ends_before_the_bound(drawn):
    """FIFO and Rubick, strict and eased, each compared with the bound for its own guarantee."""
    workload = Workload.of([job(submit, gpus, work, guaranteed=promised) for submit, gpus, work, promised in drawn])
    bounds = [least_makespan(workload, build_a800_cluster(), MEASURED, slack) for slack in (None, 1.5, 1.0)]
    assert bounds == sorted(bounds)
    for scheduler, bound in (
        (WithUserPlans(Fifo("skip")), bounds[0]),
        (Rubick(MEASURED, slack=1.5), bounds[1]),
        (Rubick(MEASURED), bounds[2]),
    ):
        result = run_under_artifact_rules(scheduler, workload, build_a800_cluster(), MEASURED)
        assert result.records["finish_time"].max() >= bound - 1e-6
