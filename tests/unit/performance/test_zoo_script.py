"""The validation script as a user runs it, and the choices under conf/ that build this package's objects."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hydra.utils import instantiate

from envs.performance import Contention, CostBySize, CostByTable, TableModel
from experiments.performance import conclusions, contention, predictions, sharing
from experiments.performance.predictions import summarise_errors
from experiments.performance.profiles import PREDICTION_COLUMNS
from murmuration.config.tables import read_choices
from tests.unit.scripts.test_training_scripts import run_here

REPOSITORY = Path(__file__).resolve().parents[3]
CONF = REPOSITORY / "conf"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`validate_performance.py` within this process."""

    def main(*arguments, data=""):
        monkeypatch.setenv("MURMURATION_DATA", data)
        return run_here(tmp_path, "validate_performance", "hydra.run.dir=run", *arguments)

    return main


def with_quick_forms(monkeypatch):
    """Leave out the forms, laws and protocols whose fits take long."""
    monkeypatch.setattr(sharing, "FORMS", {name: sharing.FORMS[name] for name in ("half each", "mean of the job type")})
    monkeypatch.setattr(contention, "LAWS", {"no contention": "off"})
    monkeypatch.setattr(predictions, "LAWS", contention.LAWS)
    monkeypatch.setattr(predictions, "PROTOCOLS", ("profile",))
    monkeypatch.setattr(conclusions, "EPISODES", 2)
    monkeypatch.setattr(conclusions, "list_tables", lambda tables=conclusions.list_tables: tables()[:1])


@pytest.mark.slow
@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_the_script_prints_errors_and_writes_predictions_and_pictures(quick, real_data, run, tmp_path, monkeypatch):
    if quick:
        with_quick_forms(monkeypatch)
    done = run(data=str(real_data("profiles").parent))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("run: ")
    for heading in (
        "gavel, half from half",
        "T4, by number of nodes",
        "Uneven placements",
        "Guessed pairs",
        "H100 over",
        "Gavel's pairs of jobs on one GPU",
        "The same, the 84 pairs of the default model",
        "Rank correlation",
    ):
        assert heading in done.stdout
    kept = pd.read_csv(tmp_path / "run" / "predictions.csv")
    assert list(kept.columns) == list(PREDICTION_COLUMNS)
    sources = {str(protocol).partition(",")[0] for protocol in kept["protocol"]}
    assert sources >= {"gavel", "elasticflow", "leave one GPU type out", "rubick", "deepshare"}
    assert np.isfinite(kept["error"]).all()
    assert summarise_errors(kept)["points"].sum() == len(kept)
    assert (tmp_path / "run" / "pairs.csv").exists()
    pictures = list((tmp_path / "run").glob("*.png"))
    assert len(pictures) == len(kept[["protocol", "quantity"]].drop_duplicates())


def test_missing_data_is_a_one_line_error(run):
    done = run()
    assert done.returncode == 2
    assert done.stderr == "error: profiles: no folder is set; set data=<folder with profiles/> or $MURMURATION_DATA\n"


def test_an_unknown_part_is_a_one_line_error(run):
    done = run("parts=pair")
    assert done.returncode == 2
    known = "all, throughputs, pairs, held_out, conclusions"
    assert done.stderr == f"error: parts=pair: no such part, did you mean pairs?; there are: {known}\n"


def test_a_wrong_folder_is_a_one_line_error(run, tmp_path):
    done = run(f"data={tmp_path}")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "no such file" in done.stderr


def built(group, name):
    return instantiate(yaml.safe_load(read_choices(CONF / group)[name]), _convert_="all")


def test_performance_choices_build():
    assert built("performance", "default") == TableModel()
    assert built("performance", "four_gpu_nodes") == TableModel(gpus_per_node=4)


@pytest.mark.parametrize("mode", ["off", "measured", "worst_case", "max_min"])
def test_contention_choices_build(mode):
    assert built("contention", mode) == Contention(mode)


@pytest.mark.parametrize(
    ("name", "cost_class", "seconds"),
    [
        ("by_size", CostBySize, 22.1),
        ("sia_beliefs", CostByTable, 30),
        ("sia_simulated", CostByTable, 50),
        ("rubick", CostByTable, 260),
        ("none", CostByTable, 0),
    ],
)
def test_reconfiguration_choices_build(name, cost_class, seconds):
    cost = built("reconfiguration", name)
    assert isinstance(cost, cost_class)
    assert cost.seconds("resnet18") == pytest.approx(seconds, abs=0.05)


def published_mtbfs():
    """Seconds between failures of one node of 8 GPUs, worked out from the figures that each file cites."""
    day = 86400.0
    return {
        "llama3": 16384 / 8 * 54 * day / 419,
        "rsc1": 1000 * day / 6.50,
        "rsc2": 1000 * day / 2.34,
        "opt175b": 992 / 8 * 60 * day / 105,
    }


@pytest.mark.parametrize("name", read_choices(CONF / "failures"))
def test_failures_have_the_published_figure_or_say_that_they_have_none(name):
    failures, text = built("failures", name), read_choices(CONF / "failures")[name]
    published = published_mtbfs()
    assert (name in published) != ("Illustrative, not a published figure" in text)
    if name in published:
        assert failures.mtbf == pytest.approx(published[name], rel=1e-6)
        days = re.search(r"in ([0-9.]+) days for a node", text.replace("\n# ", " "))
        assert days is not None
        assert float(days.group(1)) == pytest.approx(failures.mtbf / 86400, abs=0.05)


def test_the_full_scenario_fails_as_rsc1():
    full = yaml.safe_load((CONF / "scenario" / "full.yaml").read_text())
    assert full["failures"]["mtbf"] == built("failures", "rsc1").mtbf
