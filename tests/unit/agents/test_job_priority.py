"""RLTune's network sees its stated columns alone, as a scheduler too, and its checkpoint plays with the program."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.methods.group_ppo import GroupPPOSettings
from agents.networks import Blueprint
from agents.networks.check import made_up_decisions
from agents.networks.job_priority import COLUMNS, JobPriority
from agents.policies.options.priorities import LearnedPriorities
from agents.policies.options.scheduler import OptionScheduler
from agents.problems.options import OptionProblem
from agents.problems.problem import ValidationScope
from agents.training import Trainer, TrainingSettings
from baselines.fifo import Fifo
from baselines.rltune import Rltune
from envs.options import OptionRules, OptionSpec
from envs.options.columns import JOB_REMAINING_TIME, JOB_REQUESTED_GPUS
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import MurmurationError
from murmuration.runs.policies import load_policy
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs
from tests.unit.agents.worlds import small_world
from tests.unit.options.test_option_training import Quiet

RULES = OptionRules(placing="best_fit", queue_order="fifo")
TARGET = "agents.networks.job_priority.JobPriority"
PROFILED = (*COLUMNS, "job.remaining_time", "option.throughput")


def network(columns=COLUMNS, seed=0) -> JobPriority:
    """A network whose weights are drawn from a seed."""
    torch.manual_seed(seed)
    return JobPriority(OptionSpec(), columns, hidden=8, output_scale=1.0)


class Recorded(LearnedPriorities):
    """Priorities that are remembered."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.seen = list[tuple[float, list[int], list[float]]]()

    def rank(self, view):
        """Remember what is returned; give the same weight to all jobs, so that the schedule does not depend on it."""
        found, weights = super().rank(view)
        self.seen.append((view.time, found.tolist(), weights.tolist()))
        return view.queued, np.ones(len(view.queued))


def seen_in(columns, works, performance):
    """The ranks of the first 30 s, in which nothing finishes."""
    workload = jobs(*zip(np.repeat([0, 8, 16], 4).tolist(), [3, 2, 1, 4] * 3, works, strict=True))
    setup = Setup(fast_and_slow(), performance, Scenario(horizon=30.0))
    priorities = Recorded(network(columns), RULES)
    run_episode(Rltune(priorities), Simulator(workload, setup))
    return priorities.seen


@pytest.mark.parametrize(("columns", "same"), [(COLUMNS, True), (PROFILED, False)])
def test_scores_do_not_change_when_throughputs_and_work_change(columns, same):
    plain = seen_in(columns, [1000] * 12, IdealModel())
    other = seen_in(columns, np.random.default_rng(0).uniform(1000, 90000, 12), TwoThroughputs())
    assert (plain == other) is same
    assert len({weight for _, _, weights in plain for weight in weights}) > 3


def test_unseen_columns_count_for_nothing_in_torch_and_in_compiled_code():
    own, spec = network(), OptionSpec()
    decisions = made_up_decisions(spec, 2)
    scores, flat = own.scores(decisions), own.flat()
    with torch.no_grad():
        own.parts[1][JOB_REMAINING_TIME] += 5.0
        own.parts[2] += 5.0
    assert torch.equal(own.scores(decisions), scores)
    assert (own.flat() == flat).all()
    with torch.no_grad():
        own.parts[1][JOB_REQUESTED_GPUS] += 5.0
    assert not torch.equal(own.scores(decisions), scores)


def test_an_unknown_column_is_refused():
    with pytest.raises(MurmurationError, match=r"column 'job.speed' is unknown; there are: option.is_wait, .*cluster"):
        network(("job.speed",))


def test_it_learns_from_random_weights():
    world = small_world(num_nodes=2, num_jobs=30, load=2.0, num_evaluation=16)
    problem = OptionProblem([replace(world.task(), rules=RULES)], Blueprint(TARGET, {"hidden": 8}))
    problem.prepare(ValidationScope(16, None, 4), Quiet())
    method = GroupPPOSettings(num_workloads=4, group_size=4, num_minibatches=2, lr=1e-2, iterations=20)
    algorithm = method.start(problem, problem.build(1, None), 1)
    begun = problem.validate(algorithm.network(), {}).figures["tiny"]["sampled"]
    for _ in range(20):
        algorithm.train()
    assert problem.validate(algorithm.network(), {}).figures["tiny"]["sampled"] < 0.95 * begun
    algorithm.stop()


@pytest.mark.parametrize("program", [True, False])
def test_a_short_training_leaves_a_checkpoint_that_plays(tmp_path, program):
    """The program places jobs of a loaded checkpoint, or the environment's best fit does."""
    world = small_world(num_nodes=2, num_jobs=30, load=2.0, num_evaluation=2)
    blueprint = Blueprint(TARGET, {"hidden": 8, "program": program})
    problem = OptionProblem([replace(world.task(), rules=RULES)], blueprint)
    method = GroupPPOSettings(num_workloads=2, group_size=4, num_minibatches=2, lr=1e-2, iterations=6)
    settings = TrainingSettings(method, iterations=6, validate_every=3, num_validation=2, picture_every=0)
    assert Trainer(problem, settings, {"fifo": Fifo}, tmp_path, 1, Quiet()).run().iteration == 6
    policy = load_policy(tmp_path)
    assert isinstance(policy, Rltune if program else OptionScheduler)
    workload = world.source.episode(np.random.default_rng(0), "test")
    result = run_episode(policy, Simulator(workload, world.setup))
    assert result.num_unfinished == 0
