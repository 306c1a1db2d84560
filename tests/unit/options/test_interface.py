"""In random worlds, options lead to any allocation that packs jobs; what differs is counted by reason."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest

from baselines.srtf import Srtf
from envs.options import OptionRules
from envs.options.interface import DemonstratedScheduler, InterfaceCount, measure_interface, reason_of
from envs.scheduling import ClusterView
from envs.simulation import Simulator, run_episode
from envs.types import Allocation, ClusterSpec, Placement
from tests.conformance.random_worlds import random_world
from tests.unit.agents.worlds import small_world

ANYTHING_GOES = OptionRules(changes="move", num_candidates=32, max_decisions=999, distinct_nodes=False)


@dataclass
class Packer:
    """Stops, moves and resizes at random; jobs are packed onto as few nodes as there are, with a random number of GPUs.

    Args:
        disturb: probability that a running job loses its place in a round.
    """

    disturb: float = 0.4

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on."""
        self.rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """Keep some jobs and pack others, as long as there is room."""
        allocation = view.allocation(keep_running=True)
        for job in view.running.tolist():
            if self.rng.random() < self.disturb:
                allocation.stop(job)
        for job in self.rng.permutation(np.concatenate([view.queued, view.running])).tolist():
            if allocation.placement(job) is None:
                self._pack(view, allocation, job)
        return allocation

    def _pack(self, view: ClusterView, allocation: Allocation, job: int) -> None:
        """Give a job a random number of GPUs of one node; GPUs of several nodes only where none has enough."""
        least, runs = int(view.min_gpus[job]), view.throughputs(job) > 0  # [type, GPUs]
        free = np.where(runs[view.cluster.node_types, least], allocation.free_gpus, 0)
        if free.max() >= least:
            node = int(self.rng.choice(np.flatnonzero(free >= least)))
            gpus = int(self.rng.integers(least, min(free[node], view.max_gpus[job]) + 1))
            if runs[view.cluster.node_types[node], gpus]:
                allocation.place(job, {node: gpus})
        elif runs[:, least].any():
            allocation.pack(job, least, gpu_types=np.flatnonzero(runs[:, least]).tolist())


def played(seed: int, rules: OptionRules) -> InterfaceCount:
    """Play random allocations through options in a random world."""
    world = random_world(seed, plain=bool(seed % 2))
    scheduler = DemonstratedScheduler(Packer(), rules)
    run_episode(scheduler, Simulator(world.workload, world.setup, world.seed))
    return scheduler.count


def test_every_random_allocation_can_be_expressed():
    counts = [played(seed, ANYTHING_GOES) for seed in range(40)]
    assert [(count.equal_rounds, count.reasons) for count in counts] == [(count.rounds, {}) for count in counts]
    assert [count.equal_gpus for count in counts] == [count.rounds for count in counts]
    assert sum(count.rounds for count in counts) > 1000
    assert sum(count.jobs for count in counts) > 1000


def test_rules_that_forbid_changes_are_seen():
    """Without evictions jobs do not stop, and without resizes they keep their sizes too."""
    reasons = {
        changes: sum((played(seed, replace(ANYTHING_GOES, changes=changes)).reasons for seed in range(8)), Counter())
        for changes in ("start", "resize")
    }
    assert reasons["resize"]["is not stopped"] > 10
    assert reasons["start"]["keeps a wrong number of GPUs"] > 10


@pytest.mark.parametrize(
    ("before", "wanted", "found", "reason"),
    [
        (None, {0: 2}, None, "does not start as wanted on one node"),
        (None, {0: 2, 1: 1}, {0: 2}, "does not start on several nodes"),
        (None, None, {0: 1}, "starts unasked"),
        ({0: 1}, None, {0: 1}, "is not stopped"),
        ({0: 1}, {0: 1, 1: 1}, {0: 1}, "does not gain a node"),
        ({0: 1}, {0: 2}, {0: 1}, "keeps a wrong number of GPUs"),
        ({0: 1}, {0: 2}, None, "is stopped"),
    ],
)
def test_differences_have_reasons(before, wanted, found, reason):
    first, second, third = (None if gpus is None else Placement(gpus) for gpus in (before, wanted, found))
    assert reason_of(first, second, third, candidate=True) == reason


@pytest.mark.parametrize(
    ("named", "reason"),
    [({"batch_size": 64}, "other batch size"), ({"cpus": {0: 3.0}}, "other cores or memory")],
)
def test_what_placements_name_besides_gpus_is_counted_apart(named, reason):
    count, plain, richer = InterfaceCount(), Placement({0: 1}), Placement({0: 1}, **named)
    count.add({}, {0: richer, 1: plain}, {0: plain, 1: plain}, frozenset((0, 1)))
    count.add({}, {0: plain}, {0: plain}, frozenset((0, 1)))
    assert (count.rounds, count.equal_rounds, count.equal_gpus, count.named_rounds) == (2, 1, 2, 1)
    assert count.reasons == {reason: 1}


def test_a_scheduler_whose_allocations_are_reached_loses_nothing():
    world = small_world(num_nodes=2, num_evaluation=2)
    loss = measure_interface(Srtf(), world.source.evaluation("validation"), world.setup, ANYTHING_GOES)
    assert loss.equal_rounds == loss.equal_jobs == loss.jct_ratio == 1.0
    assert loss.count.rounds > 20
