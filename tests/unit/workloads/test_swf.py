"""The Standard Workload Format."""

import gzip

import pytest

from envs.types import TraceError
from envs.workloads.readers import SwfTrace


def line(job=1, submit=0, run=60, allocated=4, requested=4, user=7, status=1, executable=-1):
    return f"{job} {submit} 0 {run} {allocated} -1 -1 {requested} -1 -1 {status} {user} 1 {executable} 1 -1 -1 -1\n"


def test_comments_blank_lines_and_blanks_are_skipped(write):
    path = write("t.swf", "; Computer: toy\n;\n\n  " + line(submit=10) + line(job=2, submit=25, user=9))
    frame, report = SwfTrace().read(path, strict=True)
    assert frame["submit_time"].tolist() == [0.0, 15.0]
    assert frame["num_gpus"].tolist() == [4, 4]
    assert frame["tenant"].tolist() == ["7", "9"]
    assert frame["id"].tolist() == ["1", "2"]
    assert frame["row"].tolist() == [4, 5]
    assert report.rows == 2


def test_users_and_executables_are_kept_and_unknown_ones_are_empty(write):
    text = line(executable=3) + line(user=-1)
    frame, _ = SwfTrace().read(write("t.swf", text), strict=True)
    assert frame["user"].tolist() == ["7", ""]
    assert frame["name"].tolist() == ["3", ""]


def test_requested_processors_take_precedence_over_allocated_and_minus_one_is_unknown(write):
    text = line(allocated=8, requested=16) + line(allocated=8, requested=-1) + line(allocated=-1, requested=-1)
    frame, report = SwfTrace().read(write("t.swf", text))
    assert frame["num_gpus"].tolist() == [16, 8]
    assert report.skipped == {"processors unknown": 1}


def test_several_processors_may_stand_for_one_gpu(write):
    frame, report = SwfTrace(processors_per_gpu=8).read(write("t.swf", line(requested=16) + line(requested=17)))
    assert frame["num_gpus"].tolist() == [2, 3]
    assert "8 processor(s)" in report.notes[0]


def test_unknown_and_zero_run_times_are_skipped(write):
    _, report = SwfTrace().read(write("t.swf", line(run=-1) + line(run=0, status=5) + line()))
    assert report.skipped == {"run time unknown": 1, "zero duration": 1}


def test_a_short_line_and_text_are_bad(write):
    path = write("t.swf", line() + "1 2 3\n" + line(run="long"))
    _, report = SwfTrace().read(path)
    assert report.bad == {"job must be in a line of 18 fields": 1, "run_time must be a finite number": 1}
    with pytest.raises(TraceError, match="row 2: job is '1'; it must be in a line of 18 fields"):
        SwfTrace().read(path, strict=True)


@pytest.mark.parametrize("text", ["", "; only a header\n"])
def test_an_empty_file_is_an_error(write, text):
    with pytest.raises(TraceError, match="is empty; a Standard Workload Format file"):
        SwfTrace().read(write("t.swf", text))


def test_gzipped_files_of_the_archive_are_read(tmp_path):
    path = tmp_path / "t.swf.gz"
    path.write_bytes(gzip.compress(line().encode()))
    assert len(SwfTrace().read(path)[0]) == 1


def test_a_gpu_is_at_least_one_processor():
    with pytest.raises(TraceError, match="processors_per_gpu is 0"):
        SwfTrace(processors_per_gpu=0)
