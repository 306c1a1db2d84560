"""The critic, the advantages that follow from it, and the parts of value decomposition."""

import numpy as np
import pytest
import torch

from agents.methods.group_ppo.learning import deciding_nodes
from agents.methods.vdn.learning import DecidedRounds
from agents.networks.option_critic import OptionCritic
from agents.on_options.advantage import cost_to_go, following_decisions, lambda_advantages
from agents.on_options.learner import critic_values
from agents.policies.options.lesson import Lesson
from agents.policies.options.playing import Player
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.tape import MOMENTS
from envs.options import OptionRules, OptionSpec
from tests.unit.options.tasks import small_task
from tests.unit.options.test_option_training import problem_of

RNG = np.random.default_rng(0)


def lesson_of(turn: str) -> Lesson:
    """Two sampled episodes of a small task."""
    task = small_task(num_nodes=3).under(OptionRules(turn=turn))  # type: ignore[arg-type]
    player = Player(task.batch(2))
    workload = task.source.episode(np.random.default_rng(0), "train")
    player.play([workload, workload], problem_of(task).build(0, None), [0, 1], most=None)
    return Lesson.of(player.tape, np.zeros(int(player.tape.arrays.counts[MOMENTS])))


def test_decisions_follow_those_of_their_own_trajectory():
    assert following_decisions(np.array([3, 0, 3, 0, 0, 1])).tolist() == [2, 3, -1, 4, -1, -1]


def by_temporal_differences(values, time, cost, horizon, decay):
    """The sum of discounted, decayed temporal differences of one trajectory, term by term."""
    count, found = len(values), np.zeros(len(values))
    for k in range(count):
        for i in range(k, count):
            between = cost_to_go(time[i : i + 2], cost[i : i + 2], horizon)[0]
            following = values[i + 1] * np.exp(-(time[i + 1] - time[i]) / horizon) if i + 1 < count else 0.0
            difference = -between + following - values[i]
            found[k] += np.exp(-(time[i] - time[k]) / horizon) * decay ** (i - k) * difference
    return found


@pytest.mark.parametrize("decay", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("horizon", [5.0, np.inf])
def test_advantages_are_sums_of_temporal_differences(decay, horizon):
    time, cost = np.cumsum(RNG.random(7)), np.cumsum(RNG.random(7))  # the last instant is the end
    values = RNG.normal(size=6)
    returns = -cost_to_go(time, cost, horizon)[:6]
    following = np.array([1, 2, 3, 4, 5, -1])
    found = lambda_advantages(values - returns, time[:6], following, horizon, decay)
    assert found == pytest.approx(by_temporal_differences(values, time, cost, horizon, decay))


def test_interleaved_trajectories_have_the_advantages_that_each_has_alone():
    error, time = RNG.normal(size=8), np.cumsum(RNG.random(8))
    agent = np.array([0, 1, 0, 0, 1, 1, 0, 1])
    found = lambda_advantages(error, time, following_decisions(agent), 2.0, 0.9)
    for each in (0, 1):
        own = np.flatnonzero(agent == each)
        alone = lambda_advantages(error[own], time[own], np.array([1, 2, 3, -1]), 2.0, 0.9)
        assert found[own] == pytest.approx(alone)


def test_a_critic_that_is_right_leaves_no_advantage():
    assert lambda_advantages(np.zeros(3), np.arange(3.0), np.array([1, 2, -1]), 7.0, 0.5).tolist() == [0.0, 0.0, 0.0]


def test_estimates_stay_as_they_are_when_the_scale_of_returns_changes():
    torch.manual_seed(0)
    lesson, critic = lesson_of("auction"), OptionCritic(OptionSpec(), 8)
    rows, every = Rows.of(lesson), np.arange(lesson.num_decisions)
    critic.observe(torch.tensor([-100.0, -300.0]))
    torch.nn.init.normal_(critic.last.weight)
    before = critic_values(critic, lesson, rows, every)
    critic.observe(torch.tensor([5000.0, 9000.0]))
    assert float(critic.mean) == pytest.approx(0.9 * -200.0 + 0.1 * 7000.0)
    assert critic_values(critic, lesson, rows, every, size=7) == pytest.approx(before, rel=1e-4)
    assert critic.returns(critic.normalised(torch.tensor([3.0]))).tolist() == pytest.approx([3.0], rel=1e-3)


def test_before_it_has_learnt_a_critic_estimates_the_mean():
    lesson, critic = lesson_of("auction"), OptionCritic(OptionSpec(), 8)
    torch.nn.init.zeros_(critic.last.bias)
    critic.observe(torch.tensor([-100.0, -300.0]))
    assert set(critic_values(critic, lesson, Rows.of(lesson), np.arange(4)).tolist()) == {-200.0}


def changed_by_other_nodes(own: bool) -> bool:
    """Whether the estimate for a decision changes with the rows of the nodes whose turn it is not."""
    torch.manual_seed(0)
    lesson, critic = lesson_of("turns"), OptionCritic(OptionSpec(), 8, own=own)
    torch.nn.init.normal_(critic.last.weight)
    node = int(deciding_nodes(lesson, Rows.of(lesson))[0])
    decisions = gather_decisions(lesson, Rows.of(lesson), np.array([0]))
    others = torch.arange(len(decisions.nodes)) != node
    changed = decisions._replace(nodes=decisions.nodes + others[:, None].float())
    return not torch.equal(critic(decisions), critic(changed))


def test_only_a_central_critic_sees_other_nodes():
    assert changed_by_other_nodes(own=False)
    assert not changed_by_other_nodes(own=True)


def test_in_turns_all_options_of_a_decision_are_of_one_node():
    lesson = lesson_of("turns")
    rows = Rows.of(lesson)
    nodes = deciding_nodes(lesson, rows)
    assert set(nodes.tolist()) == {0, 1, 2}
    of_option = np.repeat(nodes, lesson.num_options)
    assert ((lesson.node_of == of_option) | (lesson.node_of == -1)).all()


def test_rounds_are_the_decisions_of_one_episode_at_one_time():
    episode, time = np.array([1, 0, 0, 1, 0]), np.array([5.0, 2.0, 2.0, 5.0, 5.0])
    found = DecidedRounds.of(episode, time)
    assert [found.order[a : a + n].tolist() for a, n in zip(found.first, found.length, strict=True)] == [
        [1, 2],
        [4],
        [0, 3],
    ]
    assert found.episode.tolist() == [0, 0, 1]
    assert found.time.tolist() == [2.0, 5.0, 5.0]
