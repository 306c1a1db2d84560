"""The bidding environment as PettingZoo wants it, and as strictly as we want it."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import parallel_api_test, parallel_seed_test, render_test
from pettingzoo.utils.conversions import parallel_to_aec

from envs.bidding import BiddingEnv, BiddingRules, bidding_env, columns
from envs.episodes import TeamReward
from envs.performance import Contention
from envs.simulation import EventKind, Information, Scenario, Setup
from envs.types import MurmurationError
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.bidding.bidders import WhimMarket
from tests.unit.episodes.players import Fixed, bursts, equal_observations

SOURCE = Fixed(*(bursts(seed) for seed in range(4)))
MIXED_SOURCE = Fixed(*(bursts(seed, models=("any", "large")) for seed in range(4)))
Played = tuple[list[dict[str, Any]], list[float], list[dict[str, Any]]]


def small(render_mode: str | None = None, seed: int | None = None) -> BiddingEnv:
    """Three nodes of four GPUs."""
    return bidding_env(Setup(HOMOGENEOUS, Curved()), SOURCE, seed=seed, render_mode=render_mode)


def mixed(scenario: Scenario | None = None) -> BiddingEnv:
    """Three GPU types, nodes of unequal size, jobs that are resized and moved."""
    rules = BiddingRules(num_candidates=5, contenders=3)
    return BiddingEnv(Setup(HETEROGENEOUS, Curved(), scenario or Scenario()), MIXED_SOURCE, WhimMarket(), rules)


def play(env: BiddingEnv, seed: int) -> Played:
    """Play one episode with random bids: observations, rewards and infos of every step, the first ones included."""
    rng = np.random.default_rng(seed)
    observations, infos = env.reset(seed=seed)
    seen, paid, told = [observations], [], [infos["node_0"]]
    while env.agents:
        actions = {agent: rng.uniform(-1, 1, env.action_space(agent).shape).astype(np.float32) for agent in env.agents}
        observations, rewards, _, _, infos = env.step(actions)
        seen.append(observations)
        paid.append(rewards["node_0"])
        told.append(infos["node_0"])
        assert len(paid) < 3000, "the episode does not end"
    return seen, paid, told


def no_bids(env: BiddingEnv) -> dict[str, Any]:
    """An action of every agent that bids nothing."""
    return {agent: np.zeros(env.action_space(agent).shape, np.float32) for agent in env.possible_agents}


@pytest.mark.parametrize("build", [small, mixed])
def test_pettingzoo_is_content(build):
    parallel_api_test(build(), num_cycles=300)


def test_pettingzoo_finds_it_deterministic():
    parallel_seed_test(small, num_cycles=50)


def test_it_renders_in_all_modes(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pytest.importorskip("pygame")
    render_test(lambda render_mode: parallel_to_aec(small(render_mode)))


@pytest.mark.parametrize("scenario", [Scenario(), Scenario(information=Information("estimate"))])
def test_a_seed_gives_one_whole_episode(scenario):
    """Equal observations, rewards, infos and logs from the first step to the last, whatever was played before."""
    first, again = mixed(scenario), mixed(scenario)
    play(first, 100)
    one, other = play(first, 7), play(again, 7)
    assert len(one[1]) > 10
    assert one[1:] == other[1:]
    assert all(equal_observations(a, b) for a, b in zip(one[0], other[0], strict=True))
    assert first.log == again.log
    assert play(again, 8)[1] != one[1]


@pytest.mark.parametrize("scenario", [Scenario(), Scenario(information=Information("none"))])
def test_observations_lie_in_their_spaces(scenario):
    env = mixed(scenario)
    for observations in play(env, 3)[0]:
        for agent, observation in observations.items():
            assert env.observation_space(agent).contains(observation)
    assert env.observation_space("node_0") is env.observation_space("node_0")
    assert isinstance(env.action_space("node_1"), spaces.Box)


def test_an_agent_sees_the_joint_observation_from_its_node():
    """Its rows are those of the joint observation; job rows are gathered, and empty rows are zero and masked."""
    env = mixed()
    for seed in range(3):
        observations, _ = env.reset(seed=seed)
        while env.agents:
            joint = env.batch.observation
            for n, agent in enumerate(env.agents):
                seen, rows = observations[agent], joint["pair_jobs"][0, n]
                assert np.array_equal(seen["mask"], rows >= 0)
                assert np.array_equal(seen["mask"], seen["pairs"][:, columns.PAIR_PRESENT])
                assert np.array_equal(seen["jobs"][rows >= 0], joint["jobs"][0][rows[rows >= 0]])
                assert not seen["jobs"][rows < 0].any()
                assert not seen["pairs"][rows < 0].any()
                assert np.array_equal(seen["node"], joint["nodes"][0, n])
            observations, *_ = env.step(no_bids(env))


def test_observations_are_copies():
    env = small()
    observations, _ = env.reset(seed=0)
    before = {agent: {k: v.copy() for k, v in obs.items()} for agent, obs in observations.items()}
    env.step(no_bids(env))
    assert equal_observations(observations, before)


def test_an_ended_or_unbegun_episode_takes_no_step():
    env = small()
    with pytest.raises(MurmurationError, match="call reset"):
        env.step({})
    play(env, 1)
    assert env.agents == []
    with pytest.raises(MurmurationError, match=r"has ended, or not begun; call reset\(\) first"):
        env.step(no_bids(env))


def test_every_node_acts_within_its_space():
    env = BiddingEnv(Setup(HOMOGENEOUS, Curved()), SOURCE, illegal="raise")
    env.reset(seed=0)
    with pytest.raises(MurmurationError, match=r"no action for node_0, node_2; .* \(all 0 for no bid\)"):
        env.step({"node_1": no_bids(env)["node_1"]})
    shape = list(env.action_space("node_1").shape)
    for wrong in (np.full(shape, 1.5, np.float32), np.full(shape, np.nan, np.float32), np.zeros((2, 6), np.float32)):
        with pytest.raises(MurmurationError, match="action of node_1 lies outside its space; give float32"):
            env.step({**no_bids(env), "node_1": wrong})
    env.step(no_bids(env))  # the refused ones have changed nothing


def test_the_return_is_minus_the_total_jct():
    env = BiddingEnv(Setup(HETEROGENEOUS, Curved(), Scenario(horizon=1e5)), MIXED_SOURCE, reward=TeamReward(scale=10.0))
    paid = sum(play(env, 5)[1])
    jobs = env.batch.state.jobs[0]
    assert (jobs["status"] == 3).all()
    assert paid * 10.0 == pytest.approx(-(jobs["finish"] - jobs["submit"]).sum(), rel=1e-9)


def test_infos_tell_time_and_edges():
    env = mixed(Scenario(contention=Contention("off")))
    _, _, told = play(env, 2)
    assert all(later["time"] == pytest.approx(now["time"] + later["elapsed"]) for now, later in pairwise(told))
    assert max(info["edges"] for info in told) > 0


def test_the_graph_is_given_without_padding():
    env = mixed()
    _, infos = env.reset(seed=4)
    edges, features = env.coordination_graph()
    count = infos["node_0"]["edges"]
    assert edges.shape == (2, count)
    assert features.shape == (count, len(columns.EDGE_COLUMNS))
    assert (edges >= 0).all()
    assert {tuple(edge) for edge in edges.T.tolist()} == {tuple(edge[::-1]) for edge in edges.T.tolist()}


def test_state_is_the_joint_observation():
    env = small()
    env.reset(seed=0)
    spec, state = env.batch.spec, env.state()
    size = spec.num_nodes * len(columns.NODE_COLUMNS) + spec.num_nodes * spec.num_pairs * len(columns.PAIR_COLUMNS)
    size += spec.num_job_rows * len(columns.JOB_COLUMNS) + len(columns.CLUSTER_COLUMNS)
    assert state.shape == (size,)
    assert env.state_space.contains(state)
    assert state.dtype == np.float32


def test_a_given_workload_is_played_however_long():
    env = bidding_env(Setup(HOMOGENEOUS, Curved(), Scenario(horizon=1e6)), SOURCE)
    longer = bursts(99, num_jobs=40, models=("large",))
    env.reset(seed=0, options={"workload": longer})
    while env.agents:
        env.step(no_bids(env))
    assert env.batch.workloads[0] is longer
    assert (env.log.events["kind"] == EventKind.FINISH).sum() == 40
    play(env, 0)


def test_the_defaults_make_an_environment():
    """`bidding_env()` alone: eight nodes of eight GPUs, synthetic jobs, measured throughputs, the FIFO market."""
    env = bidding_env()
    observations, _ = env.reset(seed=0)
    assert len(env.agents) == 8
    assert env.step(no_bids(env))[1].keys() == observations.keys()
    env.close()
