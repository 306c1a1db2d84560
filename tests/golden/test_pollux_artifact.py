"""How Pollux's simulator differs from ours, worked by hand; its Tiresias is in `test_tiresias.py`."""

from papers.pollux.artifact import fewest_node_gpus


def test_packed():
    assert [fewest_node_gpus(gpus) for gpus in (3, 4, 10)] == [(3,), (4,), (4, 4, 2)]
