"""Flat observations: the same numbers in one vector, with the mask where it was or beside it."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.test import parallel_api_test, parallel_seed_test

from envs import FlatObservations
from envs.bidding import BiddingEnv
from envs.options import OptionEnv, OptionRules
from envs.simulation import Setup
from envs.types import MurmurationError
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.episodes.players import Fixed, bursts

SETUP = Setup(HOMOGENEOUS, Curved())
SOURCE = Fixed(*(bursts(seed) for seed in range(4)))


def turns(setup, source, **options) -> OptionEnv:
    """Nodes that choose options in turn, whose actions are numbers with a mask."""
    return OptionEnv(setup, source, OptionRules(turn="turns"), max_options=16, **options)


def together(setup, source, **options) -> OptionEnv:
    """Nodes that act at the same time and are told whom they are linked to."""
    rules = OptionRules(turn="together", contested="drawn", distinct_nodes=False)
    return OptionEnv(setup, source, rules, max_options=16, **options)


GRAPH = ("edges", "option_jobs")  # numbers of nodes and jobs are no quantities
FORMS = [(together, "observation"), (turns, None), (turns, "observation"), (BiddingEnv, None)]


def flat(env_class, key=None, **options) -> FlatObservations:
    """Three nodes of four GPUs, flat."""
    return FlatObservations(env_class(SETUP, SOURCE, **options), key)


@pytest.mark.parametrize(("env_class", "key"), FORMS)
def test_pettingzoos_checks_pass(env_class, key):
    parallel_api_test(flat(env_class, key), num_cycles=30)
    parallel_seed_test(lambda: flat(env_class, key), num_cycles=10)


@pytest.mark.parametrize(("env_class", "key"), FORMS)
def test_the_vector_holds_what_the_agent_observes(env_class, key):
    """In every step of an episode `unflatten` gives back what the environment itself shows; the rest is untouched."""
    plain, wrapped = env_class(SETUP, SOURCE), flat(env_class, key)
    (seen, _), (vectors, _) = plain.reset(seed=3), wrapped.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(12):
        for agent in plain.possible_agents:
            space = wrapped.observation_space(agent)
            assert space.contains(vectors[agent])
            found: Any = vectors[agent]
            vector = found if key is None else found[key]
            assert vector.dtype == np.float32
            parts = spaces.unflatten(wrapped.parts(agent), vector)
            expected = {name: seen[agent][name] for name in seen[agent] if name not in ("action_mask", *GRAPH)}
            assert parts.keys() == expected.keys()
            assert all(np.array_equal(parts[name], expected[name]) for name in expected)
            assert vector.size == sum(array.size for array in expected.values())
            if key is not None:
                assert np.array_equal(found["action_mask"], seen[agent]["action_mask"])
                assert found.keys() == {key, "action_mask"}
        actions = {agent: _any_action(plain, agent, seen, rng) for agent in plain.agents}
        seen, rewards, ended, cut, _ = plain.step(actions)
        vectors, *others, _ = wrapped.step(actions)
        assert others == [rewards, ended, cut]
    assert plain.log == wrapped.log


def _any_action(env, agent, seen, rng):
    if "action_mask" in seen[agent]:
        return int(rng.choice(np.flatnonzero(seen[agent]["action_mask"])))
    return rng.uniform(-1, 1, env.action_space(agent).shape).astype(np.float32)


@pytest.mark.parametrize("env_class", [turns, BiddingEnv])
def test_spaces_are_boxes_of_fixed_length(env_class):
    env = flat(env_class)
    space = env.observation_space("node_1")
    assert isinstance(space, spaces.Box)
    assert space is env.observation_space("node_1")
    assert space.dtype == np.float32
    assert space.shape == (sum(gymnasium.spaces.flatdim(part) for part in env.parts("node_1").values()),)
    assert env.action_space("node_1") == env_class(SETUP, SOURCE).action_space("node_1")
    assert "action_mask" not in env.parts("node_1").spaces


def test_masks_are_in_the_infos_where_they_are_not_beside_the_vectors():
    env, whole = flat(turns), flat(turns, "observation")
    _, infos = env.reset(seed=0)
    seen, plain = whole.reset(seed=0)
    assert "action_mask" not in plain["node_0"]
    for agent, info in infos.items():
        expected = seen[agent]
        assert isinstance(expected, dict)
        assert np.array_equal(info["action_mask"], expected["action_mask"])
    assert "action_mask" in env.step(dict.fromkeys(infos, 0))[4]["node_0"]
    assert "action_mask" not in flat(BiddingEnv).reset(seed=0)[1]["node_0"]


def test_nodes_of_other_sizes_have_equal_vectors():
    """Parameter sharing needs one length for all nodes, whatever their GPUs."""
    env = FlatObservations(turns(Setup(HETEROGENEOUS, Curved()), SOURCE))
    assert len({env.observation_space(agent).shape for agent in env.possible_agents}) == 1


def test_what_the_environment_offers_stays_within_reach():
    env = flat(turns, "observation", max_cycles=1)
    observations, _ = env.reset(seed=0)
    assert env.state_space.contains(env.state())
    assert env.unwrapped.cluster is HOMOGENEOUS
    actions: dict[str, Any] = {}
    for agent, seen in observations.items():
        assert isinstance(seen, dict)
        actions[agent] = int(np.argmax(seen["action_mask"]))
    assert all(env.step(actions)[3].values())
    assert env.agents == []


@pytest.mark.parametrize(("env_class", "key"), [(BiddingEnv, "observation"), (turns, "action_mask")])
def test_a_key_without_a_mask_is_refused(env_class, key):
    with pytest.raises(MurmurationError, match=f"key is {key!r}; it names the vector beside 'action_mask'"):
        flat(env_class, key)


def test_an_observation_that_is_no_dict_is_refused():
    class Plain(ParallelEnv):  # type: ignore[misc]
        possible_agents = ["one"]  # noqa: RUF012  as PettingZoo declares it

        def observation_space(self, _agent):
            return spaces.Discrete(3)

    with pytest.raises(MurmurationError, match=r"observation of one is Discrete\(3\); only dicts of arrays"):
        FlatObservations(Plain())


def test_sb3_contrib_finds_the_masks_of_the_joint_environment():
    made = gymnasium.make("envs.registration:murmuration/Options-v0", setup=SETUP, source=SOURCE)
    observation, _ = made.reset(seed=0)
    for _ in range(3):
        masks = made.get_wrapper_attr("action_masks")()
        assert masks.dtype == bool
        assert np.array_equal(masks, observation["action_mask"] > 0)
        observation, *_ = made.step(int(np.flatnonzero(masks)[-1]))
    bidding = gymnasium.make("envs.registration:murmuration/Bidding-v0", setup=SETUP, source=SOURCE)
    assert not bidding.has_wrapper_attr("action_masks")
