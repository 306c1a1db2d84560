"""Throughputs under a given plan: Rubick's on A800, scaled on other types, plain replicas for other models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import RubickModel, default_model
from envs.performance.planned import needs_plan_model, planned_models
from envs.performance.scaling import throughput_ratio
from envs.performance.zoo import zoo
from envs.types import Configuration, ExecutionPlan, PerformanceError

MODEL = default_model()
SHARDED = sorted(planned_models())
PLAIN = sorted(name for name, profile in zoo().items() if profile.plans == "dp")
TP8_DP2 = ExecutionPlan(data=2, tensor=8)
TP8 = ExecutionPlan(tensor=8)


@pytest.mark.parametrize("name", ["mpt_7b", "gpt_oss_120b"])
def test_a_plan_of_a_model_that_rubick_did_not_profile_is_refused(name):
    with pytest.raises(PerformanceError, match=rf"model {name}: no figures for execution plans.*bert_large.*plan=None"):
        MODEL.throughput(name, Configuration("A100", 8, plan=TP8))


def test_throughput_on_a800_is_that_of_rubicks_model():
    ours = MODEL.throughput("llama7b", Configuration("A800", 16, 2, plan=TP8_DP2))
    assert ours == pytest.approx(RubickModel().throughput("llama7b", Configuration("A800", 16, 2, plan=TP8_DP2)))
    assert ours == pytest.approx(8 / 1.1308, rel=0.25)  # measured; the model's error for LLaMA is of that order


def test_throughput_on_another_type_with_as_much_memory_is_scaled():
    on_a800 = MODEL.throughput("llama7b", Configuration("A800", 16, 2, plan=TP8_DP2))
    on_h100 = MODEL.throughput("llama7b", Configuration("H100", 16, 2, plan=TP8_DP2))
    assert on_h100 == pytest.approx(on_a800 * throughput_ratio("llama7b", "H100", "A800"))
    assert on_h100 > on_a800


def test_models_that_do_not_fit_have_throughput_zero():
    replicas = ExecutionPlan(data=8)
    assert MODEL.throughput("llama7b", Configuration("A800", 8, plan=replicas)) == 0  # 108 GB of states on each GPU
    assert MODEL.throughput("t5", Configuration("V100", 8, plan=replicas)) == 0  # 20 GB on 16
    assert MODEL.throughput("t5", Configuration("A800", 8, plan=replicas)) > 0


@pytest.mark.parametrize("gpu_type", ["K80", "P100"])
def test_without_tensor_cores_no_sharded_model_runs_under_a_plan(gpu_type):
    assert MODEL.throughput("vit", Configuration(gpu_type, 2, plan=ExecutionPlan(data=2, zero_stage=2))) == 0


@given(st.sampled_from(PLAIN), st.integers(1, 64))
def test_plain_replicas_have_the_tables_throughput(name, gpus):
    plan = ExecutionPlan(data=gpus)
    assert not needs_plan_model(name, plan, gpus)
    assert MODEL.throughput(name, Configuration("V100", gpus, plan=plan)) == MODEL.throughput(
        name, Configuration("V100", gpus)
    )


@pytest.mark.parametrize(
    "plan", [ExecutionPlan(data=2, tensor=2), ExecutionPlan(data=4, zero_stage=1), ExecutionPlan(data=4, offload=True)]
)
def test_plans_without_figures_are_refused(plan):
    with pytest.raises(PerformanceError, match="model resnet50: no figures for ExecutionPlan.*: use data=4"):
        MODEL.throughput("resnet50", Configuration("V100", 4, plan=plan))


@pytest.mark.parametrize("name", ["resnet50", "llama7b"])
def test_a_plan_for_other_gpus_is_refused(name):
    with pytest.raises(PerformanceError, match=f"model {name}: plan needs 16 GPUs .*, 8 are given; make them equal"):
        MODEL.throughput(name, Configuration("A800", 8, plan=TP8_DP2))


def test_a_plan_that_cannot_be_laid_out_is_refused():
    with pytest.raises(PerformanceError):
        MODEL.throughput("vit", Configuration("A800", 7, plan=ExecutionPlan(pipeline=7)))
