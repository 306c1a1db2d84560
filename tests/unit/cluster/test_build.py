"""Clusters built from groups of nodes, and groups that are refused."""

from dataclasses import replace

import pytest

from envs.cluster import NodeGroup, build_cluster
from envs.types import ClusterError, NodeSpec


def test_groups_become_nodes_in_order():
    cluster = build_cluster(
        "mixed",
        [
            NodeGroup("V100", num_nodes=2, num_gpus=8, cpu_cores=24, memory=500),
            {"gpu_type": "K80", "num_nodes": 1, "num_gpus": 4, "inter_node_bandwidth": 1},
        ],
    )
    assert cluster.name == "mixed"
    assert cluster.gpu_types == ("V100", "K80")
    assert cluster.node_gpus.tolist() == [8, 8, 4]
    assert cluster.gpus_by_type == {"V100": 16, "K80": 4}
    assert cluster.nodes[0] == NodeSpec("V100", 8, cpu_cores=24.0, memory=500.0, rack=0)
    assert cluster.nodes[2].inter_node_bandwidth == 1.0


def test_missing_fields_of_a_group_have_the_defaults_of_a_node():
    assert build_cluster("plain", [NodeGroup("T4", 1, 4)]).nodes == (NodeSpec("T4", 4),)


def test_racks_are_refused_until_they_have_an_effect():
    with pytest.raises(ClusterError, match="group 0: nodes_per_rack is 4; racks have no effect yet, so remove it"):
        build_cluster("x", [{"gpu_type": "V100", "num_nodes": 8, "num_gpus": 8, "nodes_per_rack": 4}])


def test_the_error_for_a_mistyped_field_suggests_the_nearest():
    with pytest.raises(ClusterError, match=r"cluster x: group 1: there is no field 'num_gpu'; did you mean num_gpus\?"):
        build_cluster("x", [NodeGroup("V100", 1, 1), {"gpu_type": "V100", "num_nodes": 1, "num_gpu": 8}])


def test_the_error_for_an_unknown_field_lists_the_fields():
    with pytest.raises(ClusterError, match=r"no field 'zzz'; known: cpu_cores, features, gpu_type"):
        build_cluster("x", [{"gpu_type": "V100", "num_nodes": 1, "num_gpus": 8, "zzz": 1}])


def test_a_missing_field_is_named():
    with pytest.raises(ClusterError, match="cluster x: group 0: num_nodes is missing"):
        build_cluster("x", [{"gpu_type": "V100", "num_gpus": 8}])


def test_a_cluster_without_groups_is_refused():
    with pytest.raises(ClusterError, match="cluster empty: has no node groups"):
        build_cluster("empty", [])


@pytest.mark.parametrize("field", ["num_nodes", "num_gpus"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "8", True])
def test_counts_are_whole_and_positive(field, value):
    group = {"gpu_type": "V100", "num_nodes": 1, "num_gpus": 8, field: value}
    with pytest.raises(ClusterError, match=f"{field} is {value!r}; it must be a whole number") as error:
        build_cluster("x", [group])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("field", ["cpu_cores", "memory", "intra_node_bandwidth", "inter_node_bandwidth"])
@pytest.mark.parametrize("value", [0, -2.0, float("nan"), float("inf")])
def test_resources_are_positive_and_finite(field, value):
    with pytest.raises(ClusterError, match=f"node of V100: {field} is"):
        build_cluster("x", [{"gpu_type": "V100", "num_nodes": 1, "num_gpus": 8, field: value}])


def test_a_node_needs_a_gpu_type():
    with pytest.raises(ClusterError, match="gpu_type is empty"):
        build_cluster("x", [NodeGroup("", 1, 1)])


def test_gigabits_between_nodes_replace_the_gigabytes_of_every_group():
    """25 Gb/s are 3.125 GB/s; everything else stays."""
    groups = [NodeGroup("V100", 1, 8, inter_node_bandwidth=12.5), NodeGroup("K80", 1, 4)]
    plain, linked = build_cluster("pair", groups), build_cluster("pair", groups, network_gbps=25)
    assert [node.inter_node_bandwidth for node in plain.nodes] == [12.5, 1.25]
    assert linked.nodes == tuple(replace(node, inter_node_bandwidth=3.125) for node in plain.nodes)
    assert (plain.name, linked.name) == ("pair", "pair, 25 Gb/s")


@pytest.mark.parametrize("gbps", [0, -10, float("nan"), float("inf")])
def test_impossible_bandwidths_are_refused(gbps):
    with pytest.raises(ClusterError, match="cluster x: network_gbps is .*; it must be positive and finite"):
        build_cluster("x", [NodeGroup("V100", 1, 8)], network_gbps=gbps)
