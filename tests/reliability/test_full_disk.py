"""A file that the operating system does not let grow is named, and neither it nor a part of it is left."""

import errno
import os
import resource
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from agents.policies.description import write_policy
from envs.episodes.film import write_film
from envs.evaluation.archive import write_member
from envs.evaluation.files import whole_file, write_figure, write_frame, write_whole
from murmuration.config.errors import explain_error
from murmuration.reports.report import write_report
from tests.unit.reports.test_report import comparison

__all__ = ["comparison"]  # a fixture
NOISE = np.random.default_rng(0).integers(0, 256, (20_000,))


def film(path):
    """Write a film as `murmuration.runs.films` does."""
    with whole_file(path) as part:
        write_film([np.resize(NOISE, (64, 64, 3)).astype(np.uint8)] * 3, part, 10)


def figure(path):
    """Write a plot."""
    drawn = Figure()
    drawn.subplots().plot(NOISE)
    write_figure(path, drawn, 100)


WRITERS = {
    "results.json": lambda path: write_whole(path, "x" * 20_000),
    "sweep.csv": lambda path: write_frame(path, pd.DataFrame({"a": NOISE})),
    "sweep.png": figure,
    "episode.gif": film,
    "full-64-v1.zip": lambda path: write_member(path, "fifo", str(NOISE.tolist())),
    "policy/weights.safetensors": lambda path: write_policy(path.parent, torch.nn.Linear(100, 100), {"a": 1}),
    "policy/policy.json": lambda path: write_policy(path.parent, torch.nn.Linear(1, 1), {"a": "x" * 20_000}),
}


@contextmanager
def full_disk(size):
    """Let no file grow beyond a size; the kernel refuses, whichever library writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "earlier"])
@pytest.mark.parametrize("name", WRITERS)
def test_an_unfinished_file_is_named_and_not_left(tmp_path, name, earlier):
    path = tmp_path / name
    if earlier:
        WRITERS[name](path)
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    with pytest.raises(Exception, match=r"File too large|os error 27") as error, full_disk(1_000):
        WRITERS[name](path)
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before
    if isinstance(error.value, OSError):
        assert explain_error(error.value) == f"{path}: cannot be written (File too large); make room and run again"
    else:
        assert "policy" in name, "training explains the errors of safetensors"


@pytest.mark.parametrize("size", [100, 3_000])
def test_a_report_on_a_full_disk_leaves_whole_files_only(comparison, tmp_path, size):
    whole = {path.name: path.read_bytes() for path in write_report(comparison, tmp_path / "whole")}
    with pytest.raises(OSError, match="File too large") as error, full_disk(size):
        write_report(comparison, tmp_path / "full")
    left = {path.name: path.read_bytes() for path in (tmp_path / "full").iterdir()}
    assert os.path.basename(error.value.filename) in whole
    assert all(content == whole[name] for name, content in left.items())


def test_the_error_of_a_quota_or_a_read_only_disk_names_the_file_too(tmp_path):
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        with pytest.raises(OSError, match="results.csv") as error, whole_file(tmp_path / "results.csv"):
            raise OSError(number, os.strerror(number))
        assert (explain_error(error.value) or "").startswith(f"{tmp_path / 'results.csv'}: cannot be written (")
