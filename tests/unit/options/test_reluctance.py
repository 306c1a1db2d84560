"""Networks begin reluctant to change running jobs, so that the first episodes are not one restart after the other."""

import numpy as np
import pytest
import torch

from agents.networks.decisions import Decisions
from agents.networks.option_attention import OptionAttention
from agents.networks.option_claims import OptionClaims
from agents.networks.option_scorer import OptionScorer
from agents.policies.options.playing import Player
from envs.options import OptionBatch, OptionRules, OptionSpec
from envs.options.columns import ACTION_NAMES, JOB_RUNS, JOB_WAITS, OPTION_START, OPTION_WAIT
from envs.simulation import EventKind
from tests.conformance.random_worlds import random_world


def one_decision(options: torch.Tensor, *, runs: bool) -> Decisions:
    """Two nodes and a job, which runs or waits, with these options, of which the first waits."""
    spec, none = OptionSpec(), torch.zeros(len(options), dtype=torch.int64)
    of = none.clone()
    of[OPTION_WAIT] = -1
    jobs = torch.rand(1, spec.job_features)
    jobs[0, [JOB_RUNS, JOB_WAITS]] = torch.tensor([float(runs), float(not runs)])
    return Decisions(
        options=options,
        jobs=jobs,
        nodes=torch.rand(2, spec.node_features),
        cluster=torch.rand(1, spec.cluster_features),
        job_of=of,
        node_of=of,
        decision_of=none,
        choice_of=none,
        choice_decision=none[:1],
        first=none[:1],
        job_decision=torch.zeros(1, dtype=torch.int64),
        node_decision=torch.zeros(2, dtype=torch.int64),
    )


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("make", [OptionScorer, OptionAttention, OptionClaims])
def test_changes_of_running_jobs_score_lower_at_first(make, runs):
    """By the reluctance exactly: the same options as if they started a job, but for their kind."""
    options = torch.zeros(len(ACTION_NAMES), OptionSpec().option_features)
    options[:, : len(ACTION_NAMES)] = torch.eye(len(ACTION_NAMES))
    decision = one_decision(options, runs=runs)
    scores = {}
    for reluctance in (0, 6):  # a whole number, as typed on a command line
        torch.manual_seed(1)
        network = make(OptionSpec(), reluctance=reluctance)
        if make is OptionScorer:  # the first unit of the plain network has other weights
            with torch.no_grad():
                network.output[1:] = 0.0
                if not reluctance:
                    network.output[0] = 0.0
        with torch.no_grad():
            scores[reluctance] = network.scores(decision).numpy()
    lower = runs & ~np.isin(np.arange(len(ACTION_NAMES)), (OPTION_WAIT, OPTION_START))
    np.testing.assert_allclose(scores[0] - scores[6], 6.0 * lower, atol=1e-5)


def test_an_untrained_policy_changes_running_jobs_less_often():
    changes = {0.0: 0, 8.0: 0}
    for reluctance in changes:
        for seed in range(6):
            torch.manual_seed(seed)
            world, rules = random_world(seed, plain=True), OptionRules(changes="move")
            batch = OptionBatch(world.setup, world.workload.models, len(world.workload), rules=rules, logging=True)
            Player(batch).play([world.workload], OptionScorer(OptionSpec(), reluctance=reluctance), [seed])
            events = batch.state.log(0).events["kind"]
            changes[reluctance] += int(np.isin(events, (EventKind.RESIZE, EventKind.STOP)).sum())
    assert changes[8.0] < changes[0.0] / 2
