"""Jobs that stop, grow, shrink and go on: the sleeper, the wrapper, and a PyTorch job of two processes."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployment.jobs import (
    DONE,
    RUNNING,
    STOPPED,
    BadReportError,
    GoOnOrder,
    JobReport,
    begin_segment,
    load_report,
    only_one,
    read_order,
    read_report,
    write_order,
    write_progress,
)
from deployment.sleeper import sleep_through
from deployment.wrapper import report_work

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def wait_for(found, *, patience: int = 3000):
    """Ask until there is an answer; the limit ends a test that hangs."""
    for _ in range(patience):
        if answer := found():
            return answer
        time.sleep(0.02)
    raise AssertionError("nothing happened")


def start(*words):
    return subprocess.Popen([sys.executable, *map(str, words)], env=ENVIRONMENT, cwd=ROOT)


def test_a_sleeper_goes_on_where_it_was_stopped(tmp_path):
    stop = threading.Event()
    thread = threading.Thread(target=sleep_through, args=(tmp_path, 1, 100.0, 10.0, 0.0, stop))
    thread.start()
    wait_for(lambda: (found := read_report(tmp_path)) and found.state == RUNNING)
    time.sleep(0.3)
    stop.set()
    thread.join()
    kept = read_report(tmp_path)
    assert kept is not None
    assert kept.state == STOPPED
    assert 3.0 <= kept.work_done < 100.0
    assert sleep_through(tmp_path, 2, 100.0, 1e6, 0.0, threading.Event()) == DONE
    assert (done := read_report(tmp_path)) is not None
    assert (done.segment, done.work_done) == (2, 100.0)


def test_a_start_that_is_repeated_or_comes_late_does_nothing(tmp_path):
    assert sleep_through(tmp_path, 2, 5.0, 1e6, 0.0, threading.Event()) == DONE
    before = (tmp_path / "progress.json").read_bytes()
    for segment in (1, 2, 3):
        assert begin_segment(tmp_path, segment) is None
        sleep_through(tmp_path, segment, 5.0, 1e6, 0.0, threading.Event())
    assert (tmp_path / "progress.json").read_bytes() == before


def test_two_segments_never_run_at_once(tmp_path):
    """The second one waits for the lock, and begins with what the first has done."""
    order = []
    thread = threading.Thread(target=lambda: order.append(sleep_through(tmp_path, 2, 9.0, 1e6, 0.0, threading.Event())))
    with only_one(tmp_path):
        thread.start()
        time.sleep(0.1)
        order.append("first")
        write_progress(tmp_path, JobReport(1, STOPPED, 4.0, 1.0, 1.0, 1.0, 1.0))
    thread.join()
    assert order == ["first", DONE]


GOOD = {"segment": 1, "state": RUNNING, "work_done": 5.0, "throughput": 2.0, "began": 1.0, "ready": 1.0, "updated": 1.0}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "\x00", "[" * 100_000, "{" * 30_000, '"' + "x" * 70_000 + '"', "1" * 5000),
        *(
            json.dumps(GOOD | {"work_done": each})
            for each in (float("inf"), float("nan"), True, "5", None, -1, 10**400)
        ),
        *(json.dumps(GOOD | {"segment": each}) for each in (0, True, "1", 1.5, 10**30)),
        *(json.dumps(GOOD | {"updated": 1e300}), json.dumps(GOOD | {"state": "odd"}), json.dumps(GOOD | {"more": 1})),
        json.dumps({"segment": 1, "state": RUNNING}),
    ],
)
def test_a_damaged_report_is_named_and_counts_as_none(tmp_path, text):
    (tmp_path / "progress.json").write_text(text)
    with pytest.raises(BadReportError, match=r"^progress\.json: [^\n]{5,120}$"):
        load_report(tmp_path)
    assert read_report(tmp_path) is None


@pytest.mark.parametrize("file_type", ["pipe", "device", "link", "folder", "large"])
def test_a_report_that_is_no_plain_file_is_refused_at_once(tmp_path, file_type):
    place = tmp_path / "progress.json"
    match file_type:
        case "pipe":
            os.mkfifo(place)
        case "device":
            place.symlink_to("/dev/zero")
        case "link":
            (tmp_path / "other").write_text(json.dumps(GOOD))
            place.symlink_to(tmp_path / "other")
        case "folder":
            place.mkdir()
        case _:
            place.write_text(" " * 70_000 + json.dumps(GOOD))
    with pytest.raises(BadReportError):
        load_report(tmp_path)


def test_reports_survive_numbers_of_all_types_and_what_a_killed_process_has_left(tmp_path, monkeypatch):
    """A throughput that is not known yet is NaN in many programs; later reports count all the same."""
    monkeypatch.setenv("MURMURATION_FOLDER", str(tmp_path))
    monkeypatch.setenv("MURMURATION_SEGMENT", "1")
    left = tmp_path / f".progress.json.{os.getpid()}"
    left.touch()
    begun = begin_segment(tmp_path, 1)
    assert begun is not None
    write_progress(tmp_path, begun)
    assert not left.exists()

    def reported():
        found = read_report(tmp_path)
        assert found is not None
        return found.segment, found.state, found.work_done, found.throughput

    given: list[tuple[Any, Any]] = [
        (1, 2.0),
        (400.0, math.nan),
        (np.float32(500), np.float64(3)),
        (np.int64(600), math.inf),
    ]
    for done, throughput in given:
        report_work(done, throughput)
        assert reported() == (1, RUNNING, float(done), float(throughput) if math.isfinite(throughput) else 0.0)
    wrong: list[Any] = [math.nan, -1.0, math.inf, None]
    for done in wrong:
        with pytest.raises((ValueError, TypeError)):
            report_work(done, 1.0)
    assert reported()[2] == 600.0
    assert [each.name for each in tmp_path.iterdir()] == ["progress.json"]
    (tmp_path / "progress.json").write_text("{")  # the program's own fault; its next report counts again
    report_work(700, 1.0)
    assert reported()[2] == 700.0


def test_no_process_of_a_segment_outlives_it(tmp_path):
    """Neither one that hears no SIGTERM, nor its child in another session, trains on beside the next segment."""
    leaf = "import pathlib, signal, time, os; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid()"
    leaf += f"; pathlib.Path({str(tmp_path / 'leaf')!r}).write_text(str(os.getpid())); time.sleep(1000)"
    trunk = "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    trunk += f"; child = subprocess.Popen([sys.executable, '-c', {leaf!r}])"
    ends = {
        "killed": "; child.wait()",
        "by itself": f"\nwhile not os.path.exists({str(tmp_path / 'leaf')!r}): pass\ntime.sleep(1.0)",
    }
    for number, end in enumerate(ends.values(), 1):
        child = start("-m", "deployment.wrapper", tmp_path, number, 0.2, "--", sys.executable, "-c", trunk + end)
        try:
            wait_for(lambda: (tmp_path / "leaf").exists() and (tmp_path / "leaf").read_text())
            child.send_signal(signal.SIGTERM)
            child.wait()
        finally:
            child.kill()
        assert not Path(f"/proc/{(tmp_path / 'leaf').read_text()}").exists()
        (tmp_path / "leaf").unlink()


def test_the_sleeper_as_a_process_stops_at_sigterm(tmp_path):
    child = start("-S", "-m", "deployment.sleeper", tmp_path, 1, 1000.0, 10.0, 0.0)
    try:
        wait_for(lambda: (found := read_report(tmp_path)) and found.state == RUNNING)
        child.send_signal(signal.SIGTERM)
        assert child.wait() == 0
    finally:
        child.kill()
    assert (kept := read_report(tmp_path)) is not None
    assert kept.state == STOPPED


def test_a_sleeper_stops_for_an_order_and_goes_on_in_the_same_process_once_nodes_are_released(tmp_path):
    words = ["-S", "-m", "deployment.sleeper", tmp_path]
    child = start(*words, 1, 100.0, 10.0, 0.0)
    try:
        wait_for(lambda: (found := read_report(tmp_path)) and found.state == RUNNING)
        order = GoOnOrder(2, [sys.executable, *map(str, words), "2", "100.0", "1e4", "0.0"], released=False)
        write_order(tmp_path, order)
        kept = wait_for(lambda: (found := read_report(tmp_path)) and found.state == STOPPED and found)
        assert kept.work_done < 100.0
        time.sleep(0.2)
        assert child.poll() is None
        assert read_report(tmp_path) == kept  # it waits
        write_order(tmp_path, replace(order, released=True))
        assert child.wait() == 0
    finally:
        child.kill()
    assert (done := read_report(tmp_path)) is not None
    assert (done.segment, done.state, done.work_done) == (2, DONE, 100.0)


def test_the_wrapper_stops_its_command_for_an_order_and_ends_at_sigterm_while_it_waits(tmp_path):
    begun = tmp_path / "begun"
    program = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(1000)"
    child = start("-m", "deployment.wrapper", tmp_path, 1, 10, "--", sys.executable, "-c", program)
    try:
        wait_for(begun.exists)
        write_order(tmp_path, GoOnOrder(2, ["true"], released=False))
        wait_for(lambda: (found := read_report(tmp_path)) and found.state == STOPPED)
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        assert child.wait() == signal.SIGTERM  # of the command, which knew no SIGTERM
    finally:
        child.kill()


@pytest.mark.parametrize("text", ["", "{", '{"segment": 2}', '{"segment": "2", "command": [], "released": true}'])
def test_a_damaged_order_or_one_for_an_earlier_segment_counts_as_none(tmp_path, text):
    (tmp_path / "order.json").write_text(text)
    assert read_order(tmp_path, 1) is None
    write_order(tmp_path, GoOnOrder(2, ["true"], released=True))
    assert read_order(tmp_path, 2) is None
    assert read_order(tmp_path, 1) == GoOnOrder(2, ["true"], True)


@pytest.mark.slow
def test_a_torch_job_grows_and_shrinks_without_losing_its_place(tmp_path):
    """2, then 3 processes, then 1: the weights are those of a job that was never stopped."""
    torch = pytest.importorskip("torch")
    recipe = ROOT / "scripts" / "recipes" / "elastic_torch.py"

    def segment(folder, number, processes, *, stop_after=0):
        folder.mkdir(exist_ok=True)
        options = ["--processes", processes, "--steps", 60, "--pause", 0.1 if stop_after else 0.0]
        child = start("-m", "deployment.wrapper", folder, number, 60, "--", sys.executable, recipe, *options)
        try:
            if stop_after:
                wait_for(lambda: (p := read_report(folder)) and p.segment == number and p.work_done >= stop_after * 24)
                child.send_signal(signal.SIGTERM)
            assert child.wait() == 0
        finally:
            child.kill()
        return read_report(folder)

    first = segment(tmp_path / "a", 1, 2, stop_after=5)
    assert first.state == STOPPED
    second = segment(tmp_path / "a", 2, 3, stop_after=first.work_done // 24 + 5)
    assert second.state == STOPPED
    assert first.work_done < second.work_done < 60 * 24
    last = segment(tmp_path / "a", 3, 1)
    assert (last.state, last.work_done) == (DONE, 60 * 24)
    whole = segment(tmp_path / "b", 1, 2)
    assert replace(whole, state=DONE).work_done == 60 * 24
    one, two = (torch.load(tmp_path / name / "checkpoint.pt", weights_only=True)["model"] for name in "ab")
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-12, atol=1e-12)
