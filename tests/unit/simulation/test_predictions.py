"""Predicted work: what views show of it, worked by hand, on both engines."""

from collections.abc import Sequence

import numpy as np
import pytest

from baselines import Srtf
from envs.performance import IdealModel
from envs.simulation import (
    Information,
    PooledHistory,
    Scenario,
    Setup,
    Simulator,
    check_unseen,
    run_episode,
    train_predictor,
)
from envs.simulation.pooled_history import LEVELS, product_limit
from envs.simulation.reference import ReferenceSimulator
from envs.types import NUM_OUTCOMES, FloatArray, JobFacts, JobSpec, MurmurationError, TraceError
from envs.workloads import SyntheticSource, TraceSource, Workload
from envs.workloads.readers import CsvTrace
from tests.unit.simulation.plays import cluster_of

SCENARIO = Scenario(information=Information("predicted"))
WORKLOAD = Workload.of(
    [
        JobSpec(0, 0.0, 2, 40.0, "any", user="u", name="long"),  # on two GPUs, two samples/s: 20 s
        JobSpec(1, 1.0, 1, 5.0, "any", user="v"),
        JobSpec(2, 30.0, 1, 7.0, "any"),
    ]
)


class Stated:
    """Half of the run times are 4 s, the others 12 s; notes the facts that it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[JobFacts, JobFacts]] = []

    def train(self, episodes: Sequence[JobFacts]) -> None:
        """Nothing to learn."""

    def predict(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """See `envs.scheduling.WorkPredictor.predict`."""
        self.calls.append((asked, ended))
        return np.tile(np.repeat([4.0, 12.0], NUM_OUTCOMES // 2), (len(asked.run_time), 1))


class Learner(Stated):
    """Keeps the episodes that it was trained on."""

    def train(self, episodes: Sequence[JobFacts]) -> None:
        """See `envs.scheduling.WorkPredictor.train`."""
        self.episodes = list(episodes)


@pytest.fixture(params=[Simulator, ReferenceSimulator], ids=["compiled", "reference"])
def engine(request):
    return request.param


def played(engine, predictor):
    """Start each job as it comes, on one node each; yield the views."""
    simulator = engine(WORKLOAD, Setup(cluster_of(4, 4), IdealModel(("any",)), SCENARIO, predictor=predictor))
    for view in simulator.rounds():
        yield view
        allocation = view.allocation(keep_running=True)
        for job in view.queued.tolist():
            allocation.place(job, {job % 2: int(view.num_gpus[job])})
        simulator.apply(allocation)


def test_what_a_job_has_done_is_ruled_out(engine):
    """Job 0 has 8 or 24 samples by prediction. At 1 s it has done 2, at 6 s 12: then 24 is left alone."""
    views = played(engine, Stated())
    view = next(views)
    assert (view.time, view.remaining_work(np.array([0])).tolist()) == (0.0, [16.0])
    view = next(views)
    assert view.time == 1.0
    np.testing.assert_allclose(view.remaining_work(np.array([0, 1])), [14.0, 8.0])
    np.testing.assert_allclose(np.unique(view.likely_work(np.array([0]))), [6.0, 22.0])
    view = next(views)
    assert view.time == 6.0  # job 1 has ended
    np.testing.assert_allclose(view.remaining_work(np.array([0])), [12.0])
    likely = view.likely_work(np.array([0]))[0]
    assert np.isnan(likely).sum() == NUM_OUTCOMES // 2
    np.testing.assert_allclose(np.nanmean(likely), 12.0)
    np.testing.assert_allclose(view.remaining_time(np.array([0])), [6.0])


def test_a_job_that_outlived_all_predictions_needs_as_much_again(engine):
    """At 20 s job 0 ends; just before, at the round of a decision asked for at 15 s, it has done 30 of 24 samples."""
    simulator = engine(WORKLOAD, Setup(cluster_of(4, 4), IdealModel(("any",)), SCENARIO, predictor=Stated()))
    for view in simulator.rounds():
        if view.time == 15.0:
            break
        allocation = view.allocation(keep_running=True)
        for job in view.queued.tolist():
            allocation.place(job, {job % 2: int(view.num_gpus[job])})
        allocation.next_decision = 15.0
        simulator.apply(allocation)
    np.testing.assert_allclose(view.remaining_work(np.array([0])), [30.0])
    np.testing.assert_allclose(np.nanmean(view.likely_work(np.array([0]))), 30.0)


def test_the_predictor_sees_facts_run_times_so_far_and_the_ended_jobs(engine):
    predictor = Stated()
    list(played(engine, predictor))
    asked, ended = predictor.calls[-1]  # at 30 s, when job 2 comes
    assert asked.run_time.tolist() == [0.0]
    assert dict(zip(ended.name.tolist(), ended.run_time.tolist(), strict=True)) == {"long": 20.0, "": 5.0}
    asked, ended = predictor.calls[1]
    assert asked.user.tolist() == ["u", "v"]
    np.testing.assert_allclose(asked.run_time, [1.0, 0.0])
    assert len(ended.user) == 0


def test_the_truth_is_not_in_the_spec_and_a_snapshot_takes_the_mean_for_it(engine):
    views = played(engine, Stated())
    next(views)
    view = next(views)
    assert np.isnan(view.job(0).work)
    assert (view.job(0).user, view.job(0).name) == ("u", "long")
    copy = view.snapshot()
    np.testing.assert_allclose(copy.view.remaining_work(np.array([0, 1])), [14.0, 8.0])
    assert copy.view.likely_work(np.array([0, 1])).shape == (2, 1)
    assert (copy.view.job(0).user, copy.view.job(1).user) == ("u", "v")
    assert np.isnan(copy.view.job(0).work)


def test_a_compiled_scheduler_decides_on_predictions():
    """The same log as decision by decision: it does not play by the truth."""
    setup = Setup(cluster_of(2), IdealModel(("any",)), SCENARIO, predictor=Stated())
    compiled, plain = (run_episode(Srtf(), Simulator(WORKLOAD, setup), compiled=each) for each in (True, False))
    assert compiled.log == plain.log


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (np.ones((1, 3)), r"run times of shape \(1, 3\); it must be \(1, 32\)"),
        (np.arange(NUM_OUTCOMES)[None, ::-1] + 1.0, "finite, not negative and ascending"),
        (np.full((1, NUM_OUTCOMES), np.nan), "finite, not negative and ascending"),
    ],
)
def test_a_predictor_that_returns_something_else_is_refused(engine, outcomes, message):
    predictor = Stated()
    predictor.predict = lambda asked, ended: outcomes  # type: ignore[method-assign]
    with pytest.raises(MurmurationError, match=message):
        next(played(engine, predictor))


def test_the_product_limit_counts_running_jobs_as_observed_so_far():
    """Ends at 1 and 3, and a job that has run for 2: half of the jobs last longer than 1, no end beyond 3 is known."""
    np.testing.assert_array_equal(product_limit(np.array([1.0, 3.0]), np.array([2.0])), np.where(LEVELS <= 1 / 3, 1, 3))
    np.testing.assert_array_equal(product_limit(np.array([1.0, 3.0]), np.zeros(0)), np.where(LEVELS <= 0.5, 1, 3))


def test_a_predictor_learns_from_the_split_for_training():
    cluster, performance = cluster_of(4), IdealModel(("any",))
    source = SyntheticSource(cluster, performance, num_jobs=10, max_gpus=4)
    predictor = PooledHistory()
    train_predictor(Setup(cluster, performance, SCENARIO, predictor=predictor), source, num_episodes=3)
    nothing = JobFacts._make(np.zeros(0, dtype) for dtype in (float, int, str, str, str, str, float))
    asked = nothing._replace(run_time=np.zeros(1))
    found = predictor.predict(asked, nothing)[0]
    assert np.isclose(found[:, None], source_durations(source)).any(axis=1).all()


def source_durations(source):
    """Run times of the three workloads that were learnt from."""
    rng = np.random.default_rng(40)
    return np.concatenate([source.episode(rng, "train").jobs["duration"] for _ in range(3)])


@pytest.fixture
def trace(tmp_path):
    """Ten jobs a minute apart, of users u0 to u9, of which the first six are for training."""
    path = tmp_path / "jobs.csv"
    path.write_text("at,took,n,who\n" + "".join(f"{60 * i},{i + 1},1,u{i}\n" for i in range(10)))
    reader = CsvTrace({"submit_time": "at", "duration": "took", "num_gpus": "n", "user": "who"})
    return TraceSource(cluster_of(4, 4), IdealModel(("any",)), reader, path=str(path), num_jobs=3)


def test_predictors_learn_from_all_training_days_of_a_trace_and_from_no_other_job(trace):
    predictor = Learner()
    train_predictor(Setup(cluster_of(4, 4), IdealModel(("any",)), SCENARIO, predictor=predictor), trace)
    (jobs,) = predictor.episodes
    assert jobs.user.tolist() == [f"u{i}" for i in range(6)]
    np.testing.assert_allclose(jobs.run_time, np.arange(1.0, 7.0))


@pytest.mark.parametrize("split", ["train", "all"])
def test_jobs_from_which_predictors_learn_are_not_predicted(trace, split):
    with pytest.raises(TraceError, match=rf"^workload csv: split '{split}' has the jobs .*, of validation, test$"):
        check_unseen(trace, split)
    check_unseen(trace, None)
    check_unseen(trace, "validation")
