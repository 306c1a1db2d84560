"""A draft of a round: free GPUs, offers, claims, quotas and growth, one step at a time."""

import math

import numpy as np
import pytest

from baselines.rubick.curves import NOWHERE, SensitivityCurves
from baselines.rubick.draft import Claim, DraftAllocation, Held, assign_shares
from baselines.rubick.round import (
    build_allocation,
    grow_jobs,
    growths,
    on_own_node,
    place_minimum,
    place_spanning,
    read_held,
    within_quota,
)
from envs.types import ClusterSpec, NodeSpec
from tests.unit.baselines.rubick_worlds import Told, first_view, job, nodes, running

LATER = 99  # a claimant without GPUs


def draft_of(jobs, places, cluster, *, movable=True, world=None, quotas=None):
    """The draft of a round in which `jobs` hold `places`; one more job has just been submitted."""
    view = running(jobs, places, cluster, world=world, quotas=quotas)
    curves = SensitivityCurves(cluster, None)
    held = read_held(view, curves)
    return DraftAllocation.of(view, curves, held, held if movable else ()), held


@pytest.fixture
def linear():
    """Job 0, linear, requests four GPUs and runs on all of node 0; node 1 is free."""
    return draft_of([job(0, "linear", 4, 100)], {0: {0: 4}}, nodes(4, 4))


def test_the_draft_starts_with_the_running_jobs(linear):
    draft, held = linear
    assert held[0] == Held({0: 4}, 0, draft.curves.exactly(draft.view, 0, 0, 4, 1))
    assert (held[0].num_gpus, held[0].point.throughput) == (4, 4.0)
    assert draft.free.tolist() == [0, 4]


def test_give_and_take_by_hand(linear):
    draft, held = linear
    draft.give(0, Held({0: 1, 1: 2}, 0, NOWHERE))
    assert draft.free.tolist() == [3, 2]
    draft.take(0)
    draft.take(0)
    assert (draft.free.tolist(), draft.held) == ([4, 4], {})
    assert held[0].num_gpus == 4  # the state at the start of the round is unchanged


def test_undo_restores_everything(linear):
    draft, held = linear
    draft.undo(draft.mark())  # there are no changes yet
    before = draft.mark()
    draft.give(0, Held({1: 2}, 0, NOWHERE))
    draft.give(7, Held({0: 3, 1: 1}, 0, NOWHERE))
    between, version = draft.mark(), draft.version
    draft.take(0)
    draft.give(8, Held({0: 1}, 0, NOWHERE))
    assert (draft.on(0), draft.on(1), list(draft.in_order())) == ([7, 8], [7], [7, 8])
    draft.undo(between)
    assert (draft.version, draft.free.tolist(), draft.movable) == (version, [1, 1], {0, 7})
    assert (draft.on(0), draft.on(1), list(draft.in_order())) == ([7], [0, 7], [0, 7])
    draft.undo(before)
    assert (draft.held, draft.movable, draft.free.tolist(), draft.version) == (held, {0}, [0, 4], 0)
    assert (draft.on(0), draft.on(1)) == ([0], [])


def test_find_uses_best_fit():
    draft, _ = draft_of([job(0, "linear", 2, 100)], {0: {0: 2}}, nodes(4, 4))
    assert draft.find(1, 0, 2, draft.free).gpus == {0: 2}
    assert draft.find(1, 0, 1, draft.free).gpus == {0: 1}


def test_more_nodes_are_used_only_if_faster_than_fewer_gpus():
    """Two GPUs are free on each node. Four on both run at 4 x apart; two on one at 2."""
    jobs = [job(0, "linear", 2, 100), job(0, "linear", 2, 100), job(0, "linear", 4, 10)]
    places = {0: {0: 2}, 1: {1: 2}}
    fast, _ = draft_of(jobs, places, nodes(4, 4), world=Told(apart=0.75))
    assert fast.find(2, 0, 4, fast.free).gpus == {0: 2, 1: 2}
    slow, _ = draft_of(jobs, places, nodes(4, 4), world=Told(apart=0.5))
    assert slow.find(2, 0, 4, slow.free) is None
    assert slow.find(2, 0, 5, slow.free) is None


def test_the_level_holds_over_several_nodes():
    """Four GPUs over two nodes would be slower than guaranteed."""
    jobs = [job(0, "linear", 2, 100), job(0, "linear", 2, 100), job(0, "linear", 4, 10, guaranteed=True)]
    draft, _ = draft_of(jobs, {0: {0: 2}, 1: {1: 2}}, nodes(4, 4), world=Told(apart=0.9))
    assert draft.find(2, 0, 4, draft.free) is None


def test_a_large_job_fits_on_unequal_nodes():
    """Eight GPUs on nodes of 4, 2 and 2: all three nodes are used, although two nodes of four would be fewer."""
    view, _ = first_view([job(0, "whole", 8, 8)], nodes(4, 2, 2))
    curves = SensitivityCurves(view.cluster, None)
    draft = DraftAllocation.of(view, curves, {}, ())
    found = draft.find(0, 0, 8, draft.free)
    assert found is not None
    assert found.gpus == {0: 4, 1: 2, 2: 2}


def test_an_offer_is_the_next_smaller_size(linear):
    draft, _ = linear
    offer = draft.offer(0, 0, Claim(LATER, 1.0))
    assert (offer.slope, offer.keeps, offer.point.throughput) == (0.25, {0: 3}, 3.0)
    assert draft.offer(0, 0, Claim(LATER, 0.25)) is None  # the claimant gains no more than the job loses
    assert draft.offer(0, 0, Claim(0, 1.0)) is None  # a job gives nothing to itself


def test_a_job_offers_to_stop_only_for_starved_and_guaranteed_jobs():
    draft, _ = draft_of([job(0, "gang", 2, 10)], {0: {0: 2}}, nodes(4))
    assert draft.offer(0, 0, Claim(LATER, 1000.0)) is None
    for claim in (Claim(LATER, math.inf), Claim(LATER, math.inf, guaranteed=True)):
        offer = draft.offer(0, 0, claim)
        assert (offer.keeps, offer.point, offer.slope) == ({}, NOWHERE, 0.5)


def test_gpus_beyond_the_need_do_not_lower_the_slope():
    """Stopping a job of eight GPUs loses eight times as much per GPU if only one is needed."""
    draft, _ = draft_of([job(0, "whole", 8, 100)], {0: {0: 4, 1: 4}}, nodes(4, 4))
    slopes = [draft.offer(0, 0, Claim(LATER, math.inf), lacks).slope for lacks in (1, 4, 8, 9)]
    assert slopes == [1.0, 0.25, 0.125, 0.125]


def test_a_gang_is_not_stopped_for_a_few_gpus():
    """A starved job needs two GPUs of node 0. linear loses a quarter of its throughput per GPU. The gang over both
    nodes would lose half per GPU, and an eighth only if all eight were needed.
    """
    jobs = [job(0, "whole", 8, 100), job(0, "linear", 4, 100, most=4)]
    draft, held = draft_of(jobs, {0: {0: 4, 1: 4}, 1: {0: 4}}, nodes(8, 4))
    assert draft.reclaim(0, 2, Claim(LATER, math.inf))
    assert draft.held[1].gpus == {0: 2}
    assert draft.held[0] is held[0]


def test_need_on_other_nodes_counts():
    """One GPU here and four on other nodes: the gang loses a fifth of its throughput per GPU, linear a quarter."""
    jobs = [job(0, "whole", 8, 100), job(0, "linear", 4, 100, most=4)]
    draft, held = draft_of(jobs, {0: {0: 4, 1: 4}, 1: {0: 4}}, nodes(8, 4))
    assert draft.reclaim(0, 1, Claim(LATER, math.inf), elsewhere=4)
    assert 0 not in draft.held
    assert draft.held[1] is held[1]


def test_a_job_behind_the_gate_gives_only_to_guaranteed_jobs():
    draft, _ = draft_of([job(0, "linear", 4, 100)], {0: {0: 4}}, nodes(4), movable=False)
    assert draft.offer(0, 0, Claim(LATER, math.inf)) is None
    assert draft.offer(0, 0, Claim(LATER, math.inf, guaranteed=True)).keeps == {0: 3}


def test_kept_jobs_shrink_to_their_minimum():
    """Minimum three GPUs, on four: it offers one to a job that gains more, and the rest only to a starved
    guaranteed job.
    """
    draft, _ = draft_of([job(0, "linear", 3, 100, guaranteed=True)], {0: {0: 4}}, nodes(4))
    draft.kept = {0}
    assert draft.offer(0, 0, Claim(LATER, 1.0)).keeps == {0: 3}
    draft.give(0, Held({0: 3}, 0, draft.curve(0, 0).at(3)))
    assert draft.offer(0, 0, Claim(LATER, math.inf, guaranteed=True)) is None
    assert draft.offer(0, 0, Claim(LATER, math.inf, guaranteed=True, starving=True)).keeps == {}
    draft.movable.clear()
    assert draft.offer(0, 0, Claim(LATER, math.inf, guaranteed=True, starving=True)) is None


def test_a_job_on_several_nodes_leaves_one_if_it_runs_on_the_others():
    draft, _ = draft_of([job(0, "linear", 8, 100)], {0: {0: 4, 1: 4}}, nodes(4, 4))
    offer = draft.offer(0, 1, Claim(LATER, 1.0))
    assert (offer.keeps, offer.slope) == ({0: 4}, pytest.approx((8 - 4) / 8 / 4))
    whole, _ = draft_of([job(0, "whole", 8, 100)], {0: {0: 4, 1: 4}}, nodes(4, 4))
    assert whole.offer(0, 1, Claim(LATER, math.inf)).keeps == {}


def test_the_job_that_loses_least_gives_first():
    """flat loses 0.125 / 2.875 by its fourth GPU, linear 1 / 4: flat gives two (then 0.25 / 2.875) before linear."""
    jobs = [job(0, "flat", 4, 100), job(0, "linear", 4, 100)]
    draft, _ = draft_of(jobs, {0: {0: 4}, 1: {0: 4}}, nodes(8))
    assert draft.reclaim(0, 2, Claim(LATER, 0.2))
    assert [draft.held[number].num_gpus for number in (0, 1)] == [2, 4]


@pytest.mark.parametrize("need", [4, 5])
def test_reclaim_frees_the_whole_need_or_changes_nothing(linear, need):
    """Job 0 shrinks at most to one GPU for a claim that stops no job; five GPUs are more than the node has."""
    draft, held = linear
    assert not draft.reclaim(0, need, Claim(LATER, 0.26))
    assert (draft.held, draft.free.tolist(), draft.version) == (held, [0, 4], 0)
    assert draft.reclaim(0, 3, Claim(LATER, 0.26))
    assert (draft.held[0].gpus, draft.free.tolist()) == ({0: 1}, [3, 4])


def test_make_room_uses_the_fewest_nodes(linear):
    """Six GPUs: the free node of four, and two of node 0's."""
    draft, _ = linear
    assert draft.make_room(0, 6, Claim(1, 1.0)).gpus == {1: 4, 0: 2}
    assert draft.held[0].gpus == {0: 2}


def test_make_room_for_a_gang_over_two_nodes():
    jobs = [job(0, "flat", 4, 100), job(0, "flat", 4, 100), job(0, "whole", 8, 10)]
    draft, held = draft_of(jobs, {0: {0: 4}, 1: {1: 4}}, nodes(4, 4))
    assert draft.make_room(0, 8, Claim(2, 1000.0)) is None  # the jobs would shrink for it, but not stop
    assert draft.held == held
    found = draft.make_room(0, 8, Claim(2, math.inf))
    assert found.gpus == {0: 4, 1: 4}
    assert draft.held == {}


def test_a_refused_claim_is_refused_until_the_draft_changes(monkeypatch):
    """Two equal jobs wait for a full node; the search is skipped for the second. A steeper claim is searched for, and
    both once a node is free.
    """
    jobs = [job(0, "gang", 4, 100), *[job(0, "gang", 4, 10)] * 2]
    draft, _ = draft_of(jobs, {0: {0: 4}}, nodes(4))
    looked: list[int] = []
    find = DraftAllocation.find

    def seen(self, job, *more):
        looked.append(job)
        return find(self, job, *more)

    monkeypatch.setattr(DraftAllocation, "find", seen)
    assert not place_minimum(draft, Claim(1, 0.25))
    assert not place_minimum(draft, Claim(2, 0.25))
    assert looked == [1]
    assert place_minimum(draft, Claim(2, 0.5))
    assert looked == [1, 2]
    draft.take(2)
    draft.take(0)
    assert place_minimum(draft, Claim(1, 0.25))


def test_undo_restores_the_version():
    """Claims refused before an undone change stay refused after it; other states have other versions."""
    draft, _ = draft_of([job(0, "gang", 4, 100)], {0: {0: 4}}, nodes(4))
    before, version = draft.mark(), draft.version
    draft.take(0)
    changed = draft.version
    draft.undo(before)
    assert draft.version == version != changed
    draft.take(0)
    assert draft.version not in (version, changed)


def test_placement_prefers_free_gpus(linear):
    draft, held = linear
    assert place_minimum(draft, Claim(1, 1.0))
    assert draft.held[1].gpus == {1: 1}
    assert draft.held[0] is held[0]


def test_faster_types_are_tried_first():
    cluster = ClusterSpec((NodeSpec("plain", 4), NodeSpec("swift", 4)))

    class Types(Told):
        def throughput(self, model, configuration):
            return super().throughput(model, configuration) * (2 if configuration.gpu_type == "swift" else 1)

    view, _ = first_view([job(0, "linear", 2, 10)], cluster, world=Types())
    draft = DraftAllocation.of(view, SensitivityCurves(cluster, None), {}, ())
    assert draft.gpu_types(0) == [1, 0]
    assert place_minimum(draft, Claim(0, 1.0))
    assert draft.held[0].gpus == {1: 1}
    assert draft.curve(0, 0).original == draft.curve(0, 1).original == 4.0


def test_gangs_over_several_types_start_as_requested():
    cluster = ClusterSpec((NodeSpec("plain", 4), NodeSpec("other", 4)))
    view, _ = first_view([job(0, "linear", 8, 10, least=8)], cluster)
    draft = DraftAllocation.of(view, SensitivityCurves(cluster, None), {}, ())
    assert draft.gpu_types(0) == []
    place_spanning(draft, [0])
    assert draft.held[0].gpus == {0: 4, 1: 4}
    assert draft.offer(0, 0, Claim(LATER, math.inf, guaranteed=True)) is None


def test_quotas_keep_the_first_minima_that_fit():
    jobs = [
        job(0, "linear", 2, 9, guaranteed=True, tenant="a"),
        job(0, "linear", 3, 9, guaranteed=True, tenant="a"),
        job(0, "linear", 1, 9, guaranteed=True, tenant="a"),
        job(0, "linear", 1, 9, tenant="a"),
        job(0, "linear", 2, 9, guaranteed=True, tenant="b"),
    ]
    places = {0: {0: 2}, 1: {0: 3}, 2: {0: 1}, 3: {0: 1}, 4: {1: 2}}
    draft, held = draft_of(jobs, places, nodes(8, 8), quotas={"a": 4, "b": 1})
    assert within_quota(draft, held) == {0, 2}


def test_growth_goes_to_the_steepest_until_nothing_is_free():
    jobs = [job(0, "flat", 4, 100, most=4), job(0, "linear", 4, 100, most=4)]
    draft, held = draft_of(jobs, {0: {0: 1}, 1: {0: 1}}, nodes(4))
    grow_jobs(draft, held, lambda job, factor: True)
    assert [draft.held[number].num_gpus for number in (0, 1)] == [1, 3]
    assert not draft.free.any()


def test_growth_that_does_not_pay_off_is_skipped():
    draft, held = draft_of([job(0, "linear", 4, 100)], {0: {0: 2}}, nodes(4))
    asked = []

    def pays(job, factor):
        asked.append((job, factor))
        return factor >= 2.0

    grow_jobs(draft, held, pays)
    assert (0, 1.5) in asked
    assert draft.held[0].num_gpus == 4


def test_a_job_placed_in_this_round_grows_without_cost():
    draft, held = draft_of([job(0, "linear", 4, 100)], {0: {0: 1}}, nodes(4))
    draft.take(0)
    draft.give(0, Held({0: 1}, 0, draft.curve(0, 0).at(1)))
    grow_jobs(draft, held, lambda job, factor: False)
    assert draft.held[0].num_gpus == 4


def test_growth_moves_a_job_only_if_its_node_is_full():
    jobs = [job(0, "linear", 2, 100, most=3)]
    draft, held = draft_of(jobs, {0: {0: 1}}, nodes(4, 8))
    own = on_own_node(draft, 0, 0, 3)
    assert own is not None
    assert own.gpus == {0: 3}
    assert {tuple(one.held.gpus) for one in growths(draft, held, lambda job, factor: True)} == {(0,)}
    full, _ = draft_of([*jobs, job(0, "linear", 3, 100, most=3)], {0: {0: 1}, 1: {0: 3}}, nodes(4, 8))
    assert on_own_node(full, 0, 0, 2) is None
    assert {tuple(one.held.gpus) for one in growths(full, {}, lambda job, factor: True)} == {(1,)}


def test_the_allocation_contains_only_changes():
    jobs = [job(0, "linear", 1, 100), job(0, "linear", 1, 100), job(0, "linear", 1, 100)]
    draft, held = draft_of(jobs, {0: {0: 1}, 1: {0: 1}, 2: {0: 1}}, nodes(4))
    draft.take(0)
    draft.give(1, Held({0: 2}, 0, draft.curve(1, 0).at(2)))
    allocation = build_allocation(draft, held)
    assert allocation.changes[0] is None
    changed = allocation.changes[1]
    assert changed is not None
    assert dict(changed.gpus) == {0: 2}
    assert 2 not in allocation.changes


def test_place_shares_by_hand():
    free = np.array([3, 1, 2])
    assert assign_shares([0, 1, 2], free, (2, 1)) == {2: 2, 1: 1}
    assert assign_shares([0, 1, 2], free, (3, 2)) == {0: 3, 2: 2}
    assert assign_shares([0, 1, 2], free, (3, 3)) == {}
