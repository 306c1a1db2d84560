"""Experiments that name their schedulers, on the command line."""

import pytest

from launch import experiments
from launch.choices import with_schedulers
from launch.experiments import brings_schedulers


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """A folder with an experiment that names schedulers and one that does not."""
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "whole.yaml").write_text("# @package _global_\nschedulers:\n  fifo:\n    _target_: baselines.fifo.Fifo\n")
    (folder / "part.yaml").write_text("# @package _global_\n# schedulers: none\ntrainer:\n  iterations: 1\n")
    monkeypatch.setattr(experiments, "CONF", tmp_path)


@pytest.mark.parametrize(
    ("argument", "brings"),
    [
        ("experiment=whole", True),
        ("+experiment=whole", True),
        ("experiment=part", False),
        ("experiment=absent", False),
        ("workload=whole", False),
        ("seed=1", False),
    ],
)
def test_which_experiments_bring_schedulers(argument, brings, conf):
    assert brings_schedulers(argument) is brings


def test_none_is_added_to_those_of_an_experiment(conf):
    assert with_schedulers(["experiment=whole", "seed=1"], "all") == ["experiment=whole", "seed=1"]


def test_what_is_typed_joins_them(conf):
    typed = with_schedulers(["experiment=whole", "scheduler=srtf"], "all")
    assert typed == ["+scheduler@schedulers.srtf=srtf", "experiment=whole"]


def test_other_experiments_leave_the_default(conf):
    typed = with_schedulers(["experiment=part"], "fifo")
    assert typed == ["+scheduler@schedulers.fifo=fifo", "experiment=part"]


@pytest.mark.parametrize("name", ["xval_muri", "xval_tiresias", "xval_gavel"])
def test_cross_validations_name_theirs(name):
    assert brings_schedulers(f"experiment={name}")
