"""Sensitivity curves: envelopes computed by hand, and those of the models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.rubick.model import RubickModel, fitted_figures
from envs.performance.rubick.plans import BestPlan
from envs.performance.rubick.sensitivity import MEMORY_LEVELS, envelope
from envs.types import ExecutionPlan, PerformanceError

MODEL = RubickModel()


def best(*throughputs):
    return [BestPlan(throughput, ExecutionPlan(data=i + 1), i + 1, 1) for i, throughput in enumerate(throughputs)]


def test_envelope_by_hand():
    """10, 8, 20, 20.1: two GPUs keep the plan of one; the last 0.5 % do not justify a GPU."""
    curve = envelope("gpus", np.array([1.0, 2.0, 3.0, 4.0]), best(10.0, 8.0, 20.0, 20.1))
    assert curve.throughput.tolist() == [10.0, 10.0, 20.0, 20.1]
    assert curve.needed.tolist() == [0, 0, 2, 2]
    assert [plan.data for plan in curve.plans if plan] == [1, 1, 3, 4]


def test_reading_between_and_beyond_the_levels():
    curve = envelope("memory per gpu", np.array([2.0, 8.0]), best(5.0, 9.0))
    assert [curve.at(amount) for amount in (1.0, 2.0, 7.9, 8.0, 100.0)] == [0.0, 5.0, 5.0, 9.0, 9.0]


def test_slopes_both_ways():
    curve = envelope("gpus", np.array([1.0, 2.0, 4.0]), best(5.0, 9.0, 13.0))
    assert curve.slope(1, 1) == pytest.approx(4.0)
    assert curve.slope(2, 2) == pytest.approx(2.0)
    assert curve.slope(2, -1) == pytest.approx(4.0)
    with pytest.raises(PerformanceError, match="step is 0"):
        curve.slope(1, 0)


def test_amounts_must_ascend():
    with pytest.raises(PerformanceError, match="they must ascend"):
        envelope("gpus", np.array([1.0, 1.0]), best(1.0, 2.0))


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=20))
def test_envelopes_never_fall_and_need_at_most_the_amount(throughputs):
    curve = envelope("gpus", np.arange(1.0, len(throughputs) + 1), best(*throughputs))
    assert (np.diff(curve.throughput) >= 0).all()
    assert (curve.throughput >= np.array(throughputs)).all()
    assert (curve.needed <= np.arange(len(throughputs))).all()
    assert (curve.throughput[curve.needed] * 1.01 >= curve.throughput).all()


@pytest.mark.parametrize("model", sorted(fitted_figures()))
def test_curves_of_the_models_are_monotone(model):
    table = MODEL.sensitivity(model)
    for curve in (table.gpus, table.cpus(8), table.memory(8)):
        assert (np.diff(curve.throughput) >= 0).all()
        assert curve.throughput[-1] > 0
    assert len(table.gpus.amounts) == 64


def test_gpu_curve_is_computed_once():
    table = MODEL.sensitivity("bert")
    assert table.gpus is table.gpus


def test_cpu_threads_matter_if_only_offload_runs():
    """LLaMA-7B needs offload on one GPU; BERT on one GPU does not, so CPU threads do not matter."""
    llama = MODEL.sensitivity("llama7b").cpus(1)
    assert llama.throughput[-1] > 1.5 * llama.throughput[0]
    bert = MODEL.sensitivity("bert").cpus(1)
    assert bert.throughput[0] == bert.throughput[-1]
    assert bert.needed.tolist() == [0] * len(bert.needed)


def test_cpu_memory_matters_if_only_offload_runs():
    """16 bytes for each of 6.7e9 parameters, plus one gigabyte: 109 GB."""
    curve = MODEL.sensitivity("llama7b").memory(1)
    runs = curve.throughput > 0
    assert [level for level, there in zip(MEMORY_LEVELS, runs, strict=True) if there] == [128.0, 200.0]


def test_needed_amounts_skip_useless_gpus():
    """T5 gains nothing beyond eight GPUs at its batch size."""
    curve = MODEL.sensitivity("t5").gpus
    assert curve.needed[63] == 7
    assert curve.plans[63] == curve.plans[7]
