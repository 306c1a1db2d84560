"""Printed tables on any screen, result files, and pictures."""

import io
import json
import re
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from envs.evaluation import Comparison, Estimate
from envs.evaluation.files import write_figure
from envs.metrics import SEGMENT, segments
from envs.performance import IdealModel
from envs.pictures.gantt import MAX_SEGMENTS, SIZE_CLASSES, TimeAxis, boxes, gantt, label_of, shades
from envs.pictures.lanes import lanes, node_lanes
from envs.pictures.plots import COLOURS, STYLES, jct_cdf
from envs.pictures.texts import TextConsole
from envs.simulation import Setup
from envs.simulation.result import LimitedTime
from envs.types import ClusterSpec, NodeSpec
from murmuration.reports.report import (
    describe_loads,
    format_range,
    merge_pairs,
    print_workloads,
    run_comparison,
    write_report,
)
from murmuration.reports.table import all_columns, duration, number, print_table, share, that_fit, with_interval
from murmuration.reports.webpage import PageExtras
from murmuration.reports.webpage.charts import ComparisonCharts
from murmuration.reports.webpage.document import chips
from tests.unit.evaluation.test_compare import CLUSTER, InOrder, Preempting, Refusing, workloads
from tests.unit.metrics.fabricated import Told, fabricated, three_jobs


@pytest.fixture(scope="module")
def comparison():
    """Two schedulers on two small workloads; a third cannot run."""
    schedulers = {"fifo": InOrder(), "last": Preempting(), "blind": Refusing()}
    screen = TextConsole(io.StringIO(), width=100)
    return run_comparison(schedulers, workloads(2), Setup(CLUSTER, IdealModel()), optional=["blind"], console=screen)


def printed(comparison, width):
    page = io.StringIO()
    print_table(comparison, TextConsole(page, width=width))
    return page.getvalue()


def test_names_that_look_like_markup_or_mathematics_are_texts(tmp_path):
    """Such as those of a stranger's trace, cluster and run folder."""
    name = "[/x] [link=a]$_^$ \\frac :bomb: \x1b[31m"
    cluster = ClusterSpec(tuple(replace(node, gpu_type=name) for node in CLUSTER.nodes), name)
    setup = Setup(cluster, IdealModel())
    made = [replace(each, name=name, notes=(name,)) for each in workloads(2)]
    page = io.StringIO()
    found = run_comparison({name: InOrder(), "b": InOrder()}, made, setup, console=TextConsole(page, width=200))
    assert name.replace("\x1b", "\\x1b") in page.getvalue()
    assert "\x1b[31m" not in page.getvalue()
    write_report(found, tmp_path, PageExtras(setup=setup))
    assert imread(tmp_path / "side_by_side.png").shape[2] == 4


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_the_table_fits_and_truncates_nothing(comparison, width):
    text = printed(comparison, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "unfinished" in text
    assert "vs fifo" in text
    assert "blind  not applicable: needs remaining work" in text


def test_a_wide_screen_has_every_column(comparison):
    heads = printed(comparison, 220).splitlines()[0].split()
    assert {"p50", "p99", "wait", "slowdown", "rho", "makespan", "GPUs", "frag.", "preempted", "restarts"} <= set(heads)


def test_160_columns_show_queues_and_what_limits_jobs(comparison):
    """Where nothing but GPUs is shared, the limits are the last columns, since they are always 0."""
    assert "queue" in printed(comparison, 160).splitlines()[0]
    assert "by cores" not in printed(comparison, 160)
    limited = LimitedTime(running=10.0, cpus=3.0, memory=2.0, network=1.0, num_rounds=4, num_queue_rounds=1)
    runs = {name: [replace(run, limited=limited) for run in results] for name, results in comparison.runs.items()}
    head, row, *_ = printed(Comparison(runs, relaxations=comparison.relaxations), 160).splitlines()
    assert all(name in head for name in ("queue", "by cores", "by memory", "by network"))
    assert [cell for cell in row.split() if cell.endswith("%")][-4:] == ["25%", "30%", "20%", "10%"]


def test_columns_keep_their_order_at_every_width(comparison):
    everything = [column.head for column in all_columns(comparison)]
    for width in range(60, 200, 7):
        heads = [column.head for column in that_fit(all_columns(comparison), width)]
        assert heads == [head for head in everything if head in heads]


def test_the_table_has_the_figures_of_the_comparison(comparison):
    column = {column.head.partition(" (")[0]: column.cells for column in all_columns(comparison)}
    row = comparison.rows[0]
    assert column["scheduler"] == ["fifo", "last", "lower bound"]
    assert column["unfinished"] == ["0", "0", "-"]
    assert column["vs fifo"][2] == number(comparison.bounds[0]["mean_jct_ratio"])
    assert column["makespan"][2] == duration(comparison.bounds[0]["makespan"])
    assert column["GPUs"][0] == f"{row['utilisation']:.0%}"
    assert column["preempted"][1] == f"{comparison.rows[1]['preemptions']:,.0f}"
    assert column["vs fifo"][0] == "1.00"


def test_a_table_without_a_single_finished_job():
    idle = fabricated([Told(0, 1, 5)], end=9)
    text = printed(Comparison({"idle": [idle]}), 100)
    assert "0 of 1 measured jobs" in text
    assert " - " in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.nan, "-"),
        (0, "0"),
        (0.0042, "0.0042"),
        (0.5, "0.500"),
        (9.994, "9.99"),
        (99.96, "100"),
        (12345, "12,345"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(59, "59.0 s"), (600, "10.0 min"), (9000, "2.50 h"), (864000, "10.0 d")])
def test_durations_have_a_suitable_unit(seconds, text):
    assert duration(seconds) == text


def test_intervals_follow_their_figure():
    assert with_interval(Estimate(60, 30, 90), 60) == "1.00 [0.500, 1.50]"
    assert with_interval(Estimate(60, float("nan"), float("nan")), 60) == "1.00"
    assert share(0.256) == "26%"
    assert share(float("nan")) == "-"


def test_the_offered_load_is_printed_first():
    page = io.StringIO()
    made = [*workloads(1, jobs=12), *workloads(1, jobs=40, seed=1)]
    print_workloads(made, Setup(CLUSTER, IdealModel()), TextConsole(page, width=100))
    text = page.getvalue()
    loads = sorted(workload.offered_load(CLUSTER, IdealModel())["V100"] for workload in made)
    assert "w0: 2 x 12 to 40 jobs on cluster (8 V100)" in text
    assert f"offered load: V100 {loads[0]:.2f} to {loads[1]:.2f}" in text


def test_a_range_of_one_value_is_one_figure():
    assert format_range([0.9, 0.9], "{:.2f}") == "0.90"
    assert format_range([1.0, 0.5], "{:.1f}") == "0.5 to 1.0"
    assert describe_loads("V100", [0.5, 1.25]) == "V100 0.50 to 1.25"
    assert describe_loads("K80", [0.5, float("inf")]) == "K80 cannot run all jobs"


def test_the_report_writes_files(comparison, tmp_path):
    written = write_report(comparison, tmp_path / "new")
    names = {path.name for path in written}
    assert names == {
        "results.json",
        "results.csv",
        "results.md",
        "report.html",
        "aggregates.csv",
        "marl_eval.json",
        "jct_cdf.png",
        "jct_and_cpu_time.png",
    } | {
        "gantt_fifo.png",
        "gantt_last.png",
        "side_by_side.png",
    }
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
    content = json.loads((tmp_path / "new" / "results.json").read_text())
    frame = pd.read_csv(tmp_path / "new" / "results.csv")
    assert frame["mean_jct"][0] == content["schedulers"][0]["mean_jct"] == comparison.rows[0]["mean_jct"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written if path.suffix == ".png")


def test_legends_begin_with_the_best_scheduler(comparison):
    """In the picture of distributions, and the buttons of the page."""
    comparison = replace(comparison, runs=dict(reversed(comparison.runs.items())))
    legend = jct_cdf(comparison).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(comparison.order)
    assert list(comparison.order) != list(comparison.runs)
    assert re.findall(r'data-line="(.*?)"', chips(ComparisonCharts(comparison))) == list(comparison.order)


def test_a_picture_is_written_as_savefig_would_draw_it(comparison, tmp_path):
    write_figure(tmp_path / "one.png", jct_cdf(comparison), 80)
    jct_cdf(comparison).savefig(tmp_path / "other.png", dpi=80)
    one, other = (imread(tmp_path / name) for name in ("one.png", "other.png"))
    assert one.shape == (368, 600, 4)
    assert np.array_equal(one, other)


def test_pictures_leave_no_global_state(comparison):
    before = dict(mpl.rcParams)
    gantt(comparison.runs["fifo"][0])
    jct_cdf(comparison)
    assert dict(mpl.rcParams) == before


def test_every_scheduler_has_a_curve_of_its_own(comparison):
    axes = jct_cdf(comparison).axes[0]
    lines = axes.get_lines()
    assert [line.get_label() for line in lines] == ["fifo", "last"]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 2
    assert len(set(COLOURS)) * len(set(STYLES)) == 28
    times = np.asarray(lines[0].get_xdata())
    assert np.nanmax(times[np.isfinite(times)]) == pytest.approx(
        max(
            run.records["finish_time"][job] - run.records["submit_time"][job]
            for run, jobs in zip(comparison.runs["fifo"], comparison.compared, strict=True)
            for job in jobs
        )
    )


@st.composite
def stays(draw):
    """Stays on two nodes that never exceed their GPUs: they begin where they fit and end at random."""
    sizes = draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    rows: list[tuple[int, int, int, float, float, int]] = []
    running: list[tuple[int, int, int, float, float, int]] = []
    for job in range(draw(st.integers(1, 15))):
        node, now = draw(st.integers(0, 1)), float(job)
        taken = sum(row[2] for row in running if row[1] == node and row[4] > now)
        if taken < sizes[node]:
            row = (job, node, draw(st.integers(1, sizes[node] - taken)), now, now + draw(st.integers(1, 9)), -1)
            rows.append(row)
            running.append(row)
    return np.array(rows, SEGMENT), ClusterSpec(tuple(NodeSpec("V100", size) for size in sizes))


@settings(deadline=None, max_examples=80)
@given(stays())
def test_no_two_stays_share_a_gpu(made):
    held, cluster = made
    rows = lanes(held, cluster)
    taken: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        stay = held[row["segment"]]
        for lane in range(row["lane"], row["lane"] + row["count"]):
            assert all(end <= stay["start"] or start >= stay["end"] for start, end in taken.get(lane, []))
            taken.setdefault(lane, []).append((stay["start"], stay["end"]))
            assert lane < cluster.node_gpus[0] if stay["node"] == 0 else cluster.node_gpus[0] <= lane < cluster.num_gpus
    gpus = np.bincount(rows["segment"], weights=rows["count"], minlength=len(held))
    assert gpus.tolist() == held["gpus"].tolist()


def test_more_gpus_than_a_node_has_are_an_error():
    held = np.array([(0, 0, 3, 0.0, 5.0, -1), (1, 0, 2, 1.0, 2.0, -1)], SEGMENT)
    with pytest.raises(ValueError, match="node 0: job 1 holds 2 GPUs where 1 are free"):
        lanes(held, ClusterSpec((NodeSpec("V100", 4),)))


def test_two_jobs_on_the_same_gpus_have_the_same_lanes_and_half_a_box_each():
    held = np.array([(0, 0, 1, 0.0, 2.0, -1), (1, 0, 2, 0.0, 5.0, -1), (2, 0, 2, 1.0, 4.0, 1)], SEGMENT)
    cluster = ClusterSpec((NodeSpec("V100", 4),))
    assert lanes(held, cluster).tolist() == [(0, 0, 1), (1, 1, 2), (2, 1, 2)]
    bottom, height, segment = boxes(held, cluster, by_gpu=True)
    assert (bottom.tolist(), height.tolist(), segment.tolist()) == ([0.0, 1.0, 2.0], [1.0, 2.0, 1.0], [0, 1, 2])


def test_a_resized_job_keeps_its_lanes():
    held = np.array([(0, 0, 1, 0.0, 2.0, -1), (1, 0, 2, 0.0, 5.0, -1), (1, 0, 3, 5.0, 9.0, -1)], SEGMENT)
    rows = lanes(held, ClusterSpec((NodeSpec("V100", 4),)))
    assert rows.tolist() == [(0, 0, 1), (1, 1, 2), (2, 0, 3)]


def test_lanes_of_nodes_are_shares_of_nodes():
    held = np.array([(0, 1, 2, 0.0, 2.0, -1)], SEGMENT)
    bottom, height, segment = node_lanes(held, ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 8))))
    assert (bottom.tolist(), height.tolist(), segment.tolist()) == ([1.0], [0.25], [0])


@pytest.mark.parametrize("by_gpu", [True, False])
def test_the_area_of_the_boxes_equals_the_held_gpu_seconds(by_gpu):
    result = three_jobs()
    held = segments(result.log, result.end_time)
    _, height, segment = boxes(held, result.cluster, by_gpu)
    length = (held["end"] - held["start"])[segment]
    assert (height * length).sum() * (1 if by_gpu else 4) == pytest.approx(76)


def test_a_gantt_chart_shows_every_stay_and_the_waiting_jobs():
    figure = gantt(three_jobs())
    above, below, waiting_axes = figure.axes
    assert above.get_title(loc="left") == "told on fabricated: 3 jobs"
    assert len(above.collections[0].get_paths()) == 5
    assert sorted(text.get_text() for text in above.texts) == ["0", "1", "1", "2", "2"]
    assert [label.get_text() for label in above.get_yticklabels()] == ["V100 node 0", "V100 node 1"]
    assert below.get_xlabel() == "time (seconds)"
    assert np.max(np.asarray(waiting_axes.get_lines()[0].get_ydata())) == 2


def test_a_gantt_chart_counts_unfinished_jobs():
    figure = gantt(fabricated([Told(0, 1, 5), Told(0, 2, 9, [(0, {0: 2})])], end=9))
    assert "2 jobs, 2 unfinished" in figure.axes[0].get_title(loc="left")


def test_a_large_cluster_has_one_lane_per_node():
    acts = [(0, {0: 100, 1: 50})]
    figure = gantt(fabricated([Told(0, 150, 9, acts, 9)], node_gpus=(100, 100)))
    assert figure.axes[0].get_ylim() == (2, 0)


def test_only_the_beginning_of_a_long_run_is_drawn():
    jobs = [Told(i, 1, 1, [(i, {0: 1})], i + 1) for i in range(MAX_SEGMENTS + 50)]
    figure = gantt(fabricated(jobs))
    assert f"first {MAX_SEGMENTS} stays of {MAX_SEGMENTS + 50}" in figure.axes[0].get_title(loc="left")
    assert figure.axes[0].get_xlim()[1] == pytest.approx(MAX_SEGMENTS / 60)


def test_a_run_without_started_jobs_can_be_drawn():
    assert len(gantt(fabricated([Told(0, 1, 5)], end=9)).axes) == 3


@pytest.mark.parametrize(
    ("end", "name"), [(0, "seconds"), (100, "seconds"), (1000, "minutes"), (20000, "hours"), (1e6, "days")]
)
def test_the_time_axis_has_a_suitable_unit(end, name):
    assert TimeAxis.over(0.0, float(end)).name == name


def test_colours_distinguish_sizes():
    colours, classes = shades(np.array([1, 3, 8, 500]), np.zeros(4, dtype=np.int64))
    assert classes.tolist() == [0, 1, 3, len(SIZE_CLASSES) - 1]
    assert len({tuple(colour) for colour in colours}) == 4
    assert [label_of(size) for size in SIZE_CLASSES] == ["1", "2-3", "4-7", "8-15", "16-31", "32-63", "64+"]


def test_pairs_of_model_and_gpu_type_are_merged():
    pairs = ["bert on V100", "bert on K80", "a3c on T4", "vae on V100", "vae on K80"]
    assert merge_pairs(pairs) == "bert, vae on V100, K80; a3c on T4"
    assert merge_pairs(["any on V100"]) == "any on V100"
