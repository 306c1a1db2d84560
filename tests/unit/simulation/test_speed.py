"""The table of speeds answers as the performance model does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import IdealModel, default_model
from envs.simulation import Scenario, SpeedTable
from envs.simulation.rating import placement_rate
from envs.simulation.speed import NUM_LEVELS, node_level
from envs.simulation.state import State
from envs.simulation.world import world_of
from envs.types import ClusterSpec, NodeSpec
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.simulation.plays import cluster_of


@pytest.mark.parametrize(
    ("nodes", "level"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (64, 6), (65, 7), (5000, 7)]
)
def test_node_counts_share_levels(nodes, level):
    assert node_level(nodes) == level


def test_every_entry_is_what_the_model_says():
    table = SpeedTable.build(HETEROGENEOUS, Curved(), ("large", "any"), max_gpus=8)
    assert table.rates.shape == (2, 3, 9, NUM_LEVELS)
    for m, model in enumerate(("large", "any")):
        for kind, name in enumerate(HETEROGENEOUS.gpu_types):
            for gpus in range(1, 9):
                for level in range(NUM_LEVELS):
                    nodes = min(2**level, gpus)
                    reachable = level <= node_level(gpus)
                    expected = Curved().throughput(model, name, gpus, nodes) if reachable else 0.0
                    assert table.rates[m, kind, gpus, level] == expected
    assert not table.rates[:, :, 0].any()


def test_levels_are_those_of_the_fewest_nodes():
    """Sizes 4 and 2 of "old" and of "new", 2 of "small": largest nodes first."""
    levels = SpeedTable.build(HETEROGENEOUS, Curved(), ("any",), max_gpus=8).levels
    assert levels[0].tolist() == [-1, 0, 0, 0, 0, 1, 1, -1, -1]  # old: 4 + 2
    assert levels[2].tolist() == [-1, 0, 0, -1, -1, -1, -1, -1, -1]  # small: 2


def test_consolidated_speed_is_zero_where_a_type_has_too_few_gpus():
    consolidated = SpeedTable.build(HETEROGENEOUS, Curved(), ("any",), max_gpus=8).consolidated()
    assert consolidated.shape == (1, 3, 9)
    assert consolidated[0, 2, 2] == Curved().throughput("any", "small", 2)
    assert not consolidated[0, 2, 3:].any()
    assert consolidated[0, 1, 6] == Curved().throughput("any", "new", 6, 2)


def test_reference_is_the_fastest_type():
    table = SpeedTable.build(HETEROGENEOUS, Curved(), ("any", "large"), max_gpus=8)
    assert table.reference()[0, 2] == Curved().throughput("any", "new", 2)
    assert table.reference()[0, 7:].tolist() == [0.0, 0.0]
    speeds = table.requested_speed(np.array([0, 1, 0]), np.array([2, 4, 999]))
    assert speeds.tolist() == [table.reference()[0, 2], table.reference()[1, 4], table.reference()[0, 8]]


def test_tables_reach_eight_gpus_or_the_whole_cluster():
    assert SpeedTable.build(HOMOGENEOUS, Curved(), ("any",), max_gpus=1).rates.shape[2] == 9
    assert SpeedTable.build(cluster_of(4), IdealModel(), ("any",), max_gpus=64).rates.shape[2] == 5


def test_tables_cannot_be_written():
    table = SpeedTable.build(HOMOGENEOUS, Curved(), ("any",), max_gpus=4)
    with pytest.raises(ValueError, match="read-only"):
        table.rates[0, 0, 1, 0] = 7.0


@given(counts=st.lists(st.integers(0, 2), min_size=5, max_size=5).filter(any), proportional=st.booleans())
def test_the_rate_of_a_placement_is_recomputed_from_the_model(counts, proportional):
    """GPUs on five nodes of three types, as the docstring of `placement_rate` says it."""
    table = SpeedTable.build(HETEROGENEOUS, Curved(), ("any", "large"), max_gpus=14)
    state = State.allocate(HETEROGENEOUS, 1)
    state.episode["proportional"] = proportional
    placed = {node: gpus for node, gpus in enumerate(counts) if gpus}
    for i, (node, gpus) in enumerate(placed.items()):
        state.shares[0, i].node, state.shares[0, i].gpus = node, gpus
        state.shares[0, i].next_of_job = i + 1 if i + 1 < len(placed) else -1
    for model in range(2):
        state.jobs["model"] = model
        rate = placement_rate(world_of(state, table), state.jobs[0][0], 0)
        assert rate == pytest.approx(recomputed(placed, table.models[model], proportional), rel=1e-12)


def recomputed(placed: dict[int, int], model: str, proportional: bool) -> float:
    """Samples per second, straight from the model."""
    total = sum(placed.values())
    nodes = min(2 ** node_level(len(placed)), total)
    speeds = {n: Curved().throughput(model, HETEROGENEOUS.nodes[n].gpu_type, total, nodes) for n in placed}
    if proportional and all(speeds.values()):
        return sum(placed[n] * speeds[n] for n in placed) / total
    return min(speeds.values())


def test_one_gpu_type_makes_no_rounding():
    """A homogeneous gang runs at exactly the model's speed, not at a mean that differs in the last bit."""
    cluster = ClusterSpec((NodeSpec("new", 3),) * 3)
    table = SpeedTable.build(cluster, Curved(), ("any",), max_gpus=7)
    state = State.allocate(cluster, 1)
    state.episode["proportional"] = 1
    for i, gpus in enumerate((3, 3, 1)):
        state.shares[0, i].node, state.shares[0, i].gpus = i, gpus
        state.shares[0, i].next_of_job = i + 1 if i < 2 else -1
    rate = placement_rate(world_of(state, table), state.jobs[0][0], 0)
    assert rate == Curved().throughput("any", "new", 7, 4)


def test_a_larger_table_takes_over_what_a_smaller_one_knows_of_cores():
    cluster = ClusterSpec((NodeSpec("V100", 8, cpu_cores=32.0, memory=500.0),) * 2)
    shared = Scenario(cpu_memory="shared")
    small = SpeedTable.build(cluster, default_model(), ("resnet50",), 8, shared)
    grown = SpeedTable.build(cluster, default_model(), ("resnet50",), 16, shared, small)
    anew = SpeedTable.build(cluster, default_model(), ("resnet50",), 16, shared)
    assert grown.host is small.host
    assert (grown.host.factor == anew.host.factor).all()
    assert (grown.rates == anew.rates).all()
    other = SpeedTable.build(cluster, default_model(), ("vgg16",), 16, shared, small)
    assert (other.host.factor == SpeedTable.build(cluster, default_model(), ("vgg16",), 8, shared).host.factor).all()
