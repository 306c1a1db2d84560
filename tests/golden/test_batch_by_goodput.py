"""Batch sizes chosen by goodput on schedules worked by hand, by every scheduler that chooses them, on both engines.

A step of ResNet-18 takes 1 s and 1/16 s for each sample of a GPU. On eight GPUs, with the measured noise scale of 5942
and the usual 512 samples as reference:

    batch   step   samples/s   efficiency             goodput
     256     3 s      85.3     6454 / 6198 = 1.041      88.9
     512     5 s     102.4     1                       102.4
    1024     9 s     113.8     6454 / 6966 = 0.926     105.4
    2048    17 s     120.5     6454 / 7990 = 0.808      97.3
"""

from collections.abc import Callable

import pytest

from baselines import ElasticDp, Pollux, Sia, Starling
from envs.performance import EfficiencySetting
from envs.scheduling import Scheduler
from envs.simulation import RunResult, Scenario, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import JobSpec
from envs.workloads import Workload
from tests.golden.playground import jobs, play, times, two_nodes
from tests.golden.test_starling_batch import Stepping, batches

CHOOSING: dict[str, Callable[[], Scheduler]] = {
    "elastic_dp": ElasticDp,
    "pollux": Pollux,
    "sia": Sia,
    "starling": Starling,
}
FIXED: dict[str, Callable[[], Scheduler]] = {
    "elastic_fixed_batch": lambda: ElasticDp(batch="usual"),
    "pollux": lambda: Pollux(batch="usual"),
    "sia": lambda: Sia(batch="usual"),
    "starling": lambda: Starling(batch="usual"),
}
AT_1024 = 1024 * 6454 / 6966  # useful samples of one step at 1,024
AT_256 = 256 * 6454 / 6198

Play = Callable[..., RunResult]


@pytest.fixture(params=[Simulator, ReferenceSimulator], ids=["compiled", "reference"])
def played(request: pytest.FixtureRequest) -> Play:
    """Play one job of ResNet-18 on eight GPUs."""

    def play_one(
        scheduler: Scheduler,
        work: float,
        batch: tuple[int, int] = (0, 0),
        setting: EfficiencySetting = "measured",
        model: str = "resnet18",
    ) -> RunResult:
        workload = Workload.of([JobSpec(0, 0.0, 8, work, model, min_batch=batch[0], max_batch=batch[1])])
        scenario = Scenario(restart_delay=0.0, statistical_efficiency=setting)
        return run_episode(scheduler, request.param(workload, Setup(two_nodes(), Stepping(), scenario)))

    return play_one


@pytest.mark.parametrize("name", CHOOSING)
def test_a_larger_batch_is_chosen_only_while_it_pays(played, name):
    """Two steps at 1,024 samples. If every sample counts, 2,048 samples at once take 17 s."""
    result = played(CHOOSING[name](), 2 * AT_1024)
    assert (times(result), batches(result, 0)) == ([(0, 18)], [1024])
    every = played(CHOOSING[name](), 2048.0, setting="every_sample")
    assert (times(every), batches(every, 0)) == ([(0, 17)], [2048])


@pytest.mark.parametrize("name", CHOOSING)
def test_a_job_that_allows_only_small_batches_gains_efficiency(played, name):
    """The job's own range ends at 256 samples, which make more progress each than the usual 512: 3 s a step."""
    result = played(CHOOSING[name](), 4 * AT_256, batch=(16, 256))
    assert (times(result), batches(result, 0)) == ([(0, 12)], [256])


@pytest.mark.parametrize("name", CHOOSING)
def test_a_model_that_was_not_measured_keeps_its_usual_batch(played, name):
    """No batch size is named, and two steps of 512 samples take 10 s."""
    result = played(CHOOSING[name](), 1024.0, model="any")
    assert (times(result), batches(result, 0)) == ([(0, 10)], [0])


@pytest.mark.parametrize("name", FIXED)
def test_the_usual_batch_makes_the_progress_of_its_samples(played, name):
    """Two steps of 512 samples take 10 s."""
    result = played(FIXED[name](), 1024.0)
    assert times(result) == [(0, 10)]
    assert batches(result, 0) in ([0], [512])


@pytest.mark.parametrize("name", CHOOSING)
def test_jobs_without_batch_sizes_run_as_before(name):
    """Both jobs of the ideal model end as they would without batch sizes."""
    result = play(CHOOSING[name](), jobs((0, 8, 10), (10, 8, 5)), two_nodes())
    assert times(result) == [(0, 10), (10, 15)]
