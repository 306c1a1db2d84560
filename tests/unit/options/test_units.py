"""Rows have no units: worlds that differ only in the scale of times, throughputs or numbers look the same."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agents.policies.options.scheduler import as_lesson
from agents.policies.options.torch_playing import choose as choose_option
from envs.options import ListedOptions, OptionBatch, OptionRules
from envs.options.columns import START, WAIT
from envs.types import ClusterSpec, Configuration, NodeSpec
from envs.workloads import Workload
from tests.conformance.random_worlds import RandomWorld, Workshop, random_world
from tests.unit.episodes.players import jobs_like
from tests.unit.options.test_hidden import random_scorer
from tests.unit.options.worlds import batch_of, choose, listed, play_area

RULES = OptionRules(changes="move", idle="limited")
STEPS = 60
WAITING = (WAIT, -1, -1, 0)


class Faster(Workshop):
    """The same models at three times the throughput."""

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return 3.0 * super().throughput(model, configuration)


def slower(world: RandomWorld) -> RandomWorld:
    """All times are ten times as long."""
    scenario, jobs = world.setup.scenario, world.workload.jobs.copy()
    for name in ("submit_time", "work"):
        jobs[name] *= 10.0
    rounds = replace(
        scenario.rounds,
        interval=scenario.rounds.interval and 10.0 * scenario.rounds.interval,
        stall_interval=10.0 * scenario.rounds.stall_interval,
    )
    times = {name: 10.0 * getattr(scenario, name) for name in ("start_delay", "restart_delay", "horizon")}
    setup = replace(world.setup, scenario=replace(scenario, rounds=rounds, **times))
    return replace(world, setup=setup, workload=replace(world.workload, jobs=jobs))


def faster(world: RandomWorld) -> RandomWorld:
    """All throughputs are three times as high, and jobs have three times as many samples."""
    jobs = world.workload.jobs.copy()
    jobs["work"] *= 3.0
    assert isinstance(world.setup.performance, Workshop)
    setup = replace(world.setup, performance=Faster(world.setup.performance.curve))
    return replace(world, setup=setup, workload=replace(world.workload, jobs=jobs))


@torch.inference_mode()
@pytest.mark.parametrize(("change", "times"), [(slower, 10.0), (faster, 1.0)])
def test_a_policy_chooses_the_same_at_another_scale(change, times):
    """From the first decision of random worlds to the last."""
    decisions = 0
    for seed in range(8):
        torch.manual_seed(seed)
        network, world = random_scorer(seed), random_world(seed, plain=True)
        one, other = (batch_of(each.setup, each.workload, RULES, seed) for each in (world, change(world)))
        for _ in range(STEPS):
            assert one.ended[0] == other.ended[0]
            if one.ended[0]:
                break
            mine, theirs = one.options(), other.options()
            assert listed(one) == listed(other)
            assert other.time[0] == pytest.approx(times * one.time[0])
            for name in ("options", "jobs", "nodes", "cluster"):
                np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=1e-5, atol=1e-5)
            chosen = [choose_option(network, as_lesson(each), 0.0, None)[0] for each in (mine, theirs)]
            assert chosen[0] == chosen[1]
            one.step(chosen[0])
            other.step(chosen[1])
            decisions += 1
    assert decisions > 200


def rows_of(found: ListedOptions) -> list[tuple[float, ...]]:
    """What a network sees of each option, rounded."""
    jobs, nodes = np.concatenate([found.jobs, found.jobs[:1]]), np.concatenate([found.nodes, found.nodes[:1]])
    seen = np.concatenate([found.options, jobs[found.job_of], nodes[found.node_of]], axis=1)
    seen[found.job_of < 0, found.options.shape[1] :] = 0.0
    return [tuple(row) for row in (np.round(seen.astype(np.float64), 5) + 0.0).tolist()]


@torch.inference_mode()
def test_four_times_as_many_nodes_and_jobs_look_the_same():
    """Every job and every node is there once or four times; the copies take each decision one after another.

    Beside the same rows there are those of jobs on nodes of two copies.
    """
    rules = OptionRules(changes="move", max_decisions=1, distinct_nodes=False)

    def world(copies: int) -> OptionBatch:
        nodes = [NodeSpec("V100", 4), NodeSpec("V100", 2)] * copies
        jobs = [(0, 2, 900, 1, 4), (0, 3, 100), (0, 1, 300, 1, 8), (50, 3, 4000), (50, 1, 40)]
        return play_area(ClusterSpec(tuple(nodes)), jobs_of(jobs, copies), rules)

    one, four = world(1), world(4)
    for seed in range(4):
        best = [choose_option(random_scorer(seed), as_lesson(each.options()), 0.0, None)[0][0] for each in (one, four)]
        assert rows_of(one.options())[best[0]] == rows_of(four.options())[best[1]]
    for job, node, gpus in ((0, 1, 2), (2, 0, 1), (-1, 0, 0)):
        assert {*rows_of(one.options())} <= {*rows_of(four.options())}
        np.testing.assert_allclose(one.options().cluster, four.options().cluster, atol=1e-6)
        for batch, copies in ((one, 1), (four, 4)):
            for copy in range(copies if job >= 0 else 1):
                choose(batch, (START, job * copies + copy, 2 * copy + node, gpus) if job >= 0 else WAITING)
    assert one.time[0] == four.time[0] == 50.0
    assert {*rows_of(one.options())} <= {*rows_of(four.options())}
    assert len(one.options().what) > 11


def jobs_of(jobs: list[Any], copies: int) -> Workload:
    """Each job so many times."""
    return jobs_like(*(job for job in jobs for _ in range(copies)))
