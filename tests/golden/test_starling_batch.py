"""Starling with batch sizes on schedules worked by hand, on both engines."""

from collections.abc import Callable

import pytest

from baselines.starling.scheduler import Starling, StarlingParameters
from envs.performance import model_profile
from envs.simulation import EventKind, Information, RunResult, Scenario, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec, Seconds
from envs.workloads import Workload
from tests.golden.playground import fast_and_slow, jobs, places, restarts, times, two_nodes

PLAIN = StarlingParameters(
    knee=0.3, gang=1.0, urgency=1.0, floor=1.0, horizon=1e6, stickiness=0.0, tolerance=0.0, hysteresis=0.0,
    prior=3.0, spread=0.0, residual=1.0,
)  # fmt: skip
WIDE = (16, 1024)  # batch sizes; at most 256 samples were measured of ResNet-18 on one GPU
EIGHT = 1024 / 9  # samples/s on eight GPUs at 1,024 samples a step, which take 1 + 8 s
SIX = 1024 / (1 + 64 / 6)
TWO = 512 / 17  # at 512 samples, the most that two GPUs hold

Play = Callable[..., RunResult]


class Stepping:
    """A step of ResNet-18 takes 1 s and 1/16 s for each sample of a GPU, on any type.

    At the usual 64 samples a GPU, 5 s: 12.8 samples/s for each GPU.
    """

    models = ("resnet18", "any")

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        batch = (
            model_profile("resnet18").usual_batch(configuration.num_gpus)
            if configuration.batch_size is None
            else configuration.batch_size
        )
        return batch / (1.0 + batch / (16.0 * configuration.num_gpus))


@pytest.fixture(params=[Simulator, ReferenceSimulator], ids=["compiled", "reference"])
def played(request: pytest.FixtureRequest) -> Play:
    """Play a workload on one of the engines, by Starling with plain parameters."""

    def play(
        workload: Workload | list[JobSpec],
        cluster: ClusterSpec | None = None,
        *,
        batch: str = "best",
        look_ahead: int = 12,
        restart_delay: Seconds = 0.0,
        information: Information | None = None,
    ) -> RunResult:
        scheduler = Starling(PLAIN, PLAIN, look_ahead, batch=batch)  # type: ignore[arg-type]
        scenario = Scenario(
            restart_delay=restart_delay,
            information=information or Information(),
            statistical_efficiency="every_sample",
        )
        world = workload if isinstance(workload, Workload) else Workload.of(workload)
        return run_episode(scheduler, request.param(world, Setup(cluster or two_nodes(), Stepping(), scenario)))

    return play


def spec(
    job: int,
    submit: Seconds,
    gpus: int,
    work: float,
    *,
    elastic: tuple[int, int] = (0, 0),
    batch: tuple[int, int] = WIDE,
) -> JobSpec:
    """A job that trains ResNet-18; it keeps its GPUs unless it has an elastic range."""
    return JobSpec(job, submit, gpus, work, "resnet18", *elastic, *batch)


def batches(result: RunResult, job: int) -> list[int]:
    """Batch size of every start and change of one job; 0 where it is left to the world."""
    rows = result.log.events[(result.log.events["job"] == job) & (result.log.events["num_shares"] > 0)]
    assert set(rows["kind"]) <= {EventKind.START, EventKind.RESIZE}
    return [int(row["batch_size"]) for row in rows]


def sizes(result: RunResult, job: int) -> list[tuple[Seconds, int]]:
    """(time, GPUs) of every start and change of one job."""
    return [(time, sum(gpus.values())) for time, gpus in places(result, job)]


@pytest.mark.parametrize("look_ahead", [0, 12])
def test_a_single_job_takes_the_fastest_batch(played, look_ahead):
    """1,024 samples on eight GPUs: one step of 9 s. Left to the world, two of 512, of 5 s each."""
    alone = [spec(0, 0.0, 8, 1024.0, elastic=(1, 8))]
    best = played(alone, look_ahead=look_ahead)
    assert (times(best), sizes(best, 0), batches(best, 0)) == ([(0, 9)], [(0, 8)], [1024])
    usual = played(alone, batch="usual", look_ahead=look_ahead)
    assert (times(usual), sizes(usual, 0), batches(usual, 0)) == ([(0, 10)], [(0, 8)], [0])


def pair() -> list[JobSpec]:
    """A, elastic, 4,096 samples; B, of six GPUs, a step of 1,024 samples, when A has 3,072 left."""
    return [spec(0, 0.0, 8, 4096.0, elastic=(1, 8)), spec(1, 9.0, 6, 1024.0)]


def test_the_batch_follows_the_number_of_gpus(played):
    """B takes 1 + 64/6 s on six GPUs; A continues with two, which hold 512 samples, and then with all again.

    A first would end at 36 and B at 47.67; so B ends at 20.67, and A has done 351 samples more by then.
    """
    result = played(pair())
    end = 9 + 1024 / SIX
    left = 3072 - (end - 9) * TWO
    assert times(result) == [(0, round(end + left / EIGHT, 6)), (9, round(end, 6))]
    assert sizes(result, 0) == [(0, 8), (9, 2), (round(end, 6), 8)]
    assert (batches(result, 0), batches(result, 1)) == ([1024, 512, 1024], [1024])


def test_a_change_costs_its_restart(played):
    """The same with restarts of 2 s: A pauses for the first 2 of its 11.67 s on two GPUs, and for 2 s more."""
    result = played(pair(), restart_delay=2.0)
    end = 9 + 1024 / SIX
    left = 3072 - (end - 11) * TWO
    assert times(result) == [(0, round(end + 2 + left / EIGHT, 6)), (9, round(end, 6))]
    assert restarts(result) == [2, 0]


def test_a_job_that_keeps_its_gpus_keeps_its_batch(played):
    """Two jobs of four GPUs, 1,024 samples at 1 + 16 s a step. B starts at 3 beside A, and A does not change."""
    result = played([spec(0, 0.0, 4, 2048.0), spec(1, 3.0, 4, 1024.0)])
    assert times(result) == [(0, 34), (3, 20)]
    assert (batches(result, 0), batches(result, 1), restarts(result)) == ([1024], [1024], [0, 0])


def test_a_job_stays_within_its_own_range(played):
    """Of 16 to 128 samples eight GPUs take 128: 2 s a step. The world ignores this range and takes 512."""
    narrow = [spec(0, 0.0, 8, 640.0, batch=(16, 128))]
    assert times(played(narrow, batch="usual")) == [(0, 6.25)]
    result = played(narrow)
    assert (times(result), batches(result, 0)) == ([(0, 10)], [128])


def test_without_a_choice_of_batch_the_run_is_the_same(played):
    """Jobs of four GPUs and exactly 256 samples, and jobs of a model without a range: the same run, event by event."""
    only_usual = [spec(i, float(i), 4, 512.0 * (3 - i), batch=(256, 256)) for i in range(3)]
    rows = jobs((0, 4, 100), (1, 8, 30), (2, 2, 10), elastic=(1, 8))
    for workload in (Workload.of(only_usual), rows):
        best, usual = played(workload), played(workload, batch="usual")
        assert best.log == usual.log
        assert not best.log.events["batch_size"].any()


def test_a_gang_over_several_types_is_left_to_the_world(played):
    """Eight GPUs of four slow and four fast ones, at 512 samples of 5 s each."""
    result = played([spec(0, 0.0, 8, 1024.0)], fast_and_slow())
    assert (times(result), batches(result, 0)) == ([(0, 10)], [0])


def test_the_end_of_the_queue_gets_its_batch(played):
    """One node of 2 GPUs, batches of 16 to 240. Twenty jobs of 2 GPUs are more than is planned for; one of 1 GPU that
    comes last in order starts beside the one that runs alone on 1 GPU, 240 samples in 16 s.
    """
    sixteen = {"batch": (16, 240)}
    specs = [spec(0, 0.0, 1, 240.0, **sixteen), *(spec(i, 0.0, 2, 500.0, **sixteen) for i in range(1, 21))]
    result = played([*specs, spec(21, 0.0, 1, 24000.0, **sixteen)], ClusterSpec((NodeSpec("plain", 2),)))
    assert (times(result)[0], batches(result, 0)) == ((0, 16), [240])
    assert (times(result)[21][0], batches(result, 21)[0]) == (0, 240)


def test_hidden_work_is_guessed_at_the_throughput_of_the_best_batch(played):
    """A: 8 GPUs, 1,820.4 samples, 16 s. t=4: A has run 4 s, longer than the prior, 3 s; it is assumed to need 4 s more.

    B, new, is assumed to need 3 * 9 / 8 s, as 8 of 9 jobs ended then: B first.
    """
    rows = [spec(0, 0.0, 8, 16 * EIGHT), spec(1, 4.0, 8, 2 * EIGHT)]
    result = played(rows, information=Information("none"))
    assert times(result) == [(0, 18), (4, 6)]
    assert (batches(result, 0), batches(result, 1)) == ([1024, 1024], [1024])
