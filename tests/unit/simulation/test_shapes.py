"""The division of jobs among nodes that constraints demand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from envs.simulation.world.shapes import divide_gang, is_divided, shapes_of
from envs.types import ClusterSpec, Constraints, NodeSpec, constrain
from envs.types.limits import divide_among, find_shaped

NODE = st.tuples(st.sampled_from(["new", "old"]), st.integers(1, 8), st.integers(0, 8))  # its type, GPUs and free GPUs
ASKED = st.builds(
    Constraints,
    num_nodes=st.integers(0, 5),
    gpus_per_node=st.integers(0, 4),
    max_nodes=st.integers(0, 4),
    exclusive=st.booleans(),
).filter(lambda asked: asked.num_nodes or asked.gpus_per_node)


@given(nodes=st.lists(NODE, min_size=1, max_size=8), asked=ASKED, want=st.integers(1, 20))
def test_compiled_and_readable_division_agree_and_keep_to_what_is_asked(nodes, asked, want):
    """Some nodes are in part used. What is found sums to what is wanted; it is found wherever there is a division."""
    cluster = ClusterSpec(tuple(NodeSpec(gpu_type, size) for gpu_type, size, _ in nodes))
    total, types = cluster.node_gpus.copy(), cluster.node_types.copy()
    free = np.array([min(size, left) for _, size, left in nodes])
    shape = shapes_of((constrain("any", asked),))[0].copy()
    for gpu_type in range(len(cluster.gpu_types)):
        expected = find_shaped(asked, free, cluster, want, gpu_type, lambda *_: {})
        where, gpus = np.zeros((2, len(nodes)), np.int64)
        count = divide_gang(free, total, types, gpu_type, want, shape, where, gpus)
        assert dict(zip(where[:count].tolist(), gpus[:count].tolist(), strict=True)) == expected
        usable = np.sort(free[(types == gpu_type) & (free > 0) & ((free == total) | (not asked.exclusive))])[::-1]
        wanted = asked.demand_nodes(want)
        legal = wanted <= (asked.max_nodes or wanted) and wanted * asked.gpus_per_node in (0, want)
        able = usable[:wanted].sum() >= want >= wanted and min(usable[:wanted], default=0) >= asked.gpus_per_node
        assert bool(expected) == (legal and len(usable) >= wanted and able)
        assert sum(expected.values()) in (0, want)
        assert all(0 < gpus <= free[node] for node, gpus in expected.items())
        assert all(asked.gpus_per_node in (0, gpus) for gpus in expected.values())


def test_divisions_worked_by_hand():
    """Evenly where that is possible, on the nodes with fewest free GPUs; else most from the emptiest."""
    cluster = ClusterSpec(tuple(NodeSpec("new", size) for size in (8, 8, 2, 4)))
    free = np.array([8, 5, 2, 4])
    assert divide_among(Constraints(num_nodes=2), free, cluster, 4, 0) == {2: 2, 3: 2}
    assert divide_among(Constraints(num_nodes=2), free, cluster, 7, 0) == {3: 3, 1: 4}
    assert divide_among(Constraints(num_nodes=2), free, cluster, 12, 0) == {0: 8, 1: 4}
    assert divide_among(Constraints(num_nodes=3), free, cluster, 17, 0) == {0: 8, 1: 5, 3: 4}
    assert divide_among(Constraints(gpus_per_node=4), free, cluster, 12, 0) == {3: 4, 1: 4, 0: 4}
    assert divide_among(Constraints(gpus_per_node=4), free, cluster, 16, 0) == {}


def test_a_limit_on_the_number_of_nodes_is_no_division():
    shapes = shapes_of(("any where max_nodes=2", "any where nodes=2 exclusive", "any"))
    assert shapes.tolist() == [[0, 0, 2, 0], [2, 0, 0, 1], [0, 0, 0, 0]]
    assert [bool(is_divided(shape)) for shape in shapes] == [False, True, False]
