"""Memory by plan: computed by hand from the sources' formulas, ordered, and right for measured configurations."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.rubick.data import model_shapes, read_placements
from envs.performance.rubick.iteration import ModelShape, check_layout
from envs.performance.rubick.memory import DeviceMemory, activation_memory, excess, memory_need
from envs.types import ExecutionPlan, PerformanceError

BILLION = ModelShape("billion", 1e9, 24, 1000, 100, 10, 0, 8, 2, 32)


def test_sixteen_bytes_for_each_parameter():
    need = memory_need(BILLION, ExecutionPlan())
    assert (need.weights, need.gradients, need.optimizer) == (2.0, 2.0, 12.0)


@pytest.mark.parametrize(("stage", "expected"), [(0, 16.0), (1, 2 + 2 + 3), (2, 2 + 0.5 + 3), (3, 0.5 + 0.5 + 3)])
def test_zero_stages_divide_by_the_replicas(stage, expected):
    """ZeRO, the table of section 3, on four GPUs."""
    need = memory_need(BILLION, ExecutionPlan(data=4, zero_stage=stage))
    assert need.weights + need.gradients + need.optimizer == pytest.approx(expected)


def test_offload_moves_states_to_cpu_memory():
    need = memory_need(BILLION, ExecutionPlan(data=4, offload=True), device=DeviceMemory(cpu_reserved=1.0))
    assert (need.weights, need.optimizer) == (2.0, 0.0)
    assert need.cpu == pytest.approx(16 / 4 + 1)
    assert memory_need(BILLION, ExecutionPlan(data=4)).cpu == 1.0


def test_tensor_and_pipeline_divide_everything_of_the_model():
    need = memory_need(BILLION, ExecutionPlan(tensor=4, pipeline=2))
    assert need.weights + need.gradients + need.optimizer == pytest.approx(2.0)


def test_activations_by_hand():
    """s h (10 + 24 + 5 a s / h) = 100 x 1000 x (34 + 5) bytes per layer and sample; 24 layers, 8 samples."""
    assert activation_memory(BILLION, ExecutionPlan(), 8) == pytest.approx(100 * 1000 * 39 * 24 * 8 / 1e9)
    halved = 100 * 1000 * (10 + 12 + 2.5) * 24 * 8 / 1e9
    assert activation_memory(BILLION, ExecutionPlan(tensor=2), 8) == pytest.approx(halved)


def test_checkpointing_keeps_inputs_and_one_layer():
    expected = (2 * 100 * 1000 * 24 + 100 * 1000 * 39) * 8 / 1e9
    assert activation_memory(BILLION, ExecutionPlan(checkpointing=True), 8) == pytest.approx(expected)


def test_a_pipeline_holds_the_micro_batches_in_progress():
    """Four stages of 6 layers: the first stage holds the only micro-batch, or four of eight."""
    layer = 100 * 1000 * 39 / 1e9
    assert activation_memory(BILLION, ExecutionPlan(pipeline=4), 8) == pytest.approx(6 * layer * 8)
    filled = activation_memory(BILLION, ExecutionPlan(pipeline=4, accumulation=8), 1)
    assert filled == pytest.approx(4 * 6 * layer)


def test_logits_are_on_the_last_stage_only():
    wide = replace(BILLION, vocabulary=100_000)
    logits = 6 * 100 * 100_000 / 1e9
    layer = 100 * 1000 * 39 / 1e9
    assert activation_memory(wide, ExecutionPlan(), 1) == pytest.approx(24 * layer + logits)
    filled = activation_memory(wide, ExecutionPlan(pipeline=4, accumulation=8), 1)
    assert filled == pytest.approx(max(4 * 6 * layer, 6 * layer + logits))


def test_the_excess_is_what_the_device_lacks():
    small = DeviceMemory(gpu=10.0, usable=1.0, reserved=0.0)
    gpu, cpu = excess(BILLION, ExecutionPlan(), 2, device=small)
    need = memory_need(BILLION, ExecutionPlan(), 2, small).gpu
    assert [gpu, cpu] == pytest.approx([need - 10.0, 0.0])
    assert excess(BILLION, ExecutionPlan(data=2, zero_stage=2, offload=True), 2, device=small) == (0.0, 0.0)


def test_cpu_memory_is_counted_per_gpu():
    plan = ExecutionPlan(data=2, offload=True)
    assert excess(BILLION, plan, memory_per_gpu=9.0) == (0.0, 0.0)
    assert excess(BILLION, plan, memory_per_gpu=5.0)[1] == pytest.approx(4.0)


PLANS = st.builds(
    ExecutionPlan,
    data=st.sampled_from([1, 2, 4]),
    tensor=st.sampled_from([1, 2]),
    pipeline=st.sampled_from([1, 2, 4]),
    zero_stage=st.sampled_from([0, 1, 2]),
    accumulation=st.sampled_from([1, 2]),
    checkpointing=st.booleans(),
)


@given(PLANS, st.sampled_from(sorted(model_shapes())))
def test_techniques_that_save_memory_never_need_more(plan, model):
    shape = model_shapes()[model]
    need = memory_need(shape, plan)
    assert memory_need(shape, replace(plan, zero_stage=plan.zero_stage + 1)).gpu <= need.gpu
    assert memory_need(shape, replace(plan, tensor=2 * plan.tensor)).gpu <= need.gpu
    assert memory_need(shape, plan, 2 * shape.batch).gpu >= need.gpu
    if not plan.checkpointing:
        assert memory_need(shape, replace(plan, checkpointing=True)).weights == need.weights
        # With checkpointing a stage of a single layer keeps the whole layer and also its input.
        if shape.layers // plan.pipeline > 2:
            assert memory_need(shape, replace(plan, checkpointing=True)).gpu <= need.gpu


def test_memory_of_large_models_matches_known_facts():
    """LLaMA-7B fits a GPU only sharded (as in the artifact's table) or with offload; GPT-2 XL fits one GPU."""
    seven, xl = model_shapes()["llama7b"], model_shapes()["gpt2"]
    assert excess(seven, ExecutionPlan(accumulation=8))[0] > 0
    assert excess(seven, ExecutionPlan(data=8, checkpointing=True))[0] > 0
    assert excess(seven, ExecutionPlan(offload=True, checkpointing=True)) == (0.0, 0.0)
    assert excess(xl, ExecutionPlan(accumulation=8)) == (0.0, 0.0)
    assert excess(xl, ExecutionPlan())[0] > 0


def test_all_measured_configurations_fit_and_the_failed_do_not(real_data):
    """539 configurations were tried on A800 nodes; 4 did not run."""
    runs = read_placements(real_data("profiles/rubick/vit/placements.csv").parents[1])
    assert len(runs) == 539
    for run in runs:
        shape = model_shapes()[run.model]
        possible = not any(excess(shape, run.plan, run.batch))
        try:
            check_layout(shape, run.plan, sum(run.shares), len(run.shares), run.batch)
        except PerformanceError:
            possible = False
        assert possible == (run.iteration > 0), (run.folder, run.exec_plan, run.placement)
