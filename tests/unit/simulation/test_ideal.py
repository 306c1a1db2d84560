"""Ideal durations of gangs that no single GPU type can hold."""

import numpy as np
import pytest

from envs.evaluation.record import ideal_durations
from envs.metrics import slowdowns
from envs.metrics.jobs import jain_index
from envs.simulation import Scenario, Setup
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.unit.simulation.bench import Bench
from tests.unit.simulation.plays import Play, jobs_of

FOUR_OF_EACH = ClusterSpec((NodeSpec("slow", 4), NodeSpec("fast", 4)), "two types")


@pytest.mark.parametrize(("shares", "throughput"), [("proportional", 7.0), ("equal", 3.0)])
def test_a_gang_over_two_types_is_ideal_on_the_fastest_gpus(engine, shares, throughput):
    """Over two nodes a fast GPU processes 1.5 samples/s and a slow one 0.5: 4 x 1.5 + 2 x 0.5, or 6 x 0.5."""
    workload, scenario = jobs_of((0, 6, 42), (0, 2, 42)), Scenario(worker_shares=shares, restart_delay=0.0)
    acts = {0.0: {0: {1: 4, 0: 2}, 1: {0: 2}}}
    play = Play(engine, acts, workload, FOUR_OF_EACH, scenario)
    ideal = play.result.records["ideal_duration"].tolist()
    assert ideal == [42 / throughput, 42 / 6.0]
    assert play.finish[0] == pytest.approx(ideal[0])
    assert slowdowns(play.result.records).tolist() == pytest.approx([1.0, 3.0])
    assert 0 < jain_index(1 / slowdowns(play.result.records)) <= 1
    setup = Setup(FOUR_OF_EACH, Bench(), scenario)
    assert [each.tolist() for each in ideal_durations([workload], setup)] == [ideal], "records of tasks agree"


def test_a_gang_that_runs_on_one_type_only_counts_as_its_largest_size_there(engine):
    """The model bert runs on no slow GPU: 4 fast ones are all that 6 requested GPUs can be."""
    workload = Workload.of([JobSpec(0, 0.0, 6, 24.0, "bert", min_gpus=1, max_gpus=6)])
    play = Play(engine, {0.0: {0: {1: 4}}}, workload, FOUR_OF_EACH, Scenario(restart_delay=0.0))
    assert play.result.records["ideal_duration"].tolist() == [2.0]
    assert np.isfinite(slowdowns(play.result.records)).all()
