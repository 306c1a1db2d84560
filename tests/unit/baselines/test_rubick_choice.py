"""Random workloads, and the choice of gate and patience on them."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from baselines import Fifo, Rubick
from envs.performance.rubick.data import MeasuredRun
from envs.performance.rubick.measured import MeasuredModel
from envs.types import Configuration, ExecutionPlan, MurmurationError
from papers.rubick import choice as rubick_choice
from papers.rubick.choice import TRAINING, VALIDATION, choice, explain_choice, scores, times, workloads
from papers.rubick.experiment import WithUserPlans, build_a800_cluster, run_under_artifact_rules
from papers.rubick.workloads import draw_rubick_workload, packed
from tests.unit.baselines.test_rubick_experiment import REGISTRY


def run(model, shares, throughput, plan=None):
    """A measurement of 16 samples at a time."""
    gpus = sum(shares)
    return MeasuredRun(model, model, "", "", plan or ExecutionPlan(data=gpus), shares, 16, 4.0, 16.0 / throughput)


ZERO = ExecutionPlan(data=2, zero_stage=2)
MEASURED = MeasuredModel(
    [
        *(run("gpt2", (1,), 4.0), run("gpt2", (2,), 8.0), run("gpt2", (2,), 6.0, ZERO), run("gpt2", (1, 1), 7.0)),
        *(run("gpt2", (4,), 7.5), run("vit", (8,), 40.0), run("vit", (8, 8), 70.0), run("t5_3b", (4,), 1.0)),
    ]
)


def test_only_useful_sizes_are_requested():
    """Four GPUs are slower than two, (1, 1) is on more nodes than needed, and T5-3B is not one of the seven models."""
    found = packed(MEASURED, 64)
    assert {model: sorted(sizes) for model, sizes in found.items()} == {"gpt2_xl": [1, 2], "vit": [8, 16]}
    assert [one.plan for one in found["gpt2_xl"][2]] == [ExecutionPlan(data=2), ZERO]
    assert sorted(packed(MEASURED, 8)["vit"]) == [8]


def test_drawn_workloads_match_their_arguments():
    """All jobs as measured, the given load, about half guaranteed; equal workloads for equal seeds only."""
    workload = draw_rubick_workload(MEASURED, build_a800_cluster(), (0, 3), num_jobs=300, load=0.8, guaranteed=0.5)
    asked = {(one.model, one.num_gpus, one.plan) for one in workload}
    assert asked <= {
        *(("gpt2_xl", 1, ExecutionPlan()), ("gpt2_xl", 2, ExecutionPlan(data=2)), ("gpt2_xl", 2, ZERO)),
        *(("vit", 8, ExecutionPlan(data=8)), ("vit", 16, ExecutionPlan(data=16))),
    }
    assert len(asked) == 5
    demand = sum(
        one.num_gpus
        * one.work
        / MEASURED.throughput(one.model, Configuration("A800", one.num_gpus, -(-one.num_gpus // 8), plan=one.plan))
        for one in workload
    )
    assert demand == pytest.approx(0.8 * 64 * workload.jobs["submit_time"][-1])
    assert 100 < workload.jobs["guaranteed"].sum() < 200
    again, other = (
        draw_rubick_workload(MEASURED, build_a800_cluster(), (0, seed), num_jobs=300, load=0.8, guaranteed=0.5)
        for seed in (3, 4)
    )
    assert again.jobs.tobytes() == workload.jobs.tobytes()
    assert not np.array_equal(other.jobs["work"], workload.jobs["work"])


def test_half_of_the_users_name_the_fastest_plan():
    """On two GPUs three in four do: that half, and half of the users who choose any plan."""
    workload = draw_rubick_workload(MEASURED, build_a800_cluster(), (0, 5), num_jobs=2000)
    plans = [one.plan for one in workload if one.num_gpus == 2]
    assert plans.count(ZERO) / len(plans) == pytest.approx(0.25, abs=0.05)


def test_impossible_draws_are_errors():
    with pytest.raises(MurmurationError, match="load is 0; it must be positive"):
        draw_rubick_workload(MEASURED, build_a800_cluster(), (0, 0), load=0)
    with pytest.raises(MurmurationError, match="no plan was measured on as few nodes as it needs"):
        draw_rubick_workload(MeasuredModel([run("gpt2", (1, 1), 7.0)]), build_a800_cluster(), (0, 0))


def test_the_splits_differ_and_contain_every_variant():
    some = {split: workloads(MEASURED, build_a800_cluster(), split, 4) for split in (TRAINING, VALIDATION)}
    for one, other in zip(*some.values(), strict=True):
        assert not np.array_equal(one.jobs["work"], other.jobs["work"])
    assert [bool(one.jobs["guaranteed"].any()) for one in some[TRAINING]] == [False, True, False, True]
    spans = [one.jobs["submit_time"][-1] for one in some[TRAINING]]
    assert all(math.isfinite(span) and span > 0 for span in spans)


def test_scores_are_logarithms_of_ratios():
    workload = draw_rubick_workload(MEASURED, build_a800_cluster(), (0, 1), num_jobs=20)
    jcts = [
        times(make, [workload], MEASURED)[0] for make in (lambda: Rubick(MEASURED), lambda: WithUserPlans(Fifo("skip")))
    ]
    table: Any = scores(MEASURED, [workload], [(0.9, 1800.0)])
    logs: Any = np.log(jcts[0] / jcts[1])
    assert table.loc[0, ["JCT", "makespan", "sum"]].tolist() == pytest.approx([*logs.tolist(), float(logs.sum())])
    records = run_under_artifact_rules(Rubick(MEASURED), workload, build_a800_cluster(), MEASURED).records
    assert jcts[0][1] == records["finish_time"].max()


def test_the_best_pairs_of_training_are_validated(tmp_path, monkeypatch):
    """Four pairs are in training, three validated; the table is ordered by training."""
    monkeypatch.setattr(MeasuredModel, "read", lambda data: MEASURED)
    monkeypatch.setattr(
        rubick_choice,
        "workloads",
        lambda measured, cluster, split, count: [draw_rubick_workload(measured, cluster, (split, 0), num_jobs=12)],
    )
    found = choice("", tmp_path / "run", 1, gates=(0.5, 0.9), patiences=(60.0, 1800.0))
    table = pd.read_csv(tmp_path / "run" / "choice.csv")
    assert len(table) == len(found.tables[0][1]) == 4
    assert table["training sum"].is_monotonic_increasing
    assert table["validation sum"].notna().tolist() == [True, True, True, False]
    assert set(zip(table["gate"], table["patience"], strict=True)) == {(0.5, 60), (0.5, 1800), (0.9, 60), (0.9, 1800)}
    assert "8 drawn workloads" in explain_choice(8)[0]


def test_reproduce_yaml_names_the_choice():
    entry = yaml.safe_load(REGISTRY.read_text())["tables"]["rubick"]["choice"]
    assert entry == {"_target_": f"{choice.__module__}.{choice.__name__}"}
