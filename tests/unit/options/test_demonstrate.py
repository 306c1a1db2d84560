"""Allocations as options: worked by hand, and any allocation in random worlds."""

from envs.options import OptionRules
from envs.options.columns import EVICT, JOIN, MOVE, RESIZE, START, WAIT
from envs.options.demonstrate import Demonstration, GpusByNode
from envs.types import Placement
from tests.unit.episodes.players import jobs_like
from tests.unit.options.worlds import Listed, choose, listed, play_area
from tests.unit.simulation.plays import cluster_of

ANYTHING_GOES = OptionRules(changes="move", num_candidates=32, max_decisions=999, distinct_nodes=False)


def demonstrated(batch, wanted: dict[int, GpusByNode]) -> Listed:
    """The options that lead to an allocation, without the one that ends the round."""
    taken: Listed = []
    begun = batch.state.episode[0, 0].num_rounds
    demonstration = Demonstration({job: Placement(gpus) for job, gpus in wanted.items()}, batch.arrays)
    while True:
        option = listed(batch)[demonstration.choose()]
        if option[0] == WAIT:
            return taken
        taken.append(option)
        choose(batch, option)
        if batch.state.episode[0, 0].num_rounds > begun:
            return taken


def two_rigid_jobs():
    """Jobs 0 and 1 of 4 GPUs run on nodes 0 and 1; job 2 needs 1 GPU at 8 s."""
    batch = play_area(cluster_of(4, 4), jobs_like((0, 4, 400), (0, 4, 400), (8, 1, 1)), ANYTHING_GOES)
    choose(batch, (START, 0, 0, 4))
    choose(batch, (START, 1, 1, 4))
    return batch


def test_a_job_is_evicted_for_another():
    batch = two_rigid_jobs()
    assert demonstrated(batch, {0: {0: 4}, 2: {1: 1}}) == [(EVICT, 1, 1, 0), (START, 2, 1, 1)]


def test_two_jobs_swap_their_nodes():
    """Neither has room while the other is there: one is evicted, the other moves, and the first starts anew."""
    batch = two_rigid_jobs()
    assert demonstrated(batch, {0: {1: 4}, 1: {0: 4}}) == [(EVICT, 0, 0, 0), (MOVE, 1, 0, 4), (START, 0, 1, 4)]


def test_a_job_gives_gpus_to_another_and_spreads():
    """Job 0 shrinks from 3 to 2 GPUs of node 0 and gets one of node 1; job 1 starts on the GPUs that are free then."""
    batch = play_area(cluster_of(4, 4), jobs_like((0, 3, 400, 1, 4), (8, 2, 20)), ANYTHING_GOES)
    choose(batch, (START, 0, 0, 3))
    choose(batch, (WAIT, -1, -1, 0))
    taken = demonstrated(batch, {0: {0: 2, 1: 1}, 1: {0: 2}})
    assert taken[0] == (RESIZE, 0, 0, 2)
    assert sorted(taken[1:]) == [(START, 1, 0, 2), (JOIN, 0, 1, 1)]


def test_a_job_whose_nodes_all_change_starts_anew():
    batch = play_area(cluster_of(4, 4, 4), jobs_like((0, 4, 400, 1, 4), (8, 1, 20)), ANYTHING_GOES)
    choose(batch, (START, 0, 0, 2))
    choose(batch, (JOIN, 0, 1, 1))
    choose(batch, (WAIT, -1, -1, 0))
    taken = demonstrated(batch, {0: {0: 1, 1: 2, 2: 1}})
    assert taken == [(EVICT, 0, 0, 0), (START, 0, 1, 2), (JOIN, 0, 0, 1), (JOIN, 0, 2, 1)]


def test_without_evictions_the_draft_comes_as_near_as_it_can():
    """Job 0 should stop: it cannot. Job 1 should get 3 GPUs of node 0, where 2 are free."""
    rules = OptionRules(changes="resize", distinct_nodes=False)
    batch = play_area(cluster_of(4), jobs_like((0, 2, 400), (8, 3, 20, 1, 3)), rules)
    choose(batch, (START, 0, 0, 2))
    assert demonstrated(batch, {1: {0: 3}}) == [(START, 1, 0, 2)]
