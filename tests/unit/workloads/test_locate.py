"""Where trace files are looked for, and what is said when they are not there."""

import pytest

from envs.types import TraceError
from envs.workloads.readers import DATA_VARIABLE, MicrosoftItp, Muri, Philly, PhillyRaw, locate


def test_a_path_that_is_given_wins(write, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, "/nowhere")
    path = write("mine.csv", "x")
    assert locate(Philly(), str(path)) == path


def test_without_a_path_the_data_folder_is_asked(write, monkeypatch, tmp_path):
    path = write("traces/muri/trace1.csv.gz", "x")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert locate(Muri("trace1")) == path


def test_with_neither_the_message_says_where_to_get_it_and_how_to_name_it(monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(TraceError) as error:
        locate(Philly())
    message = str(error.value)
    assert message.startswith("philly trace: no file given; get it from github.com/msr-fiddle/philly-traces")
    assert "workload.path=<file>" in message
    assert "$MURMURATION_DATA to a folder that holds traces/philly/philly_jobs.csv.gz" in message
    assert "\n" not in message


@pytest.mark.parametrize("path", ["absent.csv", None])
def test_a_file_that_is_not_there_is_named(monkeypatch, tmp_path, path):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(TraceError, match=r"does not exist; get it from .* workload.path=<file>") as error:
        locate(Philly(), path)
    assert (path or str(tmp_path / "traces/philly/philly_jobs.csv.gz")) in str(error.value)


def test_the_home_folder_may_be_abbreviated(write, monkeypatch, tmp_path):
    path = write("mine.csv", "x")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate(Philly(), "~/mine.csv") == path


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        (Philly(), r"trace-data\.tar\.gz: play the cluster_job_log in it with workload=philly_raw, or make"),
        (PhillyRaw(), r"philly-traces: unpack cluster_job_log out of its trace-data\.tar\.gz, then set"),
        (MicrosoftItp(), r"microsoft/elasticflow-traces: unpack its data/raw-traces\.tar\.gz and give the folder"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_the_archive_holds_in_another_form_is_told(reader, said):
    with pytest.raises(TraceError, match=said):
        locate(reader, "absent")
