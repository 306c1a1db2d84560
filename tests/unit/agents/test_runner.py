"""The runner: whole fragments against the environment stepped once more with the same actions."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.methods.ppo.columns import ELAPSED, NODE_LOGP
from agents.methods.ppo.config import algorithm_config
from agents.methods.ppo.runner import BatchedEnvRunner
from agents.networks import Blueprint
from tests.unit.agents.worlds import PPO, small_world

SETTINGS = replace(PPO, train_batch_size=400, reward_scale=500.0)
SEED = 5


def runner(seed=SEED, num_jobs=6, settings=SETTINGS, worker=0):
    """Few jobs, so that some episodes end within a fragment."""
    blueprint = Blueprint(options={"width": 16, "layers": 1, "heads": 2})
    return BatchedEnvRunner(
        config=algorithm_config(small_world(num_jobs=num_jobs), blueprint, settings, seed), worker_index=worker
    )


def by_place(episodes):
    """Episodes of each place of the batch, in order of time."""
    found = defaultdict(list)
    for episode in episodes:
        found[int(episode.id_.split("_")[1])].append(episode)
    return found


@pytest.fixture(scope="module")
def sampled():
    one = runner()
    return one, [one.sample(), one.sample()]


def test_all_steps_are_there_and_some_episodes_end(sampled):
    _, fragments = sampled
    for episodes in fragments:
        assert sum(len(episode) for episode in episodes) == SETTINGS.train_batch_size
        lengths = [sum(len(episode) for episode in here) for here in by_place(episodes).values()]
        assert lengths == [100] * SETTINGS.num_envs
    assert any(episode.is_terminated for episodes in fragments for episode in episodes)
    assert not any(episode.is_truncated for episodes in fragments for episode in episodes)


def test_every_step_is_the_environments(sampled):
    """Observations, rewards, elapsed time and ends, step by step, from an environment that replays the actions."""
    _, fragments = sampled
    env = small_world(num_jobs=6).vector_env(SETTINGS.num_envs)
    env.reset(seed=sampled[0].workload_seed)
    for episodes in fragments:
        places = {b: [[episode, 0] for episode in here] for b, here in by_place(episodes).items()}
        for _ in range(100):
            actions = np.zeros((SETTINGS.num_envs, env.batch.spec.num_nodes), np.int64)
            for b, queue in places.items():
                episode, t = queue[0]
                for name, array in env.batch.observation.items():
                    assert np.array_equal(episode.get_observations(t)[name], array[b])
                actions[b] = episode.get_actions(t)
                assert env.batch.legal(actions[b], b).all()
            rewards, elapsed, ended = env.batch.step(actions)
            for b, queue in places.items():
                episode, t = queue[0]
                assert episode.get_rewards(t) == np.float32(rewards[b] / SETTINGS.reward_scale)
                assert episode.get_extra_model_outputs(ELAPSED, t) == np.float32(elapsed[b])
                last = t + 1 == len(episode)
                assert (episode.is_terminated and last) == ended[b]
                if last:
                    for name, array in env.batch.observation.items():
                        assert np.array_equal(episode.get_observations(-1)[name], array[b])
                    queue.pop(0)
                else:
                    queue[0][1] += 1
                if ended[b]:
                    env.begin(b)
        assert all(not queue for queue in places.values())


def test_an_episode_keeps_its_name_over_fragments_and_a_new_one_gets_its_own(sampled):
    _, (first, second) = sampled
    for b, before in by_place(first).items():
        after = by_place(second)[b]
        names = [episode.id_ for episode in before] + [episode.id_ for episode in after]
        if before[-1].is_terminated:
            assert len(set(names)) == len(names)
        else:
            assert after[0].id_ == before[-1].id_
            assert len(set(names)) == len(names) - 1


def test_log_probabilities_are_the_policys(sampled):
    one, fragments = sampled
    for episode in fragments[0][:3]:
        seen = {name: torch.from_numpy(np.array(array)) for name, array in episode.get_observations().items()}
        logits = one.module.unwrapped().network.logits(seen)[: len(episode)]
        actions = torch.from_numpy(np.array(episode.get_actions()))
        wanted = logits.log_softmax(-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        kept = torch.from_numpy(np.array(episode.get_extra_model_outputs(NODE_LOGP)))
        torch.testing.assert_close(wanted, kept, rtol=1e-4, atol=1e-4)


def arrays_of(episodes):
    for episode in episodes:
        yield episode.get_actions()
        yield episode.get_rewards()
        yield from episode.get_observations().values()
        yield episode.get_extra_model_outputs(NODE_LOGP)


def same(one, other):
    pairs = list(zip(arrays_of(one), arrays_of(other), strict=False))
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in pairs)


def test_the_same_seed_gives_the_same_samples_to_the_bit(sampled):
    _, fragments = sampled
    again = runner()
    assert all(same(again.sample(), episodes) for episodes in fragments)
    assert not same(runner(seed=SEED + 100).sample(), fragments[0])


def test_runners_of_different_workers_play_different_workloads():
    first, second = runner(worker=1).sample(), runner(worker=2).sample()
    queues = [episodes[0].get_observations(0)["queue"] for episodes in (first, second)]
    assert not np.array_equal(*queues)


def test_metrics_are_what_the_episodes_were_worth():
    one = runner(num_jobs=4)
    episodes = one.sample()
    ended: dict[str, float] = defaultdict(float)
    for episode in episodes:
        ended[episode.id_] += episode.get_return() * SETTINGS.reward_scale
    finished = [ended[episode.id_] for episode in episodes if episode.is_terminated]
    told = one.get_metrics()
    assert float(told["num_episodes"]) == len(finished)
    window = finished[-2 * SETTINGS.num_envs :]
    assert float(told["episode_return_mean"]) == pytest.approx(np.mean(window), rel=1e-3)
    assert float(told["mean_jct"]) == pytest.approx(-np.mean(window) / 4, rel=1e-3)  # the return is minus total JCT
    assert float(told["unfinished"]) == 0.0
    assert 0 < float(told["utilisation"]) <= 1
    assert 0 <= float(told["conflict_rate"]) <= 1


def test_without_exploring_the_likeliest_is_taken():
    one = runner()
    episode = one.sample(num_timesteps=40, explore=False)[0]
    seen = {name: torch.from_numpy(np.array(array)) for name, array in episode.get_observations().items()}
    logits = one.module.unwrapped().network.logits(seen)[: len(episode)]
    assert np.array_equal(logits.argmax(-1).numpy(), episode.get_actions())


def test_of_the_old_policy_only_what_the_learner_needs_is_kept(sampled):
    """All logits of a cluster of many nodes and candidates would be hundreds of times as much."""
    _, fragments = sampled
    for episode in fragments[0]:
        assert set(episode.extra_model_outputs) == {NODE_LOGP, ELAPSED}
        assert np.shape(episode.get_extra_model_outputs(NODE_LOGP)) == episode.get_actions().shape


def test_consecutive_runs_and_their_runners_share_no_workloads():
    """RLlib seeds runner w of run s by s + w, which makes runner 1 of run 5 and runner 0 of run 6 the same."""
    seeds = [runner(seed, worker=worker).workload_seed for seed in (5, 6, 7) for worker in range(3)]
    assert len(set(seeds)) == len(seeds)
    first = [runner(seed, worker=worker).sample(num_timesteps=4) for seed, worker in ((5, 1), (6, 0))]
    assert not np.array_equal(*(episodes[0].get_observations(0)["queue"] for episodes in first))


def test_what_it_does_not_offer_is_said():
    with pytest.raises(ValueError, match="samples fragments"):
        runner().sample(num_episodes=2)
