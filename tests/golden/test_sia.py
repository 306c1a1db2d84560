"""Sia on schedules worked by hand."""

from baselines import Sia
from envs.performance import PerformanceModel
from envs.simulation import Rounds
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, places, play, restarts, times, two_nodes

EVERY_TEN = Rounds(on_events=False, interval=10.0)


class Picky:
    """Model "a" is four times as fast on fast GPUs, "b" is equally fast everywhere; linear scaling."""

    models = ("a", "b")

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return configuration.num_gpus * (4.0 if (model, configuration.gpu_type) == ("a", "fast") else 1.0)


PICKY: PerformanceModel = Picky()


def sia(**options):
    return Sia(round_length=10.0, **options)


def test_two_elastic_jobs_share_evenly():
    """1 to 8 GPUs, 8 in all. Costs are GPUs to the power -0.5: 4 and 4 cost 0.5 + 0.5, 8 and 0 cost 0.35 + 1.1, and 4
    and 2 cost 0.5 + 0.71. Both run 10 s on 4.
    """
    result = play(sia(), jobs((0, 4, 10), (0, 4, 10), elastic=(1, 8)), two_nodes())
    assert times(result) == [(0, 10), (0, 10)]
    assert [sum(gpus.values()) for _, gpus in places(result, 0) + places(result, 1)] == [4, 4]


def test_types_go_to_the_jobs_that_gain():
    """B is first, but A gains: A on fast costs 4 ** -0.5 and B 1 on either type; swapped they cost 1 + 1."""
    pair = Workload.of([JobSpec(0, 0.0, 4, 40.0, "b"), JobSpec(1, 0.0, 4, 160.0, "a")])
    result = play(sia(), pair, fast_and_slow(), performance=PICKY)
    assert times(result) == [(0, 10), (0, 10)]
    assert places(result, 1) == [(0, {1: 4})]


def test_growth_waits_until_a_restart_is_worth_it():
    """A: 320 GPU-s, B: 40, restarts of 10 s. At 10 B is done; A, 10 s old, has r = 10 / 20: 8 GPUs would cost
    (8 / 2) ** -0.5 + 0.02 against 0.5 for the 4 it has: it stays. At 20 r = 2 / 3: 0.43 + 0.02: it grows. 240 are left:
    20 + 10 + 30.
    """
    pair = jobs((0, 4, 80), (0, 4, 10), elastic=(1, 8))
    result = play(sia(), pair, two_nodes(), rounds=EVERY_TEN, restart_delay=10)
    assert times(result) == [(0, 60), (0, 10)]
    assert [time for time, _ in places(result, 0)] == [0, 20]
    assert restarts(result) == [1, 0]


def test_past_restarts_count():
    """As before, but A has been changed once: at 30, r = (30 - 10) / 40, it would not be changed again.

    A has all 8 GPUs until B comes at 20; then 4 each (r is 2 / 3 for A: 4 of 8 cost (4 x 2 / 3) ** -0.5 + 0.02, and 0.5
    for B, together less than 0.35 + 1.1). At 30 B has ended: A has r = 0.5 and stays on 4.
    """
    pair = jobs((0, 8, 60), (20, 4, 10), elastic=(1, 8))
    result = play(sia(), pair, two_nodes(), rounds=EVERY_TEN, restart_delay=10)
    assert [(time, sum(gpus.values())) for time, gpus in places(result, 0)][:2] == [(0, 8), (20, 4)]
    assert 30 not in [time for time, _ in places(result, 0)]
    assert times(result)[1] == (20, 30)


def test_too_many_jobs_take_turns_with_two_gpus_each():
    """Nine jobs of 16 GPU-s on 8 GPUs. Four with two GPUs each and five without cost 4 x 0.71 + 5 x 1.1 = 8.33, eight
    with one and one without 9.1, two with four 8.7. So four run 0-8, four 8-16, and the ninth has all 8 GPUs, 16-18.
    """
    result = play(Sia(round_length=0.0), jobs(*[(0.0, 8, 2.0)] * 9, elastic=(1, 8)), two_nodes())
    assert sorted(times(result)) == [(0, 8)] * 4 + [(8, 16)] * 4 + [(16, 18)]


def test_rigid_jobs_keep_their_size_and_choose_their_type():
    """3 GPUs are no power of two: the requested size counts as well. Both run at once, one on each type."""
    result = play(sia(), jobs((0, 3, 20), (0, 3, 10)), fast_and_slow(), performance=TwoThroughputs())
    assert {next(iter(places(result, job)[0][1].items())) for job in (0, 1)} == {(0, 3), (1, 3)}
    assert result.finished.all()


def test_a_job_that_comes_between_rounds_starts_on_what_is_idle():
    """A has 6 of 8 GPUs. B (1 to 4, requests 4) arrives at 3, seven seconds before the next round, and starts on one;
    at 10 it gets both that are left. 7 + 2 x 20 of its 47 samples are done at 30. (At a penalty of 1.1 A, whose only
    size is its least one, would be stopped: 1.11 + 0.5 for B on 4 is less than 1 + 0.71.)
    """
    workload = Workload.of([JobSpec(0, 0.0, 6, 180.0, "any"), JobSpec(1, 3.0, 4, 47.0, "any", min_gpus=1, max_gpus=4)])
    result = play(sia(idle_penalty=2.0), workload, two_nodes(), rounds=Rounds(on_events=True, interval=10.0))
    assert [(time, sum(gpus.values())) for time, gpus in places(result, 1)] == [(3, 1), (10, 2)]
    assert times(result) == [(0, 30), (3, 30)]


def test_a_gang_over_types_is_left_alone():
    """6 GPUs on 4 slow and 4 fast ones; the 2 that are left go to the other job."""
    cluster = ClusterSpec((NodeSpec("slow", 4), NodeSpec("fast", 4)))
    result = play(sia(), jobs((0, 6, 10), (1, 2, 2)), cluster, performance=TwoThroughputs(), restart_delay=1)
    assert result.finished.all()
    assert restarts(result) == [0, 0]


def test_the_solver_counts_its_programs():
    result = play(sia(), jobs((0, 4, 10), (0, 4, 10), elastic=(1, 8)), two_nodes())
    assert result.counters["programs"] >= 1
    assert result.counters["stopped_programs"] == result.counters["greedy_choices"] == 0
