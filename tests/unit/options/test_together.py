"""Nodes that act at the same time: conflicts, gangs and sub-rounds, worked by hand and against the reference."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch

from agents.networks.decisions import Decisions
from agents.networks.option_claims import OptionClaims, hear_claims
from agents.policies.options.lesson import Lesson
from agents.policies.options.playing import Player
from agents.policies.options.tape import MOMENTS
from envs.options import OptionBatch, OptionEnv, OptionRules, OptionSpec, OptionVectorEnv, env
from envs.options.columns import JOIN, NUM_OPTION_COLUMNS, OPTION_COLUMNS, START, WAIT
from envs.options.rules import CHANGES
from envs.performance import IdealModel
from envs.simulation import EventKind, Scenario, Setup
from envs.types import MurmurationError
from tests.conformance.random_worlds import random_world
from tests.unit.episodes.players import Fixed, jobs_like
from tests.unit.options.tasks import small_task
from tests.unit.options.test_option_scheduler import both, without_chance
from tests.unit.options.test_playing import OnlyInTorch, scorer_of
from tests.unit.options.test_reference import compare
from tests.unit.options.test_rounds import events, nodes
from tests.unit.options.worlds import Listed, begun, listed, play_area, random_rules

TOGETHER = OptionRules(turn="together", distinct_nodes=False)


def claims(batch: OptionBatch, *wanted: tuple[int, int, int, int], margins: dict[int, float] | None = None) -> Listed:
    """Let nodes claim these options and all others wait where they may; return the claims that got nothing."""
    found = listed(batch)
    chosen, scores = np.full(batch.cluster.num_nodes, -1), np.zeros(len(found))
    for place, (_, _, node, _) in reversed(list(enumerate(found))):
        chosen[node] = place  # the first of each node
    for option in wanted:
        place = found.index(option)
        chosen[option[2]] = place
        scores[place] = (margins or {}).get(option[2], 1.0)
    lost = batch.act(0, chosen, scores)
    return [found[chosen[node]] for node in np.flatnonzero(lost)]


def test_each_nodes_options_follow_its_waiting():
    batch = play_area(nodes(2, 1), jobs_like((0, 1, 10), (0, 2, 40), (5, 1, 30)), TOGETHER)
    assert listed(batch) == [(START, 0, 0, 1), (START, 1, 0, 2), (START, 0, 1, 1)]  # all is idle: nobody may wait
    assert claims(batch, (START, 1, 0, 2), (START, 0, 1, 1)) == []
    assert batch.time[0] == 10.0
    assert listed(batch) == [(WAIT, -1, 1, 0), (START, 2, 1, 1)]


def test_a_job_is_given_to_the_node_with_the_highest_margin():
    batch = play_area(nodes(1, 1), jobs_like((0, 1, 10), (0, 1, 90)), replace(TOGETHER, subrounds=1))
    wanted = (START, 0, 0, 1), (START, 0, 1, 1)
    assert claims(batch, *wanted, margins={0: 1.0, 1: 2.0}) == [wanted[0]]
    assert events(batch, EventKind.START) == [(0.0, 0)]
    counters = batch.counters()
    assert (counters["claims"], counters["lost_claims"], counters["second_choices"]) == (2, 1, 0)


def test_a_loser_gets_its_next_best_job():
    rules = replace(TOGETHER, subrounds=1, losers="next_best")
    batch = play_area(nodes(1, 1), jobs_like((0, 1, 10), (0, 1, 90)), rules)
    wanted = (START, 0, 0, 1), (START, 0, 1, 1)
    assert claims(batch, *wanted, margins={0: 1.0, 1: 2.0}) == []
    assert events(batch, EventKind.START) == [(0.0, 0), (0.0, 1)]
    assert batch.counters()["second_choices"] == 1


def test_a_node_that_prefers_to_wait_is_given_nothing_else():
    rules = replace(TOGETHER, subrounds=1, losers="next_best")
    batch = play_area(nodes(1, 1, 1), jobs_like((0, 1, 100), (1, 1, 10), (1, 1, 90)), rules)
    claims(batch, (START, 0, 0, 1), (START, 0, 1, 1), (START, 0, 2, 1))
    found = listed(batch)
    scores = np.array([{WAIT: 1.0}.get(change, 0.5 + (job == 1)) for change, job, *_ in found])
    chosen = np.array([-1, found.index((START, 1, 1, 1)), found.index((START, 1, 2, 1))])
    assert batch.act(0, chosen, scores).tolist() == [0, 0, 1]


def test_all_that_nodes_give_to_a_gang_in_one_sub_round_adds_up():
    batch = play_area(nodes(2, 2, 2), jobs_like((0, 5, 50)), replace(TOGETHER, subrounds=1))
    assert claims(batch, (START, 0, 0, 2), (START, 0, 1, 2), (START, 0, 2, 1)) == []
    assert events(batch, EventKind.START) == [(0.0, 0)]


def test_a_gang_is_finished_in_further_sub_rounds_or_given_up():
    jobs = jobs_like((0, 1, 50), (1, 4, 50), (1, 1, 500))
    for last, starts in (((JOIN, 1, 2, 2), [(0.0, 0), (1.0, 1)]), ((WAIT, -1, 2, 0), [(0.0, 0)])):
        batch = play_area(nodes(1, 2, 2), jobs, replace(TOGETHER, subrounds=1))
        claims(batch, (START, 0, 0, 1), *((START, 0, node, 1) for node in (1, 2)))
        assert batch.time[0] == 1.0
        claims(batch, (START, 1, 1, 2))
        assert listed(batch) == [(WAIT, -1, 2, 0), (JOIN, 1, 2, 2)]
        claims(batch, last)
        assert batch.counters()["broken_gangs"] == (last[0] == WAIT)
        assert batch.time[0] > 1.0
        assert events(batch, EventKind.START)[: len(starts)] == starts


def test_nodes_that_join_one_job_add_up_to_what_it_may_hold():
    rules = replace(TOGETHER, subrounds=1, changes="resize")
    batch = play_area(nodes(1, 1, 1, 1), jobs_like((0, 1, 100, 1, 3), (1, 4, 1), (2, 1, 1)), rules)
    claims(batch, *((START, 0, node, 1) for node in range(4)), margins={0: 2.0})
    found = claims(batch, *((JOIN, 0, node, 1) for node in (1, 2, 3)), margins={1: 3.0, 2: 2.0, 3: 1.0})
    assert found == [(JOIN, 0, 3, 1)]
    assert batch.state.jobs[0, 0]["gpus"] == 3


@pytest.mark.parametrize("contested", ["highest", "drawn"])
@pytest.mark.parametrize("losers", ["nothing", "next_best"])
def test_both_implementations_settle_alike(contested, losers):
    """Random worlds, rules and choices: equal options, features, counters and event logs."""
    totals = dict.fromkeys(("claims", "lost_claims", "second_choices", "broken_gangs"), 0)
    for seed in range(14):
        world, rng = random_world(seed), np.random.default_rng(seed)
        rules = random_rules(rng, turn="together", tune=False, changes=CHANGES[seed % 3], contested=contested)
        rules = replace(rules, losers=losers, subrounds=1 + seed % 4, ranks=seed % 2 == 0, distinct_nodes=seed % 5 == 0)
        rules = replace(rules, view=("global", "own")[seed % 3 == 1])
        batch, reference = begun(world, rules)
        name = f"{world.name} {rules}"
        compare(name, batch, reference)
        for _ in range(40):
            if batch.ended[0]:
                break
            options = batch.options()
            chosen = np.full(batch.cluster.num_nodes, -1)
            for node in np.unique(options.node_of):
                own = np.flatnonzero(options.node_of == node)
                chosen[node] = own[0] if rng.random() < 0.2 else rng.choice(own)
            scores = rng.integers(-3, 4, len(options.what)).astype(float)
            batch.act(0, chosen, scores)
            reference.step_together(chosen.tolist(), scores.tolist())
            compare(name, batch, reference)
        assert batch.state.log(0) == reference.simulator.log, name
        counters = batch.counters()
        totals = {key: total + counters[key] for key, total in totals.items()}
    assert totals["lost_claims"] > 50, totals
    assert totals["broken_gangs"] > 0, totals
    assert (totals["second_choices"] > 0) == (losers == "next_best"), totals


def test_what_nodes_cannot_do_at_once_is_refused():
    with pytest.raises(MurmurationError, match="set tune=false, share=false"):
        OptionRules(turn="together", tune=True)


def claims_of(seed: int = 0) -> OptionClaims:
    """A network whose messages count."""
    torch.manual_seed(seed)
    network = OptionClaims(OptionSpec(), width=8, rounds=2, reluctance=2.0)
    with torch.no_grad():
        for value in network.parameters():
            value.add_(0.3 * torch.randn_like(value))
    return network


MAKERS = {"scorer": scorer_of, "claims": claims_of}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_compiled_code_and_torch_choose_alike(name, temperature):
    """The same choices, probabilities and lost claims, so that the same is learnt from both."""
    task, network = small_task("move"), MAKERS[name]()
    rules = replace(TOGETHER, changes="move", ranks=True, losers="next_best", subrounds=2)
    workload = task.source.episode(np.random.default_rng(0), "train")
    lessons, jcts = [], []
    for played in (network, OnlyInTorch(network)):
        player = Player(task.under(rules).batch(1))
        jcts.append(player.play([workload], played, [1], temperature=temperature, most=None)[0])
        lessons.append(Lesson.of(player.tape, np.zeros(int(player.tape.arrays.counts[MOMENTS]))))
    compiled, in_torch = lessons
    assert jcts[0] == jcts[1]
    if temperature == 0.0:
        return
    for part in ("num_options", "num_choices", "chosen", "lost", "choice_of", "node_of", "options"):
        assert np.array_equal(getattr(compiled, part), getattr(in_torch, part)), part
    assert np.allclose(compiled.log_probability, in_torch.log_probability, atol=1e-5)
    assert compiled.num_choices.sum() == len(compiled.chosen) > compiled.num_decisions
    assert 0 < compiled.lost.sum() < len(compiled.lost)


@pytest.mark.parametrize(("contested", "losers"), [("highest", "next_best"), ("drawn", "nothing")])
def test_pettingzoos_form_leaves_the_log_of_the_batch(contested, losers):
    """Also as agents that act one after another; where nothing but the choice counts, an action is one number."""
    workload = jobs_like(*((5.0 * job, 1 + job % 5, 40.0, 1, 6) for job in range(12)))
    rules = replace(TOGETHER, changes="move", subrounds=2, contested=contested, losers=losers)
    setup = Setup(nodes(2, 4, 2), IdealModel(), Scenario(restart_delay=0.0))
    made = OptionEnv(setup, Fixed(workload), rules, illegal="raise", max_options=40)
    turns = env(setup=setup, source=Fixed(workload), rules=rules, illegal="raise", max_options=40)
    observations, _ = made.reset(seed=0)
    turns.reset(seed=0)
    batch = play_area(nodes(2, 4, 2), workload, rules)
    weights, lost = np.random.default_rng(0).standard_normal(NUM_OPTION_COLUMNS), 0
    while made.agents:
        options, actions = batch.options(), dict[str, Any]()
        scores = np.float32(options.options @ weights).astype(float)
        chosen = np.array([best(scores, options.node_of == node) for node in range(3)])
        for agent in made.agents:
            seen: dict[str, Any] = observations[agent]
            values = np.where(seen[made.mask_name] > 0, seen["options"] @ weights, -9.0).astype(np.float32)
            actions[agent] = int(values.argmax())
            if not made.is_one_number:
                actions[agent] = {"option": actions[agent], "scores": values}
            turns.step(actions[agent])
        found = batch.act(0, chosen, scores)
        observations, *_, infos = made.step(actions)
        assert [infos[f"node_{node}"]["lost"] for node in range(3)] == found.tolist()
        lost += int(found.sum())
    assert batch.ended[0]
    assert made.log == batch.state.log(0) == turns.unwrapped.log
    assert lost > 0


def best(scores: np.ndarray, own: np.ndarray) -> int:
    """The place with the highest score of some, -1 for none."""
    return int(np.where(own, scores, -np.inf).argmax()) if own.any() else -1


@pytest.mark.parametrize("most", [2, 32])
def test_the_graph_links_nodes_that_want_the_same_jobs(most):
    """In observations, in the joint state and as a whole, as worked out job by job."""
    workload = jobs_like(*((7.0 * job, 1 + job % 5, 40.0, 1, 6) for job in range(12)))
    rules = replace(TOGETHER, changes="move", contested="drawn")
    setup = Setup(nodes(2, 4, 1, 2), IdealModel())
    made = OptionEnv(setup, Fixed(workload), rules, max_options=6, max_links=most)
    observations, _ = made.reset(seed=0)
    rng, cut, partly = np.random.default_rng(0), 0, 0
    while made.agents:
        options, state = made.batch.options(), made.state_parts(made.state())
        wants = [{int(row) for row in options.job_of[options.node_of == node] if row >= 0} for node in range(4)]
        between, jobs = made.coordination_graph()
        assert set(zip(*jobs.tolist(), strict=True)) == {(node, row) for node in range(4) for row in wants[node]}
        for node, agent in enumerate(made.agents):
            seen: dict[str, Any] = observations[agent]
            linked = [(node + k) % 4 for k in (1, 2, 3) if wants[node] & wants[(node + k) % 4]]
            assert between[0, between[1] == node].tolist() == linked
            assert seen["edges"].tolist() == state["edges"][node].tolist() == (linked + [-1] * 32)[:most]
            assert np.array_equal(seen["option_jobs"], state["option_jobs"][node])
            assert np.array_equal(seen["option_jobs"] >= 0, seen["jobs"].any(axis=1))
            for row, job in zip(seen["option_jobs"], seen["jobs"], strict=True):
                assert row < 0 or np.array_equal(state["jobs"][row], job)
            assert np.array_equal(state["nodes"][node], seen["node"])
            cut, partly = cut + (len(linked) > most), partly + (0 < len(linked) < 3)
        actions = {agent: rng.choice(np.flatnonzero(seen["action_mask"])) for agent, seen in observations.items()}
        observations, *_ = made.step(actions)
    assert partly > 10
    assert (cut > 10) == (most == 2)


def observed_beside(view: Literal["global", "own"], there: int) -> dict[str, np.ndarray]:
    """What node 0 sees in the second sub-round, after a third node was given so many GPUs for a job."""
    workload = jobs_like((0, 1, 9), (0, 1, 50, 1, 4), (0, 1, 9))
    rules = replace(TOGETHER, view=view, contested="drawn", losers="nothing")
    made = OptionEnv(Setup(nodes(2, 1, 8), IdealModel()), Fixed(workload), rules, illegal="raise")
    made.reset(seed=0)
    own = [[option for option in listed(made.batch) if option[2] == node] for node in range(3)]
    wanted = (START, 0, 0, 1), (START, 0, 1, 1), (START, 1, 2, there)
    made.step({f"node_{node}": 1 + own[node].index(option) for node, option in enumerate(wanted)})
    return made._observations()["node_0"]


@pytest.mark.parametrize("view", ["global", "own"])
def test_a_node_with_a_view_of_its_own_sees_nothing_of_the_others(view):
    """In the whole observation, what a third node does changes nothing; a global view has the cluster's row."""
    one, other = observed_beside(view, 1), observed_beside(view, 4)
    differing = {name for name in one if not np.array_equal(one[name], other[name])}
    assert differing == (set() if view == "own" else {"cluster"})


def test_a_node_hears_of_each_job_how_much_the_others_want_it():
    """Three nodes and one job: margins over waiting are 2, 3 and 3, and of the equals the lower node leads."""
    options = torch.zeros(6, NUM_OPTION_COLUMNS)
    options[::2, OPTION_COLUMNS.index("is_wait")] = 1.0
    pairs = torch.arange(6)
    decisions = Decisions(
        options=options,
        decision_of=torch.zeros(6, dtype=torch.int64),
        job_of=torch.tensor([-1, 0, -1, 0, -1, 0]),
        node_of=pairs // 2,
        choice_of=pairs // 2,
        choice_decision=torch.zeros(3, dtype=torch.int64),
        first=torch.zeros(1, dtype=torch.int64),
        jobs=torch.zeros(1, 1),
        job_decision=torch.zeros(1, dtype=torch.int64),
        nodes=torch.zeros(3, 1),
        node_decision=torch.zeros(3, dtype=torch.int64),
        cluster=torch.zeros(1, 1),
    )
    heard = hear_claims(decisions, torch.tensor([1.0, 3.0, 0.0, 3.0, -1.0, 2.0]))
    sure = 1 / (1 + np.exp(-3.0)), 1 / (1 + np.exp(-2.0))
    assert not heard[::2].any()
    assert heard[1].tolist() == pytest.approx([3 / 8, -1 / 4, 0.0, 2 * sure[0]])
    assert heard[3].tolist() == pytest.approx([3 / 8, 0.0, 1.0, sure[0] + sure[1]])
    assert heard[5].tolist() == pytest.approx([3 / 8, 0.0, 0.0, sure[0] + sure[1]])


def test_one_agent_for_all_nodes_is_refused():
    with pytest.raises(MurmurationError, match="set env.rules.turn=auction"):
        OptionVectorEnv(Setup(nodes(1), IdealModel()), Fixed(jobs_like((0, 1, 9))), 1, TOGETHER)


def test_messages_change_what_is_chosen():
    """Without them the scores of the network with claims are others, so that equal choices say something."""
    network, silent = claims_of(), claims_of()
    silent.rounds = 0
    task = small_task("move").under(replace(TOGETHER, changes="move", subrounds=2))
    workload = task.source.episode(np.random.default_rng(0), "train")
    jcts = [Player(task.batch(1)).play([workload], OnlyInTorch(each), [1])[0] for each in (network, silent)]
    assert jcts[0] != jcts[1]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_scheduler_leaves_the_log_of_the_environment(name, is_compiled):
    for seed in (3, 8, 11):
        rules = replace(TOGETHER, changes="move", ranks=True, losers="next_best", contested="drawn", subrounds=2)
        network = MAKERS[name](seed)
        log, result = both(without_chance(seed), network if is_compiled else OnlyInTorch(network), rules)
        assert result.log == log
        assert result.counters["claims"] > 0
