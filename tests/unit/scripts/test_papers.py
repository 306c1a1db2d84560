"""Every table of a paper in conf/reproduce.yaml is repeated at its smallest setting."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from agents.networks import Blueprint
from agents.policies.options.checkpoint import OptionCheckpoint
from envs.options import OptionRules, OptionSpec
from murmuration.config.choices import CONF
from murmuration.config.describe import describe_reproduction
from murmuration.config.errors import ChoiceError
from murmuration.home import ROOT

SMALLEST = {
    "rubick.prediction_error": (),
    "rubick.scheduling": ("variants=[base]",),
    "elastic_dp.against_fixed_batch": ("num_gpus=[40]", "patterns=[bursty]", "num_workloads=1"),
    "gavel.space_sharing": ("arrivals_per_hour=[4.8]",),
    "pollux.eight_workloads": ("schedulers=[Optimus]", "workloads=[6]"),
    "sia.sia_workloads": ("families=[philly]", "schedulers=['Gavel, steps/s']", "most_workloads=1"),
    "synergy.mechanisms": ("splits=['20/70/10']", "policies=[fifo]", "num_jobs=30", "num_workloads=1"),
    "maifs.improvements": ("tasks=[shared-16]", "checkpoints={options:checkpoints/anywhere,together:FOLDER/together}"),
    "own.what_if": ("only=[openb, test cluster]", "iterations=1", "seeds=1"),
    "own.worlds": ("only=[world-20]", "published=[srtf]", "others=[]"),
}

ARTIFACTS = {"pollux": "pollux/simulator", "sia": "sia/sia-simulator"}  # folders of public artifacts


def test_every_table_has_a_smallest_setting():
    tables = yaml.safe_load((CONF / "reproduce.yaml").read_text())["tables"]
    assert {f"{paper}.{table}" for paper, each in tables.items() for table in each} == SMALLEST.keys()


def save_together(folder: Path) -> None:
    """Write a policy of nodes that act together, with its first weights; it acts compiled, for 100 episodes."""
    made = Blueprint("agents.networks.option_claims.OptionClaims")
    rules = OptionRules(turn="together", contested="drawn", ranks=True, distinct_nodes=False)
    OptionCheckpoint(made.build(OptionSpec()), made, rules, {"temperature": 1.0}).save(folder)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SMALLEST)
def test_a_table_is_repeated_at_its_smallest_setting(name, real_data, tmp_path):
    data = real_data("profiles/rubick").parents[1]
    paper, title = name.split(".")
    if paper in ARTIFACTS:
        real_data(ARTIFACTS[paper])
    words = [f"paper={paper}", f"table={title}", f"data={data}", f"hydra.run.dir={tmp_path / 'run'}"]
    words += [f"++tables.{name}.{option}".replace("FOLDER", str(tmp_path)) for option in SMALLEST[name]]
    save_together(tmp_path / "together")
    command = [sys.executable, str(ROOT / "scripts" / "reproduce.py"), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *table, last = done.stdout.splitlines()
    assert last.startswith("run: ")
    assert any(letter.isdigit() for line in table for letter in line)
    assert any(path.suffix in (".csv", ".html", ".json") for path in (tmp_path / "run").iterdir())


def test_a_paper_alone_names_its_first_table():
    def chosen(paper, table):
        content = OmegaConf.load(CONF / "reproduce.yaml")
        own = {"paper": paper, "table": table, "data": ""}
        return describe_reproduction(OmegaConf.create({"tables": content.tables, **own})).table.values["_target_"]

    assert chosen("synergy", None).endswith("mechanisms")
    assert chosen("rubick", "prediction_error").endswith("prediction_error")
    for paper, table, said in (("synerg", None, "did you mean synergy"), ("rubick", "x", "no such table")):
        with pytest.raises(ChoiceError, match=said):
            chosen(paper, table)
