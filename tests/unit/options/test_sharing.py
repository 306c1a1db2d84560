"""Options to share GPUs: the reference, rows that are carried over, and all faces agree."""

from collections import Counter

import numpy as np
import pytest
import torch

from agents.networks.option_scorer import OptionScorer
from envs.options import OptionBatch, OptionRules, OptionSpec
from envs.options.columns import ACTION_NAMES, OPTION_COLUMNS, SHARE
from envs.options.demonstrate import Demonstration
from envs.options.rules import CHANGES
from envs.simulation import Scenario
from envs.types import ClusterSpec, JobSpec, NodeSpec, Placement
from envs.workloads import Workload
from tests.conformance.random_worlds import random_world
from tests.unit.options.test_carrying import play_both
from tests.unit.options.test_option_scheduler import both, without_chance
from tests.unit.options.test_reference import play
from tests.unit.options.worlds import begun, listed, play_area, random_rules
from tests.unit.simulation.test_sharing import Together

CHUNK = 12


@pytest.mark.parametrize("turn", ["auction", "turns"])
@pytest.mark.parametrize("chunk", range(2))
def test_both_see_and_do_the_same(chunk, turn):
    changes: Counter[str] = Counter()
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world, rng = random_world(seed, plain=seed % 2 == 0, pairs=True), np.random.default_rng(seed)
        rules = random_rules(rng, changes=("start", "move", "move")[seed % 3], turn=turn, tune=chunk > 0, share=True)
        batch, reference = begun(world, rules)
        changes.update(play(f"{world.name} {rules}", batch, reference, rng))
        assert batch.state.log(0) == reference.simulator.log, world.name
    assert changes["share"] > CHUNK, changes
    assert min(changes[change] for change in ACTION_NAMES if chunk or change != "tune") > 0, changes


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_are_carried_over_are_right(seed):
    play_both(seed, 60, pairs=True, share=True, changes=CHANGES[seed % 3])


@pytest.mark.parametrize("changes", CHANGES)
def test_scheduler_and_environment_leave_one_log(changes):
    shared = 0
    for seed in range(6):
        torch.manual_seed(seed)
        rules = random_rules(np.random.default_rng(seed), changes=changes, share=True)
        world = without_chance(seed, pairs=True)
        log, result = both(world, OptionScorer(OptionSpec(), output_scale=1.0, reluctance=0.0), rules)
        assert log == result.log, f"{world.name} {rules}"
        shared += int((log.events["beside"] >= 0).sum())
    assert shared > 6


def pair_world(max_decisions: int = 64) -> OptionBatch:
    """Two jobs on a node of one GPU, the light one first."""
    jobs = [
        JobSpec(id=i, submit_time=0.0, num_gpus=1, work=100.0, model=model)
        for i, model in enumerate(("light", "heavy"))
    ]
    scenario = Scenario(restart_delay=0.0, sharing="pairs")
    cluster = ClusterSpec((NodeSpec("V100", 1),), "one")
    return play_area(
        cluster, Workload.of(jobs, "pair"), OptionRules(share=True, max_decisions=max_decisions), scenario, Together()
    )


def test_the_other_job_is_an_option_once_one_runs():
    batch = pair_world()
    assert [ACTION_NAMES[change] for change, *_ in listed(batch)] == ["start", "start"]
    batch.step(np.array([0 if listed(batch)[0][1] == 0 else 1]))
    assert listed(batch) == [(0, -1, -1, 0), (SHARE, 1, 0, 0)]
    row = dict(zip(OPTION_COLUMNS, batch.options().options[1].tolist(), strict=True))
    assert (row["is_share"], row["loses"], row["partner_loses"]) == (1.0, 0.5, 0.25)


def test_a_demonstration_leads_to_a_pair():
    batch = pair_world(max_decisions=8)
    wanted = {0: Placement({0: 1}), 1: Placement({0: 1}, beside=0)}
    for _ in range(2):
        batch.step(np.array([Demonstration(wanted, batch.arrays).choose()]))
    assert batch.state.log(0).events["beside"].tolist().count(0) == 1


def test_nothing_is_shared_where_the_task_does_not_let_jobs_share():
    for seed in range(4):
        world, rng = random_world(seed), np.random.default_rng(seed)
        batch, reference = begun(world, random_rules(rng, share=True))
        assert "share" not in play(world.name, batch, reference, rng)
