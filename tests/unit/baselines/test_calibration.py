"""The study of estimators: scores by hand, held-out jobs and their cells, and its command."""

import numpy as np
import pandas as pd
import pytest

from envs.performance import DrawnModel, name_of_draw
from envs.simulation import Information, Scenario, Setup
from envs.simulation.mean_curve import MeanCurve
from envs.types import ClusterSpec, EstimatedCurve, JobSpec, NodeSpec
from envs.workloads import Workload
from experiments.estimators.calibration import calibrate, normal_crps, score, summarise_calibration
from experiments.estimators.held_out import allowed_cells, held_out_jobs
from tests.unit.scripts.test_training_scripts import run_here

CLUSTER = ClusterSpec(tuple(NodeSpec(name, 4, cpu_cores=24, memory=250.0) for name in ("V100", "V100", "K80")), "both")
INFORMATION = Information(throughput="observed", stated_error=0.5, sample_error=0.05)
SETUP = Setup(CLUSTER, DrawnModel(), Scenario(batch_sizes="usual", information=INFORMATION))
MODELS = [name_of_draw("resnet50", seed) for seed in range(40)]
JOBS = Workload.of([JobSpec(i, 0.0, 2, 1e6, name, min_gpus=1, max_gpus=4) for i, name in enumerate(MODELS)])


def test_the_score_of_a_normal_prediction_by_hand():
    """At the mean it is (sqrt 2 - 1)/sqrt pi standard deviations; far away the distance less 1/sqrt pi of them."""
    found = normal_crps(np.array([0.0, 0.0, 100.0]), np.array([1.0, 2.0, 1.0]))
    least = (np.sqrt(2) - 1) / np.sqrt(np.pi)
    assert found == pytest.approx([least, 2 * least, 100.0 - 1 / np.sqrt(np.pi)])


def test_the_score_is_the_integral_of_squared_differences():
    from scipy.special import ndtr

    at = np.linspace(-20, 20, 400_001)
    integral = ((ndtr(at / 0.7) - (at >= 0.4)) ** 2).sum() * (at[1] - at[0])
    assert normal_crps(np.array([0.4]), np.array([0.7]))[0] == pytest.approx(integral, rel=1e-4)


def test_a_score_counts_the_cells_asked_for():
    """Errors of 0.1 and 1 at spread 1: half of both is within the 50 % interval of 0.674, and both within 1.645."""
    (job, *_) = held_out_jobs([JOBS], SETUP, 2, 0)
    cells = np.zeros(job.allowed.shape, bool)
    cells[0, 1:3, 0] = True
    believed = np.where(job.throughputs > 0, job.throughputs, 1.0)
    believed[0, 1, 0] *= np.exp(0.1)
    believed[0, 2, 0] *= np.exp(1.0)
    found = score(EstimatedCurve(believed, np.ones(cells.shape)), job, cells)
    assert (found["inside 50%"], found["inside 90%"]) == (0.5, 1.0)
    assert found["rmse"] == pytest.approx(np.sqrt((0.01 + 1.0) / 2))


def test_a_job_may_run_where_its_range_and_the_cluster_let_it():
    throughputs = np.ones((2, 9, 3))
    throughputs[1, 2] = 0.0
    cells = allowed_cells(SETUP, throughputs, 2, 6)
    v100, k80 = (CLUSTER.gpu_types.index(name) for name in ("V100", "K80"))
    assert np.argwhere(cells[v100]).min(axis=0).tolist() == [3 if v100 == 1 else 2, 0]
    assert np.flatnonzero(cells[k80].any(axis=1)).max() == 4, "one node of four GPUs"
    assert np.flatnonzero(cells[v100].any(axis=0)).tolist() == [0, 1], "two nodes"


def test_samples_are_a_statement_and_measurements_with_the_errors_of_the_scenario():
    jobs = list(held_out_jobs([JOBS], SETUP, 4, 0))
    assert len(jobs) == len(JOBS)
    errors = np.array([np.log(job.samples.throughput / job.throughputs[tuple(job.samples.cells.T)]) for job in jobs])
    assert errors[:, 0].std() == pytest.approx(0.5, rel=0.3)
    assert errors[:, 1:].std() == pytest.approx(0.05, rel=0.2)
    for job in jobs:
        assert job.samples.stated.tolist() == [True] + [False] * 4
        assert job.samples.cells[0, 1] == 2
        assert job.allowed[tuple(job.samples.cells[1:].T)].all()
        assert job.unseen(4).sum() == job.allowed.sum() - 4
        assert len(job.after(1).cells) == 2


def test_estimators_are_scored_in_a_table():
    jobs = list(held_out_jobs([JOBS], SETUP, 4, 0))
    table = summarise_calibration(calibrate({"mean_curve": MeanCurve()}, jobs, SETUP, [0, 4]))
    assert table["measured"].tolist() == [0, 4]
    assert table["crps"][1] < table["crps"][0]
    assert table["inside 90%"].between(0.6, 1.0).all()


@pytest.mark.slow
def test_the_command_prints_the_table_and_writes_scores_and_figure(tmp_path):
    options = ["episodes=1", "estimators=[mean_curve,linear_gaussian]", f"hydra.run.dir={tmp_path / 'run'}"]
    done = run_here(tmp_path, "calibrate_estimators", *options)
    assert done.returncode == 0, done.stderr
    assert "linear_gaussian" in done.stdout
    assert set(pd.read_csv(tmp_path / "run" / "scores.csv")["estimator"]) == {"mean_curve", "linear_gaussian"}
    assert (tmp_path / "run" / "estimator_calibration.png").stat().st_size > 10_000
