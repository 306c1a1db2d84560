"""From GPUs of each type to nodes: who stays, who moves, who is squeezed in."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import SamplingMatching
from baselines.sampling_matching.placing import arranged, place_plan
from baselines.sampling_matching.problem import of_jobs
from baselines.sampling_matching.round import GangSpeeds, Round, round_of, speed_on
from envs.types import ClusterSpec, ExecutionPlan, Gigabytes, NodeSpec
from tests.golden.playground import jobs, two_nodes
from tests.unit.baselines.rounds import CROWDED, busy_round, round_at


@dataclass(frozen=True)
class SlowLinks:
    """A sample per GPU and second on one node; a tenth of that on several."""

    models: tuple[str, ...] = ("any",)

    def throughput(
        self,
        model: str,
        gpu_type: str,
        num_gpus: int,
        num_nodes: int = 1,
        *,
        batch_size: int | None = None,
        plan: ExecutionPlan | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> float:
        """Samples per second."""
        return num_gpus * (0.1 if num_nodes > 1 else 1.0)


def seen(view):
    """The round of a view."""
    speeds = GangSpeeds()
    speeds.look_up(view)
    return round_of(view, speeds, "Matching", 0.0, None)


def round_of_some(this, rows):
    """The round with fewer jobs."""
    assert this.problem is not None
    return Round(this.jobs[rows], of_jobs(this.problem, rows), this.order)


def placed(view, this, counts):
    """GPUs by node of every job under the wish that carries out a plan."""
    wish = view.allocation(keep_running=True)
    place_plan(view, wish, this, np.array(counts))
    return {job: dict(place.gpus) for job in sorted(wish.jobs()) if (place := wish.placement(job))}


def two_small_jobs(restart_delay):
    """t=1: jobs 0 and 1 hold two GPUs on a node each, so job 2, which wants four, finds no node for itself."""
    workload = jobs((0, 2, 50), (0, 2, 50), (1, 4, 10))
    place = [(0.0, {0: {0: 2}, 1: {1: 2}})]
    return round_at(1, workload, two_nodes(), place=place, performance=SlowLinks(), restart_delay=restart_delay)


def test_a_large_job_takes_a_node_if_the_move_is_cheap():
    """On one node job 2 takes 10 s, on two 100 s; the other must move, for 5 s."""
    view = two_small_jobs(5.0)
    this = seen(view)
    found = placed(view, this, [[2], [2], [4]])
    assert len(found[2]) == 1
    assert list(found[0]) == list(found[1]) != list(found[2])


def test_else_it_takes_what_there_is():
    """A move of 500 s is dearer than the 90 s that slow links cost."""
    view = two_small_jobs(500.0)
    assert placed(view, seen(view), [[2], [2], [4]]) == {0: {0: 2}, 1: {1: 2}, 2: {0: 2, 1: 2}}


def test_fewer_gpus_in_one_piece_may_be_faster():
    """The plan says four, there are two free on each node: an elastic job takes two of one, ten times as fast each."""
    workload = jobs((0, 2, 50), (0, 2, 50), (1, 4, 10), elastic=(2, 4))
    place = [(0.0, {0: {0: 2}, 1: {1: 2}})]
    view = round_at(1, workload, two_nodes(), place=place, performance=SlowLinks(), restart_delay=500.0)
    found = placed(view, seen(view), [[2], [2], [4]])
    assert (found[0], found[1]) == ({0: 2}, {1: 2})
    assert list(found[2].values()) == [2]


def test_who_is_not_in_the_plan_gets_what_is_left():
    """Jobs 0 and 1 run, with 200 GPU-s left each; job 2 wants six GPUs for 60 GPU-s, gets in with job 3, and is given
    node 0 and half of node 1. Of the two others one has no GPUs any more, and the other goes on where it is.
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
def test_arrangements_hold_what_they_promise(seed, displace):
    """No node holds more than it has; a place is the plan's GPUs or fewer of one type; and the worth is theirs."""
    view, rng = busy_round(seed, restart_delay=2.0), np.random.default_rng(seed)
    this = seen(view)
    assert this.problem is not None
    counts = np.zeros_like(this.problem.present)
    left = this.problem.supply.copy()
    for row in rng.permutation(len(counts)).tolist():
        kind = int(rng.integers(len(left)))
        if left[kind] >= this.problem.least[row]:
            counts[row, kind] = this.problem.least[row]
            left[kind] -= counts[row, kind]
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
            seconds = this.problem.work[row] / speed_on(view, job, gpus) + 2.0 * moved
            total += this.problem.weight[row] * seconds
        missing += not gpus
        of_kind = np.bincount(view.cluster.node_types[list(gpus)], list(gpus.values()), len(left)) if gpus else None
        assert of_kind is None or (of_kind == counts[row]).all() or (of_kind > 0).sum() == 1
        stays = runs and (counts[row] == this.problem.present[row]).all()
        assert displace or not stays or gpus == view.placement(job).gpus
    assert (held <= view.capacity).all()
    assert found.worth[0] == missing
    assert found.worth[1] == pytest.approx(total)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_a_round_leaves_no_gpu_idle_that_a_waiting_job_could_use(seed):
    """Whoever still waits runs nowhere in what is free: no node of any of its types holds its least."""
    view = busy_round(seed)
    scheduler = SamplingMatching()
    scheduler.reset(view.cluster, np.random.default_rng(seed))
    wish = scheduler.schedule(view)
    waiting = set(range(len(view.num_gpus))) - wish.jobs()
    for job in waiting:
        size = int(view.min_gpus[job])
        kinds = np.flatnonzero(view.speed(job)[:, size] > 0)
        free = wish.free_gpus[np.isin(view.cluster.node_types, kinds)]
        assert not (free >= size).any()
    assert CROWDED.num_gpus - wish.free_gpus.sum() == sum(
        sum(place.gpus.values()) for job in wish.jobs() if (place := wish.placement(job))
    )


def test_an_empty_cluster_of_one_node_is_enough():
    view = round_at(0, jobs((0, 1, 5)), ClusterSpec((NodeSpec("plain", 1),)))
    assert placed(view, seen(view), [[1]]) == {0: {0: 1}}
