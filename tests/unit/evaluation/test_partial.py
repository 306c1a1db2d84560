"""Comparisons in which slow schedulers run the first workloads only."""

import numpy as np
import pytest

from envs.evaluation import Comparison, compare_schedulers
from envs.performance import IdealModel
from envs.simulation import Setup
from murmuration.reports.page import markdown_page, task_table
from murmuration.reports.table import all_columns
from tests.unit.evaluation.test_compare import CLUSTER, InOrder, Preempting, workloads

SETUP = Setup(CLUSTER, IdealModel())
TASK = {"label": "toy-v1 (0123)", "objective": "mean JCT"}


@pytest.fixture(scope="module")
def comparison():
    return compare_schedulers(
        {"quick": InOrder(), "slow": Preempting()},
        workloads(8),
        SETUP,
        num_workloads={"slow": 5},
        left_out={"greedy": "it takes what it wants"},
        about={"task": TASK},
    )


def test_the_slow_one_runs_the_first_workloads(comparison):
    assert {name: len(runs) for name, runs in comparison.runs.items()} == {"quick": 8, "slow": 5}
    assert comparison.num_workloads == 8
    assert comparison.partial


def test_each_mean_is_over_the_scheduler_s_own_workloads(comparison):
    for name, runs in comparison.runs.items():
        means = [summary.mean_jct for summary in comparison.summaries[name]]
        assert len(means) == len(runs)
        assert comparison.estimate("mean_jct", name).value == pytest.approx(np.mean(means))


def test_slow_ones_alone_are_compared_on_what_they_ran():
    alone = compare_schedulers({"slow": Preempting()}, workloads(8), SETUP, num_workloads={"slow": 5})
    assert alone.num_workloads == 5
    assert alone.bounds == compare_schedulers({"slow": Preempting()}, workloads(5), SETUP).bounds


def test_ratios_and_intervals_are_those_of_the_common_workloads(comparison):
    common = compare_schedulers({"quick": InOrder(), "slow": Preempting()}, workloads(5), SETUP)
    for metric in ("mean_jct", "mean_slowdown"):
        assert comparison.ratio(metric, "slow") == common.ratio(metric, "slow")


def test_jobs_are_compared_by_those_who_ran_them(comparison):
    everyone = compare_schedulers({"quick": InOrder()}, workloads(8), SETUP)
    assert [list(jobs) for jobs in comparison.compared[5:]] == [list(jobs) for jobs in everyone.compared[5:]]


def test_the_bound_is_over_all_workloads_and_its_ratio_over_one_s_own(comparison):
    whole = compare_schedulers({"quick": InOrder()}, workloads(8), SETUP)
    part = compare_schedulers({"slow": Preempting(), "quick": InOrder()}, workloads(5), SETUP)
    assert comparison.bounds[0]["mean_jct"] == pytest.approx(whole.bounds[0]["mean_jct"])
    assert comparison.bound_ratio("slow") == pytest.approx(part.bound_ratio("slow"))
    assert comparison.bound_ratio("quick") == pytest.approx(whole.bound_ratio("quick"))
    logs = [
        np.log(summary.mean_jct / relaxation.of_jobs(jobs).mean_jct())
        for summary, relaxation, jobs in zip(
            part.summaries["slow"], part.relaxations["lower bound"], part.compared, strict=True
        )
    ]
    assert part.bound_ratio("slow") == pytest.approx(np.exp(np.mean(logs)))
    assert part.bound_ratio("slow") >= 1


def test_the_table_shows_how_many_workloads_each_ran(comparison):
    (column,) = (column for column in all_columns(comparison) if column.head == "n")
    assert (column.cells, column.rank) == (["8", "5", "8"], 0)
    assert "n is the number of workloads that a scheduler ran" in comparison.caption


def test_a_slow_reference_serves_too():
    found = compare_schedulers(
        {"quick": InOrder(), "slow": Preempting()}, workloads(7), SETUP, reference="slow", num_workloads={"slow": 5}
    )
    assert found.ratio("mean_jct", "slow").value == pytest.approx(1)
    assert np.isfinite(found.bounds[0]["mean_jct_ratio"])
    assert "quick" in markdown_page(found)


def test_the_short_table_names_the_task_and_who_is_left_out(comparison):
    page = task_table(comparison)
    assert "toy-v1 (0123): 8 episodes" in page
    assert "greedy is left out: it takes what it wants." in page
    assert "Intervals of mean JCT are +-" in comparison.interval_widths
    assert f" {comparison.interval_widths} " in page
    assert page.splitlines()[2].startswith("quick,")
    assert comparison.caption.startswith("Task toy-v1 (0123), to minimise mean JCT.\n")


def test_the_best_row_is_one_of_those_that_ran_all_workloads():
    """The slow one leads on the first workloads, but the others may be harder."""
    found = compare_schedulers(
        {"quick": Preempting(), "slow": InOrder()},
        workloads(8),
        SETUP,
        num_workloads={"slow": 5},
        about={"task": TASK},
    )
    assert found.order == ["slow", "quick"]
    said = f"quick, is {found.bound_ratio('quick') - 1:.0%} above its lower bound."
    assert f"The best row of all episodes, {said}" in task_table(found)
    assert f"The best row of all workloads, {said}" in found.caption


def test_without_a_task_there_is_no_short_table(comparison):
    with pytest.raises(ValueError, match="has no task"):
        task_table(Comparison(comparison.runs))


def test_too_few_workloads_are_refused(comparison):
    few = {name: runs[:size] for (name, runs), size in zip(comparison.runs.items(), (8, 4), strict=True)}
    with pytest.raises(ValueError, match="must run at least 5"):
        Comparison(few)
