"""What Pollux's simulator does otherwise than ours, worked by hand."""

import pytest

from papers.pollux.artifact import fewest_node_gpus
from papers.pollux.tiresias import ArtifactTiresias
from tests.golden.playground import jobs, places, play, times, two_nodes


def test_a_job_stops_those_of_its_queue_that_came_after_it():
    """t=0: A (6 GPUs) runs, B (8 GPUs) does not fit, C (2 GPUs) does. t=2: B takes all GPUs, C ends its 2 s at 8."""
    result = play(ArtifactTiresias(), jobs((0, 6, 2), (0, 8, 4), (0, 2, 4)), two_nodes())
    assert times(result) == [(0, 2), (2, 6), (0, 8)]


@pytest.mark.parametrize(("placement", "nodes"), [("spread", {0: 2, 1: 2}), ("consolidated", {1: 4})])
def test_gpus_are_taken_where_most_are_free(placement, nodes):
    """A and B (2 GPUs each) take a node each, so C (4 GPUs) gets 2 of each; consolidated, both are on node 0."""
    result = play(ArtifactTiresias(placement), jobs((0, 2, 4), (0, 2, 4), (1, 4, 1)), two_nodes())
    assert places(result, 2) == [(1, nodes)]


def test_packed():
    assert [fewest_node_gpus(gpus) for gpus in (3, 4, 10)] == [(3,), (4,), (4, 4, 2)]
