"""Rubick's measured world: what was measured runs as measured, and nothing is made up."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.rubick import iteration_time, points
from envs.performance.rubick_data import Measurement, model_shapes
from envs.performance.rubick_measured import MeasuredModel, speed, technique
from envs.performance.rubick_model import fitted_figures
from envs.types import ExecutionPlan, PerformanceError

BATCHES = {"gpt2": 16, "llama30b": 4, "bert": 32, "t5_3b": 16}


def run(model, plan, placement, seconds):
    """A measurement of a plan; the placement as digits."""
    shares = tuple(int(digit) for digit in placement)
    return Measurement(model, model, "", placement, plan, shares, BATCHES[model], 4.0, seconds)


RUNS = [
    run("gpt2", ExecutionPlan(data=1, zero_stage=2), "1", 4.0),
    run("gpt2", ExecutionPlan(data=2), "2", 2.0),
    run("gpt2", ExecutionPlan(data=2, zero_stage=2), "2", 1.6),
    run("gpt2", ExecutionPlan(data=4, zero_stage=2, offload=True), "4", 2.0),
    run("gpt2", ExecutionPlan(data=4), "22", 1.25),
    run("gpt2", ExecutionPlan(tensor=5), "5", 1.0),
    run("gpt2", ExecutionPlan(data=8), "2222", 0.8),
    run("gpt2", ExecutionPlan(data=8), "8", 0.5),
    run("llama30b", ExecutionPlan(pipeline=6, tensor=4), "444444", 4.0),
    run("llama30b", ExecutionPlan(data=4, tensor=4, pipeline=3), "888888", 2.0),
    run("bert", ExecutionPlan(data=1), "1", 0.0),
    run("bert", ExecutionPlan(data=2), "2", 0.5),
    run("t5_3b", ExecutionPlan(tensor=4), "4", 1.0),
]
MODEL = MeasuredModel(RUNS)


def rate(model, gpus, nodes=1, **more):
    """Speed on A800."""
    return MODEL.throughput(model, "A800", gpus, nodes, **more)


def test_what_was_measured_runs_as_measured():
    assert rate("gpt2", 2, plan=ExecutionPlan(data=2)) == 8.0
    assert rate("gpt2", 2, plan=ExecutionPlan(data=2, zero_stage=2)) == 10.0
    assert rate("gpt2", 8, 4, plan=ExecutionPlan(data=8)) == 20.0
    assert rate("gpt2", 8, 1, plan=ExecutionPlan(data=8)) == 32.0
    assert rate("llama30b", 24, 6, plan=ExecutionPlan(pipeline=6, tensor=4)) == 1.0


def test_micro_batches_and_zero_stages_are_not_told_apart():
    assert rate("gpt2", 2, plan=ExecutionPlan(data=2, accumulation=4)) == 8.0
    assert rate("gpt2", 2, plan=ExecutionPlan(data=2, zero_stage=1)) == 10.0
    assert rate("gpt2", 4, plan=ExecutionPlan(data=4, offload=True, checkpointing=True)) == 8.0


def test_fewer_nodes_than_measured_are_as_fast_and_more_do_not_run():
    plan = ExecutionPlan(pipeline=6, tensor=4)
    assert [rate("llama30b", 24, nodes, plan=plan) for nodes in (2, 3, 6, 7)] == [0.0, 1.0, 1.0, 0.0]
    assert rate("gpt2", 4, 2, plan=ExecutionPlan(data=4)) == 12.8
    assert rate("gpt2", 4, 3, plan=ExecutionPlan(data=4)) == 0.0


def test_gaps_stay_gaps():
    assert rate("gpt2", 3, plan=ExecutionPlan(data=3)) == 0.0
    assert rate("gpt2", 2, plan=ExecutionPlan(tensor=2)) == 0.0
    assert rate("bert", 1) == 0.0


def test_the_best_plan_leaves_idle_what_brings_nothing():
    best = MODEL.best_plan("gpt2", 3)
    assert (best.throughput, best.plan, best.num_gpus) == (10.0, ExecutionPlan(data=2, zero_stage=2), 2)
    assert MODEL.best_plan("gpt2", 7).plan == ExecutionPlan(tensor=5)
    assert MODEL.best_plan("gpt2", 7).num_nodes == 1
    assert MODEL.best_plan("llama30b", 23).plan is None
    assert MODEL.best_plan("llama30b", 40, 5).num_gpus == 24


def test_over_nodes_the_best_is_among_what_the_shares_contain():
    """Four GPUs on two nodes: data=4 was measured so. On four nodes no node has two GPUs: one GPU, alone."""
    assert MODEL.best_plan("gpt2", 4, 2).plan == ExecutionPlan(data=4)
    assert MODEL.best_plan("gpt2", 4, 4).throughput == 4.0
    assert MODEL.best_plan("gpt2", 9, 2).num_gpus == 8  # packed as 8 + 1: the whole node
    assert MODEL.best_plan("gpt2", 8, 2).throughput == 20.0  # 4 + 4: as the eight GPUs on four nodes


def test_a_plan_of_none_is_the_best():
    assert rate("gpt2", 6) == MODEL.best_plan("gpt2", 6).throughput == 16.0


@given(st.sampled_from(["gpt2", "llama30b", "bert"]), st.integers(1, 63), st.integers(1, 8))
def test_more_is_never_slower_and_spreading_never_faster(model, gpus, nodes):
    """The contract of the protocol, for plans left open, on nodes that hold the GPUs."""
    nodes = min(nodes, gpus)
    if gpus < 8 * nodes:
        assert rate(model, gpus + 1, nodes) >= rate(model, gpus, nodes)
    if nodes > 1:
        assert rate(model, gpus, nodes - 1) >= rate(model, gpus, nodes) or gpus > 8 * (nodes - 1)


@given(st.integers(1, 64), st.integers(1, 8))
def test_the_best_plan_runs_where_it_is_named(gpus, nodes):
    """A placement of exactly the GPUs and nodes of the answer has the speed of the answer."""
    for model in ("gpt2", "llama30b"):
        best = MODEL.best_plan(model, gpus, min(nodes, gpus))
        assert best.num_gpus <= gpus
        if best.plan is not None:
            assert rate(model, best.num_gpus, best.num_nodes, plan=best.plan) == pytest.approx(best.throughput)


def test_aliases_and_names():
    assert MODEL.models == ("gpt2", "llama30b", "bert", "t5_3b", "bert_large", "gpt2_xl")
    assert rate("gpt2_xl", 2) == rate("gpt2", 2)
    assert MODEL.provenance("gpt2", "A800") == "measured"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: rate("vit", 1), "model 'vit' was not measured; known: gpt2"),
        (lambda: MODEL.throughput("gpt2", "V100", 1), "GPU type 'V100' was not measured by Rubick; give A800"),
        (lambda: rate("gpt2", 2, 3), "2 GPUs on 3 nodes"),
        (lambda: rate("gpt2", 2, batch_size=32), "batch size 32 was not measured; give 16"),
        (lambda: rate("gpt2", 2, plan=ExecutionPlan(data=4)), "needs 4 GPUs, 2 are given"),
    ],
)
def test_other_questions_are_refused(ask, message):
    with pytest.raises(PerformanceError, match=message) as error:
        ask()
    assert "\n" not in str(error.value)


def test_the_usual_batch_may_be_named_and_cores_do_not_matter():
    assert rate("gpt2", 2, batch_size=16, cpus_per_gpu=1.0, memory_per_gpu=1.0) == rate("gpt2", 2)


def test_predictions_keep_the_placements_and_change_the_times():
    predicted = MODEL.predicted()
    assert "t5_3b" not in predicted.models  # it has no figures of its own
    kept = [one for one in RUNS if one.model in fitted_figures()]
    assert [replace(one, iteration=0.0) for one in predicted.runs] == [replace(one, iteration=0.0) for one in kept]
    rows = points([(RUNS[1].plan, (2,), 16, 4.0)])
    seconds = iteration_time(model_shapes()["gpt2"], fitted_figures()["gpt2"], rows).total[0] / 1e3
    assert predicted.throughput("gpt2", "A800", 2, plan=ExecutionPlan(data=2)) == pytest.approx(16 / seconds)


def test_words():
    assert speed(RUNS[0]) == 4.0
    assert speed(replace(RUNS[0], iteration=0.0)) == 0.0
    assert technique(ExecutionPlan(data=2)) != technique(ExecutionPlan(data=2, checkpointing=True))
    assert technique(ExecutionPlan(data=2)) != technique(ExecutionPlan(tensor=2))


def test_the_artifacts_measurements(real_data):
    """Speeds of the artifact's own files, by hand: one for each kind of plan."""
    root = real_data("profiles/rubick/gpt2/placements.csv").parents[3]
    model = MeasuredModel.read(str(root))
    zero = ExecutionPlan(data=8, zero_stage=2)
    assert model.throughput("gpt2", "A800", 8, plan=zero) == pytest.approx(16 / 0.530168421)
    assert model.throughput("llama7b", "A800", 16, 2) == pytest.approx(8 / 1.130784211)
    assert model.throughput("llama30b", "A800", 24, 3) == pytest.approx(4 / 5.296528571)
    assert model.throughput("llama30b", "A800", 16, 2) == 0.0
    assert len(model.runs) == 518  # of the 535 that ran, less 17 at another batch
    assert {one.folder for one in model.runs if one.model == "llama7b"} == {"llama7"}
