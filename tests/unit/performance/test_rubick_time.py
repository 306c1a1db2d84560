"""The general model, tested by hand, against a reference implementation, and by its properties."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.rubick.iteration import (
    MEGA,
    POINT,
    Figures,
    Forward,
    Hardware,
    Links,
    ModelShape,
    PerfParams,
    check_layout,
    describe,
    even_shares,
    iteration_time,
    overlap,
    points,
)
from envs.types import ExecutionPlan, PerformanceError

SHAPE = ModelShape("toy", 100 * MEGA, 12, 1024, 512, 16, 1000, 32, 8, 128)
FIGURES = Figures(
    PerfParams(k_bwd=2.0, k_sync=1.0, k_opt=0.1, k_opt_off=4.0, k_const=5.0, k_off=1.0, k_swap=1.0),
    Forward(fixed=2.0, per_sample=3.0, model_parallel=1.5),
    Links(intra=50.0, inter=10.0, pcie=8.0),
)


def timed(plan, shares, *, figures=FIGURES, batch=32, cpus=4.0):
    return iteration_time(SHAPE, figures, points([(plan, shares, batch, cpus)]))


def total(plan, shares, **settings):
    return float(timed(plan, shares, **settings).total[0])


def test_one_gpu_by_hand():
    """Forward 2 + 3 x 32 = 98, backward twice that, step 0.1 x 100, constant 5; nothing to synchronise."""
    parts = timed(ExecutionPlan(), (1,))
    assert parts.forward[0] == pytest.approx(98)
    assert parts.compute[0] == pytest.approx(196)
    assert parts.optimizer[0] == pytest.approx(10)
    assert parts.total[0] == pytest.approx(98 + 196 + 10 + 5)


def test_data_parallel_by_hand():
    """Four replicas of 8 samples: forward 26, backward 52; all-reduce 8 x 100 x 3/4 / 50 = 12, added."""
    assert total(ExecutionPlan(data=4), (4,)) == pytest.approx(26 + 52 + 12 + 10 + 5)


def test_between_nodes_two_gpus_share_a_card():
    """On 2 + 2 one card: 600 / 10 = 60 ms; on 4 + 4 two: 700 / 20 = 35 ms; 3 + 5 has the two of its 3 GPUs."""
    assert timed(ExecutionPlan(data=4), (2, 2)).compute[0] == pytest.approx(52 + 60)
    assert timed(ExecutionPlan(data=8), (4, 4)).compute[0] == pytest.approx(2 * (2 + 12) + 35)
    assert total(ExecutionPlan(data=8), (3, 5)) == total(ExecutionPlan(data=8), (4, 4))
    assert total(ExecutionPlan(data=8), (2, 6)) > total(ExecutionPlan(data=8), (4, 4))


def test_full_overlap_hides_the_shorter_activity():
    apart = replace(FIGURES, params=replace(FIGURES.params, k_sync=200.0))
    assert timed(ExecutionPlan(data=4), (4,), figures=apart).compute[0] == pytest.approx(52, rel=1e-6)


def test_zero_moves_half_of_the_traffic_after_a_sharded_step():
    """Reduce-scatter 6 with the backward pass; step 10 / 4 and all-gather 6 after it."""
    parts = timed(ExecutionPlan(data=4, zero_stage=2), (4,))
    assert parts.compute[0] == pytest.approx(52 + 6)
    assert parts.optimizer[0] == pytest.approx(2.5 + 6)


@pytest.mark.parametrize("zero_stage", [0, 2])
def test_offload_by_hand(zero_stage):
    """Gradients 4 x 100 / 2 / 8 = 25 out; CPU step 4 x 100 / (2 x 4) = 50 and weights 2 x 100 / 8 = 25 back."""
    parts = timed(ExecutionPlan(data=2, offload=True, zero_stage=zero_stage), (2,))
    assert parts.compute[0] == pytest.approx(2 * 50 + 0.5 * 8 * 100 * 0.5 / 50 + 25)
    assert parts.optimizer[0] == pytest.approx(50 + 25)


def test_checkpointing_repeats_the_forward_pass():
    assert total(ExecutionPlan(checkpointing=True), (1,)) - total(ExecutionPlan(), (1,)) == pytest.approx(98)


def test_accumulation_repeats_the_fixed_part_and_the_traffic():
    """Four micro-batches of 8: forward 4 x 26, backward 3 x 52 and the last one with four synchronisations of 8."""
    assert timed(ExecutionPlan(accumulation=4), (1,)).total[0] == pytest.approx(104 + 208 + 10 + 5)
    parts = timed(ExecutionPlan(data=2, accumulation=2), (2,))
    assert parts.compute[0] == pytest.approx(52 + (52 + 2 * 8))


def test_pipeline_without_micro_batches_is_no_faster_than_one_stage():
    """With one micro-batch the stages work one after the other: forward and backward take as long as on one GPU."""
    one, four = timed(ExecutionPlan(tensor=2), (2,)), timed(ExecutionPlan(tensor=2, pipeline=4), (2, 2, 2, 2))
    assert four.forward[0] == pytest.approx(one.forward[0])
    assert four.compute[0] == pytest.approx(one.compute[0])
    assert four.optimizer[0] == pytest.approx(one.optimizer[0] / 4)


def test_forward_time_includes_the_pipeline_bubble():
    """The forward time of a filled pipeline is that without idling, divided by one minus the bubble.

    The bubble is the share of time that a stage idles: (p - 1) / (a + p - 1) with p stages and a micro-batches.
    """
    lean = replace(FIGURES, forward=Forward(0.0, 3.0, 1.0))
    for stages, micro in ((2, 4), (4, 8), (3, 2)):
        parts = timed(ExecutionPlan(pipeline=stages, accumulation=micro), (1,) * stages, figures=lean)
        ideal = 32 * 3.0 / stages
        bubble = (stages - 1) / (micro + stages - 1)
        assert parts.forward[0] == pytest.approx(ideal / (1 - bubble))


def test_tensor_groups_that_straddle_nodes_use_the_network():
    inside = timed(ExecutionPlan(data=3, tensor=4, pipeline=1), (4, 4, 4), batch=24).tensor[0]
    across = timed(ExecutionPlan(data=3, tensor=4, pipeline=1), (6, 6), batch=24).tensor[0]
    assert across == pytest.approx(inside * 50 / 10)


def test_megatron_numbering_keeps_replicas_of_a_stage_together():
    """With d x t = 8 gradients stay within a node of 8; one stage over two nodes has two rings on four cards."""
    inside = timed(ExecutionPlan(data=4, tensor=2, pipeline=2), (8, 8), batch=32)
    across = timed(ExecutionPlan(data=8, tensor=2), (8, 8), batch=32)
    forward_in, forward_out = 1.5 * (2 + 3 * 8 / 2), 1.5 * (2 + 3 * 4 / 2)
    assert inside.compute[0] == pytest.approx(2 * forward_in + 8 * 25 * 0.75 / 50)
    assert across.compute[0] == pytest.approx(2 * forward_out + 8 * 50 * 7 / 8 / min(10 * 4 / 2, 50))


def reference_time(plan, shares, batch, cpus):
    """Reference implementation of the model from the docstrings, for one point at a time."""
    k, f, links = FIGURES.params, FIGURES.forward, FIGURES.links
    d, t, p, a = plan.data, plan.tensor, plan.pipeline, plan.accumulation
    size, n = SHAPE.parameters / MEGA / (t * p), batch / (d * a)
    zero = plan.offload or plan.zero_stage > 0
    parallel = t * p > 1
    micro_forward = (f.model_parallel if parallel else 1.0) * (f.fixed + f.per_sample * n / t) / p
    steps = a + p - 1
    per_node = sum(shares) / len(shares)
    if d == 1:
        sync = 0.0
    elif d * t > per_node:
        cards = max(1, min(4, -(-min(shares) // 2)))
        sync = 8 * size * (d - 1) / d / min(links.inter * cards / min(t, per_node), links.intra)
    else:
        sync = 8 * size * (d - 1) / d / links.intra
    reduce = (0.5 if zero else 1.0) * sync * (1 if parallel else a)

    def norm(x, y, k):
        return (x**k + y**k) ** (1 / k)

    compute = norm(p * k.k_bwd * micro_forward, reduce, k.k_sync)
    if plan.offload:
        compute = norm(compute, 4 * size / d / links.pcie, k.k_off)
    compute += (a - 1) * k.k_bwd * micro_forward + (steps * micro_forward if plan.checkpointing else 0)
    if plan.offload:
        optimizer = norm(k.k_opt_off * size / (d * cpus), 2 * size / links.pcie, k.k_swap)
    else:
        optimizer = k.k_opt * size / (d if plan.zero_stage else 1) + (0.5 * sync if plan.zero_stage else 0)
    elements = n * SHAPE.sequence * SHAPE.hidden / MEGA
    straddles = any(share % t for share in shares)
    reduces = 6 if plan.checkpointing else 4
    layers = SHAPE.layers / p * steps
    tensor = layers * reduces * 2 * (t - 1) / t * 2 * elements / (links.inter if straddles else links.intra)
    pipeline = 2 * 2 * elements / t * p / links.inter if p > 1 else 0.0
    return steps * micro_forward + compute + optimizer + tensor + pipeline + k.k_const


PLANS = st.builds(
    ExecutionPlan,
    data=st.sampled_from([1, 2, 4, 8]),
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2, 3]),
    zero_stage=st.sampled_from([0, 1, 2]),
    offload=st.booleans(),
    accumulation=st.sampled_from([1, 2, 4]),
    checkpointing=st.booleans(),
).filter(lambda plan: plan.tensor * plan.pipeline == 1 or not (plan.zero_stage or plan.offload))


@given(PLANS, st.integers(1, 8), st.floats(0.5, 16))
def test_arrays_agree_with_the_reference_implementation(plan, nodes, cpus):
    shares = even_shares(plan.num_gpus, min(nodes, plan.num_gpus))
    assert total(plan, shares, cpus=cpus) == pytest.approx(reference_time(plan, shares, 32, cpus), rel=1e-9)


@given(PLANS, st.integers(1, 8))
def test_parts_add_up_and_are_not_negative(plan, nodes):
    parts = timed(plan, even_shares(plan.num_gpus, min(nodes, plan.num_gpus)))
    named = [parts.forward, parts.compute, parts.optimizer, parts.tensor, parts.pipeline]
    assert all(part[0] >= 0 for part in named)
    assert sum(part[0] for part in named) + FIGURES.params.k_const == pytest.approx(parts.total[0])


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(1, 60), st.floats(1, 60))
def test_overlap_lies_between_maximum_and_sum_and_falls_with_k(x, y, k, more):
    value = float(overlap(x, y, k))
    assert max(x, y) * (1 - 1e-9) <= value <= (x + y) * (1 + 1e-9)
    assert float(overlap(x, y, k + more)) <= value * (1 + 1e-9)
    assert value == pytest.approx(float(overlap(y, x, k)))


def test_overlap_does_not_overflow():
    assert float(overlap(1e300, 1e300, 50.0)) == pytest.approx(1e300 * 2 ** (1 / 50))
    assert float(overlap(0.0, 0.0, 3.0)) == 0.0


@given(st.sampled_from([1, 2, 4, 8]), st.floats(0.5, 8), st.floats(1.1, 4))
def test_more_cpu_threads_never_slow_offload_down(data, cpus, factor):
    plan = ExecutionPlan(data=data, offload=True, zero_stage=2)
    assert total(plan, (data,), cpus=cpus * factor) <= total(plan, (data,), cpus=cpus)


def test_points_of_an_array_do_not_affect_each_other():
    rows = [(ExecutionPlan(data=d, checkpointing=gc), (d,), 32, 4.0) for d in (1, 2, 4, 8) for gc in (False, True)]
    together = iteration_time(SHAPE, FIGURES, points(rows)).total
    alone = [iteration_time(SHAPE, FIGURES, points([row])).total[0] for row in rows]
    np.testing.assert_allclose(together, alone)


def test_more_network_cards_are_faster_between_nodes():
    rows = points([(ExecutionPlan(data=8), (2, 2, 2, 2), 32, 4.0)])
    assert iteration_time(SHAPE, FIGURES, rows, Hardware(8, 8)).total < iteration_time(SHAPE, FIGURES, rows).total


@pytest.mark.parametrize(
    ("plan", "gpus", "nodes", "message"),
    [
        (ExecutionPlan(data=3), 4, 1, "data x tensor x pipeline is 3, the GPUs are 4"),
        (ExecutionPlan(pipeline=5), 5, 1, "pipeline degree 5 does not divide the 12 layers"),
        (ExecutionPlan(tensor=4), 4, 2, "tensor degree 4 exceeds the 2 GPUs"),
        (ExecutionPlan(data=3), 3, 1, "batch 32 does not divide into 3 replicas x 1 micro-batches"),
        (ExecutionPlan(data=4, accumulation=16), 4, 1, "batch 32 does not divide into 4 replicas x 16 micro-batches"),
        (ExecutionPlan(tensor=2, zero_stage=2), 2, 1, "ZeRO and offload need plain data parallelism"),
        (ExecutionPlan(data=2, zero_stage=3), 2, 1, "ZeRO stage 3"),
        (ExecutionPlan(data=2), 2, 3, "2 GPUs on 3 nodes"),
    ],
)
def test_impossible_layouts_are_refused(plan, gpus, nodes, message):
    with pytest.raises(PerformanceError, match=message) as error:
        check_layout(SHAPE, plan, gpus, nodes)
    assert "\n" not in str(error.value)


def test_a_model_without_measured_tensor_parallelism_has_none():
    with pytest.raises(PerformanceError, match="no tensor- or pipeline-parallel run of this model"):
        check_layout(replace(SHAPE, model_parallel=False), ExecutionPlan(tensor=2), 2)


def test_points_refuse_invalid_rows():
    with pytest.raises(PerformanceError, match=r"plan d4 needs 4 GPUs, its placement \(2, 1\) has 3"):
        points([(ExecutionPlan(data=4), (2, 1), 32, 4.0)])
    with pytest.raises(PerformanceError, match="CPU threads 0.0 must be positive"):
        points([(ExecutionPlan(), (1,), 32, 0.0)])
    assert points([]).dtype == POINT


def test_names_of_plans():
    assert describe(ExecutionPlan(data=4, tensor=2, pipeline=3, accumulation=8)) == "d4-t2-p3-ga8"
    assert describe(ExecutionPlan(data=8, zero_stage=2, offload=True, checkpointing=True)) == "d8-zero2-offload-gc"


@given(st.integers(1, 64), st.integers(1, 64))
def test_even_shares_are_even(gpus, nodes):
    if nodes > gpus:
        with pytest.raises(PerformanceError, match="a GPU on each node"):
            even_shares(gpus, nodes)
        return
    shares = even_shares(gpus, nodes)
    assert (sum(shares), len(shares)) == (gpus, nodes)
    assert max(shares) - min(shares) <= 1
