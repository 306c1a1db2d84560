"""The search for trace files, and the errors when they are missing."""

import pytest

from envs.types import TraceError
from envs.workloads.readers import ItpTrace, MuriTrace, PhillyRawTrace, PhillyTrace, locate
from envs.workloads.readers.reader import DATA_VARIABLE


def test_a_given_path_takes_precedence(write, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, "/nowhere")
    path = write("mine.csv", "x")
    assert locate(PhillyTrace(), str(path)) == path


def test_without_a_path_the_data_folder_is_searched(write, monkeypatch, tmp_path):
    path = write("traces/muri/trace1.csv.gz", "x")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert locate(MuriTrace("trace1")) == path


def test_with_neither_the_error_says_where_to_get_the_file_and_what_to_set(monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(TraceError) as error:
        locate(PhillyTrace())
    message = str(error.value)
    assert message.startswith("philly trace: no file given; get it from github.com/petuum/adaptdl, branch osdi21")
    assert "workload.path=<file>" in message
    assert "$MURMURATION_DATA to a folder that contains traces/philly/philly_jobs.csv.gz" in message
    assert "\n" not in message


@pytest.mark.parametrize("path", ["absent.csv", None])
def test_the_error_names_a_missing_file(monkeypatch, tmp_path, path):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(TraceError, match=r"does not exist; get it from .* workload.path=<file>") as error:
        locate(PhillyTrace(), path)
    assert (path or str(tmp_path / "traces/philly/philly_jobs.csv.gz")) in str(error.value)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("x" * 5000, r"cannot be looked at \(File name too long\)"),
        ("~nobody_of_this_name/jobs.csv", "~nobody_of_this_name/jobs.csv does not exist"),
        ("jobs\0.csv", r"jobs\\x00\.csv does not exist"),
    ],
)
def test_paths_that_cannot_be_are_one_line(path, said):
    with pytest.raises(TraceError, match=said) as error:
        locate(PhillyTrace(), path)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 700


def test_the_home_folder_may_be_abbreviated(write, monkeypatch, tmp_path):
    path = write("mine.csv", "x")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate(PhillyTrace(), "~/mine.csv") == path


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        (PhillyTrace(), r"petuum/adaptdl, branch osdi21-artifact, simulator/traces/philly\.csv; .*workload=philly_raw"),
        (PhillyRawTrace(), r"philly-traces: unpack cluster_job_log out of its trace-data\.tar\.gz, then set"),
        (ItpTrace(), r"microsoft/elasticflow-traces: unpack its data/raw-traces\.tar\.gz and give the folder"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_error_explains_how_to_get_the_file_from_its_archive(reader, said):
    with pytest.raises(TraceError, match=said):
        locate(reader, "absent")
