"""The scheduler in the README works as described: a class that imports nothing of ours and schedules jobs."""

import re
from typing import Any

import pytest

from envs.performance import IdealModel
from envs.scheduling import Scheduler
from envs.simulation import Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def source(repository):
    (block,) = BLOCK.findall((repository / "README.md").read_text(encoding="utf-8"))
    return block


@pytest.fixture
def scheduler(source):
    names: dict[str, Any] = {}
    exec(source, names)
    (found,) = [value() for value in names.values() if isinstance(value, type)]
    return found


def start_and_finish(scheduler, *jobs):
    """Start and finish times by job; jobs are (submit time, GPUs, seconds) on two nodes of four GPUs."""
    specs = [JobSpec(i, submit, gpus, gpus * seconds, "any") for i, (submit, gpus, seconds) in enumerate(jobs)]
    cluster = ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 4)))
    result = run_episode(scheduler, Simulator(Workload.of(specs), Setup(cluster, IdealModel())))
    return [(row["start_time"], row["finish_time"]) for row in result.records]


def test_it_takes_twelve_lines_and_imports_nothing(source):
    assert len(source.splitlines()) <= 12
    assert "import" not in source


def test_it_is_a_scheduler(scheduler):
    assert isinstance(scheduler, Scheduler)


def test_the_shortest_jobs_start_first(scheduler):
    """All at t=0 on 8 GPUs: jobs 2 (1 s) and 0 (5 s) fill the cluster; job 1 (9 s) replaces job 2 at 1."""
    assert start_and_finish(scheduler, (0, 4, 5), (0, 4, 9), (0, 4, 1)) == [(0, 5), (1, 10), (0, 1)]


def test_no_job_is_interrupted(scheduler):
    """Job 1 is shorter than the rest of job 0 at 2, and still waits for it."""
    assert start_and_finish(scheduler, (0, 8, 5), (2, 8, 1)) == [(0, 5), (5, 6)]


def test_a_job_that_does_not_fit_is_skipped(scheduler):
    """At 1, 4 GPUs are free: job 1 needs 8 and waits; job 2, though longer, runs."""
    assert start_and_finish(scheduler, (0, 4, 5), (1, 8, 1), (1, 4, 2)) == [(0, 5), (5, 6), (1, 3)]
