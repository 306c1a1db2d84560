"""The comparison of a simulated play with one on a cluster, worked by hand."""

from pathlib import Path

import numpy as np
import pytest

from baselines import Fifo
from deployment.comparison import COLUMNS, compare_plays
from deployment.measuring import MeasuredLatencies
from deployment.records import JobRun, Latencies
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from tests.golden.playground import jobs, two_nodes


def test_costs_are_those_of_each_task_with_half_an_interval_and_a_look():
    measured = MeasuredLatencies(start=[1.0, 2.0], stop=[0.1, 0.1], restart=[3.0, 4.0], look=[0.05, 0.15])
    assert np.array(measured.costs(0.2)) == pytest.approx(np.array([[1.15, 3.15], [2.25, 4.25]]))
    assert str(measured) == "start 1.500 s, stop 0.100 s, stop and start 3.500 s, look 0.100 s"
    assert MeasuredLatencies().costs(0.2) == []


def test_the_difference_is_split_into_starts_lateness_and_the_rest():
    """Both jobs need all GPUs: 0-10 and 10-15. Starts that take 1 s: 0-11, 11-17. Starts that take 3 s: 0-13, 13-21.

    On the cluster a second is five scaled ones: job 0 ends at 12, of which its start took 0.2 s and the decision 0.1 s
    of real time; job 1 ends at 19, its start took 0.4 s.
    """
    workload = jobs((0, 8, 10), (1, 8, 5))

    def simulate(start):
        setup = Setup(two_nodes(), IdealModel(), Scenario(start_delay=start, restart_delay=0.0))
        return run_episode(Fifo(), Simulator(workload, setup))

    runs = [JobRun(spec, Path("unused")) for spec in workload]
    runs[0].finish_time, runs[0].latencies = 12.0, Latencies(late=0.1, start=0.2)
    runs[1].finish_time, runs[1].latencies = 19.0, Latencies(start=0.4)
    found = compare_plays("fifo", simulate(0.0), [simulate(1.0), simulate(3.0)], runs, 5.0, {})
    assert found.table == pytest.approx(
        np.array(
            [
                # job, simulated, with latencies, real, start, stop, late, rest
                [0, 10, 12, 12, 1.0, 0, 0.5, 0.5],
                [1, 14, 18, 18, 2.0, 0, 0.0, 2.0],
            ]
        )
    )
    assert found.plays == pytest.approx([13.5, 16.5])
    assert found.mean("real") == pytest.approx(15.0)
    assert found.difference == pytest.approx(0.0)
    assert found.table.shape[1] == len(COLUMNS)


def test_jobs_that_did_not_finish_on_the_cluster_count_nowhere():
    workload = jobs((0, 8, 10), (1, 8, 5))
    result = run_episode(Fifo(), Simulator(workload, Setup(two_nodes(), IdealModel(), Scenario(restart_delay=0.0))))
    runs = [JobRun(spec, Path("unused")) for spec in workload]
    runs[0].finish_time = 10.0
    found = compare_plays("fifo", result, [result], runs, 1.0, {})
    assert (found.mean("simulated"), found.mean("real")) == (10.0, 10.0)
    assert np.isnan(found.table[1, COLUMNS.index("real")])
