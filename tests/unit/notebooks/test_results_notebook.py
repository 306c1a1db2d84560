"""The notebook of results runs from top to bottom, with and without results."""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from tests.unit.notebooks.cells import code_cells

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "results.ipynb"
ROW = {
    "mean_jct": 7200.0,
    "mean_jct_low": 3600.0,
    "mean_jct_high": 10800.0,
    "p99_jct": 36000.0,
    "makespan": 72000.0,
}


def execute() -> tuple[dict[str, Any], str]:
    """Execute the code cells in one namespace, and return it and what they print."""
    names: dict[str, Any] = {}
    cells = list(code_cells(NOTEBOOK))
    for cell in cells:
        cell.run(names)
    return names, "".join(cell.printed for cell in cells)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    mpl.use("Agg")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path


def test_without_runs_it_says_so(clone):
    assert "0 comparisons" in execute()[1]


def test_it_reads_the_results_of_a_comparison(clone):
    folder = clone / "runs" / "compare" / "one"
    folder.mkdir(parents=True)
    schedulers = [{"scheduler": "fifo", **ROW}, {"scheduler": "srtf", "inapplicable": "no estimates"}]
    content = {"schedulers": schedulers, "settings": {"workloads": [{"name": "toy"}]}}
    (folder / "results.json").write_text(json.dumps(content))
    results = execute()[0]["results"]
    assert results[["scheduler", "mean_jct", "workload"]].to_numpy().tolist() == [["fifo", 2.0, "toy"]]


def test_it_leaves_no_figure_open(clone):
    content = {"schedulers": [{"scheduler": "fifo", **ROW}], "settings": {"workloads": [{"name": "toy"}]}}
    for number in range(3):
        folder = clone / "runs" / "compare" / str(number)
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(content))
    open_before = plt.get_fignums()
    assert len(execute()[0]["results"]) == 3
    assert plt.get_fignums() == open_before
