"""The throughput table agrees with the performance model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import IdealModel, default_model
from envs.simulation import Scenario, Setup, ThroughputTable
from envs.simulation.world.arrays import world_of
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.job_throughput import level_of, placement_throughput
from envs.simulation.world.state import State
from envs.simulation.world.throughput import NUM_LEVELS, level_nodes, node_level
from envs.types import ClusterSpec, Configuration, ExecutionPlan, NodeSpec, Placement
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.simulation.plays import cluster_of


@pytest.mark.parametrize(
    ("nodes", "level"),
    [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (7, 6), (8, 7), (9, 8), (16, 8), (17, 9), (64, 10), (65, 11), (5000, 11)],
)
def test_node_counts_above_eight_share_levels(nodes, level):
    assert node_level(nodes) == level
    assert level_of(nodes, NUM_LEVELS - 1) == level


def test_levels_hold_the_throughputs_of_their_most_nodes():
    assert [level_nodes(level) for level in range(NUM_LEVELS)] == [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128]
    assert [node_level(level_nodes(level)) for level in range(NUM_LEVELS)] == list(range(NUM_LEVELS))


def test_every_entry_agrees_with_the_model():
    table = ThroughputTable.build(Setup(HETEROGENEOUS, Curved()), ("large", "any"), max_gpus=8)
    assert table.throughputs.shape == (2, 3, 9, NUM_LEVELS)
    for m, model in enumerate(("large", "any")):
        for gpu_type, name in enumerate(HETEROGENEOUS.gpu_types):
            for gpus in range(1, 9):
                for level in range(NUM_LEVELS):
                    nodes = min(level_nodes(level), gpus)
                    reachable = level <= node_level(gpus)
                    expected = Curved().throughput(model, Configuration(name, gpus, nodes)) if reachable else 0.0
                    assert table.throughputs[m, gpu_type, gpus, level] == expected
    assert not table.throughputs[:, :, 0].any()


class UpToTwoNodes(Curved):
    """`Curved`, but 0 on more than two nodes."""

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return super().throughput(model, configuration) if configuration.num_nodes <= 2 else 0.0


def test_the_most_nodes_on_which_a_model_runs():
    """One node for each GPU at most; "large" runs on no small GPU. With few nodes allowed, no more than those."""
    types = HETEROGENEOUS.gpu_types.index("new"), HETEROGENEOUS.gpu_types.index("small")
    most = ThroughputTable.build(Setup(HETEROGENEOUS, Curved()), ("large", "any"), max_gpus=8).most_nodes()
    assert [most[0, gpu_type].tolist() for gpu_type in types] == [list(range(9)), [0] * 9]
    assert most[1, types[1]].tolist() == list(range(9))
    few = ThroughputTable.build(Setup(HETEROGENEOUS, UpToTwoNodes()), ("any",), max_gpus=8).most_nodes()
    assert few[0, types[0]].tolist() == [0, 1, 2, 2, 2, 2, 2, 2, 2]


def test_many_gpus_run_on_many_nodes():
    """The last level is open, so that nothing limits the nodes of 100 GPUs; up to 16 nodes share a level."""
    cluster = ClusterSpec((NodeSpec("new", 1),) * 100)
    most = ThroughputTable.build(Setup(cluster, Curved()), ("any",), max_gpus=100).most_nodes()
    assert most[0, 0, [9, 20, 64, 100]].tolist() == [9, 20, 64, 100]


@pytest.mark.parametrize("model", ["resnet50", "lm", "vgg16", "bert", "deepspeech2"])
def test_a_placement_that_names_its_plan_is_priced_like_one_that_does_not(model):
    """On 1 to 8 nodes of 8 GPUs, the exact throughput equals the table's; from 9 nodes on, the table rounds up."""
    cluster = ClusterSpec((NodeSpec("V100", 8),) * 9)
    setup = Setup(cluster, default_model(), Scenario())
    table, exact = ThroughputTable.build(setup, (model,), 72), ExactThroughputs(setup)
    for gpus in (1, 2, 3, 7, 8, 12, 21, 24, 40, 64):
        for nodes in range(-(-gpus // 8), min(gpus, 8) + 1):
            shares = {node: gpus // nodes + (node < gpus % nodes) for node in range(nodes)}
            named = exact.throughput(model, Placement(shares, plan=ExecutionPlan(data=gpus)))
            assert table.throughputs[0, 0, gpus, node_level(nodes)] == named
    nine = dict.fromkeys(range(9), 8)
    assert table.throughputs[0, 0, 72, node_level(9)] == setup.performance.throughput(
        model, Configuration("V100", 72, 16)
    )
    assert table.throughputs[0, 0, 72, node_level(9)] <= exact.throughput(
        model, Placement(nine, plan=ExecutionPlan(data=72))
    )


@pytest.mark.parametrize("gpus", [1, 2, 4, 8, 16, 32])
def test_a_placement_that_names_its_usual_batch_is_priced_like_one_that_does_not(gpus):
    """For a model of one batch size, whatever its number of GPUs."""
    setup = Setup(ClusterSpec((NodeSpec("A100", 8),) * 8), default_model(), Scenario())
    table, exact = ThroughputTable.build(setup, ("deepspeech2",), 32), ExactThroughputs(setup)
    for nodes in range(-(-gpus // 8), min(gpus, 8) + 1):
        shares = {node: gpus // nodes + (node < gpus % nodes) for node in range(nodes)}
        named = exact.throughput("deepspeech2", Placement(shares, batch_size=160))
        assert table.throughputs[0, 0, gpus, node_level(nodes)] == named


def test_levels_are_those_of_the_fewest_nodes():
    """Sizes 4 and 2 of "old" and of "new", 2 of "small": largest nodes first."""
    levels = ThroughputTable.build(Setup(HETEROGENEOUS, Curved()), ("any",), max_gpus=8).levels
    assert levels[0].tolist() == [-1, 0, 0, 0, 0, 1, 1, -1, -1]  # old: 4 + 2
    assert levels[2].tolist() == [-1, 0, 0, -1, -1, -1, -1, -1, -1]  # small: 2


def test_consolidated_throughput_is_zero_where_a_type_has_too_few_gpus():
    consolidated = ThroughputTable.build(Setup(HETEROGENEOUS, Curved()), ("any",), max_gpus=8).consolidated()
    assert consolidated.shape == (1, 3, 9)
    assert consolidated[0, 2, 2] == Curved().throughput("any", Configuration("small", 2))
    assert not consolidated[0, 2, 3:].any()
    assert consolidated[0, 1, 6] == Curved().throughput("any", Configuration("new", 6, 2))


def test_reference_is_the_fastest_type():
    table = ThroughputTable.build(Setup(HETEROGENEOUS, Curved()), ("any", "large"), max_gpus=8)
    assert table.reference()[0, 2] == Curved().throughput("any", Configuration("new", 2))
    assert table.reference()[0, 7:].tolist() == [0.0, 0.0]
    throughputs = table.requested_throughput(np.array([0, 1, 0]), np.array([2, 4, 999]))
    assert throughputs.tolist() == [table.reference()[0, 2], table.reference()[1, 4], table.reference()[0, 8]]


def test_tables_cover_eight_gpus_or_the_whole_cluster():
    assert ThroughputTable.build(Setup(HOMOGENEOUS, Curved()), ("any",), max_gpus=1).throughputs.shape[2] == 9
    assert ThroughputTable.build(Setup(cluster_of(4), IdealModel()), ("any",), max_gpus=64).throughputs.shape[2] == 5


def test_tables_cannot_be_written():
    table = ThroughputTable.build(Setup(HOMOGENEOUS, Curved()), ("any",), max_gpus=4)
    with pytest.raises(ValueError, match="read-only"):
        table.throughputs[0, 0, 1, 0] = 7.0


@given(counts=st.lists(st.integers(0, 2), min_size=5, max_size=5).filter(any), proportional=st.booleans())
def test_the_throughput_of_a_placement_agrees_with_the_model(counts, proportional):
    """GPUs on five nodes of three types, by the docstring of `placement_throughput`."""
    table = ThroughputTable.build(Setup(HETEROGENEOUS, Curved()), ("any", "large"), max_gpus=14)
    state = State.allocate(HETEROGENEOUS, 1)
    state.episode["proportional"] = proportional
    placed = {node: gpus for node, gpus in enumerate(counts) if gpus}
    for i, (node, gpus) in enumerate(placed.items()):
        state.shares[0, i].node, state.shares[0, i].gpus = node, gpus
        state.shares[0, i].next_of_job = i + 1 if i + 1 < len(placed) else -1
    for model in range(2):
        state.jobs["model"] = model
        throughput = placement_throughput(world_of(state, table), state.jobs[0][0], 0)
        assert throughput == pytest.approx(recomputed(placed, table.models[model], proportional), rel=1e-12)


def recomputed(placed: dict[int, int], model: str, proportional: bool) -> float:
    """Samples per second, directly from the model."""
    total = sum(placed.values())
    nodes = min(level_nodes(node_level(len(placed))), total)
    throughputs = {
        n: Curved().throughput(model, Configuration(HETEROGENEOUS.nodes[n].gpu_type, total, nodes)) for n in placed
    }
    if proportional and all(throughputs.values()):
        return sum(placed[n] * throughputs[n] for n in placed) / total
    return min(throughputs.values())


def test_one_gpu_type_makes_no_rounding():
    """A homogeneous gang runs at exactly the model's throughput, not at a mean that differs in the last bit."""
    cluster = ClusterSpec((NodeSpec("new", 3),) * 3)
    table = ThroughputTable.build(Setup(cluster, Curved()), ("any",), max_gpus=7)
    state = State.allocate(cluster, 1)
    state.episode["proportional"] = 1
    for i, gpus in enumerate((3, 3, 1)):
        state.shares[0, i].node, state.shares[0, i].gpus = i, gpus
        state.shares[0, i].next_of_job = i + 1 if i < 2 else -1
    throughput = placement_throughput(world_of(state, table), state.jobs[0][0], 0)
    assert throughput == Curved().throughput("any", Configuration("new", 7, 4))


def test_a_larger_table_takes_over_what_a_smaller_one_knows_of_cores():
    cluster = ClusterSpec((NodeSpec("V100", 8, cpu_cores=32.0, memory=500.0),) * 2)
    shared = Scenario(cpu_memory="shared")
    small = ThroughputTable.build(Setup(cluster, default_model(), shared), ("resnet50",), 8)
    grown = ThroughputTable.build(Setup(cluster, default_model(), shared), ("resnet50",), 16, small)
    anew = ThroughputTable.build(Setup(cluster, default_model(), shared), ("resnet50",), 16)
    assert grown.cpu_memory is small.cpu_memory
    assert (grown.cpu_memory.factor == anew.cpu_memory.factor).all()
    assert (grown.throughputs == anew.throughputs).all()
    other = ThroughputTable.build(Setup(cluster, default_model(), shared), ("vgg16",), 16, small)
    assert (
        other.cpu_memory.factor
        == ThroughputTable.build(Setup(cluster, default_model(), shared), ("vgg16",), 8).cpu_memory.factor
    ).all()


def test_what_a_job_needs_depends_on_its_gpu_type():
    """resnet18 saturates with 9 cores on a V100, with fewer on a K80 in proportion to throughput; memory is equal."""
    cluster = ClusterSpec(tuple(NodeSpec(name, 8, cpu_cores=32.0, memory=500.0) for name in ("V100", "K80")))
    setup = Setup(cluster, default_model(), Scenario(cpu_memory="shared"))
    table = ThroughputTable.build(setup, ("resnet18",), 8).cpu_memory
    ratio = default_model().cpu_scale("resnet18", "K80")
    k80 = cluster.gpu_types.index("K80")
    assert table.scale[0, k80] == ratio
    assert table.saturating[0, 1 - k80, 1].tolist() == [9.0, 62.5]
    assert table.saturating[0, k80, 1].tolist() == [9.0 * ratio, 62.5]
    assert np.allclose(table.factor[0, 0], table.factor[0, 1])
