"""Kernels for throughput against the slow functions of the performance model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.performance import Contention, default_model, sensitivity_of
from envs.performance.contention import Mode, stage_profile
from envs.simulation import Scenario, Setup, State, ThroughputTable
from envs.simulation.world.arrays import World, world_of
from envs.simulation.world.job_throughput import UNLIMITED, cell_of, feed, share_node
from envs.simulation.world.shares import new_share
from envs.simulation.world.throughput import CPU_GRID, MEMORY_GRID, cells_of
from envs.types import ClusterSpec, FloatArray, NodeSpec

MODELS = ("alexnet", "resnet50", "m5", "bert", "vgg16")
LINK = 1.25
PERFORMANCE = default_model()


def world(mode: Mode = "off", num_jobs: int = 1) -> World:
    """One node of 8 GPUs, with all models in the table and room for `num_jobs` jobs."""
    cluster = ClusterSpec((NodeSpec("V100", 8, cpu_cores=24.0, memory=500.0, inter_node_bandwidth=LINK),))
    scenario = Scenario(cpu_memory="shared", contention=Contention(mode))
    table = ThroughputTable.build(Setup(cluster, PERFORMANCE, scenario), MODELS, 8)
    state = State.allocate(cluster, num_jobs, scenario=scenario)
    state._clear(0, scenario)
    state.jobs["first_share"] = -1
    return world_of(state, table)


WORLD = world()


def fed(model: str, gpus: int, cpus: float, memory: float, named: int = 0) -> tuple[float, float, float]:
    """Throughput of a job relative to ample cores and memory, and its fractions by cores alone and by memory alone."""
    job = WORLD.jobs[0]
    job.model, job.named, job.first_share, job.num_shares, job.ample = MODELS.index(model), named, 0, 1, 1.0
    share = WORLD.shares[0]
    share.gpus, share.cpus, share.memory, share.next_of_job = gpus, cpus * gpus, memory * gpus, -1
    feed(WORLD, 0)
    return job.alone, job.fed_by_cpus, job.fed_by_memory


@settings(max_examples=80)
@given(
    model=st.sampled_from(MODELS),
    gpus=st.integers(1, 8),
    cpus=st.floats(0.02, 30.0),
    memory=st.floats(0.02, 300.0),
)
def test_cpu_memory_factors_agree_with_the_sensitivity_matrices(model, gpus, cpus, memory):
    sensitivity = sensitivity_of(model, gpus)
    alone, by_cpus, by_memory = fed(model, gpus, cpus, memory)
    assert alone == pytest.approx(sensitivity.factor(cpus, memory), rel=1e-9)
    if alone < UNLIMITED:
        assert by_cpus == pytest.approx(sensitivity.factor(cpus, None), rel=1e-9)
        assert by_memory == pytest.approx(sensitivity.factor(None, memory), rel=1e-9)


@given(gpus=st.integers(1, 8), flags=st.integers(0, 3))
def test_named_amounts_do_not_count_twice(gpus, flags):
    """The exact throughput includes a named amount already, so the factor treats it as ample; what limits counts it."""
    cpus, memory = (None if flags & 1 else 1.0), (None if flags & 2 else 62.5)
    sensitivity = sensitivity_of("alexnet", gpus)
    alone, by_cpus, by_memory = fed("alexnet", gpus, 1.0, 62.5, flags)
    assert alone == pytest.approx(sensitivity.factor(cpus, memory), rel=1e-9)
    assert by_cpus == pytest.approx(sensitivity.factor(1.0, None), rel=1e-9)
    assert by_memory == pytest.approx(sensitivity.factor(None, 62.5), rel=1e-9)


@given(amount=st.floats(0, 40))
def test_cells_of_a_grid(amount):
    for grid in (CPU_GRID, MEMORY_GRID):
        expected = min(int(np.searchsorted(grid, amount, side="right")) - 1, len(grid) - 2)
        assert cell_of(grid, cells_of(grid), min(amount, grid[-1])) == expected


@settings(max_examples=60)
@given(
    mode=st.sampled_from(["measured", "worst_case", "max_min"]),
    rows=st.lists(
        st.tuples(st.integers(0, len(MODELS) - 1), st.sampled_from([0.0, 0.1, 0.4, 0.5, 1.25, 3.0])),
        min_size=1,
        max_size=8,
    ),
)
def test_contention_factors_agree_with_the_contention_model(mode, rows):
    here = world(mode, len(rows))
    for j, (model, traffic) in enumerate(rows):
        here.jobs[j].model, here.jobs[j].traffic = model, traffic
        new_share(here, j, 0, 1, np.nan, np.nan)
    share_node(here, 0)
    contention = Contention(mode)
    network = contention.network_factors([traffic for _, traffic in rows], LINK)
    cpu_stage = cpu_stage_factors(mode, [MODELS[model] for model, _ in rows], 1 / 8)
    for j in range(len(rows)):
        share = here.shares[here.jobs[j].first_share]
        assert share.network == pytest.approx(network[j], rel=1e-12)
        assert share.cpu_stage == pytest.approx(cpu_stage[j], rel=1e-12)


def cpu_stage_factors(mode: str, models: list[str], node_share: float) -> FloatArray:
    """Throughputs of jobs that share one node's cores and storage, relative to alone, by Muri's stages.

    The demand on a node is the sum of the jobs' CPU stages, each weighted by the job's share of the node; in the worst
    case by 1. Once the demand exceeds 1, every CPU stage takes that many times as long.
    """
    if mode == "off":
        return np.ones(len(models))
    cpu = np.array([stage_profile(model).cpu for model in models])
    stretch = max(1.0, float(cpu.sum()) * (1.0 if mode == "worst_case" else node_share))
    return np.asarray(1.0 / (1.0 + np.minimum(cpu, 1.0) * (stretch - 1.0)))


def test_two_jobs_on_an_unpartitioned_node_by_hand():
    """Of CPU share c: the stage takes 2 c times as long, and a step takes (1 - c) + c x 2 c."""
    cpu = stage_profile("a2c").cpu
    assert cpu_stage_factors("worst_case", ["a2c", "a2c"], 0.5) == pytest.approx(1 / (1 + cpu * (2 * cpu - 1)))
