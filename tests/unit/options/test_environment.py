"""The PettingZoo and Gymnasium forms: rules of turn, room for options, actions that are not allowed."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, max_cycles_test, parallel_api_test, parallel_seed_test, render_test, seed_test
from pettingzoo.test.state_test import state_test

from envs.options import OptionEnv, OptionRules, OptionVectorEnv, env, parallel_env, raw_env
from envs.options.columns import OPTION_GPUS_HERE, OPTION_START, OPTION_WAIT
from envs.options.vector import JointOptionEnv
from envs.performance import IdealModel
from envs.simulation import EventKind, Setup
from envs.types import MurmurationError
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.episodes.players import Fixed, bursts, jobs_like
from tests.unit.options.test_rounds import nodes

SOURCE = Fixed(*(bursts(seed) for seed in range(4)))
RULES = {turn: OptionRules(turn=turn, changes="move") for turn in ("auction", "turns", "together")}


def small(turn: str = "auction", **options: Any) -> OptionEnv:
    """Three nodes of four GPUs."""
    return OptionEnv(Setup(HOMOGENEOUS, Curved()), SOURCE, RULES[turn], **options)


def table_top(*rows: Any, turn: str = "auction", gpus: tuple[int, ...] = (2, 2), **options: Any) -> OptionEnv:
    """Two nodes of two GPUs and given jobs, at the first decision."""
    rules = OptionRules(turn=turn)  # type: ignore[arg-type]
    made = OptionEnv(Setup(nodes(*gpus), IdealModel()), Fixed(jobs_like(*rows)), rules, **options)
    made.reset(seed=0)
    return made


def bids(*choices: tuple[int, float]) -> dict[str, Any]:
    """An option and a bid of each node."""
    return {
        f"node_{n}": {"option": option, "bid": np.array([bid], np.float32)} for n, (option, bid) in enumerate(choices)
    }


def sampled(made: OptionEnv) -> dict[str, Any]:
    """An action of each agent, allowed or not."""
    return {agent: made.action_space(agent).sample() for agent in made.agents}


def forms(turn: str) -> SimpleNamespace:
    """The three forms on a small cluster, as a module that PettingZoo's checks take."""
    fixed: dict[str, Any] = {"setup": Setup(HOMOGENEOUS, Curved()), "source": SOURCE, "rules": RULES[turn]}
    return SimpleNamespace(
        env=lambda **given: env(**fixed, **given),
        raw_env=lambda **given: raw_env(**fixed, **given),
        parallel_env=lambda **given: parallel_env(**fixed, **given),
    )


@pytest.mark.parametrize("turn", sorted(RULES))
def test_pettingzoos_checks_pass(turn):
    made = forms(turn)
    parallel_api_test(made.parallel_env(), num_cycles=60)
    parallel_seed_test(made.parallel_env, num_cycles=20)
    api_test(made.env(), num_cycles=60)
    seed_test(made.env, num_cycles=20)
    state_test(made.env(), made.parallel_env())


def test_pettingzoos_check_of_truncation_passes():
    """Only in an auction does every node act in every cycle, as this check expects."""
    max_cycles_test(forms("auction"))


@pytest.mark.parametrize("turn", ["auction", "turns"])
def test_gymnasiums_check_passes(turn):
    vector = OptionVectorEnv(Setup(HOMOGENEOUS, Curved()), SOURCE, 1, RULES[turn])
    check_env(JointOptionEnv(vector), skip_render_check=True)


@pytest.mark.parametrize("turn", sorted(RULES))
def test_it_renders_in_all_modes(monkeypatch, turn):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pytest.importorskip("pygame")
    render_test(forms(turn).env)


@pytest.mark.parametrize("turn", sorted(RULES))
def test_observations_lie_in_their_spaces(turn):
    made = OptionEnv(Setup(HETEROGENEOUS, Curved()), SOURCE, RULES[turn])
    observations, _ = made.reset(seed=1)
    for agent in made.agents:
        made.action_space(agent).seed(0)
    while made.agents:
        for agent, observation in observations.items():
            assert made.observation_space(agent).contains(observation)
        assert made.state_space.contains(made.state())
        observations, *_ = made.step(sampled(made))
    finished = (made.log.events["kind"] == EventKind.FINISH).sum()
    at_horizon = made.batch.time[0] >= made.batch.state.episode["horizon"][0, 0]
    assert finished == 12 or (turn == "together" and at_horizon)  # chance evicts many jobs at once


def test_the_highest_bid_wins_and_ties_go_to_the_lower_node():
    made = table_top((0, 1, 10), (0, 2, 40), gpus=(1, 2))
    # Node 0 can start job 0, node 1 both: all is idle, so its last option, of job 1, stands first.
    made.step(bids((1, 0.5), (2, 0.5)))
    assert made.batch.state.jobs[0]["gpus"].tolist() == [1, 0]
    made.reset(seed=0)
    made.step(bids((1, 0.5), (1, 0.75)))
    assert made.batch.state.jobs[0]["gpus"].tolist() == [0, 2]


def test_waiting_with_the_highest_bid_ends_the_round():
    made = table_top((0, 1, 10), (0, 1, 20), (0, 1, 30))
    made.step(bids((1, 0.0), (0, 9.0)))  # the second node is equal to the first one, has no options and takes no part
    assert (made.batch.time[0], made.batch.state.jobs[0]["gpus"].sum()) == (0.0, 1)
    made.step(bids((0, 2.0), (1, 1.0)))
    assert made.batch.time[0] > 0.0


def test_options_beyond_the_limit_are_reported():
    """Job 0 can have one to four GPUs, so that there are four options of which two are shown."""
    made = table_top((0, 1, 10, 1, 4), gpus=(4,), max_options=2)
    observations, infos = made.reset(seed=0)
    assert infos["node_0"]["left_out"] == 2
    assert observations["node_0"]["mask"].tolist() == [0, 1, 1]
    shown = observations["node_0"]["options"]
    assert shown[:, OPTION_START].tolist() == [0.0, 1.0, 1.0]
    assert shown[:, OPTION_GPUS_HERE].tolist() == [0.0, 1.0, 0.25]  # nothing runs, so that the last option stands first
    vector = OptionVectorEnv(made.setup, made.source, 2, made.rules, max_options=3)
    _, info = vector.reset(seed=0)
    assert info["left_out"].tolist() == [1, 1]
    assert "left_out" in vector.step(np.zeros(2, np.int64))[4]


def test_only_the_node_whose_turn_it_is_has_a_choice():
    made = table_top((0, 1, 10), (0, 1, 20), (0, 1, 30), turn="turns")
    observations, infos = made.reset(seed=0)
    assert [int(observations[agent]["action_mask"].sum()) for agent in made.agents] == [3, 1]
    assert infos["node_0"]["turn"] == made.turn == 0
    observations, _, _, _, infos = made.step({"node_0": 2, "node_1": 0})
    assert infos["node_1"]["turn"] == made.turn == 1
    assert [int(observations[agent]["action_mask"].sum()) for agent in made.agents] == [1, 3]
    assert observations["node_1"]["options"][0, OPTION_WAIT] == 1.0
    made.step({"node_0": 1, "node_1": 0})  # what node 0 wants counts as illegal, and has no effect
    assert made._num_illegal == {"node_0": 1, "node_1": 0}
    assert made.turn == 0


def test_in_turns_only_the_node_whose_turn_it_is_acts():
    made = raw_env(
        setup=Setup(nodes(2, 2), IdealModel()),
        source=Fixed(jobs_like(*((0, 1, 10 + i) for i in range(5)))),
        rules=OptionRules(turn="turns"),
    )
    made.reset(seed=0)
    acted = []
    for _ in range(3):
        acted.append(made.agent_selection)
        mask = made.observe(made.agent_selection)["action_mask"]
        made.step(1 if mask[1] else 0)
    assert acted == ["node_0", "node_1", "node_0"]


@pytest.mark.parametrize(
    ("turn", "actions", "message"),
    [
        (
            "auction",
            bids((0, 1.0), (0, 0.0)),
            "of node_0 is not allowed; choose an option where mask is 1, and numbers",
        ),
        ("auction", bids((1, np.nan), (0, 0.0)), "of node_0 is not allowed"),
        ("auction", bids((1, 1.0), (7, 0.0)), "of node_1 is not allowed"),
        ("auction", {"node_0": 1, "node_1": 1}, r"action of node_0 is 1; give \{"),
        ("turns", {"node_0": 0, "node_1": 0}, "action 0 of node_0 is not allowed; choose an option where action_mask"),
        ("turns", {"node_0": 1, "node_1": 1}, "action 1 of node_1 is not allowed"),
        ("turns", {"node_0": "go", "node_1": 0}, "action of node_0 is 'go'; give one number"),
    ],
)
def test_what_is_not_allowed_is_refused(turn, actions, message):
    made = table_top((0, 1, 10), turn=turn, illegal="raise")
    with pytest.raises(MurmurationError, match=message):
        made.step(actions)


def test_what_is_not_allowed_counts_as_the_first_option():
    made = table_top((0, 1, 10), (5, 1, 10), illegal_penalty=2.0)
    _, rewards, _, _, infos = made.step(bids((0, 1.0), (0, 0.0)))  # nothing runs, so node 0 may not wait
    assert infos["node_0"]["illegal"] == 1
    assert made.batch.time[0] == 5.0
    assert rewards["node_0"] == -5.0 - 2.0


def test_an_unbegun_episode_has_no_options():
    with pytest.raises(MurmurationError, match=r"no episode has begun; call reset\(\) first"):
        small("turns").turn  # noqa: B018
    with pytest.raises(MurmurationError, match="max_options is 0; it must be at least 1"):
        small(max_options=0)


def test_the_vector_form_refuses_what_is_no_option():
    vector = OptionVectorEnv(Setup(HOMOGENEOUS, Curved()), SOURCE, 2, illegal="raise")
    vector.reset(seed=0)
    with pytest.raises(MurmurationError, match="action 511 in episode 1 is no option; choose one where action_mask"):
        vector.step(np.array([0, 511]))
    with pytest.raises(MurmurationError, match=r"actions are float64\[2\]; they must be int64\[2\]"):
        vector.step(np.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(MurmurationError, match="max_options is 0"):
        OptionVectorEnv(Setup(HOMOGENEOUS, Curved()), SOURCE, max_options=0)


@pytest.mark.parametrize("turn", sorted(RULES))
def test_a_seed_gives_one_whole_episode(turn):
    logs = []
    for _ in range(2):
        made = small(turn)
        made.reset(seed=5)
        for n, agent in enumerate(made.agents):
            made.action_space(agent).seed(n)
        while made.agents:
            made.step(sampled(made))
        logs.append(made.log)
    assert logs[0] == logs[1]


def test_the_defaults_make_an_environment():
    made = parallel_env()
    observations, _ = made.reset(seed=0)
    assert len(observations) == 8
    made.step({agent: {"option": 1, "bid": np.zeros(1, np.float32)} for agent in made.agents})
    made.close()
