"""Tables of numbers from fabricated runs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from envs.evaluation import Comparison
from envs.evaluation.aggregate import aggregate_comparison
from envs.evaluation.plain_values import plain
from envs.metrics import merge_summaries, summarise
from murmuration.reports.table import all_columns
from murmuration.reports.tradeoff import jct_and_cpu_time
from murmuration.reports.webpage import html_page
from tests.unit.metrics.fabricated import Told, fabricated, three_jobs


def shifted(reference, delay, unfinished=(), scheduler="slow"):
    """The same three jobs on a large cluster, where each finishes `delay` later than necessary."""
    told = [
        Told(0, 4, 10, [(0, {0: 4})], None if 0 in unfinished else 10 + delay),
        Told(1, 2, 5, [(1, {1: 2})], None if 1 in unfinished else 6 + delay),
        Told(2, 8, 3, [(2, {0: 4, 1: 4})], None if 2 in unfinished else 5 + delay),
    ]
    return fabricated(told, node_gpus=(8, 8), end=100, workload=reference.workload, scheduler=scheduler)


@pytest.fixture
def first():
    return three_jobs()


@pytest.fixture
def comparison(first):
    """Compare `three_jobs` with a scheduler that never finished job 2, and one that could not run."""
    slow = shifted(first, 5, unfinished=(2,))
    reasons = {"blind": "not applicable: sees nothing"}
    return Comparison({"told": [first], "slow": [slow]}, reasons, settings={"seed": 3})


def test_schedulers_are_compared_on_jobs_that_all_of_them_finished(comparison):
    assert [jobs.tolist() for jobs in comparison.compared] == [[0, 1]]
    told, slow = comparison.rows[:2]
    assert told["mean_jct"] == pytest.approx((10 + 7) / 2)
    assert slow["mean_jct"] == pytest.approx((15 + 10) / 2)
    assert (told["num_compared"], slow["num_compared"]) == (2, 2)


def test_unfinished_jobs_are_counted_separately(comparison):
    told, slow = comparison.rows[:2]
    assert (told["num_unfinished"], slow["num_unfinished"]) == (0, 1)
    assert slow["mean_jct_censored"] == pytest.approx((15 + 10 + 98) / 3)


def test_ratios_are_relative_to_the_reference(comparison, first):
    assert comparison.reference == "told"
    assert comparison.rows[0]["mean_jct_ratio"] == pytest.approx(1)
    assert comparison.rows[1]["mean_jct_ratio"] == pytest.approx(25 / 17)
    other = Comparison(comparison.runs, reference="slow")
    assert other.rows[0]["mean_jct_ratio"] == pytest.approx(17 / 25)


def test_schedulers_are_ordered_by_what_the_task_minimises(first):
    """The last job ends sooner, the others later: the better mean JCT has the longer makespan."""
    early = fabricated(
        [
            Told(0, 4, 10, [(0, {0: 4})], 12),
            Told(1, 2, 5, [(1, {1: 2})], 12),
            Told(2, 8, 3, [(2, {0: 4, 1: 4})], 12),
        ],
        node_gpus=(8, 8),
        end=100,
        workload=first.workload,
        scheduler="early",
    )
    runs = {"told": [first], "early": [early]}
    for objective, order in (("mean JCT", ["told", "early"]), ("makespan", ["early", "told"])):
        found = Comparison(runs, settings={"task": {"name": "t", "version": 1, "label": "t", "objective": objective}})
        assert found.order == order
        column = next(column for column in all_columns(found) if column.head.startswith(f"{objective} ("))
        assert column.cells[1].startswith("12.0" if objective == "makespan" else "11.0")
        assert jct_and_cpu_time(found).axes[0].get_ylabel().startswith(f"{objective} ")
        best, other = aggregate_comparison(found, reference="told")
        assert [best.name, other.name] == order
        assert f"<h2>{objective[0].upper()}{objective[1:]} and decision time</h2>" in html_page(found)
    makespans = {name: found.summaries[name][0].makespan for name in runs}
    assert makespans == {"told": 13.0, "early": 12.0}
    assert found.ratio("makespan", "early").value == pytest.approx(12 / 13)
    assert found.rows[1]["makespan_ratio"] == pytest.approx(12 / 13)


def test_a_scheduler_that_could_not_run_has_a_row_with_the_reason(comparison):
    assert comparison.rows[2] == {"scheduler": "blind", "inapplicable": "not applicable: sees nothing"}
    table = comparison.table()
    assert table["scheduler"].tolist() == ["told", "slow", "blind"]
    assert np.isnan(table["mean_jct"][2])


def test_json_is_the_table_at_full_precision(comparison):
    content = json.loads(comparison.to_json())
    assert content["schedulers"][1]["mean_jct"] == comparison.rows[1]["mean_jct"]
    assert content["settings"] == {"seed": 3}
    assert content["schedulers"][2]["inapplicable"] == "not applicable: sees nothing"
    assert [row["workload"] for row in content["by_workload"]] == ["fabricated", "fabricated"]
    assert content["caption"] == comparison.caption
    assert content["cpu_time"]["decision_seconds"] == {"told": 0.0, "slow": 0.0}


def test_json_has_null_for_missing_values(first):
    nothing = Comparison({"told": [first], "idle": [shifted(first, 0, unfinished=(0, 1, 2))]})
    content = json.loads(nothing.to_json())
    assert content["schedulers"][0]["mean_jct"] is None
    assert content["schedulers"][0]["num_compared"] == 0


def test_the_same_seed_gives_the_same_json(comparison):
    again = Comparison(comparison.runs, comparison.inapplicable, settings=comparison.settings)
    assert again.to_json() == comparison.to_json()


def test_the_caption_explains_the_figures(comparison, first):
    assert "over the 2 of 3 measured jobs that every scheduler finished, in 1 workload." in comparison.caption
    assert "95% intervals: moving-block bootstrap over jobs, paired" in comparison.caption
    assert "Ratios are relative to told" in comparison.caption
    many = Comparison({"told": [first] * 5}, level=0.9)
    assert "in 5 workloads.\n90% intervals: t over workloads on a log scale" in many.caption


def runs_of(loads, *finishes):
    """One job in each workload, on one GPU, that ends at these times in turn."""
    told = [Told(0, 1, 1, [(0, {0: 1})], finish) for finish in finishes]
    return [fabricated([told[i % len(told)]], workload=load) for i, load in enumerate(loads)]


def test_the_caption_has_what_schedulers_counted_over_all_workloads(first):
    runs = [replace(first, counters={"decisions": 700, "full_lists": count}) for count in (400, 0)]
    said = Comparison({"policy": runs, "told": [replace(run, counters={}) for run in runs]}).caption_lines
    assert [line for line in said if "Counted" in line] == ["Counted by policy: decisions 1,400, full lists 400."]


def test_the_caption_tells_how_wide_intervals_are():
    """Ratios of slow to fast are 2 and 4, three of each; slower takes 3 times as long as fast in every workload."""
    loads = [fabricated([Told(0, 1, 1)]).workload for _ in range(6)]
    runs = {"fast": runs_of(loads, 8), "slow": runs_of(loads, 16, 32), "slower": runs_of(loads, 24)}
    half = 100 * np.expm1(2.5706 * np.std(np.log([2, 4] * 3), ddof=1) / np.sqrt(6))  # Student's t of 5 degrees
    assert (
        f"Ratios are relative to slower. Intervals of mean JCT are +-{half / 2:.1f}% relative to slower and "
        f"+-{half / 2:.1f}% relative to fast, the best row (medians over schedulers)."
    ) in Comparison(runs, reference="slower").caption
    pair = {name: runs[name] for name in ("fast", "slow")}
    for reference in pair:
        assert f"+-{half:.1f}% relative to {reference}" in Comparison(pair, reference=reference).interval_widths
    assert "+-0.0%" in Comparison({name: runs[name] for name in ("fast", "slower")}, reference="fast").caption
    assert Comparison({"fast": runs["fast"]}).interval_widths == ""


def test_intervals_contain_their_means(comparison):
    for row in comparison.rows[:2]:
        assert row["mean_jct_low"] <= row["mean_jct"] <= row["mean_jct_high"]
        assert row["mean_slowdown_low"] <= row["mean_slowdown"] <= row["mean_slowdown_high"]


def test_by_workload_has_a_row_for_every_run(first):
    frame = Comparison({"told": [first, first], "slow": [shifted(first, 1), shifted(first, 3)]}).by_workload()
    assert frame["scheduler"].tolist() == ["told", "told", "slow", "slow"]
    assert frame["mean_jct"].tolist() == pytest.approx([28 / 3, 28 / 3, 7, 9])


def test_several_workloads_add_counts_and_average_figures(first):
    one, other = summarise(first), summarise(shifted(first, 7, unfinished=(0,)))
    merged = merge_summaries([one, other])
    assert (merged["num_measured"], merged["num_unfinished"], merged["restarts"]) == (6, 1, 1)
    assert merged["mean_jct"] == pytest.approx((one.mean_jct + other.mean_jct) / 2)
    assert merged["worst_fairness"] == max(one.worst_fairness, other.worst_fairness)
    assert merged["gpu_hours"] == pytest.approx(one.gpu_hours + other.gpu_hours)


def test_a_figure_that_one_workload_lacks_is_averaged_over_the_others(first):
    empty = summarise(fabricated([Told(0, 1, 5)], end=9))
    assert merge_summaries([summarise(first), empty])["mean_jct"] == pytest.approx(28 / 3)
    assert np.isnan(merge_summaries([empty])["mean_jct"])


def test_a_comparison_needs_runs():
    with pytest.raises(ValueError, match="no scheduler ran"):
        Comparison({})


def test_the_reference_must_be_among_them(first):
    with pytest.raises(ValueError, match="reference fast is not among told"):
        Comparison({"told": [first]}, reference="fast")


@pytest.mark.parametrize("others", [[], "another workload"])
def test_all_schedulers_must_have_run_the_same_workloads(first, others):
    with pytest.raises(ValueError, match="same workloads"):
        Comparison({"told": [first], "other": [three_jobs()] if others else []})


def test_plain_values_have_the_types_of_json():
    value = {"a": np.float64(1.5), 2: (np.int64(3), float("inf"), np.nan, None, "x", np.bool_(True))}
    assert plain(value) == {"a": 1.5, "2": [3, None, None, None, "x", True]}
