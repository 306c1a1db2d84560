"""Perturbations of low rank and the steps of evolution strategies."""

import numpy as np
import pytest
import torch
from torch import nn

from agents.methods.evolution import Ascent, LowRankPerturbations, rank_shaped
from agents.methods.evolution.ascent import signal_share
from envs.types import MurmurationError


def small_network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 2, bias=False))


@pytest.mark.parametrize("rank", [1, 3])
def test_the_shared_forward_pass_equals_each_variant_alone(rank: int) -> None:
    network = small_network()
    changes = LowRankPerturbations(network, 4, 0.3, rank, np.random.default_rng(1))
    variants = torch.tensor([0, 1, 7, 2, 2, 5])
    x = torch.randn(6, 2, 4, 3)
    with torch.no_grad(), changes.applied(variants):
        together = network(x)
    for row, variant in enumerate(variants.tolist()):
        alone = torch.func.functional_call(network, dict(changes.variant(variant)), (x[row],))
        torch.testing.assert_close(together[row], alone, rtol=1e-4, atol=1e-5)


def test_the_network_is_itself_again_afterwards() -> None:
    network, x = small_network(), torch.randn(2, 3)
    before = network(x)
    with LowRankPerturbations(network, 1, 1.0, 1, np.random.default_rng(0)).applied(torch.tensor([0, 1])):
        assert not torch.equal(network(x), before)
    assert torch.equal(network(x), before)


def test_the_gradient_of_a_linear_merit_is_found() -> None:
    network = nn.Linear(4, 3)
    changes = LowRankPerturbations(network, 20_000, 0.1, 1, np.random.default_rng(0))
    slope = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    merits = []
    for pair in range(changes.num_pairs):
        change = changes.changes[""]
        merits.append(0.1 * float((slope * (change.left[pair] @ change.right[pair].T)).sum()))
    found = changes.gradient(np.array(merits))["weight"]
    assert float(torch.nn.functional.cosine_similarity(found.flatten(), slope.flatten(), dim=0)) > 0.98
    assert float((found - slope).norm() / slope.norm()) < 0.2


def test_only_the_named_layers_change() -> None:
    network = small_network()
    changes = LowRankPerturbations(network, 2, 0.3, 1, np.random.default_rng(1), layers=["3"])
    assert set(changes.gradient(np.ones(2))) == {"3.weight"}
    assert set(changes.variant(0)) == {"3.weight"}
    with pytest.raises(MurmurationError, match=r"no linear layer 1, 7; its linear layers are 0, 3"):
        LowRankPerturbations(network, 2, 0.3, 1, np.random.default_rng(1), layers=["7", "1"])


def test_ranks_share_places_and_sum_to_zero() -> None:
    np.testing.assert_allclose(rank_shaped(np.array([3.0, 1.0, 3.0, 9.0])), [0.0, -0.5, 0.0, 0.5])


def test_the_signal_share_is_one_without_noise_and_near_zero_without_signal() -> None:
    signal = np.repeat(np.random.default_rng(0).normal(size=(500, 1)), 4, axis=1)
    assert signal_share(signal) == 1.0
    assert signal_share(np.random.default_rng(1).normal(size=(5000, 4))) < 0.1
    assert np.isnan(signal_share(np.ones((3, 1))))


def maximise(steps: int, state: dict[str, object] | None = None, begin: int = 0) -> tuple[nn.Module, Ascent]:
    """Let a network learn to output 1 for ones."""
    network = small_network()
    ascent = Ascent(network, 0.05, averaging=0.5)
    if state is not None:
        ascent.restore(state)
    x = torch.ones(64, 3)
    for step in range(begin, steps):
        changes = LowRankPerturbations(network, 32, 0.1, 1, np.random.default_rng([3, step]))
        with torch.no_grad(), changes.applied(torch.arange(64)):
            merits = -((network(x) - 1.0) ** 2).sum(-1).double().numpy()
        ascent.step(changes, merits.reshape(32, 2, 1))
    return network, ascent


def test_steps_lead_to_higher_merit() -> None:
    before, after = small_network(), maximise(80)[0]

    @torch.no_grad()
    def loss(network: nn.Module) -> float:
        return float(((network(torch.ones(3)) - 1.0) ** 2).sum())

    assert loss(after) < 0.05 * loss(before)


def test_a_restored_search_continues_to_the_bit() -> None:
    whole, _ = maximise(6)
    _, half = maximise(3)
    resumed, _ = maximise(6, half.state(), begin=3)
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_bad_numbers_and_networks_are_named() -> None:
    with pytest.raises(MurmurationError, match="sigma"):
        LowRankPerturbations(small_network(), 1, 0.0, 1, np.random.default_rng(0))
    with pytest.raises(MurmurationError, match="no torch.nn.Linear"):
        LowRankPerturbations(nn.LayerNorm(3), 1, 0.1, 1, np.random.default_rng(0))
    with pytest.raises(MurmurationError, match="averaging"):
        Ascent(small_network(), 0.1, averaging=0.0)
    changes = LowRankPerturbations(small_network(), 1, 0.1, 1, np.random.default_rng(0))
    with pytest.raises(MurmurationError, match="not finite"):
        Ascent(small_network(), 0.1).step(changes, np.full((1, 2, 1), np.nan))
    network = nn.Linear(3, 2)
    with (
        pytest.raises(MurmurationError, match="rows for 2 worlds"),
        LowRankPerturbations(network, 1, 0.1, 1, np.random.default_rng(0)).applied(torch.tensor([0, 1])),
    ):
        network(torch.ones(5, 3))
