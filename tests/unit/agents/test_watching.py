"""Policies that tell what their nodes wanted: nothing else changes, and what they say is what was decided."""

import re

import numpy as np
import pytest
import torch

from agents.networks.option_attention import OptionAttention
from agents.policies.options.scheduler import OptionScheduler
from agents.policies.options.watched import WatchedOptions
from agents.policies.watching import WatchedPolicy, watched
from baselines import Srtf
from envs.episodes.film import Annotates, film_episode
from envs.episodes.scene import Scene
from envs.options import OptionRules, OptionSpec
from envs.simulation import Simulator, run_episode
from tests.unit.agents.worlds import scorer, small_world

WORLD = small_world(num_nodes=4, num_jobs=10)
RULES = OptionRules(num_candidates=6, changes="move")


def attentive(mixing: str) -> OptionAttention:
    torch.manual_seed(0)
    network = OptionAttention(OptionSpec(), width=8, mixing=mixing, reluctance=2.0)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return network


def play(scheduler):
    workload = WORLD.source.episode(np.random.default_rng(3))
    simulator = Simulator(workload, WORLD.setup, 0)
    return run_episode(scheduler, simulator, "policy", compiled=False)


@pytest.mark.parametrize("network", [scorer(), attentive("graph"), attentive("dense"), attentive("none")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_watched_policy_decides_as_it_does_alone(network, temperature):
    alone = OptionScheduler(network, RULES, temperature=temperature)
    seen = watched(OptionScheduler(network, RULES, temperature=temperature))
    assert isinstance(seen, WatchedPolicy)
    assert isinstance(seen, Annotates)
    if isinstance(network, OptionAttention) or temperature == 0:  # compiled code draws other random numbers
        assert play(alone).log == play(seen).log
    else:
        assert len(play(seen).log)


@pytest.mark.parametrize("mixing", ["graph", "dense"])
def test_attention_is_a_distribution_along_the_graph(mixing):
    policy, rounds = WatchedOptions(OptionScheduler(attentive(mixing), RULES)), 0
    simulator = Simulator(WORLD.source.episode(np.random.default_rng(3)), WORLD.setup, 0)
    policy.reset(simulator.cluster, simulator.rng)
    for view in simulator.rounds():
        simulator.apply(policy.schedule(view))
        if policy.attention is None:
            continue
        rounds += 1
        assert policy.attention.sum(1) == pytest.approx(np.ones(4), abs=1e-6)
        if mixing == "graph":
            scene = policy.annotate(Scene.of(simulator.state, simulator.cluster))
            linked = {tuple(edge) for edge in scene.edges.tolist()}
            there = {tuple(sorted(pair)) for pair in np.argwhere(policy.attention > 0).tolist() if pair[0] != pair[1]}
            assert there == linked
            assert len(scene.weights) == len(scene.edges)
    assert rounds > 3


def test_the_network_mixes_by_the_attention_that_it_tells(monkeypatch):
    """The weights that it tells are those that its messages use."""
    network, seen = attentive("dense"), []
    policy = WatchedOptions(OptionScheduler(network, RULES))
    taken = torch.nn.functional.scaled_dot_product_attention

    def look(query, key, value, attn_mask):
        weights = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).masked_fill(~attn_mask, -torch.inf)
        seen.append(weights.softmax(-1)[0].mean(0).numpy())
        return taken(query, key, value, attn_mask=attn_mask)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", look)
    simulator = Simulator(WORLD.source.episode(np.random.default_rng(3)), WORLD.setup, 0)
    policy.reset(simulator.cluster, simulator.rng)
    for view in simulator.rounds():
        seen.clear()
        simulator.apply(policy.schedule(view))
        if policy.attention is not None:
            assert policy.attention == pytest.approx(seen[0], abs=1e-6)
            return


def test_sentences_name_what_was_carried_out():
    """A job that starts by its only decision of a round holds what the sentence says, on the node that it names."""
    policy, checked = WatchedOptions(OptionScheduler(scorer(), RULES)), 0
    simulator = Simulator(WORLD.source.episode(np.random.default_rng(4)), WORLD.setup, 0)
    policy.reset(simulator.cluster, simulator.rng)
    for view in simulator.rounds():
        allocation = policy.schedule(view)
        said = policy.annotate(Scene.of(simulator.state, simulator.cluster)).said
        assert len(said) == 4
        simulator.apply(allocation)
        if said[3]:
            continue
        after = Scene.of(simulator.state, simulator.cluster)
        done = [text.split(";")[0] for text in said]
        for text in done:
            found = re.match(r"node (\d+): start job (\d+) on (\d+) ", text)
            if found and sum(f"job {found[2]} " in each for each in done) == 1:
                assert (after.owners[int(found[1])] == int(found[2])).sum() == int(found[3])
                checked += 1
    assert checked


def test_films_show_wants_and_other_schedulers_are_filmed_as_they_are():
    workload = WORLD.source.episode(np.random.default_rng(3))
    frames = film_episode(watched(OptionScheduler(scorer(), RULES)), workload, WORLD.setup, 0, 6)
    assert len({frame.shape for frame in frames}) == 1
    plain = film_episode(OptionScheduler(scorer(), RULES), workload, WORLD.setup, 0, 6)
    assert frames[3].shape[0] > plain[3].shape[0]
    heuristic = Srtf()
    assert watched(heuristic) is heuristic
