"""The table of jobs: order, slices, plans, and errors."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import ExecutionPlan, JobSpec, TraceError
from envs.workloads import Workload


def jobs(*submits: float, model: str = "a") -> list[JobSpec]:
    return [JobSpec(index, submit, 1 + index % 3, 10.0 + index, model) for index, submit in enumerate(submits)]


def test_jobs_are_sorted_and_ties_keep_their_order():
    workload = Workload.of(jobs(5.0, 0.0, 5.0))
    assert workload.jobs["submit_time"].tolist() == [0.0, 5.0, 5.0]
    assert workload.jobs["work"].tolist() == [11.0, 10.0, 12.0]


def test_a_job_survives_the_table_unchanged():
    plan = ExecutionPlan(data=2, zero_stage=2)
    job = JobSpec(0, 3.0, 4, 7.5, "b", 2, 8, 16, 64, plan, "team", True, "job-x", time_limit=60.0, priority=7.0)
    job = replace(job, qos="high", nice=-5.0)
    assert Workload.of([job]).spec(0) == job
    assert Workload.of([job, replace(job, submit_time=9.0, qos="low")]).slice(1, 2).spec(0).qos == "low"
    assert not Workload.of([replace(job, time_limit=math.inf)]).limited


def test_plans_are_kept_by_row():
    plan = ExecutionPlan(data=2)
    workload = Workload.of([JobSpec(0, 1.0, 2, 1.0, "a", plan=plan), JobSpec(1, 0.0, 2, 1.0, "a")])
    assert [job.plan for job in workload] == [None, plan]
    assert workload.slice(1, 2).spec(0).plan == plan


def test_a_slice_is_shifted_to_its_first_job_or_to_a_given_start():
    workload = Workload.of(jobs(0.0, 10.0, 30.0, 60.0))
    assert workload.slice(1, 3).jobs["submit_time"].tolist() == [0.0, 20.0]
    part = workload.slice(1, 3, start=5.0, name="part", window=(1.0, 2.0))
    assert part.jobs["submit_time"].tolist() == [5.0, 25.0]
    assert (part.name, part.window) == ("part", (1.0, 2.0))
    assert workload.jobs["submit_time"].tolist() == [0.0, 10.0, 30.0, 60.0]


def test_a_slice_without_jobs_or_with_a_later_start_is_refused():
    workload = Workload.of(jobs(0.0, 10.0))
    with pytest.raises(TraceError, match="has no jobs"):
        workload.slice(1, 1)
    with pytest.raises(TraceError, match="not negative"):
        workload.slice(0, 2, start=5.0)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.data())
def test_a_slice_keeps_gaps_and_jobs(submits, data):
    workload = Workload.of(jobs(*submits))
    first = data.draw(st.integers(0, len(submits) - 1))
    last = data.draw(st.integers(first + 1, len(submits)))
    part = workload.slice(first, last)
    assert part.jobs["submit_time"][0] == 0.0
    np.testing.assert_allclose(
        np.diff(part.jobs["submit_time"]), np.diff(workload.jobs["submit_time"][first:last]), atol=1e-9
    )
    assert part.jobs["work"].tolist() == workload.jobs["work"][first:last].tolist()


def test_the_jobs_of_a_tenant_keep_their_times_names_and_plans():
    plan = ExecutionPlan(data=2)
    workload = Workload.of(
        [
            JobSpec(0, 5.0, 1, 1.0, "m", tenant="x\x1b"),
            JobSpec(1, 7.0, 2, 1.0, "m", tenant="y", plan=plan, user="u", name="n"),
            JobSpec(2, 9.0, 3, 1.0, "m", tenant="x\x1b", user="v"),
        ]
    )
    one, other = workload.of_tenant(0), workload.of_tenant(1)
    assert [(job.submit_time, job.num_gpus, job.tenant, job.user) for job in one] == [
        (5.0, 1, "x\x1b", ""),
        (9.0, 3, "x\x1b", "v"),
    ]
    assert other.spec(0) == replace(workload.spec(1), id=0)
    assert (one.name, other.name) == ("jobs-x\\x1b", "jobs-y")  # no control character of a file
    assert other.window == workload.window
    with pytest.raises(TraceError, match="has no jobs"):
        one.of_tenant(1)


def test_names_and_plans_are_one_per_job_or_none():
    table = Workload.of(jobs(0.0, 1.0)).jobs
    with pytest.raises(TraceError, match="has 1 names for 2 jobs"):
        Workload("x", table, ("a",), names=("one",))
    with pytest.raises(TraceError, match="has 3 plans for 2 jobs"):
        Workload("x", table, ("a",), plans=(None, None, None))
    with pytest.raises(TraceError, match="has 1 ids for 2 jobs"):
        Workload("x", table, ("a",), ids=("one",))


def test_only_jobs_within_the_window_are_measured():
    workload = Workload.of(jobs(0.0, 10.0, 20.0)).slice(0, 3, window=(10.0, 20.0))
    assert workload.measured.tolist() == [False, True, False]
