"""The schema murmuration-jobs-1: files of it give the same jobs again; anonymous jobs are scheduled like the others."""

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Fifo, Srtf
from baselines.slurm import Slurm
from envs.cluster import build_cluster
from envs.performance import default_model
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ExecutionPlan, TraceError
from envs.workloads import TraceSource
from envs.workloads.anonymise import KEPT, anonymise_jobs, expand_nodes
from envs.workloads.readers import CsvTrace, JobsTrace, MuriTrace, RubickTrace, SlurmTrace, parquet
from envs.workloads.readers.jobs import COLUMNS, SCHEMA, jobs_table, plan_of_text, write_plan
from envs.workloads.recorded import ZERO_ATTRIBUTE
from murmuration.config.errors import ChoiceError
from murmuration.runs.converting import read_any_trace, write_jobs

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "golden" / "slurm_22_05" / "sacct.txt"
HEAD = f"schema,submit_time,num_gpus,duration\n{SCHEMA},"

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), max_size=6)
NAMES = st.sampled_from(["", "a100", "v100,a100", "x-1"])
SECONDS = st.floats(0, 1e7)
MAYBE = st.one_of(st.just(np.nan), SECONDS)
PLANS = st.one_of(
    st.none(), st.builds(ExecutionPlan, st.integers(1, 8), zero_stage=st.integers(0, 3), offload=st.booleans())
)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("user", "tenant", "name", "qos", "queue", "nodes"), WORDS),
    **dict.fromkeys(("pool", "features"), NAMES),
    **dict.fromkeys(("start_after", "end_after", "waited"), MAYBE),
    **dict.fromkeys(("time_limit", "begin_after", "gpu_memory"), SECONDS.map(lambda x: x / 1e3)),
    **dict.fromkeys(("max_nodes", "num_nodes", "gpus_per_node", "attempts"), st.integers(0, 9).map(float)),
    **dict.fromkeys(("guaranteed", "exclusive"), st.booleans()),
    **dict.fromkeys(("priority", "nice"), st.floats(-1e9, 1e9)),
    "mig_profile": st.sampled_from(["", "1g.10gb"]),
    "gpu_type": st.sampled_from(["V100", "A100"]),
    "ran_on": st.sampled_from(["", "V100"]),
    "work": st.floats(1, 1e12),
    "model": st.sampled_from(["resnet50", "bert"]),
    "plan": PLANS,
}
ZEROES = st.one_of(
    st.none(), st.just(datetime(2024, 3, 4)), st.just(datetime(2024, 3, 4, tzinfo=timezone(timedelta(hours=5.5))))
)


@st.composite
def frames(draw):
    """A reader's frame with any of the columns; jobs may depend on earlier ones."""
    size = draw(st.integers(1, 5))

    def column(values):
        return draw(st.lists(values, min_size=size, max_size=size))

    made = pd.DataFrame({"submit_time": sorted(column(SECONDS)), "duration": column(st.floats(1, 1e6))})
    made["num_gpus"] = column(st.integers(1, 64))
    for name in draw(st.sets(st.sampled_from(sorted(OPTIONAL)))):
        made[name] = pd.Series(column(OPTIONAL[name]), dtype=object if name == "plan" else None)
    if draw(st.booleans()):
        made["id"] = [f"{7 + at}_{at}" for at in range(size)]
        depends = [f"afterok:{6 + at}" if at and draw(st.booleans()) else "" for at in range(size)]
        made["dependency"] = ["singleton" if draw(st.booleans()) else text for text in depends]
    if (zero := draw(ZEROES)) is not None:
        made.attrs[ZERO_ATTRIBUTE] = zero
    return made


@settings(max_examples=60, deadline=None)
@given(frame=frames(), ending=st.sampled_from(["csv", "parquet"]))
def test_jobs_are_read_again_as_they_were(tmp_path_factory, frame, ending):
    path = tmp_path_factory.mktemp("jobs") / f"jobs.{ending}"
    table = jobs_table(frame, "muri", "T4", 4)
    write_jobs(path, table)
    again, report = JobsTrace().read(path, strict=True)
    pd.testing.assert_frame_equal(jobs_table(again, "", "", 1), table, check_dtype=False)
    assert report.kept == len(frame)
    for name in set(frame) & set(table) - {"plan"}:
        np.testing.assert_array_equal(again[name].to_numpy(), frame[name].to_numpy())
    if "plan" in again:
        assert again["plan"].tolist() == frame["plan"].tolist()
    assert again.attrs.get(ZERO_ATTRIBUTE) == frame.attrs.get(ZERO_ATTRIBUTE)


def workload_of(reader, path):
    cluster = build_cluster(
        "parts",
        [
            {"gpu_type": gpu_type, "num_nodes": 4, "num_gpus": 8, "pools": [pool]}
            for gpu_type, pool in (("V100", "v100"), ("A100", "a100"))
        ],
    )
    asked: dict[str, Any] = dict.fromkeys(("constraints", "limits", "holds"), "trace")
    source = TraceSource(cluster, default_model(), reader, path=str(path), elastic=1.0, max_gpus=8, **asked)
    return source.workload, cluster


TRACES = {
    "slurm": (SlurmTrace(), RECORDED, ["workload=slurm"]),
    "muri": (MuriTrace(), ROOT / "envs/workloads/traces/muri/trace3.csv.gz", ["workload=muri"]),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_converted_trace_is_the_same_workload(tmp_path, name):
    """Names of models are understood as in the trace that they are from."""
    reader, path, options = TRACES[name]
    table, _ = read_any_trace(path, options)
    write_jobs(tmp_path / "jobs.csv", table)
    (before, _), (after, _) = workload_of(reader, path), workload_of(JobsTrace(), tmp_path / "jobs.csv")
    assert before.recorded is not None
    assert after.recorded is not None
    np.testing.assert_array_equal(before.jobs, after.jobs)
    for column in ("models", "tenants", "names", "users", "ids", "dependencies", "qos"):
        assert getattr(before, column) == getattr(after, column)
    for column in ("start", "end", "waited", "attempts", "queue", "nodes"):
        np.testing.assert_array_equal(getattr(before.recorded, column), getattr(after.recorded, column))
    assert before.recorded.zero == after.recorded.zero


@pytest.mark.parametrize("scheduler", [Fifo(), Srtf(), Slurm()], ids=lambda each: type(each).__name__)
def test_anonymous_jobs_are_scheduled_like_the_others(tmp_path, scheduler):
    table, _ = read_any_trace(RECORDED, [])
    write_jobs(tmp_path / "jobs.csv", anonymise_jobs(table, b"secret"))
    logs = []
    for reader, path in ((SlurmTrace(), RECORDED), (JobsTrace(), tmp_path / "jobs.csv")):
        workload, cluster = workload_of(reader, path)
        logs.append(run_episode(scheduler, Simulator(workload, Setup(cluster, default_model(), Scenario()))).log)
    assert logs[0] == logs[1]


def test_no_name_remains_and_hours_and_weekdays_do(tmp_path):
    table, _ = read_any_trace(RECORDED, [])
    table["name"] = [f"secret-{row % 7}.sh" for row in range(len(table))]
    table["nodes"] = table["nodes"].str.replace("n", "gpu-node-")
    table["id"] = [f"job-{name}" for name in table["id"]]
    table["dependency"] = ["", *(f"afterok:{name}" for name in table["id"][:-1])]
    hidden = {text for column in ("user", "tenant", "name", "nodes", "id") for text in table[column]} - {""}
    made = anonymise_jobs(table, b"a", also=KEPT)
    path = tmp_path / "jobs.csv"
    write_jobs(path, made)
    words = set(re.split(r"[^A-Za-z0-9.\-]+", path.read_text()))
    assert not words & (hidden | set(table["pool"]) | set(table["qos"]))
    assert not set(table["dependency"]) & set(made["dependency"]) - {""}
    for column in ("user", "tenant", "name", "nodes"):
        assert made.groupby(column).ngroups == table.groupby(column).ngroups
    before, after = (datetime.fromisoformat(each["zero_time"].iloc[0]) for each in (table, made))
    assert (before - after) % timedelta(weeks=1) == timedelta(0)
    assert before != after
    assert set(anonymise_jobs(table, b"b", also=KEPT)["user"]).isdisjoint(made["user"])
    with pytest.raises(TraceError, match=r"also: 'gpu_typ' cannot be replaced; it must be one or more of queue, pool"):
        anonymise_jobs(table, b"a", also=["gpu_typ"])


def test_tokens_keep_arrays_dependencies_lists_and_nodes():
    table = pd.DataFrame(
        {
            "id": ["7_1", "7_2", "8"],
            "dependency": ["", "", "afterok:7,singleton"],
            "nodes": ["n[1-2]", "n1,n2", "n2"],
            "pool": ["a,b", "a", ""],
        }
    )
    made = anonymise_jobs(table, b"x", also=["pool"])
    array = made["id"][0].partition("_")[0]
    assert made["id"][:2].tolist() == [f"{array}_1", f"{array}_2"]
    assert made["dependency"].tolist() == ["", "", f"afterok:{array},singleton"]
    assert made["nodes"][0] == made["nodes"][1]
    assert made["nodes"][0].endswith(f",{made['nodes'][2]}")
    assert made["pool"][0].startswith(f"{made['pool'][1]},")
    assert expand_nodes("n[08-10,3]-x,m,r[1-2]n[1-2]") == ["n08-x", "n09-x", "n10-x", "n3-x", "m", "r[1-2]n[1-2]"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("submit_time,num_gpus,duration\n0,1,1\n", "has no column 'schema'"),
        (HEAD.replace("-1", "-2") + "0,1,1\n", "its schema is 'murmuration-jobs-2'; this version reads"),
        (HEAD + f"0,1,1\nx-{SCHEMA},0,1,1\n", "its column schema has .* and .*; give one"),
        (HEAD.replace(",duration", "") + "0,1\n", "has no column 'duration' or 'work'"),
        (
            HEAD.replace("dur", "zero_time,dur") + "0,1,3000-01-01,1\n",
            "its column zero_time has '3000-01-01'; it must be",
        ),
        (HEAD.replace("dur", "node_gpus,dur") + "0,1,many,1\n", "its column node_gpus has 'many'; it must be a whole"),
        (HEAD.replace("dur", "plan,dur") + "0,1,fast,1\n", "row 2: plan is 'fast'; it must be like"),
        (HEAD + "0,1,x\n", "row 2: duration is 'x'; it must be a finite number"),
        (b"PAR1 and then something else", "is a damaged Parquet file"),
    ],
)
def test_bad_files_are_one_line(tmp_path, text, message):
    path = tmp_path / "jobs.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TraceError, match=message) as error:
        JobsTrace().read(path, strict=True)
    assert "\n" not in str(error.value)


def test_unix_times_begin_at_midnight_and_other_columns_are_named(write):
    text = HEAD.replace("duration", "duration,colour").replace(f"{SCHEMA},", "")
    frame, report = JobsTrace().read(write("jobs.csv", f"{text}{SCHEMA},1709539200,1,60,red\n"))
    assert frame["submit_time"].tolist() == [8 * 3600.0]
    assert frame.attrs[ZERO_ATTRIBUTE] == datetime(2024, 3, 4, tzinfo=UTC)
    assert "columns that are not read: colour" in report.notes


def test_every_table_may_be_parquet(tmp_path):
    """Also those of other readers, with dates of its own."""
    times = pd.to_datetime(["2024-03-04T08:00:00Z", "NaT", "2024-03-04T09:00:00Z"])
    table = pd.DataFrame({"at": times, "gpus": [1, 2, 3], "seconds": [60.5, 1.0, None]})
    table.to_parquet(tmp_path / "jobs.parquet")
    reader = CsvTrace(
        {"submit_time": "at", "num_gpus": "gpus", "duration": "seconds"}, units={"submit_time": "ISO8601"}
    )
    frame, report = reader.read(tmp_path / "jobs.parquet")
    assert frame["duration"].tolist() == [60.5]
    assert {example.row: example.field for example in report.examples} == {3: "at", 4: "seconds"}


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    (tmp_path / "jobs.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceError, match=r"needs the extra parquet: pip install 'murmuration\[parquet\]'"):
        JobsTrace().read(tmp_path / "jobs.parquet")
    assert parquet.is_parquet(tmp_path) is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["workload=bursty"], "workload=bursty: reads no trace; choose one that does"),
        (["cluster=x"], "cluster=x: is no option here; give workload=<name>"),
    ],
)
def test_wrong_options_are_one_line(options, message):
    with pytest.raises(ChoiceError, match=message):
        read_any_trace(RECORDED, options)


def test_other_endings_are_refused_and_a_file_is_kept_if_its_new_form_could_not_be_read(tmp_path):
    table, _ = read_any_trace(RECORDED, [])
    with pytest.raises(ChoiceError, match=r"jobs\.xlsx: must end in \.csv or \.parquet"):
        write_jobs(tmp_path / "jobs.xlsx", table)
    (tmp_path / "jobs.csv").write_text("old")
    with pytest.raises(
        TraceError, match=r"jobs\.csv: was not written, .*: row 2: pool is 'a/b'; it must be a list of names"
    ):
        write_jobs(tmp_path / "jobs.csv", table.assign(pool="a/b"))
    assert (tmp_path / "jobs.csv").read_text() == "old"


@pytest.mark.parametrize("variant", ["base", "mt"])
def test_plans_of_rubick_are_kept(real_data, tmp_path, variant):
    reader = RubickTrace(variant)
    path = real_data(reader.location)
    frame, _ = reader.read(path)
    write_jobs(tmp_path / "jobs.parquet", read_any_trace(path, ["workload=rubick"])[0])
    assert JobsTrace().read(tmp_path / "jobs.parquet")[0]["plan"].tolist() == frame["plan"].tolist()
    assert plan_of_text(write_plan(ExecutionPlan(2, offload=True))) == ExecutionPlan(2, offload=True)
    assert plan_of_text("data:0") is None


def test_the_page_names_every_column():
    page = (ROOT / "docs" / "traces.md").read_text()
    table = page.partition("## The schema of jobs")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\| ([^|]+)\|", table, re.M)))) == set(COLUMNS)
