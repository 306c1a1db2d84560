"""The HTML report: complete, valid, safe, and readable at every width."""

import gzip
import io
import json
import re
from base64 import b64decode
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.evaluation import Comparison
from envs.metrics import segments
from envs.performance import Contention, IdealModel, default_model, model_profile
from envs.pictures.gantt import TimeAxis
from envs.pictures.texts import TextConsole
from envs.simulation import RunResult, Scenario, Setup
from envs.types import JobSpec
from envs.workloads import Workload
from murmuration.reports.report import run_comparison, write_report
from murmuration.reports.webpage import PageExtras, document, html_page
from murmuration.reports.webpage.charts import ComparisonCharts, short
from murmuration.reports.webpage.schedules import MOST_STAYS, common_axis, hex_colour, schedule_chart
from murmuration.reports.webpage.stays import StayThroughputs, find_stays, why_begun, why_ended
from murmuration.reports.webpage.tables import wins
from murmuration.reports.webpage.usage_chart import bin_means, resources_in_use
from tests.unit.evaluation.test_compare import CLUSTER, InOrder, Preempting, Refusing, workloads
from tests.unit.metrics.fabricated import Told, fabricated, three_jobs
from tests.unit.reports.pages import look_at

SETUP = Setup(CLUSTER, IdealModel())


@pytest.fixture(scope="module")
def comparison():
    """Two schedulers on six small workloads, one of them named to be dangerous in HTML; a third cannot run."""
    schedulers = {"fifo": InOrder(), "<b>&last": Preempting(), "blind": Refusing()}
    screen = TextConsole(io.StringIO(), width=100)
    return run_comparison(schedulers, workloads(6), SETUP, optional=["blind"], console=screen)


@pytest.fixture(scope="module")
def data(comparison):
    """What the page's script draws."""
    page = html_page(comparison, PageExtras(["<b>&last"], SETUP, "a: 1"))
    return unpacked(page)


def unpacked(page):
    found = re.search(r'id="packed-data">([^<]*)<', page)
    assert found
    return json.loads(gzip.decompress(b64decode(found[1])))


def test_the_page_has_every_part_and_needs_no_network(comparison, tmp_path):
    files = write_report(comparison, tmp_path, PageExtras(["<b>&last"], SETUP, "trust: </script>"))
    assert tmp_path / "report.html" in files
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    heads = re.findall(r"<h2>(.*?)</h2>", page)
    assert heads == [
        "Results",
        "Mean JCT and decision time",
        "Job completion times",
        "Workload by workload, against fifo",
        "JCT by job size and by model",
        "Wait by job size and by model",
        "Time to start by job size and by model",
        "Over workloads and training seeds",
        "Resources in use over time",
        "Schedules side by side",
        "How to read the figures",
        "Reproduce",
    ]
    assert "blind is left out: not applicable: needs remaining work" in page
    assert "world rules" in page
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page)
    assert "trust: &lt;/script&gt;" in page
    assert (
        "<b>&last"
        not in page.replace(json.dumps("<b>&last"), "")
        .replace("<b>&last:", "")
        .split("<main>")[1]
        .split('<script type="text/plain"')[0]
    )


def notes_below(page):
    """The list under the heading "How to read the figures"."""
    return page.split("<h2>How to read the figures</h2>")[1].split("</ul>")[0]


def test_the_first_screen_says_what_was_played_and_names_one_unit(comparison):
    page = html_page(comparison)
    first, rest = page.split("<h2>Results</h2>")
    nodes, gpus = CLUSTER.num_nodes, " + ".join(f"{count} {name}" for name, count in CLUSTER.gpus_by_type.items())
    assert f"Cluster: {gpus} GPUs on {nodes} nodes. Jobs: " in first
    assert f"{sum(map(len, workloads(6)))} in 6 workloads, submitted over " in first
    assert escape("Schedulers know how much work every job has left, exactly") in first
    assert "Schedulers know how much work" not in notes_below(page), "what is said above is not repeated below"
    unit = re.search(r"<th>mean JCT \((\w+)\)</th>", rest)
    assert unit
    assert f"<th>p99 ({unit[1]})</th>" in rest
    assert re.search(rf"has a mean JCT of [0-9.,]+ {unit[1]}\b", first)


def test_a_note_on_rows_that_were_left_out_stands_above(comparison):
    noted = replace(comparison, settings={**comparison.settings, "notes": ["3 rows <without GPUs> left out"]})
    first = html_page(noted).split("<h2>Results</h2>")[0]
    assert "Note: 3 rows &lt;without GPUs&gt; left out." in first
    assert "left out." not in notes_below(html_page(noted))


def test_the_explorer_says_that_it_shows_a_part_of_the_time_only(comparison, monkeypatch):
    assert "Shown is the time until" not in html_page(comparison)
    monkeypatch.setattr(document, "common_axis", lambda runs: TimeAxis.over(0.0, 5.0))
    assert "Shown is the time until 5.00 s of " in html_page(comparison)


def test_a_page_is_small(comparison):
    assert len(html_page(comparison)) < 0.1e6


def test_every_chart_shows_something_between_named_axes(data):
    for name, chart in data["charts"].items():
        titles = [chart["layout"][axis]["title"] for axis in ("x", "y")]
        assert all(titles) or name.endswith("by_model"), name
        assert any(trace.get("visible", True) for trace in chart["data"])


def test_axes_of_times_and_shares_have_units(data):
    units = r"\((s|min|h|d|ms|%|jobs|seconds|minutes|hours|days)\)"
    for name, chart in data["charts"].items():
        for axis in ("x", "y"):
            title = chart["layout"][axis]["title"]
            plain = title in ("", "share of jobs", "node: one lane per GPU") or title.startswith("GPUs requested")
            assert plain or re.search(units, title), (name, axis, title)


def test_wins_count_workloads(comparison):
    better, played = wins(comparison, "<b>&last", "fifo")
    own, other = (comparison.summaries[name] for name in ("<b>&last", "fifo"))
    assert played == 6
    assert better == sum(a.mean_jct < b.mean_jct for a, b in zip(own, other, strict=True))
    assert wins(comparison, "fifo", "fifo") == (0, 6)


def test_the_ratio_to_another_scheduler_is_the_inverse(comparison):
    forth = comparison.ratio("mean_jct", "<b>&last", "fifo")
    back = comparison.ratio("mean_jct", "fifo", "<b>&last")
    assert forth.value == pytest.approx(1 / back.value)
    assert (forth.low, forth.high) == pytest.approx((1 / back.high, 1 / back.low))


def test_means_by_size_and_model_agree_with_the_mean_over_jobs(comparison):
    charts = ComparisonCharts(comparison)
    for name, means in charts.means_by("JCT", charts.size_classes).items():
        counts = np.zeros(len(means))
        for episode, jobs in zip(comparison.episodes[name], comparison.compared, strict=True):
            counts += np.bincount(charts.size_classes(episode.workload)[jobs], minlength=len(means))
        jct = charts.values(name, lambda rows: rows["finish_time"] - rows["submit_time"])
        assert np.nansum(means * counts) == pytest.approx(jct.sum())


def test_stays_say_why_they_began_and_ended():
    run = three_jobs()
    stays = find_stays(run)
    assert stays[["job", "start", "end", "gpus", "nodes"]].tolist() == [
        (0, 0.0, 10.0, 4, 1),
        (1, 1.0, 3.0, 2, 1),
        (1, 4.0, 8.0, 2, 1),
        (2, 10.0, 13.0, 8, 2),
    ]
    assert [why_begun(run, stay) for stay in stays] == [
        "started after 0 s in the queue",
        "started after 0 s in the queue",
        "started again 1.00 s after a preemption",
        "started after 8.00 s in the queue",
    ]
    ends = ["job finished", "preempted", "job finished", "job finished"]
    assert [why_ended(run, stay) for stay in stays] == ends


def test_changes_of_running_jobs_are_described():
    told = [Told(0.0, 2, 10.0, [(0.0, {0: 2}), (1.0, {0: 4}), (2.0, {1: 2}), (3.0, {1: 1, 0: 1})])]
    run = fabricated(told, end=9.0)
    assert [why_begun(run, stay) for stay in find_stays(run)][1:] == [
        "grown from 2 GPUs",
        "shrunk from 4 GPUs, moved from node 0",
        "moved from node 1",
    ]
    assert why_ended(run, find_stays(run)[-1]) == "held until the end of the run"


def test_stays_hold_what_segments_hold(comparison):
    for results in comparison.runs.values():
        run = results[0]
        assert isinstance(run, RunResult)
        stays, held = find_stays(run), segments(run.log, run.end_time)
        assert ((stays["end"] - stays["start"]) * stays["gpus"]).sum() == pytest.approx(
            ((held["end"] - held["start"]) * held["gpus"]).sum()
        )


def test_throughput_and_traffic_of_a_stay_worked_by_hand():
    """ResNet-50 on two nodes: a step sends 2 (k - 1) / k gradients over each link, as `LinkLimit` states."""
    setup = Setup(CLUSTER, default_model(), Scenario(contention=Contention("measured")))
    jobs = Workload.of([JobSpec(0, 0.0, 8, 1e5, "resnet50"), JobSpec(1, 0.0, 1, 1e3, "resnet50")])
    told = [Told(0.0, 8, 10.0, [(0.0, {0: 4, 1: 4})], 10.0), Told(0.0, 1, 5.0, [(10.0, {0: 1})], 15.0)]
    run = fabricated(told, workload=jobs)
    known = StayThroughputs(setup)
    (wide, narrow) = find_stays(run)
    throughput, traffic = known.of(run, wide)
    profile = model_profile("resnet50")
    assert traffic == pytest.approx(throughput * profile.gradient_gb / profile.usual_batch(8))
    assert traffic <= CLUSTER.nodes[0].inter_node_bandwidth
    assert known.of(run, narrow)[1] == 0.0
    assert known.traffic(run, find_stays(run)).tolist() == [2 * traffic, 0.0]
    assert np.isnan(StayThroughputs(SETUP).of(three_jobs(), find_stays(three_jobs())[3])[1])


def test_resources_in_use_worked_by_hand():
    used = resources_in_use(three_jobs(), 0.0, 12.0, 3)
    assert used["GPUs"].tolist() == pytest.approx([20 / 32, 24 / 32, 24 / 32])
    assert used["waiting"].tolist() == pytest.approx([(1 + 2) / 4, 1.0, 0.5])
    assert set(used) == {"GPUs", "waiting"}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 9)), min_size=1, max_size=20), st.integers(1, 9))
def test_bins_keep_the_integral(steps, num_bins):
    times = np.sort(np.array([time for time, _ in steps]))
    values = np.array([value for _, value in steps])
    edges = np.linspace(0.0, 120.0, num_bins + 1)
    whole = float((values * np.diff(np.append(times, 120.0))).sum())
    assert (bin_means(times, values, edges) * np.diff(edges)).sum() == pytest.approx(whole, abs=1e-6)


def test_all_schedules_share_an_axis_that_limits_the_boxes(comparison):
    runs = {name: results[0] for name, results in comparison.runs.items()}
    span = common_axis(runs)
    for run in runs.values():
        chart = schedule_chart(run, span, StayThroughputs(SETUP))
        (trace,) = chart["data"]
        boxes = trace["boxes"]
        assert len({len(values) for values in boxes.values()}) == 1
        assert max(boxes["stay"]) == len(trace["texts"]) - 1
        assert max(boxes["colour"]) == len(trace["palette"]) - 1
        assert len(trace["texts"]) <= MOST_STAYS
        assert chart["layout"]["x"]["range"] == [span.start / span.unit, span.end / span.unit]
        assert all("requested" in lines[1] for lines in trace["texts"])


def test_recorded_figures_alone_make_a_page_without_schedules(comparison):
    figures = Comparison(comparison.episodes, comparison.inapplicable, settings=comparison.settings)
    page = html_page(figures)
    assert "Results" in page
    assert "Schedules side by side" not in page


def test_a_page_of_one_scheduler_and_of_unfinished_jobs():
    assert "told</b> has a mean JCT" in html_page(Comparison({"told": [three_jobs()]}))
    idle = fabricated([Told(0, 1, 5)], end=9)
    assert "0 of 2 measured jobs" in html_page(Comparison({"idle": [idle, replace(idle)]}))


def test_numbers_of_charts_are_short():
    assert short([1 / 3, np.nan, 123456.7]) == [0.33333, None, 123460.0]
    assert hex_colour((0, 1, 0.5)) == "#00ff80"


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280, 1400])
def test_the_page_is_drawn_without_clipped_text(comparison, tmp_path, width):
    page = tmp_path / "report.html"
    page.write_text(html_page(comparison, PageExtras(["<b>&last"], SETUP, "a: 1")), encoding="utf-8")
    seen = json.loads(look_at(page, width))
    assert seen["charts"] >= 10
    assert seen["found"] == []


@pytest.mark.browser
def test_labels_that_do_not_fit_side_by_side_stay_within_the_chart(comparison, tmp_path, monkeypatch):
    """Two decision times 2 % apart need five labels of six signs; labels at 30 degrees reached over the edge."""
    times = {"fifo": 0.05335612630509763, "<b>&last": 0.05236411188231486}
    monkeypatch.setattr(Comparison, "decision_ms", lambda _, name: times[name])
    page = tmp_path / "report.html"
    page.write_text(html_page(comparison, PageExtras(["<b>&last"], SETUP, "a: 1")), encoding="utf-8")
    assert json.loads(look_at(page, 390))["found"] == []


SORT = """
<script>
setTimeout(() => {
  const table = document.querySelector("table");
  const column = () => [...table.tBodies[0].rows].map((row) => row.cells[1].textContent);
  const seen = [];
  for (let i = 0; i < 2; i += 1) {
    table.querySelectorAll("thead th")[1].click();
    seen.push([column(), table.querySelectorAll("thead th")[1].getAttribute("aria-sort")]);
  }
  document.title = JSON.stringify(seen);
}, 1500);
</script>
"""


@pytest.mark.browser
def test_a_click_on_a_heading_sorts_the_table_and_leaves_bounds_below(comparison, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(html_page(comparison, PageExtras(setup=SETUP)), encoding="utf-8")
    (rising, up), (falling, down) = json.loads(look_at(page, 1280, checks=SORT))
    assert (up, down) == ("ascending", "descending")
    assert rising[-1] == falling[-1], "the lower bound"
    assert rising[:2] == falling[1::-1]
    assert float(rising[0].split()[0]) < float(rising[1].split()[0])


def test_schedulers_that_are_shown_have_colours_of_their_own(comparison):
    charts = ComparisonCharts(comparison, ["<b>&last"])
    colours = [charts.style(name)["colour"] for name in charts.shown]
    assert len(set(colours)) == len(colours)
