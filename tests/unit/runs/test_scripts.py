"""The scripts as a user runs them: what they print, which files they write, how they fail."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import compare
from murmuration.config.errors import ChoiceError
from murmuration.runs import comparing as runs

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
SMALL = ["task=none", "cluster=small_16", "workload.num_jobs=12", "workload.num_evaluation=2"]
OWN = """
class ShortestQueue:
    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        allocation = view.allocation(keep_running=True)
        for job in sorted(view.queued, key=lambda job: view.num_gpus[job]):
            allocation.pack(int(job))
        return allocation
"""


def run(folder, script, *arguments, **environment):
    """A script started in a folder, as a user would."""
    command = [sys.executable, str(SCRIPTS / f"{script}.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.parametrize(
    "script",
    [path.stem for path in sorted(SCRIPTS.glob("*.py")) if (SCRIPTS.parent / "conf" / f"{path.stem}.yaml").is_file()],
)
def test_help_explains_a_script_and_runs_nothing(script, tmp_path, monkeypatch, capsys):
    module = importlib.import_module(script)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--help"])
    module.main()
    text = capsys.readouterr().out
    assert text.startswith(str(module.__doc__).partition("\n")[0])
    assert (SCRIPTS.parent / "conf" / f"{script}.yaml").read_text(encoding="utf-8").strip() in text
    assert "scripts/list.py" in text
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Done:
    """How a script ended and what it wrote."""

    code: object
    out: str
    err: str


PICTURES = ("html_page", "jct_cdf", "jct_and_cpu_time", "gantt", "side_by_side")


@pytest.fixture
def here(monkeypatch, tmp_path, capsys):
    """`compare` within this process and without its pictures and its page, which is quicker."""
    for name in PICTURES:
        monkeypatch.setattr(f"murmuration.reports.report.{name}", lambda *_: "")
    monkeypatch.setattr("murmuration.reports.report.write_figure", lambda *_: None)

    def main(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["compare.py", *arguments])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # so that monkeypatch undoes what the script sets
        code: object = 0
        try:
            compare.main()
        except SystemExit as left:
            code = left.code
        wrote = capsys.readouterr()
        return Done(code, wrote.out, wrote.err)

    return main


def test_compare_writes_results_and_prints_their_folder(tmp_path):
    (tmp_path / "my_scheduler.py").write_text(OWN)
    done = run(tmp_path, "compare", *SMALL, "scheduler=[fifo,srtf]", "+own._target_=my_scheduler.ShortestQueue")
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.strip().splitlines()
    assert last.startswith("run: runs/compare/")
    folder = tmp_path / last.removeprefix("run: ")
    names = {path.name for path in folder.iterdir() if path.suffix != ".log"} - {".hydra"}
    schedules = {"gantt_fifo.png", "gantt_srtf.png", "gantt_own.png", "side_by_side.png"}
    assert names == {
        "provenance.json",
        "results.json",
        "results.csv",
        "results.md",
        "report.html",
        "aggregates.csv",
        "marl_eval.json",
        "jct_cdf.png",
        "jct_and_cpu_time.png",
        *schedules,
    }
    content = json.loads((folder / "results.json").read_text())
    assert [row["scheduler"] for row in content["schedulers"]] == ["fifo", "srtf", "own"]
    assert "offered load:" in done.stdout
    assert all(name in done.stdout for name in ("fifo", "srtf", "own"))


def test_a_scheduler_that_cannot_run_is_skipped_under_all_and_an_error_by_name(here):
    hidden = "scenario.information.work=none"
    everyone = here(*SMALL, "scheduler=all", hidden)
    assert everyone.code == 0, everyone.err
    assert " srtf  not applicable: " in everyone.out
    alone = here(*SMALL, "scheduler=srtf", hidden)
    assert (alone.code, len(alone.err.strip().splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scheduler=fofo"], "no such scheduler, did you mean fifo?"),
        (["scheduler=fifo", "sed=3"], "sed: no such key, did you mean seed?"),
        (["scheduler=fifo", "workload=sintetic"], "no such workload, did you mean synthetic?"),
        (["scheduler=fifo", "scheduler.bakfill=skip"], "takes no bakfill, did you mean backfill?"),
        (["scheduler=fifo", "rubbish"], "'rubbish' is no override"),
        (["scheduler=fifo", "scenario.restart_delay=-1"], "restart_delay is -1"),
        (["scheduler=fifo", "scenario=null"], "scenario=null: scenario is chosen by name; there are: adaptive, "),
        (["scheduler=fifo", "cluster=64"], "cluster=64: cluster is chosen by name; there are: "),
    ],
)
def test_mistakes_are_one_line(here, arguments, said):
    done = here(*arguments)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_variable_shows_the_trace(here, monkeypatch):
    monkeypatch.setenv("MURMURATION_DEBUG", "1")
    with pytest.raises(ChoiceError, match="fofo"):
        here("scheduler=fofo")


def test_a_fault_of_the_code_keeps_its_trace(here, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(runs, "run_comparison", broken)
    with pytest.raises(ZeroDivisionError):
        here("scheduler=fifo")


def test_an_interrupt_is_one_line(here, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "run_comparison", interrupted)
    done = here("scheduler=fifo")
    assert done.code == 130
    assert done.err.startswith("interrupted; no figures are kept in runs/compare/")
    assert len(done.err.splitlines()) == 1


def test_list_shows_the_choices(tmp_path):
    done = run(tmp_path, "list", "scheduler", "cluster", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "fifo_backfill" in done.stdout
    assert "homogeneous_64" in done.stdout
    wrong = run(tmp_path, "list", "schedular")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean scheduler?" in wrong.stderr


def test_compare_needs_no_torch(tmp_path):
    code = "import sys; sys.path.insert(0, sys.argv[1]); import compare; print({'torch', 'ray'} & set(sys.modules))"
    command = [sys.executable, "-c", code, str(SCRIPTS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
