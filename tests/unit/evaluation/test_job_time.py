"""Shares of job time by the provenance of throughputs."""

from dataclasses import replace

import pytest

from baselines import Fifo
from envs.evaluation import compare_schedulers
from envs.evaluation.job_time import describe_job_time, share_job_time
from envs.performance import IdealModel, TableModel
from envs.simulation import EventLog, Setup
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.unit.metrics.fabricated import Told, fabricated

CLUSTER = ClusterSpec((NodeSpec("V100", 4), NodeSpec("A100", 4)))


def shares(*runs, performance=None):
    return share_job_time({"told": runs}, Setup(CLUSTER, performance or TableModel()))


def told(column="", row=0, value=0):
    """ResNet-50 on a node of 4 V100 and one of 4 A100; one field of one event of the log changed.

    Gavel measured 1 V100, and 2 to 8, of which 4 are left out; no A100. Job 0 has 1 V100 for 6 s, then 4 for 2 s. Job 1
    has 2 A100 for 4 s, then none. Job 2 has a GPU of each type for 4 s.
    """
    histories = (
        Told(0.0, 1, 8.0, [(0.0, {0: 1}), (6.0, {0: 4})], 8.0),
        Told(1.0, 2, 8.0, [(1.0, {1: 2}), (5.0, None)]),
        Told(8.0, 2, 4.0, [(8.0, {0: 1, 1: 1})], 12.0),
    )
    specs = [JobSpec(i, each.submit, each.num_gpus, 100.0, "resnet50") for i, each in enumerate(histories)]
    run = fabricated(histories, workload=Workload.of(specs, "told"))
    events = run.log.events.copy()
    if column:
        events[column][row] = value
    return replace(run, cluster=CLUSTER, log=EventLog(events, run.log.shares))


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        ((), (6, 2, 0, 8)),
        (("batch_size", 1, 48), (0, 8, 0, 8)),  # of job 0's start: 48 samples lie between the measured batch sizes
        (("batch_size", 1, 128), (6, 2, 0, 8)),  # measured too
        (("batch_size", 1, 512), (0, 2, 6, 8)),  # beyond them
        (("plan", 1, 0), (0, 2, 6, 8)),
    ],
)
def test_shares_worked_by_hand(changed, seconds):
    names = ("measured", "interpolated", "modelled", "guessed")
    expected = {name: share / 16 for name, share in zip(names, seconds, strict=True)}
    assert shares(told(*changed), told(*changed)) == pytest.approx(expected)


def test_pools_and_constraints_change_no_provenance():
    cluster = ClusterSpec((NodeSpec("V100:batch", 4), NodeSpec("A100:batch#fast", 4)))
    run = told()
    run = replace(run, cluster=cluster, workload=replace(run.workload, models=("resnet50 where pools=batch",)))
    assert shares(run) == shares(told())


def test_models_that_state_no_provenance_have_no_shares():
    assert shares(told(), performance=IdealModel()) == {}
    assert describe_job_time({}) == []
    assert shares() == {}


def test_the_line_has_a_figure_for_each_provenance():
    (line,) = describe_job_time({"measured": 0.625, "interpolated": 0.0, "modelled": 0.25, "guessed": 0.125})
    assert "62/0/25/12 %" in line


def test_a_comparison_states_what_was_played():
    """One job on 1 V100, which is measured, and one on 4, which is not."""
    specs = [JobSpec(0, 0.0, 1, 1000.0, "resnet50"), JobSpec(1, 0.0, 4, 1000.0, "resnet50")]
    setup = Setup(ClusterSpec((NodeSpec("V100", 8),)), TableModel())
    found = compare_schedulers({"fifo": Fifo()}, [Workload.of(specs, "two")], setup)
    seconds = [row["finish_time"] - row["start_time"] for row in found.episodes["fifo"][0].jobs]
    stated = found.settings["job_time"]
    assert stated["measured"] == pytest.approx(seconds[0] / sum(seconds))
    assert stated["interpolated"] == pytest.approx(seconds[1] / sum(seconds))
    assert describe_job_time(stated)[0] in found.caption_lines
