"""The recipes for other libraries are short, and each trains with its library where that is installed."""

import math
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECIPES = {
    "torchrl_mappo": "torchrl",
    "sb3_maskable_ppo": "sb3_contrib",
    "rllib_ppo": "ray.rllib",
    "benchmarl_task": "benchmarl",  # it needs an older TorchRL, see docs/recipes.md
}
ELASTIC = "elastic_torch"  # a training program that a cluster may stop, see tests/unit/deployment/test_jobs.py
SEARCHES = ("program_search", "openevolve_stub")  # see tests/unit/programs
WHOLE = "from_nothing"  # has the algorithm itself, where the others use a library's
SHORT, SINGLE_FILE = 41, 350  # lines
MEAN_JCT = re.compile(r"^.*: mean JCT (\d+\.\d\d) h$", re.MULTILINE)


def test_every_recipe_is_tested_and_short():
    paths = sorted((ROOT / "scripts" / "recipes").glob("*.py"))
    lines = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert set(lines) == {*RECIPES, *SEARCHES, WHOLE, ELASTIC}
    assert [name for name in RECIPES if lines[name] >= SHORT] == []
    assert lines[WHOLE] < SINGLE_FILE


def test_the_page_names_every_recipe():
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert [name for name in (*RECIPES, WHOLE) if f"scripts/recipes/{name}.py" not in page] == []


def run_recipe(name, iterations, folder, monkeypatch, capsys):
    """The mean JCTs that a recipe prints, started as a program within this process."""
    path = str(ROOT / "scripts" / "recipes" / f"{name}.py")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [path, str(iterations)])
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "300")
    try:
        runpy.run_path(path, run_name="__main__")
    finally:
        if ray := sys.modules.get("ray"):
            ray.shutdown()
    return [float(hours) for hours in MEAN_JCT.findall(capsys.readouterr().out)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] if name == "rllib_ppo" else []) for name in RECIPES]
)
def test_a_recipe_trains(name, tmp_path, monkeypatch, capsys):
    """Two iterations, started in another folder, print two mean JCTs that differ."""
    pytest.importorskip(RECIPES[name], reason=f"needs {RECIPES[name]}, see docs/recipes.md")
    found = run_recipe(name, 2, tmp_path, monkeypatch, capsys)
    assert len(found) == 2
    assert all(0.1 < hours < 20 and math.isfinite(hours) for hours in found)
    assert found[0] != found[1]


@pytest.mark.slow
def test_the_single_file_learns(tmp_path, monkeypatch, capsys):
    """Three iterations from random weights already play better than FIFO."""
    pytest.importorskip("torch", reason="needs torch: pip install -c constraints.txt -e '.[learn]'")
    fifo, srtf, first, last = run_recipe(WHOLE, 3, tmp_path, monkeypatch, capsys)
    assert srtf < fifo
    assert last < min(first, fifo)
