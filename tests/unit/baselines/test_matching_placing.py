"""Placement of a matching on nodes: jobs that stay, move, or fill left-over GPUs."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import SamplingMatching
from baselines.sampling_matching.placing import arranged, place_matching
from baselines.sampling_matching.problem import of_jobs
from baselines.sampling_matching.round import GangThroughputs, MatchingRound, compute_gang_throughput, round_of
from envs.types import ClusterSpec, Configuration, NodeSpec
from tests.golden.playground import jobs, two_nodes
from tests.unit.baselines.rounds import CROWDED, busy_round, round_at


@dataclass(frozen=True)
class SlowLinks:
    """One sample per GPU and second on one node; a tenth of that on several."""

    models: tuple[str, ...] = ("any",)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return configuration.num_gpus * (0.1 if configuration.num_nodes > 1 else 1.0)


def seen(view):
    """The round of a view."""
    gang_throughputs = GangThroughputs()
    gang_throughputs.look_up(view)
    return round_of(view, gang_throughputs, "Matching", 0.0, None)


def round_of_some(this, rows):
    """The round with fewer jobs."""
    assert this.problem is not None
    return MatchingRound(this.jobs[rows], of_jobs(this.problem, rows), this.order)


def placed(view, this, counts):
    """GPUs by node of every job in the allocation that carries out a matching."""
    allocation = view.allocation(keep_running=True)
    place_matching(view, allocation, this, np.array(counts))
    return {job: dict(place.gpus) for job in sorted(allocation.jobs()) if (place := allocation.placement(job))}


def two_small_jobs(restart_delay):
    """t=1: jobs 0 and 1 hold two GPUs on a node each, so job 2, which needs four, finds no free node."""
    workload = jobs((0, 2, 50), (0, 2, 50), (1, 4, 10))
    place = [(0.0, {0: {0: 2}, 1: {1: 2}})]
    return round_at(1, workload, two_nodes(), place=place, performance=SlowLinks(), restart_delay=restart_delay)


def test_a_large_job_takes_a_node_if_moving_is_cheap():
    """On one node job 2 takes 10 s, on two 100 s; another job must move, which costs 5 s."""
    view = two_small_jobs(5.0)
    this = seen(view)
    found = placed(view, this, [[2], [2], [4]])
    assert len(found[2]) == 1
    assert list(found[0]) == list(found[1]) != list(found[2])


def test_a_large_job_is_split_if_moving_is_costly():
    """A move costs 500 s, more than the 90 s that slow links cost."""
    view = two_small_jobs(500.0)
    assert placed(view, seen(view), [[2], [2], [4]]) == {0: {0: 2}, 1: {1: 2}, 2: {0: 2, 1: 2}}


def test_fewer_gpus_in_one_piece_can_be_faster():
    """It is given four, two are free on each node: an elastic job takes two of one node, each ten times as fast."""
    workload = jobs((0, 2, 50), (0, 2, 50), (1, 4, 10), elastic=(2, 4))
    place = [(0.0, {0: {0: 2}, 1: {1: 2}})]
    view = round_at(1, workload, two_nodes(), place=place, performance=SlowLinks(), restart_delay=500.0)
    found = placed(view, seen(view), [[2], [2], [4]])
    assert (found[0], found[1]) == ({0: 2}, {1: 2})
    assert list(found[2].values()) == [2]


def test_jobs_outside_the_matching_get_left_over_gpus():
    """Jobs 0 and 1 run, with 200 GPU-s left each; job 2 needs six GPUs for 60 GPU-s, is admitted with job 3, and gets
    node 0 and half of node 1. Of jobs 0 and 1 one has lost its GPUs, and the other continues where it is.
    """
    cluster = ClusterSpec((NodeSpec("plain", 4), NodeSpec("plain", 4), NodeSpec("plain", 1)))
    workload = jobs((0, 4, 50), (0, 1, 900), (1, 6, 10), (1, 2, 1))
    view = round_at(1, workload, cluster, place=[(0.0, {0: {0: 4}, 1: {2: 1}})])
    this = seen(view)
    assert this.jobs.tolist() == [1, 2, 3]
    some = round_of_some(this, [1, 2])
    assert placed(view, some, [[6], [2]]) == {1: {2: 1}, 2: {0: 4, 1: 2}, 3: {1: 2}}


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), displace=st.booleans())
def test_arrangements_are_valid_and_have_their_worth(seed, displace):
    """No node holds more than it has; a place has the planned GPUs or fewer of one type; the worth matches."""
    view, rng = busy_round(seed, restart_delay=2.0), np.random.default_rng(seed)
    this = seen(view)
    assert this.problem is not None
    counts = np.zeros_like(this.problem.present)
    left = this.problem.supply.copy()
    for row in rng.permutation(len(counts)).tolist():
        gpu_type = int(rng.integers(len(left)))
        if left[gpu_type] >= this.problem.least[row]:
            counts[row, gpu_type] = this.problem.least[row]
            left[gpu_type] -= counts[row, gpu_type]
    order = rng.permutation(len(counts)).tolist()
    found = arranged(view, this, counts, order, displace)
    held = np.zeros(view.cluster.num_nodes, np.int64)
    total, missing = 0.0, 0
    for row, gpus in enumerate(found.places):
        for node, count in gpus.items():
            held[node] += count
        job = int(this.jobs[row])
        runs = job in view.running
        if gpus:
            moved = runs and gpus != view.placement(job).gpus
            seconds = this.problem.work[row] / compute_gang_throughput(view, job, gpus) + 2.0 * moved
            total += this.problem.weight[row] * seconds
        missing += not gpus
        by_type = np.bincount(view.cluster.node_types[list(gpus)], list(gpus.values()), len(left)) if gpus else None
        assert by_type is None or (by_type == counts[row]).all() or (by_type > 0).sum() == 1
        stays = runs and (counts[row] == this.problem.present[row]).all()
        assert displace or not stays or gpus == view.placement(job).gpus
    assert (held <= view.capacity).all()
    assert found.worth[0] == missing
    assert found.worth[1] == pytest.approx(total)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_no_gpu_is_idle_that_a_waiting_job_could_use(seed):
    """No free GPUs of any of its types fit the least size of a waiting job."""
    view = busy_round(seed)
    scheduler = SamplingMatching()
    scheduler.reset(view.cluster, np.random.default_rng(seed))
    allocation = scheduler.schedule(view)
    waiting = set(range(len(view.num_gpus))) - allocation.jobs()
    for job in waiting:
        size = int(view.min_gpus[job])
        gpu_types = np.flatnonzero(view.throughputs(job)[:, size] > 0)
        free = allocation.free_gpus[np.isin(view.cluster.node_types, gpu_types)]
        assert not (free >= size).any()
    assert CROWDED.num_gpus - allocation.free_gpus.sum() == sum(
        sum(place.gpus.values()) for job in allocation.jobs() if (place := allocation.placement(job))
    )


def test_a_job_is_placed_on_a_cluster_of_one_gpu():
    view = round_at(0, jobs((0, 1, 5)), ClusterSpec((NodeSpec("plain", 1),)))
    assert placed(view, seen(view), [[1]]) == {0: {0: 1}}
