"""Clusters from the node and partition lines of a slurm.conf."""

import pytest

from baselines.slurm.site_conf import expand_node_names, read_site
from envs.types import MurmurationError

CONF = """ClusterName=lab  # ours
NodeName=DEFAULT CPUs=64 Gres=gpu:A100:8
NodeName=a[01-02] Feature=nvlink
NodeName=b1,b2 Gres=gpu:t4:2,craynetwork:1 \\
    CPUs=16
NodeName=login Gres=
PartitionName=DEFAULT MaxTime=1-0
PartitionName=batch Nodes=a[01-02],b1
PartitionName=debug,short Nodes=b[1-2] MaxTime=30
"""


def test_nodes_have_their_types_pools_and_features(tmp_path):
    path = tmp_path / "slurm.conf"
    path.write_text(CONF)
    found = read_site(path)
    assert found.names == ("a01", "a02", "b1", "b2")
    assert found.cluster.name == "lab"
    assert [node.gpu_type for node in found.cluster.nodes] == [
        "a100:batch#nvlink",
        "a100:batch#nvlink",
        "t4:batch+debug+short",
        "t4:debug+short",
    ]
    assert found.cluster.node_gpus.tolist() == [8, 8, 2, 2]
    assert [node.cpu_cores for node in found.cluster.nodes] == [64, 64, 16, 16]


def test_a_partition_of_all_nodes_and_gpus_without_a_type(tmp_path):
    path = tmp_path / "slurm.conf"
    path.write_text("NodeName=n[1-3] Gres=gpu:4\nPartitionName=all Nodes=ALL\n")
    assert read_site(path).cluster.gpus_by_type == {"gpu:all": 12}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[01-03,7],login", ["n01", "n02", "n03", "n7", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("", []),
    ],
)
def test_lists_of_nodes(text, names):
    assert list(expand_node_names("x:1", text)) == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NodeName=n[1-\n", "n[1-"),
        ("NodeName=n[3-1] Gres=gpu:1\n", "write them as n[01-16,20]"),
        ("NodeName=n[1-99999999999] Gres=gpu:1\n", "names more than"),
        ("NodeName=n1\n", "no NodeName line has GPUs"),
        ("NodeName=n1 Gres=gpu:a100:4,gpu:t4:4\n", "node n1: has GPUs of a100, t4"),
        ("what is this\n", "slurm.conf:1: 'what is this' is no setting"),
    ],
)
def test_a_wrong_file_is_answered_in_one_line(tmp_path, text, said):
    path = tmp_path / "slurm.conf"
    path.write_text(text)
    with pytest.raises(MurmurationError) as error:
        read_site(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
