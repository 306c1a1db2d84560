"""Sampling in groups: whole episodes of common workloads as the environment has them, and their advantages."""

from dataclasses import replace

import numpy as np
import pytest

from agents.methods.ppo import group_runner
from agents.methods.ppo.columns import AGAINST_GROUP, ELAPSED, NODE_LOGP
from agents.methods.ppo.config import algorithm_config
from agents.methods.ppo.discount import returns_to_go
from agents.methods.ppo.group_runner import GroupRunner
from agents.networks import Blueprint
from envs.simulation import Failures, Scenario
from tests.unit.agents.test_groups import slow_return
from tests.unit.agents.worlds import PPO, small_world

SIZE, PLACES = 2, 4
SETTINGS = replace(PPO, advantage="group", group_size=SIZE, num_envs=PLACES, reward_scale=500.0, discount_time=5000.0)


def runner(seed=5, num_jobs=5, settings=SETTINGS, **changes):
    blueprint = Blueprint(options={"width": 16, "layers": 1, "heads": 2})
    config = algorithm_config(small_world(num_jobs=num_jobs, **changes), blueprint, settings, seed)
    return config.env_runner_cls(config=config, worker_index=0)


def column(episode, name):
    return np.array(episode.get_extra_model_outputs(name), float)


@pytest.fixture(scope="module")
def sampled():
    one = runner()
    return one, [one.sample(), one.sample()]


def test_an_iteration_is_one_whole_episode_in_every_place(sampled):
    one, waves = sampled
    assert isinstance(one, GroupRunner)
    for episodes in waves:
        assert len(episodes) == PLACES
        assert all(episode.is_terminated and not episode.is_truncated for episode in episodes)
        assert sum(map(len, episodes)) >= SETTINGS.train_batch_size
    names = [episode.id_ for episodes in waves for episode in episodes]
    assert len(set(names)) == len(names)


def test_members_begin_with_one_workload_and_the_next_wave_with_another(sampled):
    _, waves = sampled
    first = [episode.get_observations(0)["queue"] for episodes in waves for episode in episodes]
    for a in range(len(first)):
        for b in range(len(first)):
            assert np.array_equal(first[a], first[b]) == (a // SIZE == b // SIZE)


@pytest.mark.parametrize("room", [3, 256])
def test_every_step_is_the_environments(monkeypatch, room):
    """Each place played once more by itself, whatever the others' lengths and however often the arrays grew."""
    monkeypatch.setattr(group_runner, "FIRST_ROOM", room)
    one = runner()
    waves = [one.sample(), one.sample()]
    assert len({len(episode) for episode in waves[0]}) > 1  # somebody waited
    env = small_world(num_jobs=5).vector_env(PLACES, group_size=SIZE)
    env.reset(seed=one.workload_seed)
    for number, episodes in enumerate(waves):
        for b, episode in enumerate(episodes):
            if number:
                env.begin(b)
            for t in range(len(episode)):
                for name, array in env.batch.observation.items():
                    assert np.array_equal(episode.get_observations(t)[name], array[b])
                assert env.batch.legal(episode.get_actions(t), b).all()
                actions = np.zeros((PLACES, env.batch.spec.num_nodes), np.int64)
                actions[b] = episode.get_actions(t)
                rewards, elapsed, ended = env.batch.step(actions)
                assert episode.get_rewards(t) == np.float32(rewards[b] / SETTINGS.reward_scale)
                assert episode.get_extra_model_outputs(ELAPSED, t) == np.float32(elapsed[b])
                assert ended[b] == (t + 1 == len(episode))
            for name, array in env.batch.observation.items():
                assert np.array_equal(episode.get_observations(-1)[name], array[b])
            for later in range(b + 1, PLACES):  # they were stepped along: begin them anew
                workload = env.batch.workloads[later]
                assert workload is not None
                env.batch.load(later, workload, env._rngs[later])


def test_the_advantage_is_against_the_other_members_at_the_same_time(sampled):
    _, waves = sampled
    for episodes in waves:
        members = [(np.array(e.get_rewards(), float), column(e, ELAPSED)) for e in episodes]
        for b, (rewards, elapsed) in enumerate(members):
            (other,) = [j for j in range(b // SIZE * SIZE, b // SIZE * SIZE + SIZE) if j != b]
            own = returns_to_go(rewards, elapsed, SETTINGS.discount_time)[:-1]
            begins = np.cumsum(elapsed) - elapsed
            baseline = [slow_return(*members[other], now, SETTINGS.discount_time) for now in begins]
            np.testing.assert_allclose(column(episodes[b], AGAINST_GROUP), own - baseline, rtol=1e-2, atol=5e-3)


def test_the_same_seed_gives_the_same_samples_to_the_bit(sampled):
    _, waves = sampled
    again = runner()
    for episodes in waves:
        for before, after in zip(episodes, again.sample(), strict=True):
            assert np.array_equal(before.get_actions(), after.get_actions())
            assert np.array_equal(column(before, AGAINST_GROUP), column(after, AGAINST_GROUP))
            assert np.array_equal(column(before, NODE_LOGP), column(after, NODE_LOGP))


def test_waves_are_played_until_there_are_steps_enough():
    one = runner()
    episodes = one.sample(num_timesteps=500)
    assert len(episodes) > PLACES
    assert len(episodes) % PLACES == 0
    assert sum(map(len, episodes[:-PLACES])) < 500 <= sum(map(len, episodes))
    told = one.get_metrics()
    assert int(told["num_env_steps_sampled"]) == sum(map(len, episodes))
    assert int(told["num_episodes"]) == len(episodes)


def test_metrics_are_what_the_episodes_were_worth(sampled):
    one = runner()
    episodes = one.sample()
    returns = [SETTINGS.reward_scale * episode.get_return() for episode in episodes]
    told = one.get_metrics()
    assert float(told["episode_return_mean"]) == pytest.approx(np.mean(returns), rel=1e-4)
    assert float(told["episode_len_mean"]) == pytest.approx(np.mean([len(episode) for episode in episodes]))
    gains = np.concatenate([column(episode, AGAINST_GROUP) for episode in episodes])
    rewards = [(np.array(e.get_rewards(), float), column(e, ELAPSED)) for e in episodes]
    own = np.concatenate([returns_to_go(*member, SETTINGS.discount_time)[:-1] for member in rewards])
    assert float(told["group_explained_variance"]) == pytest.approx(1 - gains.var() / own.var(), abs=1e-3)


def test_members_of_a_group_that_choose_alike_draw_the_same_noise():
    """Outages come from the seed that the members share: taking the likeliest choices all have one course."""
    failing = Scenario(failures=Failures(mtbf=20_000.0, repair_time=600.0))
    one = runner(scenario=failing)
    episodes = one.sample(explore=False)
    for b in range(0, PLACES, SIZE):
        assert np.array_equal(episodes[b].get_actions(), episodes[b + 1].get_actions())
        np.testing.assert_allclose(column(episodes[b], AGAINST_GROUP), 0.0, atol=1e-5)


def test_what_it_does_not_offer_is_said():
    with pytest.raises(ValueError, match="samples whole groups"):
        runner().sample(num_episodes=2)
