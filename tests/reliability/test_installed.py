"""The command `murmuration` in a clone, and the wheel outside of it."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import murmuration

REPOSITORY = Path(__file__).resolve().parents[2]
OUTSIDE = """
import envs, agents, baselines, numpy as np
from pathlib import Path
from baselines import Fifo
from envs.cluster import build_cluster
from envs.options import OptionEnv
from envs.performance import default_model
from envs.simulation import Setup, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload

site = Path(__file__).resolve().parent / "site"
for package in (envs, agents, baselines):
    assert Path(package.__file__).is_relative_to(site), package.__file__
    assert (Path(package.__file__).parent / "py.typed").exists()
setup = Setup(ClusterSpec((NodeSpec("V100", 4),)), default_model())
jobs = Workload.of([JobSpec(0, 0.0, 2, 1000.0, "resnet50"), JobSpec(1, 5.0, 4, 1000.0, "bert")])
result = run_episode(Fifo(), ReferenceSimulator(jobs, setup))
print("finished", int(result.finished.sum()))
print("agents", len(OptionEnv.__init__.__annotations__) > 0)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of what it needs of the clone."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "clone"
    copy.mkdir()
    for name in ("envs", "agents", "baselines"):
        shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("scripts", "conf", "tests"):  # must not enter
        (copy / name).mkdir()
        (copy / name / "__init__.py").touch()
    for name in ("pyproject.toml", "README.md", "LICENSE", "murmuration.py"):
        shutil.copy(REPOSITORY / name, copy / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, copy]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_has_the_library_and_its_tables_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {
        "agents",
        "baselines",
        "envs",
        "murmuration.py",
    }
    assert [name for name in names if "experiment" in name or "recipe" in name or "reproduction" in name] == []
    assert [name for name in names if "records/" in name or name.endswith(".zip")] == []
    assert {"envs/py.typed", "agents/py.typed", "baselines/py.typed"} <= set(names)
    tables = {path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob("envs/**/tables/*") if path.is_file()}
    assert tables <= set(names)
    assert len(tables) > 5


def test_the_wheel_works_outside_the_clone(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "program.py").write_text(OUTSIDE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "NUMBA_DISABLE_JIT": "1"}

    def run(*words):
        return subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)

    done = run("program.py")
    assert done.stdout.split("\n")[:2] == ["finished 2", "agents True"], done.stderr
    command = run("-m", "murmuration", "compare")
    assert command.returncode == 2
    assert "has the library only" in command.stderr
    assert len(command.stderr.strip().splitlines()) == 1


def start(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["murmuration", *words])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    code: object = 0
    try:
        murmuration.main()
    except SystemExit as left:
        code = left.code
    wrote = capsys.readouterr()
    return code, wrote.out, wrote.err


def test_the_command_lists_all_scripts_and_runs_them(monkeypatch, capsys):
    names = sorted(path.stem for path in (REPOSITORY / "scripts").glob("*.py"))
    code, out, _ = start(monkeypatch, capsys)
    assert code == 0
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert listed == names
    assert all(len(line.split()) > 3 for line in out.splitlines() if line.startswith("  "))
    code, out, _ = start(monkeypatch, capsys, "compare", "--help")
    assert code == 0
    assert out.startswith("Compare schedulers on the same workloads")
    code, out, err = start(monkeypatch, capsys, "list", "network")
    assert code == 0, err
    assert "100g" in out


@pytest.mark.parametrize(
    ("word", "said"), [("trian", "no such command, did you mean train?"), ("--version", "no such")]
)
def test_a_mistake_is_one_line(monkeypatch, capsys, word, said):
    code, _, err = start(monkeypatch, capsys, word)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_errors_of_scripts_are_the_same(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, _, err = start(monkeypatch, capsys, "compare", "sed=3")
    assert (code, err.partition(":")[0]) == (2, "error")
    assert "sed: no such key, did you mean seed?" in err
