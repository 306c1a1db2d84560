"""What policies are compared by follows from the reward, by hand; validation and the best mode follow it."""

import dataclasses

import numpy as np
import pytest

from agents.goal import Goal
from agents.problems.problem import ValidationScope
from agents.validation import best_of
from envs.episodes import Elapsed, TeamReward
from envs.evaluation.playing import workload_seed
from envs.metrics import summarise
from envs.simulation import Simulator, run_episode
from tests.unit.options.tasks import small_task
from tests.unit.options.test_option_training import Quiet, problem_of

FIGURES = {"mean_jct": 100.0, "makespan": 400.0}


@pytest.mark.parametrize(
    ("reward", "cost", "text", "tag"),
    [
        (TeamReward(), 100.0, "mean JCT", "0_overview/validation_mean_jct_hours"),
        (TeamReward(jct=0.0, makespan=2.0), 400.0, "makespan", "0_overview/validation_makespan_hours"),
        (  # ten jobs: minus the return is 1,000 s of JCT and 30 x 400 s of makespan
            TeamReward(jct=1.0, makespan=30.0),
            (1000.0 + 12000.0) / 40.0,
            "0.25 x mean JCT + 0.75 x makespan",
            "0_overview/validation_cost_hours",
        ),
        (lambda elapsed: elapsed.busy_seconds, 100.0, "mean JCT", "0_overview/validation_mean_jct_hours"),
    ],
)
def test_a_goal_is_what_the_reward_pays_for(reward, cost, text, tag):
    goal = Goal.of(reward, num_jobs=10)
    assert goal.cost(FIGURES) == pytest.approx(cost)
    assert (str(goal), goal.tag) == (text, tag)


def test_the_best_baseline_is_the_best_by_the_goal():
    figures = {
        "a": {"num_starved": 0.0, "mean_jct": 1.0, "makespan": 9.0},
        "b": {"num_starved": 0.0, "mean_jct": 2.0, "makespan": 8.0},
    }
    assert [best_of(figures, Goal(share)) for share in (0.0, 1.0)] == ["a", "b"]


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_validation_counts_what_is_rewarded(share):
    """The figures are those of the policy as a scheduler; the better mode is the one with the lower cost."""
    task = small_task(reward=TeamReward(jct=(1.0 - share) / 12, makespan=share), num_jobs=12)
    problem = problem_of(task)
    problem.prepare(ValidationScope(5, 3, 4), Quiet())
    network = problem.build(3, None)
    figures = problem.validate(network, {}).figures["small"]
    assert problem.goal.makespan_share == pytest.approx(share)
    assert figures["cost"] == pytest.approx((1.0 - share) * figures["mean_jct"] + share * figures["makespan"])
    assert figures["cost"] == min(figures["greedy"], figures["sampled"])
    half, double = ({"cost": figures["cost"] * factor} for factor in (0.5, 2.0))
    assert problem.rank({"small": figures}) > problem.rank({"small": double})
    assert problem.rank({"small": half, "other": double}) == pytest.approx(problem.rank({"small": figures}))
    scheduler = problem.world(network, 0).scheduler  # plays the likeliest options
    results = [
        run_episode(scheduler, Simulator(workload, task.setup, workload_seed(0, i)))
        for i, workload in enumerate(problem._workloads["small"])
    ]
    means = {name: np.mean([getattr(summarise(each), name) for each in results]) for name in ("mean_jct", "makespan")}
    assert figures["greedy"] == pytest.approx(problem.goal.cost(means))


def test_the_return_of_an_episode_is_minus_the_cost_in_other_units():
    reward = TeamReward(jct=1.0, makespan=30.0)
    whole = Elapsed(np.array([400.0]), np.array([1000.0]), np.zeros(1))
    assert -reward(whole)[0] == pytest.approx(Goal.of(reward, 10).cost(FIGURES) * 40.0)


def test_other_tasks_may_pay_for_something_else_and_the_first_decides():
    first = small_task(reward=TeamReward(jct=0.0, makespan=1.0))
    second = dataclasses.replace(small_task(), name="other")
    assert str(problem_of(first, second).goal) == "makespan"
