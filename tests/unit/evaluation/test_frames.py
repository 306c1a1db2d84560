"""Runs as data frames: a row for each job, and for each event."""

import numpy as np
import pytest

from baselines import Fifo
from envs.evaluation import Comparison
from envs.evaluation.episode import EpisodeFigures
from envs.evaluation.frames import event_frame, job_frame
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload


@pytest.fixture(scope="module")
def run():
    """Job 0 takes both nodes from 0 to 10; job 1, which comes at 2, runs from 10 to 15 on the first one."""
    jobs = [JobSpec(0, 0.0, 8, 80.0, "any", user="ann"), JobSpec(1, 2.0, 4, 20.0, "any", user="bob")]
    setup = Setup(ClusterSpec((NodeSpec("V100", 4),) * 2), IdealModel(), Scenario(restart_delay=0.0))
    return run_episode(Fifo(), Simulator(Workload.of(jobs), setup))


def test_every_job_has_a_row_with_its_times_and_nodes(run):
    frame = job_frame(run)
    assert frame["user"].tolist() == ["ann", "bob"]
    assert frame["start_time"].tolist() == [0, 10]
    assert frame["end_time"].tolist() == [10, 15]
    assert frame["jct"].tolist() == [10, 13]
    assert frame["wait"].tolist() == frame["time_to_start"].tolist() == [0, 8]
    assert frame["attained_service"].tolist() == [80, 20]
    assert frame["nodes"].tolist() == ["0 1", "0"]
    assert frame["finished"].all()


def test_every_event_has_a_row_with_what_the_job_holds_after_it(run):
    frame = event_frame(run)
    said = list(zip(frame["time"], frame["event"], frame["job"], frame["gpus"], strict=True))
    assert said == [
        (0, "arrive", 0, ""),
        (0, "start", 0, "0:4 1:4"),
        (2, "arrive", 1, ""),
        (10, "finish", 0, ""),
        (10, "start", 1, "0:4"),
        (15, "finish", 1, ""),
    ]


def test_a_comparison_has_them_by_workload_but_not_of_records(run):
    found = Comparison({"fifo": [run, run], "read": [EpisodeFigures.of(run)] * 2})
    assert found.jobs("fifo")["workload"].tolist() == [run.workload.name] * 4
    assert len(found.events("fifo")) == 2 * len(run.log)
    with pytest.raises(MurmurationError, match=r"read: is read from a record, which has no events; play it"):
        found.jobs("read")
    with pytest.raises(MurmurationError, match="srtf"):
        found.jobs("srtf")
    assert np.isclose(found.estimate("mean_jct", "fifo").value, 11.5)
    assert "<table" in found._repr_html_()
