"""The experiment with Synergy's mechanisms on a small scale, and its table from rows made by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from envs.performance import default_model
from envs.types import Configuration, MurmurationError
from envs.workloads.mixes import DOMAINS
from papers.synergy import experiment as synergy_experiment
from papers.synergy.experiment import (
    RUN_TIMES,
    SPLITS,
    MechanismSetting,
    mean_times,
    mechanism_runs,
    mechanisms,
)

REGISTRY = Path(__file__).resolve().parents[3] / "conf" / "reproduce.yaml"
SMALL = MechanismSetting(num_nodes=1, num_jobs=40, num_workloads=1)


def test_run_times_are_those_on_the_proportional_share():
    """A job alone with 3 cores and 62.5 GB for each GPU takes as long as was drawn."""
    (workload,) = SMALL.workloads("50/0/50", "1 to 8 GPUs", 9.0)
    for row in workload.jobs:
        fair = Configuration("V100", int(row["num_gpus"]), cpus_per_gpu=3.0, memory_per_gpu=62.5)
        throughput = default_model().throughput(workload.models[row["model"]], fair)
        assert row["work"] / throughput == pytest.approx(row["duration"])
    assert (workload.jobs["min_gpus"] == workload.jobs["max_gpus"]).all()
    assert workload.measured.sum() == 32


def test_run_times_have_the_artifacts_mean():
    """Of 10^U(a, b): (10^b - 10^a) / ((b - a) ln 10), in minutes; 80 % from 1.5 to 3, 20 % from 3 to 4."""
    short, long = (1000 - 10**1.5) / (1.5 * np.log(10)), (10000 - 1000) / np.log(10)
    assert RUN_TIMES.mean == pytest.approx(60 * (0.8 * short + 0.2 * long))


def test_all_sizes_of_clusters_and_jobs_have_the_load_of_the_artifact():
    """9 jobs/h of one GPU on 16 nodes: 0.5625 jobs/h on one node; jobs of 1 to 8 GPUs have 1.9 on average."""
    many = MechanismSetting(num_nodes=1, num_jobs=4000, num_workloads=1)
    for sizes, per_hour in (("one GPU", 9 / 16), ("1 to 8 GPUs", 9 / 16 / 1.9)):
        (workload,) = many.workloads("20/70/10", sizes, 9.0)
        assert 4000 / (workload.jobs["submit_time"][-1] / 3600) == pytest.approx(per_hour, rel=0.05)
    drawn = np.array(workload.models)[workload.jobs["model"]]
    for domain, share in SPLITS["20/70/10"].items():
        assert 100 * np.isin(drawn, DOMAINS[domain]).mean() == pytest.approx(share, abs=3)


@pytest.mark.exhaustive
def test_tune_is_ahead_of_proportional_and_greedy_as_in_the_paper():
    """Image and speech models alone, in order of submission: greedy leaves GPUs idle for lack of cores."""
    runs = pd.DataFrame(mechanism_runs(SMALL, "50/0/50", "1 to 8 GPUs", "fifo", 9.0))
    jct = runs.set_index("mechanism")["mean_jct_h"]
    assert jct["tune"] < jct["proportional"] < jct["greedy"]
    assert (runs["finished"] == 32).all()
    assert (runs.set_index("mechanism")["limited_by_cpus"]["proportional"]) > 0.4


def test_the_table_by_hand():
    """Two workloads: proportional / tune is sqrt(2 * 8) = 4."""
    hours = {"proportional": (2.0, 16.0), "greedy": (1.0, 2.0), "tune": (1.0, 2.0)}
    rows = [
        {"split": "a", "policy": "fifo", "workload": i, "mechanism": name, "mean_jct_h": value}
        for name, values in hours.items()
        for i, value in enumerate(values)
    ]
    (row,) = mean_times(pd.DataFrame(rows)).to_dict("records")
    assert (row["proportional"], row["tune"]) == (9.0, 1.5)
    assert (row["proportional / tune"], row["greedy / tune"]) == (4.0, 1.0)


def test_the_command_writes_its_runs(tmp_path, monkeypatch):
    entry = yaml.safe_load(REGISTRY.read_text())["tables"]["synergy"]["mechanisms"]
    assert entry["_target_"] == f"{synergy_experiment.__name__}.{mechanisms.__name__}"

    def one_row(setting, split, sizes, policy, per_hour):
        for name in ("proportional", "greedy", "tune"):
            yield {"split": split, "policy": policy, "workload": 0, "mechanism": name, "mean_jct_h": 1.0}

    monkeypatch.setattr(synergy_experiment, "mechanism_runs", one_row)
    result = mechanisms("", tmp_path, policies=("las",))
    assert len(pd.read_csv(tmp_path / "runs.csv")) == 6
    assert [row["split"] for row in result.tables[0][1].to_dict("records")] == list(SPLITS)
    assert "21.88 h" in " ".join(result.notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"splits": ("1/2/3",)}, "splits: '1/2/3' does not exist; choose of 20/70/10, 50/0/50"),
        ({"sizes": "huge"}, "sizes: 'huge' does not exist; choose of one GPU, 1 to 8 GPUs"),
        ({"jobs_per_hour": 0.0}, "jobs_per_hour is 0.0; it must be positive"),
    ],
)
def test_bad_options_of_the_experiment(options, words, tmp_path):
    with pytest.raises(MurmurationError, match=words):
        mechanisms("", tmp_path, **options)
