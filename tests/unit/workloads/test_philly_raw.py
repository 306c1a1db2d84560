"""Philly's raw job log."""

import json

import pytest

from envs.types import TraceError
from envs.workloads.readers import PhillyRawTrace


def attempt(start, end, *gpus_by_node):
    detail = [{"ip": f"m{i}", "gpus": [f"gpu{g}" for g in range(n)]} for i, n in enumerate(gpus_by_node)]
    return {"start_time": start, "end_time": end, "detail": detail}


def job(name="a", submitted="2017-10-07 01:00:00", attempts=None, vc="red"):
    if attempts is None:
        attempts = [attempt("2017-10-07 01:01:00", "2017-10-07 01:02:00", 8)]
    return {"status": "Pass", "vc": vc, "jobid": name, "attempts": attempts, "submitted_time": submitted, "user": "u"}


def read(write, *jobs, **options):
    return PhillyRawTrace().read(write("cluster_job_log", json.dumps(list(jobs))), **options)


def test_attempts_add_up_and_the_last_one_gives_the_size(write):
    retried = job(
        attempts=[
            attempt("2017-10-07 01:01:00", "2017-10-07 01:02:00", 8),
            attempt("2017-10-07 01:10:00", "2017-10-07 01:12:30", 8, 8),
        ]
    )
    frame, report = read(write, job("b", "2017-10-08 00:00:10"), retried, strict=True)
    assert frame["id"].tolist() == ["a", "b"]
    assert frame["submit_time"].tolist() == [3600.0, 86410.0]
    assert frame["duration"].tolist() == [210.0, 60.0]
    assert frame["num_gpus"].tolist() == [16, 8]
    assert frame["tenant"].tolist() == ["red", "red"]
    assert frame["user"].tolist() == ["u", "u"]
    assert "all its attempts" in report.notes[0]


@pytest.mark.parametrize("unknown", [None, "None", ""])
def test_jobs_that_never_ran_or_still_run_are_skipped(write, unknown):
    still = job("still", attempts=[attempt("2017-10-07 01:01:00", unknown, 8)])
    _, report = read(write, job(), job("never", attempts=[]), still, strict=True)
    assert report.kept == 1
    assert report.skipped == {"no recorded attempt": 1, "an attempt without recorded start or end": 1}


def test_cpu_jobs_and_instant_ones_are_skipped(write):
    cpu = job("cpu", attempts=[attempt("2017-10-07 01:01:00", "2017-10-07 01:02:00")])
    instant = job("instant", attempts=[attempt("2017-10-07 01:01:00", "2017-10-07 01:01:00", 1)])
    _, report = read(write, job(), cpu, instant)
    assert report.skipped == {"no GPUs requested": 1, "zero duration": 1}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (17, "int instead of an object"),
        ({"vc": "red"}, "KeyError"),
        (job(attempts=[{"start_time": "2017-10-07 01:01:00"}]), "KeyError"),
        (job(attempts=[attempt("soon", "later", 1)]), "ValueError"),
        (job(attempts=5), "TypeError"),
        (job(submitted="None"), "None"),
        (job(attempts=[attempt("2017-10-07 01:02:00", "2017-10-07 01:01:00", 1)]), "-60.0"),
    ],
)
def test_malformed_entries_are_named_by_their_number(write, entry, said):
    _, report = read(write, job(), entry)
    assert report.kept == 1
    assert sum(report.bad.values()) == 1
    assert report.examples[0].row == 2
    assert said in report.examples[0].value
    with pytest.raises(TraceError, match="cluster_job_log: row 2: "):
        read(write, job(), entry, strict=True)


@pytest.mark.parametrize("text", ["", "{", "not json"])
def test_a_file_that_is_not_json(write, text):
    with pytest.raises(TraceError, match="is not the JSON of a cluster_job_log"):
        PhillyRawTrace().read(write("cluster_job_log", text))


@pytest.mark.parametrize("text", ["[]", "{}", "3"])
def test_json_without_jobs(write, text):
    with pytest.raises(TraceError, match="has no jobs"):
        PhillyRawTrace().read(write("cluster_job_log", text))


@pytest.mark.parametrize("end", ["0001-01-01 00:00:00", "2017-10-07 01:02:00"])
def test_attempts_in_the_year_one_are_bad_rows(write, end):
    """They would otherwise look like jobs without a run time, which are skipped."""
    _, report = read(write, job(), job("odd", attempts=[attempt("0001-01-01 00:00:00", end, 8)]))
    assert report.kept == 1
    assert sum(report.bad.values()) == 1
    assert report.examples[0].value == "an attempt before 1970"


def test_a_submission_in_the_year_one_is_a_bad_row(write):
    _, report = read(write, job(), job("odd", submitted="0001-01-01 00:00:00"))
    assert report.bad == {"submitted_time must be a time from 1970 to 2099": 1}


def test_a_log_that_is_nested_thousands_deep(write):
    with pytest.raises(TraceError, match="cluster_job_log: is nested too deeply") as error:
        PhillyRawTrace().read(write("cluster_job_log", "[" * 100_000))
    assert "download" not in str(error.value)


def test_a_key_that_stands_twice_in_an_object(write):
    text = json.dumps([job()]).replace('"vc":', '"vc": "first", "vc":')
    with pytest.raises(TraceError, match="the key 'vc' stands twice in one object"):
        PhillyRawTrace().read(write("cluster_job_log", text))
