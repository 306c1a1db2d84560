"""The model of Rubick's measurements: measured plans run as measured, and nothing is interpolated."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.rubick.data import MeasuredRun, model_shapes
from envs.performance.rubick.iteration import iteration_time, points
from envs.performance.rubick.measured import MeasuredModel, run_throughput, technique
from envs.performance.rubick.model import fitted_figures
from envs.types import Configuration, ExecutionPlan, PerformanceError

BATCHES = {"gpt2": 16, "llama30b": 4, "bert": 32, "t5_3b": 16}


def run(model, plan, placement, seconds):
    """A measured run of a plan; the placement is a string of digits."""
    shares = tuple(int(digit) for digit in placement)
    return MeasuredRun(model, model, "", placement, plan, shares, BATCHES[model], 4.0, seconds)


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


def throughput(model, gpus, nodes=1, **more):
    """Throughput on A800."""
    return MODEL.throughput(model, Configuration("A800", gpus, nodes, **more))


def test_measured_plans_run_as_measured():
    assert throughput("gpt2", 2, plan=ExecutionPlan(data=2)) == 8.0
    assert throughput("gpt2", 2, plan=ExecutionPlan(data=2, zero_stage=2)) == 10.0
    assert throughput("gpt2", 8, 4, plan=ExecutionPlan(data=8)) == 20.0
    assert throughput("gpt2", 8, 1, plan=ExecutionPlan(data=8)) == 32.0
    assert throughput("llama30b", 24, 6, plan=ExecutionPlan(pipeline=6, tensor=4)) == 1.0


def test_micro_batches_and_zero_stages_are_not_distinguished():
    assert throughput("gpt2", 2, plan=ExecutionPlan(data=2, accumulation=4)) == 8.0
    assert throughput("gpt2", 2, plan=ExecutionPlan(data=2, zero_stage=1)) == 10.0
    assert throughput("gpt2", 4, plan=ExecutionPlan(data=4, offload=True, checkpointing=True)) == 8.0


def test_fewer_nodes_than_measured_are_as_fast_and_more_do_not_run():
    plan = ExecutionPlan(pipeline=6, tensor=4)
    assert [throughput("llama30b", 24, nodes, plan=plan) for nodes in (2, 3, 6, 7)] == [0.0, 1.0, 1.0, 0.0]
    assert throughput("gpt2", 4, 2, plan=ExecutionPlan(data=4)) == 12.8
    assert throughput("gpt2", 4, 3, plan=ExecutionPlan(data=4)) == 0.0


def test_plans_that_were_not_measured_do_not_run():
    assert throughput("gpt2", 3, plan=ExecutionPlan(data=3)) == 0.0
    assert throughput("gpt2", 2, plan=ExecutionPlan(tensor=2)) == 0.0
    assert throughput("bert", 1) == 0.0


def test_the_best_plan_leaves_useless_gpus_idle():
    best = MODEL.best_plan("gpt2", 3)
    assert (best.throughput, best.plan, best.num_gpus) == (10.0, ExecutionPlan(data=2, zero_stage=2), 2)
    assert MODEL.best_plan("gpt2", 7).plan == ExecutionPlan(tensor=5)
    assert MODEL.best_plan("gpt2", 7).num_nodes == 1
    assert MODEL.best_plan("llama30b", 23).plan is None
    assert MODEL.best_plan("llama30b", 40, 5).num_gpus == 24


def test_the_best_plan_over_nodes_uses_a_subset_of_the_shares():
    """On two nodes data=4 was measured with four GPUs. On four nodes no node has two GPUs, so the plan uses one."""
    assert MODEL.best_plan("gpt2", 4, 2).plan == ExecutionPlan(data=4)
    assert MODEL.best_plan("gpt2", 4, 4).throughput == 4.0
    assert MODEL.best_plan("gpt2", 9, 2).num_gpus == 8  # packed as 8 + 1: the whole node
    assert MODEL.best_plan("gpt2", 8, 2).throughput == 20.0  # 4 + 4: as the eight GPUs on four nodes


def test_a_plan_of_none_is_the_best_plan():
    assert throughput("gpt2", 6) == MODEL.best_plan("gpt2", 6).throughput == 16.0


@given(st.sampled_from(["gpt2", "llama30b", "bert"]), st.integers(1, 63), st.integers(1, 8))
def test_more_is_never_slower_and_spreading_never_faster(model, gpus, nodes):
    """Checks the contract of the protocol for a plan of None, on nodes that hold the GPUs."""
    nodes = min(nodes, gpus)
    if gpus < 8 * nodes:
        assert throughput(model, gpus + 1, nodes) >= throughput(model, gpus, nodes)
    if nodes > 1:
        assert throughput(model, gpus, nodes - 1) >= throughput(model, gpus, nodes) or gpus > 8 * (nodes - 1)


@given(st.integers(1, 64), st.integers(1, 8))
def test_the_best_plan_has_its_throughput_on_its_placement(gpus, nodes):
    """The best plan has the same throughput on a placement of exactly its GPUs and nodes."""
    for model in ("gpt2", "llama30b"):
        best = MODEL.best_plan(model, gpus, min(nodes, gpus))
        assert best.num_gpus <= gpus
        if best.plan is not None:
            assert throughput(model, best.num_gpus, best.num_nodes, plan=best.plan) == pytest.approx(best.throughput)


def test_aliases_and_names():
    assert MODEL.models == ("gpt2", "llama30b", "bert", "t5_3b", "bert_large", "gpt2_xl")
    assert throughput("gpt2_xl", 2) == throughput("gpt2", 2)
    assert MODEL.provenance("gpt2", "A800") == "measured"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: throughput("vit", 1), "model 'vit' was not measured; known: gpt2"),
        (
            lambda: MODEL.throughput("gpt2", Configuration("V100", 1)),
            "GPU type 'V100' was not measured by Rubick; use A800",
        ),
        (lambda: throughput("gpt2", 2, 3), "2 GPUs on 3 nodes"),
        (lambda: throughput("gpt2", 2, batch_size=32), "batch size 32 was not measured; use 16"),
        (lambda: throughput("gpt2", 2, plan=ExecutionPlan(data=4)), "needs 4 GPUs, 2 are given"),
    ],
)
def test_other_questions_are_refused(ask, message):
    with pytest.raises(PerformanceError, match=message) as error:
        ask()
    assert "\n" not in str(error.value)


def test_the_usual_batch_may_be_named_and_cores_do_not_matter():
    assert throughput("gpt2", 2, batch_size=16, cpus_per_gpu=1.0, memory_per_gpu=1.0) == throughput("gpt2", 2)


def test_predictions_keep_the_placements_and_change_the_times():
    predicted = MODEL.with_predicted_times()
    assert "t5_3b" not in predicted.models  # it has no figures of its own
    kept = [one for one in RUNS if one.model in fitted_figures()]
    assert [replace(one, iteration=0.0) for one in predicted.runs] == [replace(one, iteration=0.0) for one in kept]
    rows = points([(RUNS[1].plan, (2,), 16, 4.0)])
    seconds = iteration_time(model_shapes()["gpt2"], fitted_figures()["gpt2"], rows).total[0] / 1e3
    assert predicted.throughput("gpt2", Configuration("A800", 2, plan=ExecutionPlan(data=2))) == pytest.approx(
        16 / seconds
    )


def test_run_throughput_and_technique():
    assert run_throughput(RUNS[0]) == 4.0
    assert run_throughput(replace(RUNS[0], iteration=0.0)) == 0.0
    assert technique(ExecutionPlan(data=2)) != technique(ExecutionPlan(data=2, checkpointing=True))
    assert technique(ExecutionPlan(data=2)) != technique(ExecutionPlan(tensor=2))


def test_the_artifacts_measurements(real_data):
    """Throughputs of the artifact's own files, computed by hand for a few plans."""
    root = real_data("profiles/rubick/gpt2/placements.csv").parents[3]
    model = MeasuredModel.read(str(root))
    zero = ExecutionPlan(data=8, zero_stage=2)
    assert model.throughput("gpt2", Configuration("A800", 8, plan=zero)) == pytest.approx(16 / 0.530168421)
    assert model.throughput("llama7b", Configuration("A800", 16, 2)) == pytest.approx(8 / 1.130784211)
    assert model.throughput("llama30b", Configuration("A800", 24, 3)) == pytest.approx(4 / 5.296528571)
    assert model.throughput("llama30b", Configuration("A800", 16, 2)) == 0.0
    assert len(model.runs) == 518  # of the 535 that ran, less 17 at another batch
    assert {one.folder for one in model.runs if one.model == "llama7b"} == {"llama7"}
