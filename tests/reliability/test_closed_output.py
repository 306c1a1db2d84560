"""Commands whose output nobody reads, or that cannot be written, end without a trace."""

import os
import subprocess
import sys

import pytest

from murmuration.home import ROOT

COMMANDS = ("--version", "compare --help", "list network", "no_such")
PRINTED = COMMANDS[:3]  # the last one writes to stderr alone
CASES = [(command, "") for command in COMMANDS] + [("--version", "1")]


def start(command, unbuffered, output):
    words = [sys.executable, "-m", "murmuration", *command.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    return subprocess.run(words, stdout=output, stderr=subprocess.PIPE, env=environment, text=True, check=False)


@pytest.mark.parametrize(("command", "unbuffered"), CASES)
def test_a_closed_pipe_is_no_trace(command, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    done = start(command, unbuffered, writer)
    os.close(writer)
    if command in PRINTED:
        assert (done.returncode, done.stderr) == (1, "")
    else:
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize(("command", "unbuffered"), CASES)
def test_a_full_disk_is_one_line(command, unbuffered):
    with open("/dev/full", "w") as full:
        done = start(command, unbuffered, full)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    if command in PRINTED:
        assert done.stderr == "error: standard output cannot be written (No space left on device)\n"
