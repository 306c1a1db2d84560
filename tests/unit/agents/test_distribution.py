"""The joint choice of all nodes against torch's own categorical distributions, one per node."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Categorical, kl_divergence

from agents.methods.ppo.distribution import (
    NodeCategorical,
    chosen_log_probabilities,
    entropies,
    log_probabilities,
    sample,
)
from agents.networks import MASKED
from agents.policies.scheduler import choose_actions
from envs.gpu_cluster.vector import joint_spaces
from tests.unit.agents.worlds import SPEC, network, observation

NODES, ACTIONS = 3, 5
seeds = st.integers(0, 1000)


def logits(seed, batch=7, masked=True):
    """Flat random logits [batch, nodes * actions]; some actions masked, the first never."""
    rng = torch.Generator().manual_seed(seed)
    found = 3 * torch.randn(batch, NODES, ACTIONS, generator=rng)
    if masked:
        forbidden = torch.rand(found.shape, generator=rng) < 0.4
        forbidden[..., 0] = False
        found = found.masked_fill(forbidden, MASKED)
    return found.flatten(1)


def ours(flat):
    return NodeCategorical.for_nodes(NODES).from_logits(flat)


def theirs(flat):
    return Categorical(logits=flat.unflatten(1, (NODES, ACTIONS)))


@settings(max_examples=20)
@given(seeds)
def test_log_probabilities_and_entropy_are_torchs(seed):
    flat = logits(seed)
    actions = theirs(flat).sample()
    torch.testing.assert_close(ours(flat).logp(actions), theirs(flat).log_prob(actions).sum(-1))
    torch.testing.assert_close(ours(flat).entropy(), theirs(flat).entropy().sum(-1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        chosen_log_probabilities(log_probabilities(flat, NODES), actions), theirs(flat).log_prob(actions)
    )


@settings(max_examples=20)
@given(seeds)
def test_divergence_is_torchs(seed):
    flat, other = logits(seed, masked=False), logits(seed + 1, masked=False)
    torch.testing.assert_close(
        ours(flat).kl(ours(other)), kl_divergence(theirs(flat), theirs(other)).sum(-1), rtol=1e-4, atol=1e-5
    )


def test_equal_masks_cancel_in_the_divergence():
    flat = logits(3)
    other = torch.where(flat > MASKED / 2, flat + torch.randn(flat.shape), flat)
    divergence = ours(flat).kl(ours(other))
    assert torch.isfinite(divergence).all()
    assert (divergence >= -1e-5).all()
    assert (ours(flat).kl(ours(flat)) == 0).all()


def test_a_node_without_a_choice_has_no_entropy():
    flat = torch.full((1, 2, 4), MASKED)
    flat[..., 1] = 0.3
    log_probs = log_probabilities(flat.flatten(1), 2)
    assert (entropies(log_probs) == 0).all()
    assert sample(log_probs).tolist() == [[1, 1]]


def test_samples_come_as_often_as_they_should():
    """20,000 draws: every frequency within five standard errors."""
    draws = 20_000
    flat = logits(11, batch=1)
    torch.manual_seed(0)
    found = ours(flat.expand(draws, -1)).sample()
    wanted = theirs(flat).probs[0]
    counts = torch.stack([(found == action).float().mean(0) for action in range(ACTIONS)], -1)
    error = (wanted * (1 - wanted) / draws).sqrt()
    assert ((counts - wanted).abs() <= 5 * error).all()
    assert (counts[wanted == 0] == 0).all()


def test_the_likeliest_choice_is_the_greatest_logit():
    flat = logits(5)
    best = flat.unflatten(1, (NODES, ACTIONS)).argmax(-1)
    assert torch.equal(ours(flat).to_deterministic().sample(), best)


def test_it_answers_what_rllib_asks():
    _, space = joint_spaces(SPEC)
    assert NodeCategorical.required_input_dim(space) == SPEC.num_nodes * SPEC.num_actions
    with pytest.raises(TypeError, match="cannot be reparametrised"):
        ours(logits(0)).rsample()


def test_masked_actions_are_never_drawn_by_either_sampler():
    seen = observation(batch=64)
    net = network()
    log_probs = log_probabilities(net.logits(seen).flatten(1), SPEC.num_nodes)
    arrays = {name: tensor.numpy() for name, tensor in seen.items()}
    for seed in range(20):
        torch.manual_seed(seed)
        for actions in (sample(log_probs), torch.from_numpy(choose_actions(net, arrays, np.random.default_rng(seed)))):
            assert (seen["mask"].gather(-1, actions.unsqueeze(-1)) == 1).all()


def test_choosing_without_chance_is_the_likeliest_and_with_it_follows_the_policy():
    seen, net = observation(batch=1, seed=4), network(seed=2)
    arrays = {name: tensor.numpy() for name, tensor in seen.items()}
    logits_of = net.logits(seen)[0].detach()
    assert (choose_actions(net, arrays)[0] == logits_of.argmax(-1).numpy()).all()
    rng, draws = np.random.default_rng(0), 2000
    many = {name: np.repeat(array, draws, 0) for name, array in arrays.items()}
    found = choose_actions(net, many, rng)
    wanted = logits_of.softmax(-1).numpy()
    for node in range(SPEC.num_nodes):
        often = np.bincount(found[:, node], minlength=SPEC.num_actions) / draws
        error = np.sqrt(wanted[node] * (1 - wanted[node]) / draws)
        assert (np.abs(often - wanted[node]) <= 5 * error + 1e-9).all()
