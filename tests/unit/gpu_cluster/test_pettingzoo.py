"""The environment as PettingZoo wants it, and as strictly as we want it."""

from itertools import pairwise

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from pettingzoo.test import parallel_api_test, parallel_seed_test, render_test
from pettingzoo.utils.conversions import parallel_to_aec

from envs.gpu_cluster import DecisionRules, EnvSpec, GpuClusterEnv, parallel_env
from envs.simulation import EventKind, Information, Scenario, Setup
from envs.types import MurmurationError
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.gpu_cluster.players import Fixed, bursts, equal_observations, jobs_like, play_env

SOURCE = Fixed(*(bursts(seed) for seed in range(4)))
MIXED_SOURCE = Fixed(*(bursts(seed, models=("any", "large")) for seed in range(4)))


def small(render_mode: str | None = None, seed: int | None = None) -> GpuClusterEnv:
    """Three nodes of four GPUs."""
    return parallel_env(Setup(HOMOGENEOUS, Curved()), SOURCE, seed=seed, render_mode=render_mode)


def mixed(scenario: Scenario | None = None, rules: DecisionRules | None = None) -> GpuClusterEnv:
    """Three GPU types, nodes of unequal size."""
    return GpuClusterEnv(Setup(HETEROGENEOUS, Curved(), scenario or Scenario()), MIXED_SOURCE, rules)


@pytest.mark.parametrize("build", [small, mixed])
def test_pettingzoo_is_content(build):
    parallel_api_test(build(), num_cycles=300)


def test_the_usual_name_is_the_environment():
    assert parallel_env is GpuClusterEnv


def test_pettingzoo_finds_it_deterministic():
    parallel_seed_test(small, num_cycles=50)


def test_it_renders_in_all_modes(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pytest.importorskip("pygame")
    render_test(lambda render_mode: parallel_to_aec(small(render_mode)))


@pytest.mark.parametrize("scenario", [Scenario(), Scenario(information=Information("estimate"))])
@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_gives_one_whole_episode(scenario, seed):
    """Equal observations, rewards, infos and logs from the first step to the last, not only the first."""
    first, again = mixed(scenario), mixed(scenario)
    play_env(first, seed + 100)  # what was played before must not matter
    one, other = play_env(first, seed), play_env(again, seed)
    assert len(one[1]) > 20
    assert one[1] == other[1]
    assert data_equivalence(one[2], other[2])
    assert all(equal_observations(a, b) for a, b in zip(one[0], other[0], strict=True))
    assert first.log == again.log
    assert play_env(again, seed + 1)[1] != one[1]


def test_observations_lie_in_their_spaces():
    env = mixed()
    seen, _, _ = play_env(env, 3)
    for observations in seen:
        for agent, observation in observations.items():
            assert env.observation_space(agent).contains(observation)
    assert env.observation_space("node_0") is env.observation_space("node_0")
    assert isinstance(env.action_space("node_1"), spaces.Discrete)


def test_observations_are_copies():
    """A step must not write into what an agent was given before."""
    env = small()
    observations, _ = env.reset(seed=0)
    before = {agent: {k: v.copy() for k, v in obs.items()} for agent, obs in observations.items()}
    env.step({agent: int(np.flatnonzero(obs["action_mask"])[-1]) for agent, obs in observations.items()})
    assert equal_observations(observations, before)


def test_all_are_alive_until_the_end():
    env = small()
    env.reset(seed=1)
    assert env.agents == env.possible_agents == ["node_0", "node_1", "node_2"]
    play_env(env, 1)
    assert env.agents == []


def test_an_ended_or_unbegun_episode_takes_no_step():
    env = small()
    with pytest.raises(MurmurationError, match="call reset"):
        env.step({})
    play_env(env, 1)
    with pytest.raises(MurmurationError, match=r"has ended, or not begun; call reset\(\) first"):
        env.step(dict.fromkeys(env.possible_agents, 0))


def refusing() -> GpuClusterEnv:
    """Refuses actions that are not allowed."""
    return GpuClusterEnv(Setup(HOMOGENEOUS, Curved()), SOURCE, illegal="raise")


def test_a_masked_action_is_refused_by_agent():
    env = refusing()
    observations, _ = env.reset(seed=0)
    actions = {agent: int(np.argmax(obs["action_mask"])) for agent, obs in observations.items()}
    for wrong in (int(np.argmin(observations["node_1"]["action_mask"])), -1, env.batch.spec.num_actions):
        with pytest.raises(MurmurationError, match=f"action {wrong} of node_1 is masked out.*; choose one where"):
            env.step({**actions, "node_1": wrong})
    env.step(actions)  # the refused ones have changed nothing


def test_passing_is_refused_where_a_node_must_start_a_job():
    """Nothing runs and jobs wait: the message says why 0 is masked out."""
    env = refusing()
    env.reset(seed=0)
    with pytest.raises(MurmurationError, match=r"action 0 of node_\d is masked out \(while nothing runs"):
        env.step(dict.fromkeys(env.possible_agents, 0))


@pytest.mark.parametrize("mode", [None, "human", "ansi", "rgb_array"])
def test_nothing_is_shown_before_an_episode(mode):
    env = GpuClusterEnv(Setup(HOMOGENEOUS, Curved()), SOURCE, render_mode=mode)
    with pytest.raises(MurmurationError, match=r"no episode has begun, .*; call reset\(\) first"):
        env.render()


def test_every_node_acts():
    env = small()
    env.reset(seed=0)
    with pytest.raises(MurmurationError, match="no action for node_0, node_2; every node acts"):
        env.step({"node_1": 0})


def test_without_a_seed_the_stream_of_episodes_continues():
    """reset(seed) begins a stream; reset() draws the next from it, the same at every repetition."""
    env = small()

    def three() -> list[str]:
        names = []
        for seed in (5, None, None):
            env.reset(seed=seed)
            names.append(str(env.batch.state.jobs[0]["work"].sum()))
        return names

    assert three() == three()
    one, other = small(seed=9), small(seed=9)
    one.reset()
    other.reset()
    assert equal_observations(one._observations(), other._observations())


def test_a_given_workload_is_played_however_long():
    env = parallel_env(Setup(HOMOGENEOUS, Curved(), Scenario(horizon=1e6)), SOURCE)
    longer = bursts(99, num_jobs=40)
    play_env(env, 0, longer)
    assert env.batch.workloads[0] is longer
    assert (env.log.events["kind"] == EventKind.FINISH).sum() == 40
    play_env(env, 0)


def test_larger_jobs_and_other_models_than_the_source_named():
    env = GpuClusterEnv(Setup(HETEROGENEOUS, Curved(), Scenario(horizon=1e6)), SOURCE)
    play_env(env, 0, bursts(5, num_jobs=6, most_gpus=12, models=("large",)))
    assert (env.log.events["kind"] == EventKind.FINISH).sum() == 6


def test_an_episode_that_the_arrays_cannot_hold_is_refused():
    env = small()
    with pytest.raises(MurmurationError, match="has 40 jobs, the environment holds 12; shorten its episodes"):
        env.batch.load(0, bursts(99, num_jobs=40), np.random.default_rng(0))


def test_infos_tell_time_and_counts():
    env = small()
    _, _, told = play_env(env, 2)
    times = [info["time"] for info in told]
    assert times == sorted(times)
    assert all(later["time"] == pytest.approx(now["time"] + later["elapsed"]) for now, later in pairwise(told))
    assert told[-1]["decisions"] == len(told) - 1
    assert 0 <= told[-1]["conflicts"] <= told[-1]["claims"]
    assert told[0]["decisions"] == told[0]["claims"] == 0


def test_state_is_the_joint_observation():
    env = small()
    env.reset(seed=0)
    spec = EnvSpec.of(HOMOGENEOUS, DecisionRules())
    state = env.state()
    nodes = spec.num_nodes * (spec.node_features + spec.num_slots * spec.slot_features)
    assert state.shape == (nodes + spec.num_candidates * spec.job_features + spec.cluster_features,)
    assert state.dtype == np.float32
    assert np.isfinite(state).all()
    assert env.state_space.contains(state)


def test_the_text_counts_what_runs_and_waits():
    env = parallel_env(Setup(HOMOGENEOUS, Curved()), Fixed(jobs_like((0, 4, 10), (0, 4, 10))), render_mode="ansi")
    env.reset(seed=0)
    text = env.render()
    assert isinstance(text, str)
    assert "t = 0 s   running 0   waiting 2   free GPUs 12" in text
    assert text.count("\n") == 3
    assert text.count(" .") == 12


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(MurmurationError, match="render_mode is 'film'; it must be one of"):
        small("film")


def test_the_defaults_make_an_environment():
    """`parallel_env()` alone is an environment: eight nodes of eight GPUs, synthetic jobs, measured throughputs."""
    env = parallel_env()
    observations, _ = env.reset(seed=0)
    assert len(env.agents) == 8
    actions = {agent: int(np.argmax(obs["action_mask"])) for agent, obs in observations.items()}
    assert env.step(actions)[1].keys() == observations.keys()
    env.close()
