"""Every cluster under conf/cluster can be built from its YAML and matches its name."""

from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from envs.performance.gpus import find_parts, gpu_types
from envs.types import ClusterError, ClusterSpec, plain_type

PRESETS = sorted((Path(__file__).parents[3] / "conf" / "cluster").glob("*.yaml"))


def preset(name: str, *changes: str) -> ClusterSpec:
    path = next(path for path in PRESETS if path.stem == name)
    made = instantiate(OmegaConf.merge(OmegaConf.load(path), OmegaConf.from_dotlist(list(changes))))
    assert isinstance(made, ClusterSpec)
    return made


@pytest.mark.parametrize("name", [path.stem for path in PRESETS])
def test_each_preset_builds_and_has_the_name_of_its_file(name):
    cluster = preset(name)
    assert cluster.name == name
    undisclosed = {"A10", "G2", "G3"} if name == "openb_6212" else set()  # for worlds without a performance model
    known = {*gpu_types(), *undisclosed}
    assert {find_parts(plain_type(name)).gpu_type for name in cluster.gpu_types} <= known
    # Node resources are plain Python numbers, as NodeSpec promises, even if they come from YAML.
    assert all(type(node.cpu_cores) is float and type(node.num_gpus) is int for node in cluster.nodes)


def test_the_presets_are_the_ones_that_experiments_name():
    assert {path.stem for path in PRESETS} >= {"homogeneous_64", "three_types_64", "philly_like", "a800_64", "small_16"}


def test_homogeneous_64_is_eight_nodes_of_eight_v100():
    cluster = preset("homogeneous_64")
    assert (cluster.num_nodes, cluster.num_gpus, cluster.gpu_types) == (8, 64, ("V100",))


def test_three_types_64_is_64_gpus_of_three_types_over_eight_nodes():
    cluster = preset("three_types_64")
    assert (cluster.num_nodes, cluster.num_gpus) == (8, 64)
    assert cluster.gpus_by_type == {"V100": 24, "P100": 24, "K80": 16}


def test_philly_like_is_a_fifth_of_philly():
    cluster = preset("philly_like")
    # philly-traces: 231 nodes of 8 GPUs and 321 of 2.
    assert sorted(set(cluster.node_gpus.tolist())) == [2, 8]
    eights, twos = (int((cluster.node_gpus == size).sum()) for size in (8, 2))
    assert (eights, twos) == (round(231 / 5), round(321 / 5))
    assert cluster.num_gpus == 496


def test_sliced_64_is_32_gpus_of_which_16_are_divided():
    cluster = preset("sliced_64")
    assert cluster.gpus_by_type == {"A100": 16, "A100/2": 16, "A100/4": 32}
    assert sum(count / find_parts(name).number for name, count in cluster.gpus_by_type.items()) == 32


def test_a800_64_is_rubicks_cluster():
    cluster = preset("a800_64")
    assert (cluster.num_nodes, cluster.num_gpus, cluster.gpu_types) == (8, 64, ("A800",))
    assert (cluster.nodes[0].cpu_cores, cluster.nodes[0].memory) == (96.0, 1600.0)


def test_the_error_for_a_mistyped_key_in_yaml_suggests_the_nearest():
    path = next(path for path in PRESETS if path.stem == "small_16")
    config = OmegaConf.load(path)
    config.groups[0].cpu_core = 4
    with pytest.raises(Exception, match=r"no field 'cpu_core'; did you mean cpu_cores\?") as error:
        instantiate(config)
    assert isinstance(error.value, ClusterError) or isinstance(error.value.__cause__, ClusterError)
