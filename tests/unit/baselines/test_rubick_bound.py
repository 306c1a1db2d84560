"""The lower bound on makespan: by hand, and below every run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Fifo, Rubick
from baselines.rubick.bound import least_makespan, least_need
from baselines.rubick.experiment import WithUserPlans, play, servers
from envs.performance.rubick_data import Measurement
from envs.performance.rubick_measured import MeasuredModel
from envs.types import ExecutionPlan, JobSpec
from envs.workloads import Workload

# Samples/s of plain replicas: 1, 2, 4 on 1, 2, 4 GPUs; on 8 another 1.6-fold only. Offload on 1 GPU: a quarter.
SPEEDS = {1: 1.0, 2: 2.0, 4: 4.0, 8: 6.4}
OFFLOAD = ExecutionPlan(data=1, zero_stage=2, offload=True)
MEASURED = MeasuredModel(
    [
        *(
            Measurement("gpt2", "gpt2", "", str(gpus), ExecutionPlan(data=gpus), (gpus,), 16, 4.0, 16.0 / speed)
            for gpus, speed in SPEEDS.items()
        ),
        Measurement("gpt2", "gpt2", "", "1", OFFLOAD, (1,), 16, 4.0, 64.0),
    ]
)


def job(submit, gpus, work, *, guaranteed=False):
    """A job of plain replicas."""
    return JobSpec(0, submit, gpus, work, "gpt2", 1, 64, plan=ExecutionPlan(data=gpus), guaranteed=guaranteed)


def test_a_short_job_stays_where_its_start_is_cheapest():
    """64 samples: at the earliest after 260 + 64 / 6.4. On one GPU it takes 260 + 64 GPU-seconds, on two 520 + 64."""
    assert least_need(job(0, 4, 64.0), servers(), MEASURED) == (270.0, 324.0)


def test_a_promise_keeps_it_from_small_sizes():
    """Promised 4 samples/s: 4 (260 + 16) on 4 GPUs. Eased 1.5-fold to 2.67 the same; eased twofold 2 GPUs will do."""
    promised = job(0, 4, 64.0, guaranteed=True)
    needs = [least_need(promised, servers(), MEASURED, slack)[1] for slack in (1.0, 1.5, 2.0, None)]
    assert needs == [4 * (260 + 16.0), 4 * (260 + 16.0), 2 * (260 + 32.0), 324.0]


def test_best_effort_jobs_are_promised_nothing():
    assert least_need(job(0, 4, 64.0), servers(), MEASURED, 1.0)[1] == 324.0


def test_a_change_may_be_cheaper_than_to_stay():
    """Two samples/s on one GPU offloading, 64 on sixteen: a long job may start on one GPU and go on elsewhere."""
    two = MeasuredModel(
        [
            Measurement("gpt2", "gpt2", "", "1", OFFLOAD, (1,), 16, 4.0, 8.0),
            Measurement("gpt2", "gpt2", "", "88", ExecutionPlan(data=16), (8, 8), 16, 4.0, 0.25),
        ]
    )
    work = 6400.0  # stays: min(260 + 3200, 16 (260 + 100)); changes: 520 + 16 * 100
    assert least_need(job(0, 1, work), servers(), two)[1] == 520 + 1600


def test_the_last_job_or_the_whole_cluster_bounds():
    """One long job: 260 + 64,000 / 6.4 after its submission. A thousand at once: 1,000 x (260 + 64) GPU-s on 64."""
    alone = Workload.of([job(100, 4, 64000.0)])
    assert least_makespan(alone, servers(), MEASURED) == pytest.approx(100 + 10260)
    many = Workload.of([job(50, 1, 64.0)] * 1000)
    assert least_makespan(many, servers(), MEASURED) == pytest.approx(50 + 1000 * 324 / 64)


rows = st.tuples(st.floats(0, 3600), st.sampled_from([1, 2, 4, 8]), st.floats(1, 20000), st.booleans())


@settings(max_examples=15, deadline=None)
@given(st.lists(rows, min_size=1, max_size=25))
def test_no_run_ends_before(drawn):
    """FIFO and Rubick, strictly and eased, each held against the bound with its own promise."""
    workload = Workload.of([job(submit, gpus, work, guaranteed=promised) for submit, gpus, work, promised in drawn])
    bounds = [least_makespan(workload, servers(), MEASURED, slack) for slack in (None, 1.5, 1.0)]
    assert bounds == sorted(bounds)
    for scheduler, bound in (
        (WithUserPlans(Fifo("skip")), bounds[0]),
        (Rubick(MEASURED, slack=1.5), bounds[1]),
        (Rubick(MEASURED), bounds[2]),
    ):
        result = play(scheduler, workload, servers(), MEASURED)
        assert result.records["finish_time"].max() >= bound - 1e-6
