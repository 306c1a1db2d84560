"""`RubickModel` as a performance model: its throughputs, and its one-line errors."""

import pickle
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.performance.model import PerformanceModel
from envs.performance.rubick.data import model_shapes
from envs.performance.rubick.memory import excess
from envs.performance.rubick.model import RUBICK_NAMES, RubickModel, fitted_figures
from envs.types import Configuration, ExecutionPlan, PerformanceError

MODEL = RubickModel()
NAMES = tuple(fitted_figures())


def throughput(model="bert", gpus=8, nodes=1, **settings):
    return MODEL.throughput(model, Configuration("A800", gpus, nodes, **settings))


def test_rubick_model_is_a_performance_model():
    model: PerformanceModel = MODEL
    assert set(model.models) >= {"vit", "roberta", "bert", "t5", "gpt2", "llama7b", "llama30b"}


@pytest.mark.parametrize("model", NAMES)
def test_every_model_runs_and_gains_from_eight_gpus(model):
    assert throughput(model, 8) > 2 * throughput(model, 1) > 0


@pytest.mark.parametrize(
    ("model", "gpus", "nodes", "plan", "seconds"),
    [
        ("bert", 8, 1, ExecutionPlan(data=8), 0.1577),
        ("bert", 4, 1, ExecutionPlan(data=4, checkpointing=True), 0.2802),
        ("gpt2", 8, 4, ExecutionPlan(data=8, zero_stage=2), 0.9982),
        ("llama7b", 64, 8, ExecutionPlan(data=8, tensor=4, pipeline=2), 0.6729),
        ("llama7b", 32, 4, ExecutionPlan(data=2, tensor=8, pipeline=2), 0.9807),
        ("llama30b", 64, 8, ExecutionPlan(data=4, tensor=4, pipeline=4), 2.0179),
        ("t5", 16, 2, ExecutionPlan(data=1, tensor=8, pipeline=2), 0.5934),
    ],
)
def test_measured_iterations_within_fifteen_per_cent(model, gpus, nodes, plan, seconds):
    """Covers a few of the measured points, from the artifact's tables."""
    batch = model_shapes()[model].batch
    assert batch / throughput(model, gpus, nodes, plan=plan) == pytest.approx(seconds, rel=0.15)


def test_the_best_plan_is_at_least_as_fast_as_any_given():
    for plan in (ExecutionPlan(data=8), ExecutionPlan(data=8, zero_stage=2), ExecutionPlan(data=8, offload=True)):
        assert throughput("roberta", 8, plan=plan) <= throughput("roberta", 8) * (1 + 1e-12)
    best = MODEL.best_plan("roberta", 8)
    assert best.plan is not None
    assert throughput("roberta", 8, plan=best.plan) == pytest.approx(best.throughput)


def test_plans_that_do_not_fit_have_throughput_zero():
    assert throughput("llama7b", 1, plan=ExecutionPlan()) == 0.0  # GPU memory
    assert throughput("llama7b", 1, memory_per_gpu=50.0) == 0.0  # CPU memory for offload
    assert throughput("bert", 16, 1, plan=ExecutionPlan(data=16)) == 0.0  # a node has eight GPUs
    assert RubickModel(gpu_memory=1.0).throughput("gpt2", Configuration("A800", 8)) == 0.0


@settings(max_examples=40)
@given(st.sampled_from(NAMES), st.sampled_from([1, 2, 4, 8]), st.booleans(), st.sampled_from([0, 2]), st.booleans())
def test_throughput_is_zero_exactly_where_memory_is_exceeded(model, gpus, again, zero, offload):
    shape = model_shapes()[model]
    plan = ExecutionPlan(data=gpus, zero_stage=zero, offload=offload, checkpointing=again)
    if shape.batch % gpus:
        with pytest.raises(PerformanceError, match="does not divide into"):
            throughput(model, gpus, plan=plan)
        return
    assert (throughput(model, gpus, plan=plan) == 0.0) == any(excess(shape, plan))


@settings(max_examples=25)
@given(st.sampled_from(NAMES), st.integers(1, 64), st.sampled_from([None, 0.5, 2.0, 8.0]))
def test_a_job_uses_all_gpus_that_a_plan_can_use_and_decisions_may_use_fewer(model, gpus, cpus):
    nodes = -(-gpus // 8)
    found, best = (
        throughput(model, gpus, nodes, cpus_per_gpu=cpus),
        MODEL.best_plan(model, gpus, nodes, cpus_per_gpu=cpus),
    )
    search = MODEL.search(model, cpus_per_gpu=cpus)
    assert found == search.using(gpus, nodes).throughput <= best.throughput
    exact = search.exactly(gpus, nodes)
    assert exact.plan is None or found == exact.throughput


def test_none_means_as_much_of_a_resource_as_useful():
    assert throughput("llama7b", 1) >= throughput("llama7b", 1, cpus_per_gpu=2.0) > 0
    assert throughput("llama7b", 1) == throughput("llama7b", 1, cpus_per_gpu=500.0)
    assert throughput("llama7b", 1) >= throughput("llama7b", 1, memory_per_gpu=300.0)


def test_a_batch_size_of_none_is_the_usual_one():
    assert throughput("bert", 4) == throughput("bert", 4, batch_size=32)
    assert throughput("bert", 4, batch_size=128) > throughput("bert", 4, batch_size=8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "brt"}, "model 'brt' has no figures here; did you mean 'bert'"),
        ({"model": "resnet50"}, "model 'resnet50' has no figures here"),
        ({"batch_size": 4}, "batch size 4 is out of range; allowed are 8 to 128"),
        ({"batch_size": 1000}, "batch size 1000 is out of range"),
        ({"gpus": 0}, "0 GPUs on 1 nodes"),
        ({"gpus": 2, "nodes": 3}, "2 GPUs on 3 nodes"),
        ({"cpus_per_gpu": 0.0}, "0.0 CPU threads per GPU"),
        ({"plan": ExecutionPlan(data=4)}, "data x tensor x pipeline is 4, the GPUs are 8"),
        ({"plan": ExecutionPlan(tensor=8)}, "no tensor- or pipeline-parallel run of this model"),
        (
            {"model": "gpt2", "plan": ExecutionPlan(pipeline=5, data=8), "gpus": 40, "nodes": 5},
            "does not divide the 48",
        ),
        ({"model": "gpt2", "plan": ExecutionPlan(tensor=5), "gpus": 5, "nodes": 2}, "tensor degree 5 exceeds the 2"),
        ({"model": "gpt2", "plan": ExecutionPlan(data=3), "gpus": 3}, "batch 16 does not divide into 3 replicas"),
    ],
)
def test_mistakes_raise_one_line_errors(arguments, message):
    with pytest.raises(PerformanceError, match=message) as error:
        throughput(**arguments)
    assert "\n" not in str(error.value)


def test_other_gpu_types_have_no_figures():
    with pytest.raises(PerformanceError, match="GPU type 'V100' has no figures in Rubick's tables"):
        MODEL.throughput("bert", Configuration("V100", 1))


def test_zoo_names_mean_the_same_models():
    for alias, name in RUBICK_NAMES.items():
        assert throughput(alias, 4) == throughput(name, 4)


def test_the_same_question_has_the_same_answer_in_a_copy():
    """Worker processes use a copy."""
    throughput("t5", 12, 2)
    copy = pickle.loads(pickle.dumps(MODEL))
    assert copy == MODEL
    assert copy.throughput("t5", Configuration("A800", 12, 2)) == throughput("t5", 12, 2)


def test_memory_of_searches_is_bounded():
    model = RubickModel(cached_searches=3)
    for cpus in range(1, 8):
        model.throughput("bert", Configuration("A800", 1, cpus_per_gpu=float(cpus)))
    assert len(model._searches) == 3


def test_a_complete_table_is_quick():
    """64 GPU counts on 1 to 8 nodes for all models, which a simulator needs once, take 0.25 s of CPU time."""
    model = RubickModel()
    begin = time.process_time()
    for name in NAMES:
        for gpus in range(1, 65):
            model.throughput(name, Configuration("A800", gpus, -(-gpus // 8)))
    assert time.process_time() - begin < 2.5
