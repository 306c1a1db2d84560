"""Properties of the networks that hold for any weights."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.networks import MASKED, AttentionPolicy, Blueprint, NodeAttention, pool
from envs.types import CheckpointError, MurmurationError
from tests.unit.agents.worlds import SPEC, network, observation

seeds = st.integers(0, 1000)


def amounts_of(logits, spec=SPEC):
    """Logits of (choice, GPUs) pairs, [B, N, choices, node_gpus + 1]; the first column, nothing, is left out."""
    return logits[..., 1:].unflatten(-1, (spec.num_choices, spec.node_gpus + 1))


def test_shapes_are_those_that_the_spec_states():
    net, seen = network(), observation(batch=5)
    assert net.logits(seen).shape == (5, SPEC.num_nodes, SPEC.num_actions)
    assert net.value(seen).shape == (5,)
    assert net.logits(seen).dtype == torch.float32


def test_masked_actions_have_no_chance_and_others_are_finite():
    seen = observation()
    logits = network(sharpness=3.0).logits(seen)
    forbidden = seen["mask"] == 0
    assert (logits[forbidden] == MASKED).all()
    assert (logits[~forbidden].abs() < 1e6).all()
    assert (logits.softmax(-1)[forbidden] == 0).all()


@settings(max_examples=15)
@given(seeds)
def test_nodes_are_equivariant(seed):
    """Permuting the nodes permutes their logits and leaves the value unchanged."""
    net, seen = network(seed=seed), observation(seed=seed)
    order = torch.randperm(SPEC.num_nodes, generator=torch.Generator().manual_seed(seed))
    moved = {**seen, **{name: seen[name][:, order] for name in ("nodes", "slots", "mask")}}
    torch.testing.assert_close(net.logits(moved), net.logits(seen)[:, order], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(net.value(moved), net.value(seen), rtol=1e-4, atol=1e-4)


@settings(max_examples=15)
@given(seeds)
def test_scores_move_with_the_jobs_in_the_queue(seed):
    net, seen = network(seed=seed), observation(seed=seed)
    seen["mask"][:] = 1
    order = torch.randperm(SPEC.num_candidates, generator=torch.Generator().manual_seed(seed))
    moved = {**seen, "queue": seen["queue"][:, order]}
    before, after = net.logits(seen), net.logits(moved)
    torch.testing.assert_close(after[..., 0], before[..., 0], rtol=1e-4, atol=1e-4)
    waiting = slice(0, SPEC.num_candidates)
    torch.testing.assert_close(
        amounts_of(after)[:, :, waiting], amounts_of(before)[:, :, waiting][:, :, order], rtol=1e-4, atol=1e-4
    )
    running = slice(SPEC.num_candidates, None)
    torch.testing.assert_close(
        amounts_of(after)[:, :, running], amounts_of(before)[:, :, running], rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(net.value(moved), net.value(seen), rtol=1e-4, atol=1e-4)


def test_episodes_of_a_batch_do_not_touch_each_other():
    net, seen = network(), observation(batch=4)
    alone = {name: tensor[2:3] for name, tensor in seen.items()}
    torch.testing.assert_close(net.logits(alone)[0], net.logits(seen)[2], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(net.value(alone)[0], net.value(seen)[2], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("changes", [{"num_nodes": 11}, {"num_candidates": 9}, {"num_slots": 5}])
def test_the_same_weights_serve_other_numbers_of_nodes_jobs_and_slots(changes):
    trained, other = network(), replace(SPEC, **changes)
    there = AttentionPolicy(other, width=16, layers=1, heads=2)
    there.load_state_dict(trained.state_dict())
    seen = observation(other)
    assert there.logits(seen).shape == (5, other.num_nodes, other.num_actions)
    torch.testing.assert_close(trained.logits(seen), there.logits(seen))


def test_attention_lets_a_node_know_of_another():
    seen = observation(batch=1)
    changed = {**seen, "nodes": seen["nodes"].clone()}
    changed["nodes"][0, 2] += 1.0
    changed["mask"] = seen["mask"] = torch.ones_like(seen["mask"])
    attending, alone = network(layers=1), network(layers=0)
    assert (attending.logits(changed)[0, 0] - attending.logits(seen)[0, 0]).abs().max() > 1e-4
    assert torch.equal(alone.logits(changed)[0, 0], alone.logits(seen)[0, 0])


def test_every_weight_learns():
    net, seen = network(layers=2), observation(batch=16)
    seen["mask"][:] = 1
    (net.logits(seen).logsumexp(-1).sum() + net.value(seen).sum()).backward()
    silent = [name for name, weight in net.named_parameters() if weight.grad is None or not weight.grad.abs().sum() > 0]
    assert silent == []


def test_policy_and_critic_share_no_weight():
    """What the critic's first large errors move must not be what imitation has taught the policy."""
    net, seen = network(), observation()
    net.value(seen).sum().backward()
    moved = {name for name, weight in net.named_parameters() if weight.grad is not None and weight.grad.abs().sum() > 0}
    assert moved
    assert all(name.startswith("critic.") for name in moved)


def test_an_empty_cluster_and_queue_are_no_numbers_gone_wrong():
    net, seen = network(), observation()
    for name in ("queue", "slots"):
        seen[name][:] = 0.0
    seen["mask"][:] = 0
    seen["mask"][..., 0] = 1
    logits, value = net.logits(seen), net.value(seen)
    assert torch.isfinite(logits).all()
    assert torch.isfinite(value).all()
    assert (logits.argmax(-1) == 0).all()
    (logits[..., 0].sum() + value.sum()).backward()
    assert all(torch.isfinite(weight.grad).all() for weight in net.parameters() if weight.grad is not None)


def test_absent_jobs_say_nothing_to_the_pool():
    items, present = torch.rand(2, 3, 4), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    garbled = items.clone()
    garbled[0, 1] = 100.0
    assert torch.equal(pool(items, present), pool(garbled, present))
    expected = torch.cat([items[0, [0, 2]].mean(0), items[0, [0, 2]].amax(0)])
    torch.testing.assert_close(pool(items, present)[0], expected)
    assert (pool(items, present)[1] == 0).all()


def test_attention_is_softmax_over_nodes_by_hand():
    """One head, identity projections: the residual plus the softmax-weighted mean of the normed inputs."""
    layer = NodeAttention(4, 1)
    with torch.no_grad():
        layer.query_key_value.weight.copy_(torch.cat([torch.eye(4)] * 3))
        layer.out.weight.copy_(torch.eye(4))
        layer.query_key_value.bias.zero_()
        layer.out.bias.zero_()
        for name, weight in layer.perceptron.named_parameters():
            if name.startswith("2."):
                weight.zero_()  # the perceptron adds nothing
    nodes = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0))
    normed = layer.before_attention(nodes)[0]
    weights = (normed @ normed.T / 2.0).softmax(-1)  # sqrt(4) = 2
    torch.testing.assert_close(layer(nodes)[0], nodes[0] + weights @ normed)


def test_sharpness_scales_logits_and_leaves_their_order():
    seen = observation()
    plain, sharp = network(), network(sharpness=4.0)
    allowed = seen["mask"] == 1
    torch.testing.assert_close(sharp.logits(seen)[allowed], 4.0 * plain.logits(seen)[allowed])
    assert "sharpness" in plain.state_dict()


def test_a_blueprint_builds_what_it_names_and_survives_json():
    blueprint = Blueprint("agents.networks.AttentionPolicy", {"width": 8, "layers": 0, "heads": 2})
    built = Blueprint.from_dict(blueprint.to_dict()).build(SPEC)
    assert isinstance(built, AttentionPolicy)
    assert len(built.attention) == 0
    assert Blueprint.from_dict(blueprint.to_dict()) == blueprint


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("agents.networks.Nobody", {}, "'agents.networks.Nobody' cannot be imported"),
        ("no_such_module.Net", {}, "cannot be imported"),
        ("Net", {}, "give module.Class"),
        ("agents.networks.AttentionPolicy", {"widht": 8}, "unexpected keyword argument 'widht'"),
        ("agents.networks.AttentionPolicy", {"width": 30}, "width must be a positive multiple of heads"),
        ("agents.networks.AttentionPolicy", {"layers": -1}, "layers not negative"),
        ("builtins.print", {}, "not a torch.nn.Module"),
        ("subprocess.Popen", {"shell": True}, "not a torch.nn.Module"),
    ],
)
def test_a_blueprint_refuses_in_one_line(target, options, said):
    with pytest.raises(MurmurationError) as error:
        Blueprint(target, options).build(SPEC)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_description_without_a_target_is_refused():
    with pytest.raises(CheckpointError, match="lacks target or options"):
        Blueprint.from_dict({"options": {}})
