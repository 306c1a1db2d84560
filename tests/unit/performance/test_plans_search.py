"""The plan search agrees with brute force, and more of a resource never makes the best plan slower."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.performance.rubick.data import model_shapes
from envs.performance.rubick.iteration import check_layout
from envs.performance.rubick.memory import DeviceMemory, excess
from envs.performance.rubick.model import fitted_figures
from envs.performance.rubick.plans import BestPlan, PlanSearch, candidate_plans, divisors, feasible_plans
from envs.types import ExecutionPlan, PerformanceError

MODELS = sorted(fitted_figures())


def search(model="gpt2", **options):
    shape = model_shapes()[model]
    return PlanSearch(shape, fitted_figures()[model], **{"batch": shape.batch, **options})


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gpus", [1, 3, 8, 12])
def test_candidates_can_all_be_laid_out_and_are_different(model, gpus):
    shape = model_shapes()[model]
    plans = list(candidate_plans(shape, gpus, shape.batch))
    assert len(set(plans)) == len(plans)
    for plan in plans:
        if plan.tensor <= 8:
            check_layout(shape, plan, gpus, 1 if plan.tensor > gpus // 2 else min(2, gpus))


def test_candidates_include_every_plan_of_a_small_case():
    """Two GPUs, batch 2, two layers and heads: six plans with d=2; tensor or pipeline 2 with 1 or 2 micro-batches."""
    shape = replace(model_shapes()["gpt2"], layers=2, heads=2)
    plans = set(candidate_plans(shape, 2, 2))
    both = (False, True)
    data = {
        ExecutionPlan(2, zero_stage=z, offload=o, checkpointing=c)
        for z, o in ((0, False), (2, False), (2, True))
        for c in both
    }
    model = {
        ExecutionPlan(1, t, p, accumulation=a, checkpointing=c)
        for t, p in ((2, 1), (1, 2))
        for a in (1, 2)
        for c in both
    }
    assert plans == data | model


@pytest.mark.parametrize(("model", "gpus", "nodes"), [("gpt2", 4, 1), ("t5", 8, 2), ("llama7b", 16, 2), ("bert", 6, 3)])
def test_best_is_the_fastest_of_all_that_fit(model, gpus, nodes):
    """Brute force checks and times every candidate by itself."""
    one = search(model)
    throughputs = [
        one.batch / one.time_of(plan, gpus, nodes)
        for plan in candidate_plans(one.shape, gpus, one.batch)
        if plan.tensor <= gpus // nodes and not any(excess(one.shape, plan, one.batch))
    ]
    best = one.exactly(gpus, nodes)
    assert best.throughput == pytest.approx(max(throughputs, default=0.0))
    if best.plan:
        assert one.batch / one.time_of(best.plan, gpus, nodes) == pytest.approx(best.throughput)


@settings(max_examples=30)
@given(st.sampled_from(MODELS), st.integers(1, 40), st.integers(1, 8))
def test_more_gpus_on_the_same_nodes_are_never_slower(model, gpus, nodes):
    gpus = max(gpus, nodes)
    one = SEARCHES[model]
    assert one.within(gpus + 1, nodes).throughput >= one.within(gpus, nodes).throughput
    assert one.within(gpus, nodes).throughput >= one.exactly(gpus, nodes).throughput


SEARCHES = {model: search(model) for model in MODELS}


@pytest.mark.parametrize("model", MODELS)
def test_packed_jobs_are_never_slower_with_another_gpu(model):
    """1 to 64 GPUs, each on the fewest nodes of eight."""
    throughputs = [SEARCHES[model].within(gpus, -(-gpus // 8)).throughput for gpus in range(1, 65)]
    assert (np.diff(throughputs) >= 0).all()
    assert throughputs[-1] > 0


@settings(max_examples=20)
@given(st.sampled_from(MODELS), st.sampled_from([1, 2, 4, 8, 16]), st.floats(0.25, 10), st.floats(1.0, 4.0))
def test_more_cpu_threads_are_never_slower(model, gpus, cpus, factor):
    nodes = -(-gpus // 8)
    few, many = search(model, cpus=cpus), search(model, cpus=cpus * factor)
    assert many.exactly(gpus, nodes).throughput >= few.exactly(gpus, nodes).throughput * (1 - 1e-12)


@settings(max_examples=20)
@given(st.sampled_from(MODELS), st.sampled_from([1, 2, 4, 8]), st.floats(0, 200), st.floats(0, 400))
def test_more_cpu_memory_is_never_slower(model, gpus, memory, more):
    little, much = search(model, memory_per_gpu=memory), search(model, memory_per_gpu=memory + more)
    assert much.within(gpus).throughput >= little.within(gpus).throughput


def test_best_plans_fit_the_memory():
    for model in MODELS:
        for gpus in (1, 8, 16, 64):
            best = SEARCHES[model].within(gpus, -(-gpus // 8))
            assert best.plan is not None
            assert best.plan.num_gpus == best.num_gpus <= gpus
            assert excess(SEARCHES[model].shape, best.plan) == (0.0, 0.0)


def test_no_plan_runs_without_memory():
    one = search("llama7b", device=DeviceMemory(gpu=4.0), memory_per_gpu=0.0)
    assert one.within(8) == BestPlan(0.0)
    assert feasible_plans(one.shape, 8, 8, device=one.device) == []


def test_cpu_memory_decides_on_offload():
    """LLaMA-7B on one GPU runs only with offload, which needs 16 bytes of CPU memory per parameter: 108 GB."""
    assert search("llama7b", memory_per_gpu=100.0).within(1).throughput == 0.0
    best = search("llama7b", memory_per_gpu=120.0).within(1)
    assert best.plan is not None
    assert best.plan.offload


def test_idle_gpus_are_left_idle():
    """Sixteen samples do not divide among 7 replicas, so the best plan on 7 GPUs uses fewer."""
    best = SEARCHES["gpt2"].within(7)
    assert best.throughput == max(SEARCHES["gpt2"].exactly(gpus).throughput for gpus in range(1, 8))
    assert best.num_gpus < 7


def test_more_gpus_than_a_node_has_do_not_run():
    assert SEARCHES["bert"].exactly(9, 1) == BestPlan(0.0)
    assert SEARCHES["bert"].within(9, 1) == SEARCHES["bert"].within(8, 1)


def test_a_search_does_not_depend_on_earlier_calls():
    """`within` fills a table step by step: results are equal in ascending and in descending order of calls."""
    asked = [(gpus, nodes) for nodes in range(1, 4) for gpus in range(nodes, 11)]
    up, down = search(), search()
    ascending = [up.within(*one) for one in asked]
    assert [down.within(*one) for one in reversed(asked)][::-1] == ascending


def test_search_refuses_invalid_resources():
    with pytest.raises(PerformanceError, match="0.0 CPU threads per GPU; it must be positive"):
        search(cpus=0.0)
    with pytest.raises(PerformanceError, match="nan GB of CPU memory"):
        search(memory_per_gpu=float("nan"))
    with pytest.raises(PerformanceError, match="a GPU on each node"):
        search().within(1, 2)


@given(st.integers(1, 500))
def test_divisors(number):
    assert divisors(number) == tuple(one for one in range(1, number + 1) if number % one == 0)
