"""The notebooks run from top to bottom, with and without results."""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))
ROW = {
    "mean_jct": 7200.0,
    "mean_jct_low": 3600.0,
    "mean_jct_high": 10800.0,
    "p99_jct": 36000.0,
    "makespan": 72000.0,
}


def execute(notebook: Path) -> dict[str, Any]:
    """Execute a notebook's code cells in one namespace, as Jupyter would, and return it."""
    names: dict[str, Any] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    return names


@pytest.fixture
def clone(tmp_path, monkeypatch):
    mpl.use("Agg")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_without_runs_says_so(notebook, clone, capsys):
    execute(notebook)
    assert "0 comparisons" in capsys.readouterr().out


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_reads_the_results_of_a_comparison(notebook, clone, capsys):
    folder = clone / "runs" / "compare" / "one"
    folder.mkdir(parents=True)
    schedulers = [{"scheduler": "fifo", **ROW}, {"scheduler": "srtf", "inapplicable": "no estimates"}]
    content = {"schedulers": schedulers, "settings": {"workloads": [{"name": "toy"}]}}
    (folder / "results.json").write_text(json.dumps(content))
    results = execute(notebook)["results"]
    assert results[["scheduler", "mean_jct", "workload"]].to_numpy().tolist() == [["fifo", 2.0, "toy"]]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_leaves_no_figure_open(notebook, clone):
    content = {"schedulers": [{"scheduler": "fifo", **ROW}], "settings": {"workloads": [{"name": "toy"}]}}
    for number in range(3):
        folder = clone / "runs" / "compare" / str(number)
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(content))
    open_before = plt.get_fignums()
    assert len(execute(notebook)["results"]) == 3
    assert plt.get_fignums() == open_before


def test_there_are_notebooks():
    assert NOTEBOOKS
