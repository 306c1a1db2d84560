"""All methods that learn from nothing: they learn, resume to the bit, and refuse settings that make no sense."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from agents.methods.group_ppo import GroupPPOSettings
from agents.methods.group_ppo.learning import GroupConfig, in_spreads
from agents.methods.vdn import VDNSettings
from agents.networks import Blueprint
from agents.on_options.runner import OptionRunner
from agents.problems.options import OptionProblem, OptionSetup
from agents.problems.problem import ValidationScope
from envs.episodes import Elapsed
from envs.options import OptionRules
from envs.types import MurmurationError
from tests.unit.options.tasks import small_task
from tests.unit.options.test_option_training import Quiet, problem_of

SMALL = GroupPPOSettings(
    num_workloads=4, group_size=4, num_minibatches=2, lr=1e-2, critic_lr=1e-2, entropy=0.003, iterations=40
)
SLOW = dataclasses.replace(SMALL, baseline="critic", gae_lambda=0.95, turn="turns", horizon=20.0, iterations=70)
METHODS: dict[str, Any] = {
    "group_ppo": SMALL,
    "critic_ppo": dataclasses.replace(SMALL, baseline="critic", gae_lambda=0.95),
    "both": dataclasses.replace(SMALL, baseline="both", gae_lambda=0.99),
    "averaged": dataclasses.replace(SMALL, averaging=0.2),
    "reinforce": dataclasses.replace(SMALL, baseline="mean", clip=None, num_epochs=1),
    "ippo": dataclasses.replace(SLOW, critic="own"),
    "mappo": SLOW,
    "vdn": VDNSettings(
        num_workloads=4,
        group_size=4,
        num_minibatches=4,
        lr=2e-2,
        critic_lr=1e-2,
        temperature=1.0,
        horizon=1.0,
        iterations=40,
    ),
}
LEARNING = ("group_ppo", "mappo", "vdn")  # those that are tested each time


def brief(method):
    """The method with as few episodes as it takes."""
    return dataclasses.replace(method, num_workloads=2, group_size=2, num_minibatches=2)


def each_method(change=lambda method: method):
    """Each method once; those that differ from another one by a setting are exhaustive."""
    marks = {name: [] if name in LEARNING else [pytest.mark.exhaustive] for name in METHODS}
    cases = [pytest.param(change(method), marks=marks[name], id=name) for name, method in METHODS.items()]
    return pytest.mark.parametrize("method", cases)


def rewarding_delay(elapsed: Elapsed):
    return elapsed.job_seconds


def weights_of(algorithm) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = algorithm.network().state_dict()
    return weights


def mean_jct_after(method, iterations: int, reward=None) -> float:
    """Mean JCT over 24 validation workloads after so many iterations, in the mode in which a method learns."""
    problem = problem_of(small_task(num_jobs=20, reward=reward))
    problem.prepare(ValidationScope(24, None, 4), Quiet())
    algorithm = method.start(problem, problem.build(2, None), 2)
    for _ in range(iterations):
        algorithm.train()
    found = problem.validate(algorithm.network(), {}).figures["small"]
    algorithm.stop()
    return found["sampled" if isinstance(method, GroupPPOSettings) else "greedy"]


@each_method()
def test_what_is_learnt_is_what_is_rewarded(method):
    """Training for a short JCT leads to a shorter one than training for a long one, and than no training."""
    iterations = 60 if getattr(method, "turn", None) else 30
    learnt = mean_jct_after(method, iterations)
    assert learnt < 0.98 * mean_jct_after(method, 0)
    assert learnt < 0.9 * mean_jct_after(method, iterations, rewarding_delay)


@each_method(brief)
def test_training_resumes_to_the_bit(method, tmp_path):
    problem = problem_of(small_task("move"))
    network = problem.build(1, None)
    whole = method.start(problem, network, 1)
    figures = [whole.train() for _ in range(3)]
    first = method.start(problem, network, 1)
    first.train()
    first.save(tmp_path)
    second = method.start(problem, problem.build(2, None), 1)
    second.restore(tmp_path)
    assert [second.train() for _ in range(2)] == figures[1:]
    assert all(torch.equal(value, weights_of(second)[name]) for name, value in weights_of(whole).items())


def test_the_policy_is_the_moving_average_of_what_runners_play_with():
    """The first iterations count equally; nothing of training depends on it."""
    problem = problem_of(small_task())
    last = SMALL.start(problem, problem.build(1, None), 1)
    averaged = dataclasses.replace(SMALL, averaging=0.4).start(problem, problem.build(1, None), 1)
    assert all(torch.equal(value, weights_of(last)[name]) for name, value in weights_of(averaged).items())
    seen = []
    for _ in range(4):
        assert last.train() == averaged.train()
        seen.append(weights_of(last))
    for name, value in weights_of(averaged).items():
        mean = (seen[0][name] + seen[1][name]) / 2
        for newer in seen[2:]:
            mean = 0.6 * mean + 0.4 * newer[name]
        torch.testing.assert_close(value, mean)


@each_method(brief)
def test_two_seeds_differ_and_one_repeats(method):
    problem = problem_of(small_task())
    network = problem.build(1, None)
    found = []
    for seed in (1, 1, 2):
        algorithm = method.start(problem, network, seed)
        algorithm.train()
        found.append(torch.cat([value.ravel() for value in weights_of(algorithm).values()]))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("name", ["ippo", "mappo", "vdn"])
def test_methods_of_many_agents_play_by_turns_whatever_the_environment_says(name):
    problem = problem_of(small_task())
    assert problem.worlds[0].rules.turn == "auction"
    algorithm = METHODS[name].start(problem, problem.build(1, None), 1)
    algorithm.train()
    assert algorithm.network().rules.turn == "turns"


def test_without_a_turn_of_its_own_a_method_keeps_that_of_the_environment():
    rules = OptionRules(turn="turns", changes="move")
    assert SMALL.adapt(rules, 0) == rules
    assert dataclasses.replace(SMALL, turn="auction").adapt(rules, 0).turn == "auction"


def test_a_critic_of_own_observations_in_an_auction_is_refused_at_the_start():
    problem = problem_of(small_task())
    with pytest.raises(MurmurationError, match=r"group_ppo.critic is own.*trainer.method.turn=turns"):
        dataclasses.replace(SMALL, baseline="critic", critic="own").start(problem, problem.build(1, None), 1)


def test_all_runners_draw_the_same_workloads_in_turn_from_all_tasks():
    tasks = tuple(dataclasses.replace(small_task(num_nodes=nodes), name=f"nodes-{nodes}") for nodes in (2, 3))
    problem = problem_of(*tasks)
    setup = OptionSetup.of(problem, METHODS["vdn"], problem.build(1, None), 7)
    (one, workload, seed), (other, _, second) = setup.draw(3, 0), setup.draw(3, 1)
    assert (one.name, other.name) == ("nodes-2", "nodes-3")
    assert one.rules.turn == "turns"
    assert seed != second
    assert np.array_equal(setup.draw(3, 0)[1].jobs, workload.jobs)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"baseline": "best"}, "group_ppo.baseline is best; it must be one of group, critic, both, mean"),
        ({"critic": "some"}, "group_ppo.critic is some; it must be one of all, own"),
        ({"turn": "dice"}, "group_ppo.turn is dice; it must be one of auction, turns, together, null"),
        ({"baseline": "both", "group_size": 1}, "group_ppo.group_size is 1; .*baseline=critic needs no group"),
        ({"gae_lambda": 0.9}, "group_ppo.gae_lambda is 0.9; .*baseline=critic or both"),
        ({"baseline": "critic", "gae_lambda": 1.1}, "group_ppo.gae_lambda is 1.1; it must be from 0 to 1"),
        ({"critic": "own", "turn": "auction"}, "group_ppo.turn is auction; it must be turns"),
        ({"averaging": 0.0}, "group_ppo.averaging is 0.0; it must be above 0 and at most 1"),
        ({"clip": 0.0}, "group_ppo.clip is 0.0; it must be positive, or null"),
        ({"name": "ippo", "critic_lr": 0.0}, "ippo.critic_lr is 0.0; it must be positive"),
        ({"critic_hidden": 0}, "group_ppo.critic_hidden is 0; it must be at least 1"),
    ],
)
def test_policy_gradient_settings_that_make_no_sense_are_refused(values, text):
    with pytest.raises(MurmurationError, match=text) as caught:
        GroupPPOSettings(**values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "values", "text"),
    [
        (VDNSettings, {"trace_decay": 1.5}, "vdn.trace_decay is 1.5; it must be from 0 to 1"),
        (VDNSettings, {"final_temperature": 0.0}, "vdn.final_temperature is 0.0"),
        (VDNSettings, {"utility_scale": -1.0}, "vdn.utility_scale is -1.0; it must be positive"),
        (VDNSettings, {"group_size": 0}, "vdn.group_size is 0; it must be at least 1"),
        (VDNSettings, {"group_size": 1}, "vdn.group_size is 1; it must be at least 2 with compares_groups"),
        (VDNSettings, {"num_env_runners": -1}, "vdn.num_env_runners is -1; it must be 0 or more"),
    ],
)
def test_other_settings_out_of_range_are_refused(settings, values, text):
    with pytest.raises(MurmurationError, match=text):
        settings(**values)


def test_step_sizes_and_temperature_fall():
    method = METHODS["vdn"]
    assert method.temperature_at(0) == 1.0
    assert method.temperature_at(20) == pytest.approx(0.55)
    assert method.temperature_at(99) == pytest.approx(0.1)
    assert dataclasses.replace(SMALL, lr=1.0, critic_lr=2.0, final_lr=0.5).step_sizes(20) == [0.75, 1.5]


def test_advantages_are_measured_in_the_spread_of_their_own_task():
    advantage, task = np.array([1.0, -1.0, 100.0, -100.0, 300.0, -300.0]), np.array([0, 0, 1, 1, 1, 1])
    found = in_spreads(advantage, task)
    assert found[:2].tolist() == [1.0, -1.0]
    assert found[2:].std() == pytest.approx(1.0)
    assert found[4] == pytest.approx(3 * found[2])
    assert np.array_equal(in_spreads(advantage, np.zeros(6, np.int64)), advantage / advantage.std())


@pytest.mark.parametrize("num_decisions", [None, 48])
def test_groups_that_are_played_together_are_those_that_are_played_alone(num_decisions):
    """In torch all groups of a task are one batch; each task has its own."""
    tasks = [dataclasses.replace(small_task("move", num_nodes=n), name=f"nodes-{n}") for n in (2, 3)]
    blueprint = Blueprint("agents.networks.option_attention.OptionAttention", {"width": 16})
    problem = OptionProblem(tasks, blueprint)
    method = dataclasses.replace(SMALL, num_decisions=num_decisions)
    setup = OptionSetup.of(problem, method, problem.build(1, None), 7)
    runner = OptionRunner(config=GroupConfig.of(setup), worker_index=0)
    together = runner.play(setup.start, 3, range(4))
    assert list(together) == [0, 2, 1, 3]
    for number, group in together.items():
        alone = runner.play(setup.start, 3, [number])[number]
        assert group.figures == alone.figures
        assert np.array_equal(group.time, alone.time)
        assert np.array_equal(group.episode, alone.episode)
        for name in group.lesson._fields:
            assert np.allclose(getattr(group.lesson, name), getattr(alone.lesson, name), atol=1e-5), name
        if num_decisions:
            assert group.lesson.num_decisions == 12
