"""Every table of a paper in conf/reproduce.yaml is repeated at its smallest setting."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from agents.networks import Blueprint
from agents.policies.options.checkpoint import OptionCheckpoint
from envs.options import OptionRules, OptionSpec
from murmuration.config.choices import CONF
from murmuration.home import ROOT

SMALLEST = {
    "rubick.prediction_error": (),
    "rubick.scheduling": ("variants=[base]",),
    "rubick.choice": ("num_workloads=4", "gates=[0.9]", "patiences=[600.0]"),
    "elastic_dp.against_fixed_batch": ("num_gpus=[40]", "patterns=[bursty]", "num_workloads=1"),
    "sampling_matching.jct_gap": ("instances=2",),
    "gavel.space_sharing": ("arrivals_per_hour=[4.8]",),
    "pollux.eight_workloads": ("schedulers=[Optimus]", "workloads=[6]"),
    "sia.sia_workloads": ("families=[philly]", "schedulers=['Gavel, steps/s']", "most_workloads=1"),
    "synergy.mechanisms": ("splits=['20/70/10']", "policies=[fifo]", "num_jobs=30", "num_workloads=1"),
    "maifs.improvements": ("tasks=[shared-16]", "checkpoints={options:checkpoints/anywhere,together:FOLDER/together}"),
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
