"""Folders of runs: every run has its own, none is overwritten, and a refusal of the system is one line."""

import json
import os
from datetime import datetime

import pytest

from murmuration.config.errors import ChoiceError
from murmuration.runs.commands import (
    config_subfolder,
    explain_refusal,
    make_run_folder,
    refusals_before_start,
    remove_started,
)
from tests.unit.runs.test_scripts import SMALL, here

__all__ = ["here"]  # a fixture
NOW = datetime(2026, 3, 4, 5, 6, 7)


def test_runs_of_one_second_get_folders_that_sort_by_time(tmp_path):
    runs = tmp_path / "runs" / "compare"
    later = datetime(2026, 3, 4, 5, 6, 8)
    made = [make_run_folder(runs, now) for now in (NOW, NOW, NOW, later)]
    assert [folder.name for folder in made] == [
        "2026-03-04_05-06-07",
        "2026-03-04_05-06-07_2",
        "2026-03-04_05-06-07_3",
        "2026-03-04_05-06-08",
    ]
    assert sorted(runs.iterdir()) == made


def test_two_processes_of_one_second_keep_both_results(here, tmp_path, monkeypatch):
    """The clock stands still, so that both want the same name."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW

    monkeypatch.setattr("murmuration.runs.commands.datetime", Clock)
    for scheduler in ("fifo", "srtf"):
        done = here(*SMALL, f"scheduler={scheduler}")
        assert done.code == 0, done.err
    found = sorted((tmp_path / "runs" / "compare").glob("*/results.json"))
    rows = [json.loads(path.read_text())["schedulers"][0]["scheduler"] for path in found]
    assert rows == ["fifo", "srtf"]
    assert all((path.parent / ".hydra" / "config.yaml").exists() for path in found)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ChoiceError, match=r"cannot be made or written \(Not a directory\); choose a folder"):
        make_run_folder(tmp_path / "file", NOW)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ChoiceError, match="dangling: cannot be made or written"):
        make_run_folder(tmp_path / "dangling", NOW)


@pytest.mark.parametrize("folder", ["file/below", "file"])
def test_an_impossible_folder_is_one_line(here, tmp_path, folder):
    (tmp_path / "file").touch()
    done = here(*SMALL, "scheduler=fifo", f"hydra.run.dir={folder}")
    assert (done.code, len(done.err.strip().splitlines())) == (2, 1)
    assert done.err.startswith(f"error: {folder}: cannot be made or written (")


def test_runs_that_is_a_file_is_one_line(here, tmp_path):
    (tmp_path / "runs").touch()
    done = here(*SMALL, "scheduler=fifo")
    assert (done.code, len(done.err.strip().splitlines())) == (2, 1)
    assert done.err.startswith("error: runs/compare/")


def test_files_of_an_earlier_run_are_not_overwritten(here, tmp_path, monkeypatch):
    monkeypatch.setenv("PLACE", "mine")
    where = "hydra.run.dir=${oc.env:PLACE}/seed${seed}"
    assert here(*SMALL, "scheduler=fifo", where).code == 0
    left = {path: path.read_bytes() for path in sorted((tmp_path / "mine" / "seed0").rglob("*")) if path.is_file()}
    done = here(*SMALL, "scheduler=srtf", where)
    assert (done.code, len(done.err.strip().splitlines())) == (2, 1)
    assert done.err.startswith("error: hydra.run.dir=")
    assert "mine/seed0: holds an earlier run (" in done.err
    assert {path: path.read_bytes() for path in left} == left
    assert here(*SMALL, "scheduler=fifo", where, "seed=1").code == 0


def test_an_empty_run_and_files_of_the_user_are_no_earlier_run(tmp_path):
    assert config_subfolder(tmp_path) == ".hydra"
    (tmp_path / "notes.txt").touch()
    assert config_subfolder(tmp_path) == ".hydra"
    (tmp_path / "notes.txt").unlink()
    (tmp_path / ".hydra").mkdir()
    assert config_subfolder(tmp_path) == ".hydra"
    (tmp_path / "results.json").touch()
    with pytest.raises(ChoiceError, match=r"holds an earlier run \(results\.json\); .* resume=<folder>"):
        config_subfolder(tmp_path)


def test_a_multirun_has_one_folder_with_a_subfolder_for_each_run(here, tmp_path):
    done = here("-m", *SMALL, "scheduler=fifo", "seed=0,1")
    assert done.code == 0, done.err
    (sweep,) = (tmp_path / "runs" / "compare").iterdir()
    assert sorted(path.parent.name for path in sweep.glob("*/results.json")) == ["0", "1"]
    assert (sweep / "multirun.csv").exists()
    assert (sweep / "multirun.png").exists()
    assert done.out.splitlines()[-1].endswith(f"{sweep.relative_to(tmp_path)}/multirun.csv, multirun.png")


@pytest.mark.parametrize("there", [False, True])
def test_a_refused_start_leaves_nothing_that_refuses_the_retry(here, tmp_path, there):
    """Nothing at all in a folder of its own; in a folder of the user, only what was there before."""
    where = "hydra.run.dir=mine"
    if there:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "notes.txt").write_text("mine")
    done = here(*SMALL, "scheduler=fifo", where, "episodes=0")
    assert done.code == 2, done.err
    assert sorted(path.name for path in tmp_path.glob("mine/**/*")) == (["notes.txt"] if there else [])
    assert (tmp_path / "mine").exists() == there
    assert here(*SMALL, "scheduler=fifo", where).code == 0


def test_what_a_refused_run_has_written_is_kept(tmp_path):
    """Curves without a point and a provenance are no result; a state is."""
    before = tmp_path / "notes.txt"
    before.touch()
    for name in (".hydra/config.yaml", "seed_0/provenance.json", "seed_0/tensorboard/policy/events.out.tfevents.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "seed_0" / "state.json").touch()
    remove_started(tmp_path, {before})
    assert (tmp_path / "seed_0" / "provenance.json").exists()
    (tmp_path / "seed_0" / "state.json").unlink()
    remove_started(tmp_path, {before})
    assert list(tmp_path.iterdir()) == [before]


def test_once_the_task_has_begun_an_error_of_the_system_is_a_fault():
    with pytest.raises(OSError, match="full"), refusals_before_start([1]):
        raise OSError(28, "full")
    with pytest.raises(ChoiceError, match="the run's folder: cannot be made or written"), refusals_before_start([]):
        raise OSError(28, os.strerror(28))
    assert "\n" not in str(explain_refusal(OSError(28, "full", "x")))
