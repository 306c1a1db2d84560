"""Kueue's quotas, admission and preemption, worked by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Fifo, Kueue, Las, Sia, Srtf, Starling
from baselines.kueue import QueueSettings, QueueTree
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.golden.playground import play, restarts, times, two_nodes

TEAMS = (QueueSettings("all"), QueueSettings("a", "all", 4), QueueSettings("b", "all", 4))


def of_teams(
    *rows: tuple[float, int, float, str], priorities: Sequence[float] = (), elastic: tuple[int, int] = (0, 0)
) -> Workload:
    """Create jobs from (submit time, GPUs, seconds on these, queue) and their priorities."""
    specs = [
        JobSpec(i, at, gpus, gpus * seconds, "any", *elastic, tenant=name)
        for i, (at, gpus, seconds, name) in enumerate(rows)
    ]
    return Workload.of(
        [replace(spec, priority=each) for spec, each in zip(specs, priorities or [0.0] * 99, strict=False)]
    )


def test_quota_is_lent_borrowed_and_kept_back():
    """a lends at most 1 of its 4; b has 4 and may borrow 3, but only 1 is there; the root has none of its own."""
    tree = QueueTree(
        [QueueSettings("root"), QueueSettings("a", "root", 4, lending_limit=1), QueueSettings("b", "root", 4, 3)]
    )
    assert (tree.quota["root"], tree.available("a"), tree.available("b"), tree.most("b")) == (5, 8, 5, 5)
    tree.use("b", 5)
    assert (tree.available("a"), tree.available("b"), tree.share("b")) == (3, 0, (0, 1 / 5))
    tree.use("a", 3)  # what it never lends; the cohort sees nothing of it
    assert (tree.used["root"], tree.available("a")) == (5, 0)
    tree.use("a", 1)  # more than is there: Kueue shows a negative amount
    assert (tree.used["root"], tree.available("b")) == (6, -1)


def test_borrowing_limit_holds_within_two_cohorts():
    """left may take 2 GPUs of right's 8 together with its own 4, whichever of its queues asks."""
    tree = QueueTree(
        [
            QueueSettings("root"),
            QueueSettings("left", "root", borrowing_limit=2),
            QueueSettings("right", "root", 8),
            QueueSettings("x", "left", 4),
            QueueSettings("y", "left"),
        ]
    )
    assert (tree.available("x"), tree.available("y"), tree.available("right")) == (6, 6, 12)
    tree.use("y", 5)
    assert (tree.available("x"), tree.share("y"), tree.share("left")) == (1, (0, 5 / 6), (0, 1 / 12))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([QueueSettings("a", "b"), QueueSettings("b", "a")], "a -> b -> a is a cycle"),
        ([QueueSettings("a", "b")], "its parent b is no queue"),
        ([QueueSettings("a"), QueueSettings("a")], "is there twice"),
    ],
)
def test_contradictory_trees_are_refused(rows: list[QueueSettings], words: str):
    with pytest.raises(MurmurationError, match=words):
        QueueTree(rows)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nominal": -1},
        {"weight": -1},
        {"reclaim": "all"},
        {"within_queue": "any"},
        {"lending_limit": 1},
        {"parent": "b", "borrowing_limit": -1},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]):
    with pytest.raises(MurmurationError, match="queue a: "):
        QueueSettings("a", **wrong)


def test_borrowed_gpus_are_reclaimed():
    """b borrows all 8 GPUs at 0. a claims its 4 at 3: b's job that was admitted last stops, and resumes at 13."""
    rows = (0, 4, 20, "b"), (0, 4, 20, "b"), (3, 4, 10, "a")
    result = play(Kueue(Fifo(), TEAMS), of_teams(*rows), two_nodes())
    assert times(result) == [(0, 20), (0, 30), (3, 13)]
    assert restarts(result) == [0, 1, 0]
    never = play(Kueue(Fifo(), [replace(team, reclaim="never") for team in TEAMS]), of_teams(*rows), two_nodes())
    assert times(never) == [(0, 20), (0, 20), (20, 30)]


def test_fair_sharing_divides_what_is_borrowed():
    """The cohort's 8 GPUs belong to nobody; a holds all at 0. b gets half of them, one job after the other, not more.

    b's first job would have share 2/8, a without one job 6/8; the second 4/8 and 4/8; the third 6/8, but a only 2/8.
    At 10 two jobs of a end. Its two preempted ones (shares 2/8, then 4/8) come before b's third (6/8), which starts
    when b's first two end.
    """
    free = QueueSettings("all", nominal=8), QueueSettings("a", "all"), QueueSettings("b", "all")
    rows = *[(0, 2, 10, "a")] * 4, *[(1, 2, 10, "b")] * 4
    result = play(Kueue(Fifo("skip"), free, strategies=("final",)), of_teams(*rows), two_nodes())
    assert [start for start, _ in times(result)] == [0, 0, 0, 0, 1, 1, 11, 11]
    assert restarts(result) == [0, 0, 1, 1, 0, 0, 0, 0]
    unfair = play(Kueue(Fifo("skip"), free, fair_sharing=False), of_teams(*rows), two_nodes())
    assert [start for start, _ in times(unfair)] == [0, 0, 0, 0, 10, 10, 10, 10]


def test_strategies_differ_where_one_job_tips_the_shares():
    """a holds 8 borrowed GPUs in one job. b's 4 would have share 4/8: below 8/8 before, above 0 after."""
    free = QueueSettings("all", nominal=8), QueueSettings("a", "all"), QueueSettings("b", "all")
    rows = (0, 8, 10, "a"), (1, 4, 10, "b")
    final = play(Kueue(Fifo(), free, strategies=("final",)), of_teams(*rows), two_nodes())
    assert times(final) == [(0, 10), (10, 20)]
    initial = play(Kueue(Fifo(), free), of_teams(*rows), two_nodes())
    assert times(initial) == [(0, 20), (1, 11)]


def test_priority_preempts_within_the_queue():
    """At 2 a job of priority 1 stops the only one of priority 0 that it needs, the later of two."""
    alone = (QueueSettings("a", nominal=8),)
    workload = of_teams((0, 4, 10, "a"), (1, 4, 10, "a"), (2, 4, 5, "a"), priorities=(0, 0, 1))
    assert times(play(Kueue(Fifo(), alone), workload, two_nodes())) == [(0, 10), (1, 16), (2, 7)]
    kept = play(Kueue(Fifo(), [replace(alone[0], within_queue="never")]), workload, two_nodes())
    assert times(kept) == [(0, 10), (1, 11), (10, 15)]


@pytest.mark.parametrize(("strict", "last"), [(True, (10, 15)), (False, (0, 5))])
def test_strict_queue_waits_for_its_first_job(strict: bool, last: tuple[float, float]):
    """8 GPUs do not fit beside 4 that are in use; the job behind waits too, or passes."""
    alone = (QueueSettings("a", nominal=8, strict=strict),)
    rows = (0, 4, 10, "a"), (0, 8, 5, "a"), (0, 4, 5, "a")
    result = times(play(Kueue(Fifo("skip"), alone), of_teams(*rows), two_nodes()))
    assert result[2] == ((15, 20) if strict else last)


class _Greedy(Fifo):
    """Gives each job four GPUs, whatever it is shown."""

    def schedule(self, view: ClusterView) -> Allocation:
        allocation = view.allocation()
        for job in view.queued.tolist():
            allocation.pack(job, 4)
        return allocation


@pytest.mark.parametrize("inner", [Starling, Sia])
def test_elastic_schedulers_keep_the_numbers_of_gpus_that_quotas_count(inner: type):
    """Alone they give a job more than the 2 GPUs that it asks for; behind queues of 4 GPUs they do not."""
    rows = of_teams((0, 2, 10, "a"), (0, 2, 10, "b"), elastic=(1, 8))
    assert max(play(inner(), rows, two_nodes()).log.shares["gpus"]) > 2
    assert max(play(Kueue(inner(), TEAMS), rows, two_nodes()).log.shares["gpus"]) == 2


def test_without_queues_tenants_have_equal_parts():
    """a borrows b's half of 8 GPUs, and gives it back at 3."""
    rows = (0, 4, 20, "a"), (0, 4, 20, "a"), (3, 4, 10, "b")
    assert times(play(Kueue(Fifo()), of_teams(*rows), two_nodes())) == [(0, 20), (0, 30), (3, 13)]


def test_unknown_queues_and_other_sizes_are_refused():
    with pytest.raises(MurmurationError, match="tenant c: is no queue that takes jobs, .* queues are a, b"):
        play(Kueue(Fifo(), TEAMS), of_teams((0, 1, 1, "c")), two_nodes())
    with pytest.raises(MurmurationError, match="quotas sum to 8 GPUs, and one node has 4"):
        play(Kueue(Fifo(), TEAMS), of_teams((0, 1, 1, "a")), ClusterSpec((NodeSpec("plain", 4),), "one node"))
    with pytest.raises(MurmurationError, match="_Greedy gives job 0 4 GPUs, and it holds quota for 2"):
        play(Kueue(_Greedy(), TEAMS), of_teams((0, 2, 1, "a"), elastic=(1, 4)), two_nodes())
    with pytest.raises(MurmurationError, match="strategies are"):
        Kueue(Fifo(), TEAMS, strategies=("initial", "final"))


class _Watched(Kueue):
    """Checks after each decision that each queue holds what it may."""

    def schedule(self, view: ClusterView) -> Allocation:
        decided = super().schedule(view)
        held: dict[str, int] = {}
        for job in decided.jobs():
            placement = decided.placement(job)
            assert placement is not None
            held[view.job(job).tenant] = held.get(view.job(job).tenant, 0) + placement.num_gpus
        for queue in self.queues:
            most = min(queue.nominal + queue.borrowing_limit, 16)
            assert held.get(queue.name, 0) <= most
        assert sum(held.values()) <= sum(queue.nominal for queue in self.queues)
        return decided


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([Fifo, Las, Srtf]), st.booleans(), st.booleans())
def test_quotas_hold_and_all_jobs_that_can_pass_end(seed: int, inner: type, fair: bool, strict: bool):
    """Random jobs of three queues; each fits the quota of its queue, so each ends."""
    rng = np.random.default_rng(seed)
    sizes = {"a": 3, "b": 2, "c": 1}
    queues = [QueueSettings("all"), *(QueueSettings(n, "all", most, 2, strict=strict) for n, most in sizes.items())]
    names = rng.choice(list(sizes), 20).tolist()
    rows = [(float(rng.integers(9)), int(rng.integers(1, sizes[n] + 1)), float(rng.integers(1, 9)), n) for n in names]
    workload = of_teams(*sorted(rows), priorities=rng.integers(3, size=20).tolist())
    scheduler = _Watched(inner(), queues, fair_sharing=fair)
    assert all(record.finished for record in play(scheduler, workload, two_nodes()))
