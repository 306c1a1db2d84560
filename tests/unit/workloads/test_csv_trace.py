"""The CSV reader with its mapping: units, filters, bad rows, mistakes in the mapping, and the example of the docs."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.cluster import build_cluster
from envs.performance import IdealModel, default_model
from envs.types import TraceError
from envs.workloads import TraceSource
from envs.workloads.readers import CsvTrace, ItpTrace, PhillyTrace
from envs.workloads.readers.csv_trace import DEPENDENCY_RULE, FIELDS, UNITS
from envs.workloads.readers.table import DEFAULT_LAYOUT

ROOT = Path(__file__).parents[3]
BASIC = {"submit_time": "at", "duration": "took", "num_gpus": "n"}


def read(write, text, columns=BASIC, *, strict=False, **options):
    """The frame and the report of a file with this text."""
    return CsvTrace(columns, **options).read(write("jobs.csv", text), strict=strict)


def test_time_limits_and_priorities_are_read_and_empty_cells_state_none(write, cluster, ideal):
    columns, units = (
        {**BASIC, "time_limit": "limit", "priority": "prio", "nice": "nice", "qos": "q"},
        {"time_limit": "min"},
    )
    text = "at,took,n,limit,prio,nice,q\n0,60,1,1.5,-7,-3,hi\n1,60,1,,,,\n2,60,1,-1,0,0,\n3,60,1,1,high,0,\n"
    frame, report = read(write, text, columns, units=units)
    assert frame["time_limit"].tolist() == [90.0, 0.0]
    assert frame["priority"].tolist() == [-7.0, 0.0]
    assert report.bad == {"limit must be at least 0": 1, "prio must be a finite number": 1}
    reader = CsvTrace(columns, units=units)
    source = TraceSource(cluster, ideal, reader, path=str(write("jobs.csv", text)), evaluate_on="all", limits="trace")
    (workload,) = source.evaluation()
    assert [(job.time_limit, job.priority) for job in workload] == [(90.0, -7.0), (math.inf, 0.0)]
    assert [(job.nice, job.qos) for job in workload] == [(-3.0, "hi"), (0.0, "")]
    said = "1 of 2 jobs have time limits, at which they end (median 0.025 h); workload.limits=none lifts this"
    assert said in workload.notes


def test_begin_times_and_dependencies_are_read(write, cluster, ideal):
    columns = {**BASIC, "begin_time": "begin", "dependency": "after", "id": "job"}
    rows = ["0,60,1,,,a", "1,60,1,5,,b", "2,60,1,1,afterok:a:b,c", "3,60,1,,singleton,d", "4,60,1,,afterok:e,e"]
    rows += ["5,60,1,,after:a,f", "6,60,1,,afterany:z,g", "7,60,1,,afterany:h,h"]
    text = "at,took,n,begin,after,job\n" + "\n".join(rows) + "\n"
    frame, report = read(write, text, columns)
    assert frame["begin_after"].tolist() == [0.0, 4.0, 0.0, 0.0]
    assert report.bad == {f"after {DEPENDENCY_RULE}": 4}
    with pytest.raises(TraceError, match=r"jobs\.csv: row 6: after is 'afterok:e'; it must be afterok, afternotok or"):
        read(write, text, columns, strict=True)
    path = str(write("jobs.csv", text))
    source = TraceSource(cluster, ideal, CsvTrace(columns), path=path, evaluate_on="all", holds="trace")
    (workload,) = source.evaluation()
    assert workload.jobs["begin_time"].tolist() == [0.0, 5.0, 0.0, 0.0]
    assert workload.dependencies == ((2, 0, 1), (2, 1, 1), (3, 0, 3), (3, 1, 3), (3, 2, 3))
    said = "1 jobs have begin times, and 2 wait for others to end; workload.holds=none lifts both"
    assert said in workload.notes


def test_the_least_mapping_by_hand(write):
    frame, report = read(write, "x,at,took,n\na,1000,60,8\nb,970,30,1\n")
    assert frame["submit_time"].tolist() == [0.0, 30.0]
    assert frame["duration"].tolist() == [30.0, 60.0]
    assert frame["num_gpus"].tolist() == [1, 8]
    assert frame["row"].tolist() == [3, 2]
    assert report.notes[:2] == (
        "columns: submit_time from at, duration from took, num_gpus from n",
        "columns that are not read: x",
    )


@pytest.mark.parametrize(
    ("unit", "seconds"), [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("min", 60.0), ("h", 3600.0), ("days", 86400.0)]
)
def test_units_of_time(write, unit, seconds):
    frame, _ = read(write, "at,took,n\n100,3,1\n107,2,1\n", units={"submit_time": unit, "duration": unit}, strict=True)
    assert frame["submit_time"].tolist() == pytest.approx([0.0, 7 * seconds])
    assert frame["duration"].tolist() == pytest.approx([3 * seconds, 2 * seconds])


def test_epoch_seconds_are_times_too(write):
    frame, report = read(write, "at,took,n\n1700000000,60,1\n1700000100,60,1\n0,60,1\n", strict=False)
    assert frame["submit_time"].tolist() == [0.0, 100.0]
    assert report.bad == {"at must be within ten years of most other times": 1}


@pytest.mark.parametrize(
    ("layout", "first", "second"),
    [
        (DEFAULT_LAYOUT, "2024-03-04 08:00:00", "2024-03-05 00:00:01"),
        ("%d.%m.%Y %H:%M", "04.03.2024 08:00", "05.03.2024 00:00"),
        ("ISO8601", "2024-03-04T08:00:00.5", "2024-03-05T00:00:01"),
        ("ISO8601", "2024-03-04T09:00:00+01:00", "2024-03-05T00:00:00Z"),
    ],
)
def test_calendar_times_begin_at_midnight(write, layout, first, second):
    frame, _ = read(write, f"at,took,n\n{first},60,1\n{second},60,1\n", units={"submit_time": layout}, strict=True)
    assert frame["submit_time"].tolist() == pytest.approx([8 * 3600, 24 * 3600], abs=1.0)


@pytest.mark.parametrize("date", ["0001-01-01 00:00:00", "1969-12-31 23:59:59", "2100-01-01 00:00:00"])
def test_dates_that_stand_for_none_are_bad_rows(write, date):
    text = f"at,took,n\n2024-03-04 08:00:00,60,1\n{date},60,1\n"
    frame, report = read(write, text, units={"submit_time": DEFAULT_LAYOUT})
    assert len(frame) == 1
    assert report.bad == {"at must be a time from 1970 to 2099": 1}
    with pytest.raises(TraceError, match=r"jobs\.csv: row 3: at is '.*'; it must be a time from 1970 to 2099"):
        read(write, text, units={"submit_time": DEFAULT_LAYOUT}, strict=True)


def test_durations_from_start_and_end(write):
    columns = {"submit_time": "at", "start_time": "from", "end_time": "to", "num_gpus": "n"}
    frame, report = read(write, "at,from,to,n\n0,5,65,1\n1,70,70,1\n2,90,80,1\n3,90,,1\n", columns)
    assert frame["duration"].tolist() == [60.0]
    assert report.skipped == {"zero duration": 1}
    assert report.bad == {"to must be a finite number": 1, "to must not be before the start": 1}


def test_work_in_samples_and_in_steps(write):
    columns = {"submit_time": "at", "work": "w", "num_gpus": "n"}
    frame, report = read(write, "at,w,n\n0,500,2\n1,0,2\n2,5,0\n", columns)
    assert frame["work"].tolist() == [500.0]
    assert np.isnan(frame["duration"]).all()
    assert report.skipped == {"no GPUs requested": 1, "no work": 1}
    steps = {**columns, "batch_size": "b"}
    frame, report = read(write, "at,w,n,b\n0,500,2,32\n1,500,2,0\n", steps, units={"work": "steps"})
    assert frame["work"].tolist() == [16_000.0]
    assert report.bad == {"b must be at least 1": 1}


def test_elastic_ranges_cores_memory_and_flags(write):
    columns = {
        **BASIC,
        "min_gpus": "lo",
        "max_gpus": "hi",
        "cpu_cores": "cpu",
        "memory": "mem",
        "guaranteed": "g",
        "tenant": "t",
        "user": "u",
        "name": "s",
        "id": "id",
    }
    head = "at,took,n,lo,hi,cpu,mem,g,t,u,s,id\n"
    text = (
        "0,9,4,1,8,32000,1024,Yes,blue,ann,fit.py,j1\n1,9,4,5,8,1,1,0,red,,,j2\n2,9,4,1,3,1,1,,red,,,j3\n"
        "3,9,4,1,8,1,1,maybe,red,,,j4\n"
    )
    frame, report = read(write, head + text, columns, units={"cpu_cores": "millicores", "memory": "GiB"})
    (row,) = frame.to_dict("records")
    assert (row["min_gpus"], row["max_gpus"], row["cpu_cores"]) == (1, 8, 32.0)
    assert row["memory"] == pytest.approx(1024 * 2**30 / 1e9)
    assert (row["guaranteed"], row["tenant"], row["id"]) == (True, "blue", "j1")
    assert (row["user"], row["name"]) == ("ann", "fit.py")
    assert [(bad.row, bad.field) for bad in report.examples] == [(3, "lo"), (4, "hi"), (5, "g")]
    assert "cpu_cores: median 8 cores per GPU; checked, not used by the world" in report.notes


def test_names_are_translated_and_unknown_gpu_types_are_bad(write):
    columns = {**BASIC, "model": "m", "gpu_type": "sku"}
    text = "at,took,n,m,sku\n0,9,1,net,V100-SXM\n1,9,1,bert,P100\n2,9,1,bert,T4\n3,9,1,,P100\n"
    frame, report = read(
        write, text, columns, models={"net": "resnet50"}, gpu_types={"V100-SXM": "V100", "P100": "P100"}
    )
    assert frame["model"].tolist() == ["resnet50", "bert"]
    assert frame["gpu_type"].tolist() == ["V100", "P100"]
    assert report.bad == {
        "sku must be one of V100-SXM, P100 (reader.gpu_types)": 1,
        "m must name a model": 1,
    }


def test_filters_are_counted(write):
    text = "at,took,n,state,q\n0,9,1,done,a\n1,9,1,failed,a\n2,9,1,done,test\n3,9,1,done,b\n"
    frame, report = read(write, text, keep={"state": ["done"]}, drop={"q": ["test"]})
    assert len(frame) == 2
    assert report.skipped == {"state is not one of done": 1, "q is one of test": 1}


def test_filtered_rows_do_not_move_the_origin(write):
    text = "at,took,n,state\n100,9,1,failed\n130,9,1,done\n"
    frame, _ = read(write, text, keep={"state": ["done"]})
    assert frame["submit_time"].tolist() == [30.0]


def test_other_delimiters_and_files_without_a_header(write):
    frame, _ = read(write, "0;9;1\n1;9;2\n", header=["at", "took", "n"], delimiter=";", strict=True)
    assert frame["num_gpus"].tolist() == [1, 2]


def test_repeated_rows_are_kept_unless_told_otherwise(write):
    text = "at,took,n\n0,9,1\n0,9,1\n"
    assert len(read(write, text)[0]) == 2
    frame, report = read(write, text, duplicates=False)
    assert len(frame) == 1
    assert report.skipped == {"exact duplicates of an earlier row": 1}


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("soon,9,1", "at"),
        ("-1,9,1", "at"),
        ("0,,1", "took"),
        ("0,-9,1", "took"),
        ("0,1e99,1", "took"),
        ("0,9,1.5", "n"),
        ("0,9,-1", "n"),
        ("0,9", "at"),
    ],
)
def test_a_bad_row_is_reported_with_row_and_field_or_raised(write, row, field):
    text = f"at,took,n\n0,9,1\n{row}\n"
    frame, report = read(write, text)
    assert len(frame) == 1
    assert [(bad.row, bad.field) for bad in report.examples] == [(3, field)]
    with pytest.raises(TraceError, match=rf"jobs\.csv: row 3: {field} is .*; correct the row, or skip bad rows"):
        read(write, text, strict=True)


@settings(max_examples=25)
@given(st.data())
def test_every_row_is_kept_bad_or_skipped(tmp_path_factory, data):
    """Whatever the cells hold, no row is lost, and those that are kept are usable jobs."""
    cell = st.sampled_from(["0", "1", "2.5", "-3", "x", "", "1e20", "nan", "done", "0001-01-01 00:00:00", "V100"])
    rows = data.draw(st.lists(st.tuples(*[cell] * 6), min_size=1, max_size=12))
    path = tmp_path_factory.mktemp("csv") / "jobs.csv"
    text = "".join(
        ",".join(row) + "\n"
        for row in [("at", "took", "n", "lo", "sku", "state"), *rows, ("5", "9", "2", "1", "V100", "done")]
    )
    path.write_text(text)
    columns = {**BASIC, "min_gpus": "lo", "gpu_type": "sku"}
    reader = CsvTrace(columns, gpu_types={"V100": "V100"}, keep={"state": ["done"]})
    frame, report = reader.read(path)
    assert report.rows == len(rows) + 1 == report.kept + sum(report.bad.values()) + sum(report.skipped.values())
    assert len(frame) == report.kept >= 1
    assert (frame["duration"] > 0).all()
    assert (frame["num_gpus"] >= 1).all()
    assert ((frame["min_gpus"] >= 1) & (frame["min_gpus"] <= frame["num_gpus"])).all()
    assert np.isfinite(frame["submit_time"]).all()


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"duration": "d", "num_gpus": "n"}, {}, r"columns\.submit_time is not set; every trace needs it"),
        ({**BASIC, "num_gpus": None}, {}, r"columns\.num_gpus is not set"),
        ({**BASIC, "duration": None}, {}, r"columns\.start_time is not set; give duration, work, or both"),
        ({**BASIC, "duration": None, "start_time": "s"}, {}, r"columns\.end_time is not set"),
        ({**BASIC, "durration": "d"}, {}, r"columns\.durration: there is no such field, did you mean duration"),
        (BASIC, {"units": {"num_gpus": "s"}}, r"units\.num_gpus: there is no such field"),
        (BASIC, {"units": {"duration": "weeks"}}, r"units\.duration is 'weeks'; it must be s or ms or us or min"),
        (BASIC, {"units": {"duration": "%H:%M"}}, r"units\.duration is '%H:%M'"),
        (BASIC, {"units": {"submit_time": "weeks"}}, "or a layout such as"),
        (BASIC, {"delimiter": "::"}, "delimiter is '::'; it must be one character"),
        ({**BASIC, "work": "w"}, {"units": {"work": "steps"}}, r"columns\.batch_size is not set; work in steps"),
    ],
)
def test_mistakes_in_the_mapping(columns, options, message):
    with pytest.raises(TraceError, match=message):
        CsvTrace(columns, **options)


def test_a_column_that_the_file_lacks(write):
    """What every trace needs stands apart from what this mapping names besides."""
    needs = "it has at, n; a csv trace needs at, n, took"
    with pytest.raises(
        TraceError, match=rf"no column 'took', which workload\.reader\.columns\.duration names; {needs}$"
    ):
        read(write, "at,n\n0,1\n")
    team = {**BASIC, "tenant": "team"}
    with pytest.raises(TraceError, match=rf"has no column 'took', .*; {needs}; optional: team$"):
        read(write, "at,n\n0,1\n", team)
    optional = r"no column 'team', which workload\.reader\.columns\.tenant names; .* needs at, n, took; optional: team$"
    with pytest.raises(TraceError, match=optional):
        read(write, "at,took,n\n0,9,1\n", team)
    with pytest.raises(
        TraceError, match=r"no column 'state', which workload\.reader\.keep names; .*; optional: state$"
    ):
        read(write, "at,took,n\n0,9,1\n", keep={"state": ["done"]})


def test_a_workload_has_the_files_own_ranges_and_work(write):
    """Work is the duration times the throughput on the row's type; ranges are cut at the cluster's size."""
    cluster = build_cluster("two", [{"gpu_type": "V100", "num_nodes": 2, "num_gpus": 8}])
    path = write("jobs.csv", "at,took,n,lo,hi,m\n0,10,4,2,64,a\n1,10,4,4,4,b\n")
    reader = CsvTrace({**BASIC, "min_gpus": "lo", "max_gpus": "hi", "model": "m"})
    source = TraceSource(cluster, IdealModel(("a", "b")), reader, path=str(path), elastic=1.0, evaluate_on="all")
    (workload,) = source.evaluation()
    assert workload.jobs["work"].tolist() == [40.0, 40.0]
    assert workload.jobs["min_gpus"].tolist() == [2, 4]
    assert workload.jobs["max_gpus"].tolist() == [16, 4]
    assert any(note.startswith("the trace's own columns min_gpus and max_gpus") for note in workload.notes)


def test_the_durations_of_a_row_are_those_of_its_gpu_type(write):
    cluster = build_cluster("one", [{"gpu_type": "V100", "num_nodes": 1, "num_gpus": 8}])
    path = write("jobs.csv", "at,took,n,m,sku\n0,10,1,resnet50,V100\n1,10,1,resnet50,K80\n")
    reader = CsvTrace({**BASIC, "model": "m", "gpu_type": "sku"})
    workload = TraceSource(cluster, default_model(), reader, path=str(path), evaluate_on="all").workload
    assert workload.jobs["work"][0] > 2 * workload.jobs["work"][1]
    unknown = write("other.csv", "at,took,n,m,sku\n0,10,1,resnet50,V100\n1,10,1,resnet50,V101\n")
    with pytest.raises(TraceError, match=r"other\.csv: row 3: GPU type 'V101' has no figures.*did you mean 'V100'"):
        _ = TraceSource(cluster, default_model(), reader, path=str(unknown), evaluate_on="all").workload


def test_the_preset_names_every_field_and_unit():
    reader = yaml.safe_load((ROOT / "conf" / "workload" / "csv.yaml").read_text())["reader"]
    assert set(reader["columns"]) == set(FIELDS)
    assert set(reader["units"]) == set(UNITS)


def test_the_example_of_the_docs_gives_the_report_that_it_shows(write):
    page = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL))
    preset = yaml.safe_load((ROOT / "conf" / "workload" / "csv.yaml").read_text())["reader"]
    own = yaml.safe_load(blocks["yaml"])
    assert own["defaults"] == ["csv"]
    settings = {**preset, **own["reader"], "columns": {**preset["columns"], **own["reader"]["columns"]}}
    del settings["_target_"]
    frame, report = CsvTrace(**settings).read(write("jobs.csv", blocks["csv"]))
    assert frame["num_gpus"].tolist() == [8, 2]
    assert frame["duration"].tolist() == [7200.0, 3600.0]
    shown = re.search(r"```\n(csv: .*?)\n```", page)
    assert shown is not None
    assert report.summary() == shown.group(1)


def test_philly_and_itp_by_mapping_are_what_their_readers_give(real_data):
    philly = CsvTrace(
        {"submit_time": "timestamp", "duration": "duration", "num_gpus": "num_gpus", "tenant": "cluster"},
        units={"submit_time": DEFAULT_LAYOUT},
        duplicates=False,
    )
    itp = CsvTrace(
        {"submit_time": "submission_time", "duration": "duration", "num_gpus": "num_gpu", "tenant": "cluster"}
    )
    columns = ["submit_time", "duration", "num_gpus", "tenant", "row"]
    for mapped, reader in ((philly, PhillyTrace()), (itp, ItpTrace())):
        path = real_data(reader.location)
        ours, theirs = (each.read(path, strict=True)[0][columns] for each in (mapped, reader))
        assert ours.equals(theirs)
