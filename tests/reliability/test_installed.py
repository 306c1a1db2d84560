"""The command `murmuration` in a clone, and the installed wheel outside of it."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import murmuration

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = ("envs", "agents", "baselines", "deployment", "scripts", "conf", "checkpoints")
PAPERS = REPOSITORY / "scripts" / "papers"
RELEASE = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
CACHES = shutil.ignore_patterns("__pycache__", "*.zip")
OUTSIDE = """
import sys
from pathlib import Path
before = list(sys.path)
import murmuration
assert sys.path == before, "an import alone changes the path"
from murmuration import compare, load, make_task
import agents, baselines, deployment, envs
import murmuration.baselines, murmuration.envs.simulation as named_twice
from murmuration.agents import goal

assert (murmuration.envs, murmuration.agents, murmuration.baselines) == (envs, agents, baselines)
assert named_twice is envs.simulation and named_twice.__spec__.name == "envs.simulation" and goal is agents.goal

home = Path(murmuration.__file__).parent / "clone"
for package in (envs, agents, baselines, deployment):
    assert Path(package.__file__).is_relative_to(home), package.__file__
    assert (Path(package.__file__).parent / "py.typed").exists()
words = ("cluster=small_16", "workload.num_jobs=12", "workload.num_evaluation=1", "workload.max_gpus=8")
print(compare(["fifo", "srtf"], make_task("none", *words)))
print(murmuration.__version__, load("bids-64").folder)
"""
INTRUDER = "import agents; from murmuration import compare"


def run_pip(command, *words):
    """Run a command of pip without the packages that this one requires, which are here, and without network."""
    started = [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run([*started, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of what the wheel needs of the clone, with files of a user beside it that must not enter."""
    copy = tmp_path_factory.mktemp("wheel") / "clone"
    for name in (*FOLDERS, "murmuration"):
        shutil.copytree(REPOSITORY / name, copy / name, ignore=CACHES)
    (copy / "baselines" / "records").mkdir(exist_ok=True)
    (copy / "baselines" / "records" / "own.zip").touch()
    (copy / "checkpoints" / "own").mkdir(exist_ok=True)
    (copy / "checkpoints" / "own" / "policy.json").touch()
    for name in ("pyproject.toml", "README.md", "LICENSE", "setup.py", "MANIFEST.in"):
        shutil.copy(REPOSITORY / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(clone):
    """The wheel, built without network."""
    run_pip("wheel", "--no-build-isolation", "-w", clone.parent, clone)
    (found,) = clone.parent.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """The packages of an environment in which the wheel is installed, and a package `agents`, as openai-agents is."""
    folder = tmp_path_factory.mktemp("environment") / "site"
    run_pip("install", "--no-index", "--no-compile", "--target", folder, wheel)
    (folder / "agents").mkdir()
    (folder / "agents" / "__init__.py").write_text("class Agent: pass\n")
    return folder


def run_outside(site, folder, *words):
    """Run Python in a folder that has a package `envs` of its own."""
    (folder / "envs").mkdir(exist_ok=True)
    (folder / "envs" / "__init__.py").write_text("mine = True\n")
    environment = {**os.environ, "PYTHONPATH": str(site), "NUMBA_DISABLE_JIT": "1"}
    return subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_wheel_has_everything_in_one_package(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info" not in name}
    assert {name.partition("/")[0] for name in names} == {"murmuration"}
    nested = {name.removeprefix("murmuration/clone/") for name in names if name.startswith("murmuration/clone/")}
    assert [name for name in nested if name.startswith("scripts/papers")] == []
    assert [
        name for name in nested if "baselines/records/" in name or name.endswith(".zip") or "__pycache__" in name
    ] == []
    for folder in FOLDERS[:-1]:
        patterns = ("**/*.py", "**/*.yaml", "**/choices.yml", "**/tables/**/*", "**/static/*", "py.typed")
        ours = {path for pattern in patterns for path in (REPOSITORY / folder).glob(pattern) if path.is_file()}
        ours -= {path for path in ours if PAPERS in path.parents}
        assert {path.relative_to(REPOSITORY).as_posix() for path in ours} <= nested
        assert ours
    own = {path.name for path in (REPOSITORY / "murmuration" / "reports" / "webpage" / "static").iterdir()}
    assert {f"murmuration/reports/webpage/static/{name}" for name in own} <= names
    shipped = {line[2:].strip("/") for line in (REPOSITORY / ".gitignore").read_text().splitlines() if line[:1] == "!"}
    weights = {name.removesuffix("/weights.safetensors") for name in nested if name.endswith(".safetensors")}
    assert weights == {name for name in shipped if name.startswith("checkpoints/") and not name.endswith(".md")}


def test_a_source_distribution_builds_the_same_wheel(clone, wheel):
    build = "import setuptools.build_meta as b; print(b.build_sdist('dist'))"
    done = subprocess.run([sys.executable, "-c", build], cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next((clone / "dist").glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    nested = [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("murmuration/clone/")]
    assert {name.removeprefix("murmuration/clone/") for name in nested} - packed == set()
    assert {"setup.py", "murmuration/home.py"} <= packed
    assert not any("baselines/records/" in name for name in packed)


def test_the_wheel_compares_outside_the_clone_beside_packages_of_the_same_names(site, tmp_path):
    (tmp_path / "program.py").write_text(OUTSIDE)
    done = run_outside(site, tmp_path, "program.py")
    assert done.returncode == 0, done.stderr
    assert "mean JCT, ratio to fifo:" in done.stdout
    assert done.stdout.splitlines()[-1] == f"{RELEASE} bids-64"
    listed = run_outside(site, tmp_path, "-m", "murmuration", "list", "network")
    assert "100g" in listed.stdout, listed.stderr
    assert (site / "agents" / "__init__.py").read_text() == "class Agent: pass\n"


def test_the_installed_command_says_its_version(site, tmp_path):
    assert run_outside(site, tmp_path, "-m", "murmuration", "--version").stdout == f"{RELEASE}\n"
    assert run_outside(site, tmp_path, site / "bin" / "murmuration", "--version").stdout == f"{RELEASE}\n"


def test_another_package_that_is_loaded_already_is_named_in_one_line(site, tmp_path):
    done = run_outside(site, tmp_path, "-c", INTRUDER)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert f"the package agents is already loaded from {site / 'agents' / '__init__.py'}" in last
    assert "use Murmuration first, or in a process of its own" in last


def test_a_package_of_the_user_that_is_hidden_from_now_on_is_named_in_one_line(site, tmp_path):
    done = run_outside(
        site, tmp_path, "-c", "from murmuration import compare; import envs; print(hasattr(envs, 'mine'))"
    )
    assert (done.returncode, done.stdout) == (0, "False\n")
    (said,) = [line for line in done.stderr.splitlines() if "`import envs`" in line]
    assert "Warning: murmuration: `import envs` finds Murmuration's package from now on" in said
    assert f"and not {tmp_path / 'envs'}; rename yours" in said


def test_reproductions_of_papers_need_a_clone(site, tmp_path):
    done = run_outside(site, tmp_path, "-m", "murmuration", "reproduce")
    assert done.returncode == 2
    assert done.stderr == (
        "error: tables of papers are no part of the installed package; run this in a clone of the project\n"
    )


def test_gymnasium_and_pettingzoo_have_the_ids_once_the_module_is_named(site, tmp_path):
    program = """
import gymnasium
made = gymnasium.make("murmuration.environments:murmuration/Options-v0", task="shared-16 workload.load=0.6")
assert made.unwrapped._vector.batch.cluster.num_gpus == 16
import pettingzoo
for name in ("murmuration/Options-v0", "murmuration/Bidding-v0"):
    print(type(pettingzoo.make("parallel", name)).__name__, len(pettingzoo.make("aec", name).possible_agents))
print(type(made.unwrapped).__name__)
"""
    done = run_outside(site, tmp_path, "-c", program)
    assert done.stdout.splitlines() == ["OptionEnv 8", "BiddingEnv 8", "JointOptionEnv"], done.stderr


def test_a_missing_extra_is_named_as_it_is_installed(site, tmp_path):
    """Outside of a clone there is no constraints.txt."""
    program = """
import sys
class WithoutTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, WithoutTorch())
from murmuration import load
load("bids-64").scheduler()
"""
    done = run_outside(site, tmp_path, "-c", program)
    assert "pip install 'murmuration[learn]'" in done.stderr.strip().splitlines()[-1]


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


def test_the_version_is_that_of_the_package(monkeypatch, capsys):
    code, out, _ = start(monkeypatch, capsys, "--version")
    assert (code, out.strip()) == (0, version("murmuration")) == (0, murmuration.__version__)


@pytest.mark.parametrize(
    ("word", "said"), [("trian", "no such command, did you mean train?"), ("--versoin", "no such")]
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
