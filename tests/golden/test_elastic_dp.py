"""Elastic scaling by dynamic programming on schedules worked by hand."""

import math

import pytest

from baselines import ElasticDp
from envs.performance import model_profile
from envs.simulation import EventKind, RunResult
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec, Seconds
from envs.workloads import Workload
from tests.golden.playground import (
    EVERY_SECOND,
    TwoThroughputs,
    fast_and_slow,
    jobs,
    places,
    play,
    restarts,
    times,
    two_nodes,
)


class Reducing:
    """16 samples/s on a GPU; a step of "resnet18" on several GPUs takes 1 s more at any batch, a step of "lm" does not.

    With 128 samples a step "resnet18" does 25.6 samples/s on two GPUs, 42.67 on four and 64 on eight: 1.6, 2.67 and 4
    times as many as on one. "lm" scales linearly.
    """

    models = ("resnet18", "lm")

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        batch = (
            model_profile(model).usual_batch(configuration.num_gpus)
            if configuration.batch_size is None
            else configuration.batch_size
        )
        seconds = batch / (16.0 * configuration.num_gpus) + (configuration.num_gpus > 1 and model == "resnet18")
        return batch / seconds


def elastic(*rows: tuple[Seconds, float], model: str = "resnet18", batch: tuple[int, int] = (16, 128)) -> list[JobSpec]:
    """Jobs of 1 to 8 GPUs from (submit time, samples)."""
    return [JobSpec(i, submit, 1, work, model, 1, 8, *batch) for i, (submit, work) in enumerate(rows)]


def played(scheduler: ElasticDp, specs: list[JobSpec], restart_delay: Seconds = 0.0) -> RunResult:
    """One run on two nodes of four GPUs."""
    workload = Workload.of(specs)
    return play(
        scheduler,
        workload,
        two_nodes(),
        performance=Reducing(),
        restart_delay=restart_delay,
        statistical_efficiency="every_sample",
    )


def grants(result: RunResult, job: int) -> list[tuple[Seconds, int]]:
    """(time, GPUs) of every start and change of one job."""
    return [(time, sum(gpus.values())) for time, gpus in places(result, job)]


def batches(result: RunResult, job: int) -> list[int]:
    """Batch size of every start and change of one job."""
    rows = result.log.events[(result.log.events["job"] == job) & (result.log.events["num_shares"] > 0)]
    assert set(rows["kind"]) <= {EventKind.START, EventKind.RESIZE}
    return [int(row["batch_size"]) for row in rows]


def test_a_single_job_gets_all_gpus_and_a_matching_batch():
    """640 samples at 64 a second: 10 s. At a fixed batch of 16, eight GPUs do 16 / 1.125 s, less than one: 40 s."""
    best = played(ElasticDp(), elastic((0, 640)))
    assert (times(best), grants(best, 0), batches(best, 0)) == ([(0, 10)], [(0, 8)], [128])
    fixed = played(ElasticDp(batch="least"), elastic((0, 640)))
    assert (times(fixed), grants(fixed, 0), batches(fixed, 0)) == ([(0, 40)], [(0, 1)], [16])


def test_a_job_shrinks_for_a_new_job_and_grows_again():
    """t=0: A alone does 320 samples by t=5, when B comes: four GPUs each (2.67 + 2.67) beat five and three (3.08 +
    2.18) and seven and one (3.73 + 1). A ends its 320 at 5 + 7.5, B has done as many and ends its 320 on eight: 17.5.
    """
    result = played(ElasticDp(), elastic((0, 640), (5, 640)))
    assert times(result) == [(0, 12.5), (5, 17.5)]
    assert grants(result, 0) == [(0, 8), (5, 4)]
    assert grants(result, 1) == [(5, 4), (12.5, 8)]


def test_a_resize_costs_its_restart():
    """The same with restarts of 2 s: A pauses from 5 to 7 and ends at 14.5. B, in its first start, does 405.33 by then,
    pauses until 16.5 and needs 234.67 / 64 s more.
    """
    result = played(ElasticDp(), elastic((0, 640), (5, 640)), restart_delay=2.0)
    assert times(result) == [(0, 14.5), (5, round(16.5 + (640 - 9.5 * 128 / 3) / 64, 6))]
    assert restarts(result) == [1, 1]


def test_a_job_that_scales_better_gets_more():
    """Linear scaling is worth a whole GPU each: LM gets seven GPUs, ResNet one. 7 + 1 beats 6 + 1.6."""
    result = played(ElasticDp(), [*elastic((0, 160)), *elastic((0, 1120), model="lm", batch=(8, 80))])
    assert [grants(result, job)[0] for job in (0, 1)] == [(0, 1), (0, 7)]
    assert times(result) == [(0, 10), (0, 10)]


def test_a_batch_that_needs_many_gpus():
    """256 samples are the most that was measured on a GPU, so 1,024 need four. Three jobs: two run, the third waits.

    On four GPUs 1,024 samples take 17 s, on eight 9 s. Jobs with free batch sizes start together, on four GPUs, on
    three with 768 samples and on one: 3.76 + 2.82 + 1 beats 3, 3 and 2 (2.82 + 2.82 + 1.88), as a single GPU needs no
    all-reduce.
    """
    specs = elastic((0, 1024), (0, 1024), (0, 1024), batch=(16, 1024))
    fixed = played(ElasticDp(batch="most"), specs)
    assert times(fixed) == [(0, 17), (0, 17), (17, 26)]
    assert {batch for job in range(3) for batch in batches(fixed, job)} == {1024}
    free = played(ElasticDp(), specs)
    assert [start for start, _ in times(free)] == [0, 0, 0]
    assert sorted(grants(free, job)[0][1] for job in range(3)) == [1, 3, 4]


def test_a_job_without_room_waits_or_is_dropped():
    """Nine jobs on eight GPUs, 16 samples each: eight run for a second; the ninth has 16 left for eight GPUs after it.

    With batches of 16 only, a second GPU is worth less than none, so the ninth takes another second on one.
    """
    specs = elastic(*[(0.0, 16.0)] * 9, batch=(16, 16))
    waiting, dropping = ElasticDp(), ElasticDp(overload="drop")
    assert times(played(waiting, specs)) == [(0, 1)] * 8 + [(1, 2)]
    assert waiting.counters["dropped"] == 0
    result = played(dropping, specs)
    assert times(result)[:8] == [(0, 1)] * 8
    assert (result.finished.tolist(), dropping.counters["dropped"]) == ([True] * 8 + [False], 1)


def test_a_waiting_job_is_passed_only_for_a_while():
    """A has 6 GPUs to 10. B wants 4 and waits from 1; C wants 2, which are free. It passes B at 2, unless B has waited
    too long by then. Dropping rejects B.
    """
    rows = [(0.0, 6, 10.0), (1.0, 4, 5.0), (2.0, 2, 5.0)]
    assert times(play(ElasticDp(), jobs(*rows), two_nodes())) == [(0, 10), (10, 15), (2, 7)]
    for patience in (0.0, 1.0):
        strict = play(ElasticDp(patience=patience), jobs(*rows), two_nodes())
        assert times(strict) == [(0, 10), (10, 15), (10, 15)]
    dropping = play(ElasticDp(overload="drop"), jobs(*rows), two_nodes())
    assert times(dropping)[2] == (2, 7)
    assert dropping.finished.tolist() == [True, False, True]


@pytest.mark.parametrize(("patience", "start"), [(0.0, 4), (10.0, 14), (math.inf, 102)])
def test_no_job_starves_under_a_stream_of_small_ones(patience, start):
    """A gang of 8 comes at 1. From 0 on two jobs of 2 GPUs come every 2 s and run 4 s: 50 pairs, the last at 98 ends at
    102. They fill the 8 GPUs; the gang starts when the last one ends that was admitted before its patience was over.
    """
    small = [(2.0 * pair, 2, 4.0) for pair in range(50) for _ in range(2)]
    rows = sorted([*small, (1.0, 8, 1.0)])
    result = play(ElasticDp(patience=patience), jobs(*rows), two_nodes())
    assert times(result)[rows.index((1.0, 8, 1.0))][0] == start


def test_nothing_changes_between_decisions():
    """B comes at 3; the next decision is due at 10. A keeps eight GPUs until then, although it could share them."""
    workload = Workload.of(elastic((0, 2560), (3, 640)))
    scheduler = ElasticDp(interval=10)
    result = play(
        scheduler,
        workload,
        two_nodes(),
        performance=Reducing(),
        rounds=EVERY_SECOND,
        statistical_efficiency="every_sample",
    )
    assert grants(result, 0)[:2] == [(0, 8), (10, 4)]
    assert grants(result, 1)[0] == (10, 4)


def test_decisions_are_taken_when_something_has_changed():
    """Rounds at every second: one decision at the arrival of each, one at A's end; none in between."""
    scheduler = ElasticDp()
    workload = Workload.of(elastic((0, 640), (5, 640)))
    play(
        scheduler,
        workload,
        two_nodes(),
        performance=Reducing(),
        rounds=EVERY_SECOND,
        statistical_efficiency="every_sample",
    )
    assert scheduler.counters["decisions"] == 3


def test_a_share_that_fits_on_no_node_is_spread():
    """3, 3 and 2 GPUs on two nodes of four: the last takes one on each."""
    result = play(ElasticDp(), jobs((0, 3, 5), (0, 3, 5), (0, 2, 5)), two_nodes())
    assert times(result) == [(0, 5)] * 3
    assert places(result, 2) == [(0, {0: 1, 1: 1})]


@pytest.mark.parametrize(("move_gain", "finish"), [(1.5, 16), (3.0, 20)])
def test_moving_to_a_faster_type(move_gain, finish):
    """A takes the fast node (80 samples at 8 a second), B the slow one. At 10 the fast node is worth twice as much to
    B, which has 40 samples left: 5 s there and 1 s of restart, or 10 s if that is not worth a move.
    """
    scheduler = ElasticDp(move_gain=move_gain)
    pair = jobs((0, 4, 20), (0, 4, 20))
    result = play(scheduler, pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=1)
    assert times(result) == [(0, 10), (0, finish)]


def test_new_jobs_go_where_an_equal_share_is_worth_most():
    """1 to 4 GPUs, of 4 slow (first) and 4 fast ones. A takes the fast ones. To B two fast ones are worth as much as
    four slow ones; of equals the first is taken. To C two fast ones are worth more than two slow ones. A and C have the
    same total throughput for each split, so the first job keeps all but one.
    """
    rows = [(0.0, 4, 90.0), (1.0, 4, 90.0), (2.0, 4, 90.0)]
    result = play(ElasticDp(), jobs(*rows, elastic=(1, 4)), fast_and_slow(), performance=TwoThroughputs())
    assert places(result, 0)[:2] == [(0, {1: 4}), (2, {1: 3})]
    assert places(result, 1)[0] == (1, {0: 4})
    assert places(result, 2)[0] == (2, {1: 1})


def test_a_gang_larger_than_any_type_takes_several():
    """6 GPUs of 4 slow and 4 fast ones, when the job before has ended; a later job waits behind it."""
    rows = jobs((0, 2, 5), (1, 6, 10), (2, 2, 2))
    result = play(ElasticDp(patience=0.0), rows, fast_and_slow(), performance=TwoThroughputs())
    assert times(result)[0] == (0, 2.5)
    assert times(result)[1] == (2.5, 8.5)
    assert times(result)[2][0] == 2.5
    assert places(result, 1)[0] == (2.5, {0: 2, 1: 4})


def test_a_job_larger_than_what_is_left_waits_for_all_before_it():
    """One node of 4. A and B want 2 each, C 4: C runs when both are gone."""
    cluster = ClusterSpec((NodeSpec("plain", 4),))
    assert times(play(ElasticDp(), jobs((0, 2, 3), (0, 2, 6), (1, 4, 2)), cluster)) == [(0, 3), (0, 6), (6, 8)]
