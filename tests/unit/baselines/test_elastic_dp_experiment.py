"""The experiment on a small scale, and its tables from rows made by hand."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from envs.performance import default_model
from envs.types import MurmurationError
from papers.elastic_dp.experiment import (
    FIXED,
    PATTERNS,
    Setting,
    against_fixed_batch,
    completion_times,
    eight_gpu_nodes,
    jobs_completed,
    runs_of,
)

SMALL = Setting(num_workloads=2, jobs_per_gpu=1.5)
REGISTRY = Path(__file__).resolve().parents[3] / "conf" / "reproduce.yaml"


@pytest.fixture(scope="module")
def runs():
    """All runs of two small high-load workloads on 16 GPUs."""
    rows = list(runs_of(SMALL, PATTERNS["high"], 16, default_model()))
    return pd.DataFrame(rows).assign(gpus=16, arrivals="high")


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_workloads_follow_the_pattern(name):
    cluster, performance = eight_gpu_nodes(16), default_model()
    drawn = SMALL.workloads(PATTERNS[name], cluster, performance)
    assert len(drawn) == 2
    for workload in drawn:
        assert len(workload) == 24
        assert (workload.jobs["min_gpus"] == 1).all()
        assert (workload.jobs["max_gpus"] == 16).all()
        assert workload.offered_load(cluster, performance)["all"] == pytest.approx(PATTERNS[name].load)
    gaps = np.concatenate([np.diff(workload.jobs["submit_time"]) for workload in drawn])
    assert (gaps == 0).any() == (name == "bursty")


def test_nodes_have_eight_gpus():
    assert eight_gpu_nodes(40).node_gpus.tolist() == [8] * 5
    for wrong in (0, 4, 12):
        with pytest.raises(MurmurationError, match=f"num_gpus is {wrong}; .*multiple of 8"):
            eight_gpu_nodes(wrong)


@pytest.mark.exhaustive
def test_every_job_of_every_rule_completes_or_is_dropped(runs):
    assert len(runs) == 2 * 4 * 2
    assert runs.groupby(["workload", "batch", "overload"]).size().eq(1).all()
    assert (runs["submitted"] == 24).all()
    assert (runs["completed"] + runs["dropped"] == runs["submitted"]).all()
    assert (runs.loc[runs["overload"] == "queue", "dropped"] == 0).all()
    assert runs["dropped"].max() > 0
    assert (runs["proved"] <= runs["decisions"]).all()
    assert (runs["decisions"] > 0).all()


@pytest.mark.exhaustive
def test_changing_batches_win_on_these_workloads(runs):
    """This holds on these two workloads, not in general; if it fails, the result of the experiment has changed."""
    row = only_row(completion_times(runs))
    assert all(float(row[f"to {rule}"].split()[0]) > 1 for rule in FIXED)


def only_row(table: pd.DataFrame) -> dict[Hashable, Any]:
    """Return a table's only row, by column."""
    (row,) = table.to_dict("records")
    return row


def rows_by_hand() -> pd.DataFrame:
    """Two workloads; "best" completes 8 and 8, "least" 4 and 8, "usual" 8 and 2, "most" 1 and 1; times the reverse."""
    completed = {"best": (8, 8), "least": (4, 8), "usual": (8, 2), "most": (1, 1)}
    return pd.DataFrame(
        {
            "gpus": 40,
            "arrivals": "low",
            "workload": workload,
            "batch": rule,
            "overload": overload,
            "submitted": 10,
            "completed": counts[workload],
            "mean_jct_h": 1.0 / counts[workload],
        }
        for rule, counts in completed.items()
        for workload in (0, 1)
        for overload in ("drop", "queue")
    )


def test_ratios_are_geometric_means_over_pairs():
    """To "least" 2 and 1: 1.41; to "usual" 1 and 4: 2; to "most" 8 and 8, without spread. With times it is the same."""
    rows = rows_by_hand()
    counts, hours = only_row(jobs_completed(rows)), only_row(completion_times(rows))
    for row in (counts, hours):
        assert [row["GPUs"], row["arrivals"], row["jobs"]] == [40, "low", 10]
        assert [row[f"to {rule}"].split(" ")[0] for rule in FIXED] == ["1.41", "2.00", "8.00"]
        assert row["to most"] == "8.00 [8.00, 8.00]"
    assert [counts[rule] for rule in ("best", *FIXED)] == [8.0, 6.0, 5.0, 1.0]


def test_a_table_uses_only_runs_of_its_own_mode():
    rows = rows_by_hand()
    rows.loc[rows["overload"] == "queue", "completed"] = 0
    rows.loc[rows["overload"] == "drop", "mean_jct_h"] = np.nan
    assert jobs_completed(rows).equals(jobs_completed(rows_by_hand()))
    assert completion_times(rows).equals(completion_times(rows_by_hand()))


@pytest.mark.exhaustive
def test_the_experiment_writes_its_runs(tmp_path):
    found = against_fixed_batch("", tmp_path / "run", num_gpus=[8], patterns=["low"], num_workloads=1, seed=3)
    assert [len(frame) for _, frame in found.tables] == [1, 1]
    written = pd.read_csv(tmp_path / "run" / "runs.csv")
    assert (len(written), set(written["gpus"]), set(written["arrivals"])) == (8, {8}, {"low"})
    again = against_fixed_batch("", tmp_path / "again", num_gpus=[8], patterns=["low"], num_workloads=1, seed=3)
    assert all(one.equals(other) for (_, one), (_, other) in zip(found.tables, again.tables, strict=True))


def test_an_unknown_pattern_is_refused(tmp_path):
    with pytest.raises(MurmurationError, match="pattern 'lo' does not exist; choose of low, high, bursty"):
        against_fixed_batch("", tmp_path, num_gpus=[8], patterns=["lo"])


def test_the_registry_names_the_experiment():
    entry = yaml.safe_load(REGISTRY.read_text())["tables"]["elastic_dp"]["against_fixed_batch"]
    module, _, name = entry["_target_"].rpartition(".")
    assert (module, name) == (against_fixed_batch.__module__, against_fixed_batch.__name__)
