"""Several decisions from one scoring: what they touch is apart, and each is still offered after the ones before."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from agents.networks.decisions import Decisions
from agents.policies.options.scheduler import OptionScheduler
from envs.options import OptionRules
from envs.options.columns import JOIN, OPTION_COLUMNS, SHARE, START, WAIT
from envs.performance import IdealModel
from envs.simulation import EventKind, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.unit.options.test_option_scheduler import Linear, without_chance
from tests.unit.options.worlds import random_rules


class MostGpus(nn.Module):
    """Prefers options with many GPUs, and counts how often it is asked."""

    asked = 0

    def scores(self, decisions: Decisions) -> torch.Tensor:
        """Return float32[M]."""
        self.asked += 1
        return decisions.options[:, OPTION_COLUMNS.index("gpus")]


def starts(jobs: list[tuple[int, int]], nodes: int, at_once: int) -> tuple[list[tuple[int, list[int]]], int]:
    """Start jobs (fewest, most GPUs) at time 0 on equal nodes of four; return who started where, and the scorings."""
    cluster = ClusterSpec((NodeSpec("V100", 4),) * nodes)
    specs = [
        JobSpec(i, 0.0, least, 100.0, "any", min_gpus=least, max_gpus=most) for i, (least, most) in enumerate(jobs)
    ]
    network = MostGpus()
    rules = OptionRules(idle="never", at_once_per_node=at_once / nodes)
    result = run_episode(OptionScheduler(network, rules), Simulator(Workload.of(specs), Setup(cluster, IdealModel())))
    events = result.log.events
    first = np.flatnonzero((events["kind"] == EventKind.START) & (events["time"] == 0.0))
    where = [result.log.placement(int(i)) for i in first]
    return [(int(events["job"][i]), sorted(at.gpus)) for i, at in zip(first, where, strict=True) if at], network.asked


def test_equal_nodes_are_used_one_after_another_from_one_scoring():
    found, asked = starts([(4, 4)] * 3, nodes=3, at_once=3)
    assert found == [(0, [1]), (1, [2]), (2, [0])]  # the last option has the place of waiting
    assert asked == 1
    again, asked = starts([(4, 4)] * 3, nodes=3, at_once=1)
    assert sorted(nodes for _, nodes in again) == [[0], [1], [2]]
    assert asked == 2  # the last one has no other option


def test_no_node_and_no_job_is_touched_twice_by_one_scoring():
    """Two nodes, jobs of two GPUs: two start from the first scoring, two from the second, on the halves that are left.

    A third of the first scoring would need a node that it has used, and a job that grows is asked for anew.
    """
    found, asked = starts([(2, 2)] * 4, nodes=2, at_once=4)
    assert sorted(node for _, (node,) in found) == [0, 0, 1, 1]
    assert asked == 2


def test_a_gang_is_begun_alone():
    """Though the option of the other job, on the node that the gang leaves free, is known from the first scoring."""
    found, asked = starts([(8, 8), (3, 3)], nodes=3, at_once=3)
    assert len({node for _, nodes in found for node in nodes}) == 3
    assert asked == 2


class ByReference(OptionScheduler):
    """Takes the same options one by one, each found in a list that is made anew after the one before."""

    @torch.inference_mode()
    def _decide_in_torch(self):
        over = False
        while not over:
            options = self._round.options()
            over = self._round.step(0) if len(options.what) == 1 else self._take_several(options)

    def _take_several(self, options):
        scores, arrays = self._scores(options), self._round.arrays
        empty = (arrays.world.nodes["num_jobs"][0] == 0) & (arrays.equals_before == 0) & bool(self.rules.distinct_nodes)
        hidden = (arrays.equals_before == 1).copy()
        ids, touched_jobs, touched_nodes = options.job_ids.tolist(), set[int](), set[int]()
        wanted = int(scores.argmax())
        over = self._take(self._round.options(), wanted, touched_jobs, touched_nodes)
        for _ in range(self._round.at_once - 1):
            if over or arrays.rules[0, 0].gang >= 0:
                break
            now = self._round.options()
            places = [(int(action), now.job_ids[row], node, amount) for action, row, node, amount in now.what.tolist()]
            for option in np.argsort(-scores, kind="stable").tolist():
                action, row, node, amount = options.what[option].tolist()
                if action == WAIT:
                    return over
                job = arrays.world.jobs[0, ids[row]]
                is_gang = action in (START, JOIN) and job.gpus + amount < job.min_gpus
                if ids[row] in touched_jobs or action == SHARE or is_gang:
                    continue
                if node in touched_nodes:
                    equal = np.flatnonzero(hidden & (arrays.classes == arrays.classes[node]) & empty[node])
                    left = [each for each in equal.tolist() if each not in touched_nodes]
                    if not left:
                        continue
                    node = left[0]
                over = self._take(now, places.index((action, ids[row], node, amount)), touched_jobs, touched_nodes)
                break
            else:
                break
        return over

    def _take(self, options, place, touched_jobs, touched_nodes):
        """Carry out an option; remember its job, the job's partner, and the nodes of both before and after."""
        world = self._round.arrays.world
        _, row, node, _ = options.what[place].tolist()
        if row >= 0:
            job = options.job_ids[row]
            jobs = [each for each in (job, int(world.jobs[0, job].partner)) if each >= 0]
            touched_jobs.update(jobs)
            touched_nodes.add(node)
            for each in jobs:
                share = int(world.jobs[0, each].first_share)
                while share >= 0:
                    touched_nodes.add(int(world.shares[0, share].node))
                    share = int(world.shares[0, share].next_of_job)
        return self._round.step(place)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_taken_from_one_scoring_is_still_offered_one_by_one(seed):
    torch.manual_seed(seed)
    network, world = Linear(), without_chance(seed)
    rules = random_rules(np.random.default_rng(seed), changes="move", turn="auction", max_decisions=30)
    rules = replace(rules, at_once_per_node=100.0, num_candidates=64, max_starts=8192)
    runs = [
        run_episode(make(network, rules), Simulator(world.workload, world.setup))
        for make in (OptionScheduler, ByReference)
    ]
    assert runs[0].log == runs[1].log
    assert len(runs[0].log.events) > 3
