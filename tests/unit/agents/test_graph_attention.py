"""Attention along the edges of a coordination graph."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
import torch

from agents.networks.graph import DenseAttention, GraphAttention, softmax_by_target
from envs.types import MurmurationError

WIDTH, FEATURES = 6, 3
Layer = TypeVar("Layer", bound=torch.nn.Module)


def trained(layer: Layer, seed: int = 0) -> Layer:
    """Give all weights random values; the output layer starts at zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in layer.parameters():
            value.copy_(torch.randn(value.shape, generator=generator))
    return layer


def random_graph(batch: int, nodes: int, edges: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    pairs = torch.from_numpy(rng.integers(0, nodes, (batch, 2, edges)))
    for b in range(batch):
        pairs[b, :, edges - b :] = -1
    states = torch.from_numpy(rng.normal(size=(batch, nodes, WIDTH)).astype(np.float32))
    return states, pairs, torch.from_numpy(rng.normal(size=(batch, edges, FEATURES)).astype(np.float32))


def test_messages_equal_the_formula_written_out() -> None:
    layer = trained(GraphAttention(WIDTH, FEATURES, heads=2))
    states, edges, features = random_graph(3, 5, 12)
    mixed, weights = layer.attend(states, edges, features)
    width = WIDTH // 2
    for b in range(3):
        parts = layer.query_key_value(states[b]).view(5, 3, 2, width)
        bonus = layer.edge_score(features[b])
        for target in range(5):
            incoming = [e for e in range(12) if edges[b, 1, e] == target and edges[b, 0, e] >= 0]
            expected = torch.zeros(2, width)
            for head in range(2):
                query = parts[target, 0, head]
                scores = [query @ parts[edges[b, 0, e], 1, head] / width**0.5 + bonus[e, head] for e in incoming]
                shares = torch.stack(scores).softmax(0) if scores else torch.zeros(0)
                for e, share in zip(incoming, shares, strict=True):
                    expected[head] += share * parts[edges[b, 0, e], 2, head]
                    torch.testing.assert_close(weights[b, e, head], share)
            torch.testing.assert_close(mixed[b, target], expected.flatten())
    assert (weights[2, 10:] == 0).all()


def test_a_world_does_not_see_the_others_of_its_batch() -> None:
    layer = trained(GraphAttention(WIDTH, FEATURES))
    states, edges, features = random_graph(3, 5, 12)
    together = layer(states, edges, features)
    for b in range(3):
        alone = layer(states[b : b + 1], edges[b : b + 1], features[b : b + 1])
        torch.testing.assert_close(together[b], alone[0])


def test_all_pairs_as_edges_without_features_equal_dense_attention() -> None:
    graph, dense = trained(GraphAttention(WIDTH, FEATURES)), trained(DenseAttention(WIDTH))
    dense.load_state_dict({k: v for k, v in graph.state_dict().items() if not k.startswith("edge_score")})
    states, _, _ = random_graph(2, 4, 16)
    edges = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T[None].expand(2, -1, -1)
    with torch.no_grad():
        graph.edge_score.weight.zero_()
        graph.edge_score.bias.zero_()
    features = torch.zeros(2, 16, FEATURES)
    torch.testing.assert_close(graph(states, edges, features), dense(states, edges, features))


def test_order_of_nodes_and_edges_does_not_matter() -> None:
    layer = trained(GraphAttention(WIDTH, FEATURES))
    states, edges, features = random_graph(1, 5, 12)
    order, shuffled = torch.randperm(5), torch.randperm(12)
    place = torch.argsort(order)
    moved = layer(states[:, order], place[edges[:, :, shuffled]], features[:, shuffled])
    torch.testing.assert_close(moved[:, place], layer(states, edges, features))


def test_a_new_layer_and_a_graph_without_edges_change_nothing() -> None:
    states, edges, features = random_graph(2, 5, 12)
    assert torch.equal(GraphAttention(WIDTH, FEATURES)(states, edges, features), states)
    layer = trained(GraphAttention(WIDTH, FEATURES))
    mixed, _ = layer.attend(states, torch.full_like(edges, -1), features)
    assert (mixed == 0).all()


def test_extreme_scores_stay_finite() -> None:
    score = torch.tensor([[1e4], [-1e4], [-torch.inf], [3.0]])
    found = softmax_by_target(score, torch.tensor([0, 0, 1, 2]), 4)
    torch.testing.assert_close(found, torch.tensor([[1.0], [0.0], [0.0], [1.0]]))


MISFITS = [lambda: GraphAttention(5, 3), lambda: GraphAttention(4, 0), lambda: DenseAttention(5)]


@pytest.mark.parametrize("make", MISFITS)
def test_sizes_that_do_not_fit_are_named(make: Callable[[], torch.nn.Module]) -> None:
    with pytest.raises(MurmurationError, match="width"):
        make()
