"""The checks that PettingZoo, Gymnasium and RLlib ship pass on the environments as they are."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, max_cycles_test, parallel_api_test, parallel_seed_test
from pettingzoo.test.state_test import state_test

import envs.registration
from envs import bidding, options
from envs.bidding import BiddingEnv
from envs.bidding.vector import BiddingVectorEnv
from envs.options import OptionEnv, OptionRules, OptionVectorEnv
from envs.simulation import EndReason, EventKind, Setup
from envs.types import MurmurationError
from envs.workloads import SyntheticSource
from tests.conformance.worlds import HOMOGENEOUS, Curved
from tests.unit.episodes.players import Fixed, bursts, equal_observations

SETUP = Setup(HOMOGENEOUS, Curved())
SOURCE = Fixed(*(bursts(seed) for seed in range(4)))
PACKAGES = [bidding, options]
IDS = list(envs.registration.VECTOR_ENVS)


def inner(made: Any) -> Any:
    """The environment without wrappers."""
    return made.unwrapped


def forms(package: Any) -> SimpleNamespace:
    """The three forms of an environment on a small cluster, as a module that PettingZoo's checks take."""
    small = {"setup": SETUP, "source": SOURCE}
    return SimpleNamespace(
        env=lambda **given: package.env(**small, **given),
        raw_env=lambda **given: package.raw_env(**small, **given),
        parallel_env=lambda **given: package.parallel_env(**small, **given),
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_pettingzoos_checks_pass(package):
    made = forms(package)
    parallel_api_test(made.parallel_env(), num_cycles=30)
    parallel_seed_test(made.parallel_env, num_cycles=20)
    max_cycles_test(made)
    api_test(made.env(), num_cycles=30)
    state_test(made.env(), made.parallel_env())


@pytest.mark.parametrize("package", PACKAGES)
def test_pettingzoos_seed_check_passes_with_the_defaults(package):
    parallel_seed_test(package.parallel_env, num_cycles=2)


@pytest.mark.parametrize("package", PACKAGES)
def test_rllibs_check_passes(package):
    pre_checks = pytest.importorskip("ray.rllib.utils.pre_checks.env")
    wrappers = pytest.importorskip("ray.rllib.env.wrappers.pettingzoo_env")
    pre_checks.check_multiagent_environments(wrappers.ParallelPettingZooEnv(forms(package).parallel_env()))


@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_check_of_one_environment_passes(name):
    made = gymnasium.make(name, setup=SETUP, source=SOURCE, max_episode_steps=50)
    check_env(made.unwrapped, skip_render_check=True)
    made.reset(seed=0)
    cut = [made.step(made.action_space.sample())[3] for _ in range(50)]
    assert cut[-1] or inner(made)._vector.batch.ended[0]


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_makes_vectorised_environments_that_agree_with_single_ones(name):
    """Each place of the vector plays what a single environment plays with the place's seed, step by step."""
    many: Any = gymnasium.make_vec(name, num_envs=2, setup=SETUP, source=SOURCE)
    singles: Any = gymnasium.make_vec(name, num_envs=2, setup=SETUP, source=SOURCE, vectorization_mode="sync")
    assert isinstance(many.unwrapped, BiddingVectorEnv | OptionVectorEnv)
    assert many.observation_space == singles.observation_space
    assert many.action_space == singles.action_space
    alone = [gymnasium.make(name, setup=SETUP, source=SOURCE) for _ in range(2)]
    for each, seed in zip(alone, (3, 8), strict=True):
        inner(each)._vector._rngs = [np.random.default_rng(seed)]
    joint, _ = many.reset(seed=[3, 8])
    single = [each.reset()[0] for each in alone]
    singles.reset(seed=[3, 8])
    many.action_space.seed(0)
    for _ in range(10):
        for b in range(2):
            assert equal_observations({"": {k: v[b] for k, v in joint.items()}}, {"": single[b]})
            assert many.single_observation_space.contains(single[b])
        actions = many.action_space.sample()
        joint, rewards, *_ = many.step(actions)
        assert singles.step(actions)[1].shape == rewards.shape
        single = []
        for b, each in enumerate(alone):
            observation, reward, ended, _, _ = each.step(actions[b])
            single.append(observation)
            assert reward == rewards[b]
            assert not ended
    many.close()
    singles.close()


def test_a_module_in_the_id_needs_no_import():
    made = gymnasium.make("envs.registration:murmuration/Options-v0")
    assert inner(made)._vector.batch.cluster.num_gpus == 64
    assert isinstance(inner(made)._vector.source, SyntheticSource)


def vector(group_size: int = 1) -> OptionVectorEnv:
    """Four small episodes."""
    return OptionVectorEnv(SETUP, SOURCE, 4, group_size=group_size)


def test_every_episode_has_its_own_seed_from_a_list():
    one, other = vector(), vector()
    first, _ = one.reset(seed=[1, 2, 3, 4])
    again, _ = other.reset(seed=[4, 2, None, 1])
    for place, same in ((0, 3), (1, 1), (3, 0)):
        assert one.batch.workloads[place] is other.batch.workloads[same]
        assert all(np.array_equal(first[name][place], again[name][same]) for name in first)
    with pytest.raises(MurmurationError, match="3 seeds for 4 episodes; give one for each"):
        one.reset(seed=[1, 2, 3])


def test_a_mask_begins_some_episodes_only():
    env = vector()
    observation, _ = env.reset(seed=5)
    for _ in range(4):
        observation, *_ = env.step(np.argmax(observation["action_mask"], axis=1))
    before, now = env.batch.time.copy(), {name: array.copy() for name, array in observation.items()}
    mask = np.array([False, True, False, True])
    found, _ = env.reset(options={"reset_mask": mask}, seed=[9, 9, 9, 9])
    assert np.array_equal(env.batch.time[~mask], before[~mask])
    assert all(np.array_equal(found[name][~mask], now[name][~mask]) for name in now)
    assert env.batch.workloads[1] is env.batch.workloads[3]
    with pytest.raises(MurmurationError, match="one seed for some of the episodes"):
        env.reset(options={"reset_mask": mask}, seed=9)
    for wrong in (np.zeros(4, bool), np.ones(3, bool), [True] * 4):
        with pytest.raises(MurmurationError, match=r"reset_mask must be bool\[4\] with at least one"):
            env.reset(options={"reset_mask": wrong})


def test_groups_are_not_divided_by_seeds_or_masks():
    env = vector(group_size=2)
    env.reset(seed=[1, 1, 2, 2])
    assert env.batch.workloads[0] is env.batch.workloads[1]
    with pytest.raises(MurmurationError, match="episodes 0 to 1 are a group that plays one workload"):
        env.reset(seed=[1, 2, 3, 3])
    with pytest.raises(MurmurationError, match="reset_mask divides a group"):
        env.reset(options={"reset_mask": np.array([True, False, False, False])})


TURNS = OptionRules(turn="turns")


def test_illegal_choices_count_as_the_first_allowed_one_and_cost_their_penalty():
    """Node 1 chooses what its mask forbids: the same follows as from its first allowed one, except for the penalty."""
    plain, strict = (OptionEnv(SETUP, SOURCE, TURNS, illegal_penalty=penalty) for penalty in (0.0, 2.5))
    observations, _ = plain.reset(seed=0)
    strict.reset(seed=0)
    for wrong in (plain.max_options, -1, plain.max_options + 1):
        legal: dict[str, Any] = {agent: int(np.argmax(seen["action_mask"])) for agent, seen in observations.items()}
        assert wrong < 0 or wrong > plain.max_options or not observations["node_1"]["action_mask"][wrong]
        expected, found = plain.step(legal), strict.step({**legal, "node_1": wrong})
        observations = expected[0]
        assert equal_observations(expected[0], found[0])
        assert found[1]["node_0"] == expected[1]["node_0"] - 2.5
    assert {agent: info["illegal"] for agent, info in found[4].items()} == {"node_0": 0, "node_1": 3, "node_2": 0}


def test_agents_that_ignore_masks_leave_no_cluster_idle():
    """An idle cluster starts a job also when every choice is illegal, so jobs are not left waiting for ever."""
    env = OptionEnv(SETUP, SOURCE, TURNS)
    env.reset(seed=1)
    while env.agents:
        env.step(dict.fromkeys(env.agents, 10**6))
    assert (env.log.events["kind"] == EventKind.START).any()
    assert env.batch.state.episode[0, 0]["ended"] == EndReason.DONE


def test_illegal_bids_count_as_none_and_cost_their_penalty():
    plain, strict = BiddingEnv(SETUP, SOURCE), BiddingEnv(SETUP, SOURCE, illegal_penalty=2.5)
    for each in (plain, strict):
        each.reset(seed=0)
    silence = {agent: np.zeros(plain.action_space(agent).shape, np.float32) for agent in plain.agents}
    wrong = {**silence, "node_0": silence["node_0"] + np.float32(np.nan), "node_2": silence["node_2"] + np.float32(2)}
    expected, found = plain.step(silence), strict.step(wrong)
    assert equal_observations(expected[0], found[0])
    assert found[1]["node_1"] == expected[1]["node_1"] - 5.0
    assert [info["illegal"] for info in found[4].values()] == [1, 0, 1]
    with pytest.raises(MurmurationError, match="action of node_1 lies outside its space; give float32"):
        strict.step({**silence, "node_1": np.zeros(3, np.float32)})


@pytest.mark.parametrize("env_class", [OptionVectorEnv, BiddingVectorEnv])
def test_vectorised_environments_count_illegal_actions_by_episode(env_class):
    env, same = (env_class(SETUP, SOURCE, 2, illegal_penalty=penalty) for penalty in (1.5, 0.0))
    env.reset(seed=0)
    same.reset(seed=0)
    good = np.zeros(env.action_space.shape, env.action_space.dtype)
    bad = good.copy()
    bad[1 if env_class is OptionVectorEnv else (1, 2)] = 10**6  # the option, or the bids of node 2
    found, expected = env.step(bad), same.step(good)
    assert found[4]["illegal"].tolist() == [0, 1]
    assert found[1].tolist() == (expected[1] - [0.0, 1.5]).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"illegal": "ignore"}, "illegal is 'ignore'; it must be nothing or raise"),
        ({"illegal_penalty": -1.0}, "illegal_penalty is -1.0; it must not be negative"),
        ({"max_cycles": 0}, "max_cycles is 0; it must be at least 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(MurmurationError, match=message):
        OptionEnv(SETUP, SOURCE, **options)


def test_a_truncated_episode_is_not_terminated():
    env = BiddingEnv(SETUP, SOURCE, max_cycles=2)
    env.reset(seed=0)
    silence = {agent: np.zeros(env.action_space(agent).shape, np.float32) for agent in env.agents}
    assert not any(env.step(silence)[3].values())
    _, _, ended, cut, _ = env.step(silence)
    assert all(cut.values())
    assert not any(ended.values())
    assert env.agents == []
    env.reset()
    assert not any(env.step(silence)[3].values())
