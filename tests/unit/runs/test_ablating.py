"""Ablations: paired runs, which are not repeated when they are resumed, and their tables."""

import json

import numpy as np
import pandas as pd
import pytest

from agents.terminal import ProgressListener
from murmuration.config.arguments import compose_options
from murmuration.config.describe_ablation import describe_ablation
from murmuration.config.errors import ChoiceError
from murmuration.reports.ablation import VariantFigures, compare_variants, effects_of_levels, seeds_needed
from murmuration.runs import ablating
from murmuration.runs.training import build_trainer
from tests.unit.scripts.test_training_scripts import run_folder, run_here

TINY = (
    'options="task=none cluster=small_16 workload.num_jobs=12 workload.num_evaluation=2 loggers=[] '
    "trainer.iterations=1 trainer.validate_every=1 trainer.num_validation=1 "
    'trainer.method.num_workloads=2 trainer.method.group_size=2"',
    'variants={none: "agent=options_attention agent.options.mixing=none", graph: "agent=options_attention"}',
    *("workloads=2", "pilot=2", "seeds=2"),
)


def figures(variant, seed, jct, **counters):
    return VariantFigures(variant, seed, jct, 0, 60.0, 100, 0.2, {"decisions": 100, **counters})


@pytest.fixture
def found():
    """Two factors with two levels each, two seeds; seed 1 is a hard one for all."""
    costs = {"a-x": 1.0, "b-x": 0.9, "a-y": 2.0, "b-y": 1.8}
    return {
        name: {seed: figures(name, seed, [100.0 * cost * (1 + seed)] * 4) for seed in (0, 1)}
        for name, cost in costs.items()
    }


LEVELS = {
    name: dict(zip(("messages", "losers"), name.split("-"), strict=True)) for name in ("a-x", "b-x", "a-y", "b-y")
}


def test_effects_are_over_pairs_that_differ_in_one_level(found):
    rows = effects_of_levels(found, LEVELS).set_index("level")
    assert rows["pairs"].tolist() == [4, 4]
    assert rows["against"].tolist() == ["a", "x"]
    assert rows["difference (%)"].tolist() == pytest.approx([-10.0, 100.0])
    assert rows["error (%)"].tolist() == pytest.approx([0.0, 0.0], abs=1e-9)


def test_a_table_pairs_each_variant_with_the_first(found):
    found["b-x"][1] = figures("b-x", 1, [220.0] * 4, claims=50, lost_claims=5, second_choices=10)
    table = compare_variants(found).set_index("variant")
    assert list(table.loc["a-x", ["ratio", "difference (%)", "error (%)"]]) == [1.0, 0.0, 0.0]
    logs = np.log([0.9, 1.1])
    assert table.loc["b-x", "difference (%)"] == pytest.approx(100 * np.expm1(logs.mean()))
    assert table.loc["b-x", "error (%)"] == pytest.approx(100 * logs.std(ddof=1) / 2**0.5)
    assert list(table.loc["b-x", ["conflicts", "passes", "ms"]]) == pytest.approx([0.3, 1.0, 2.0])
    assert seeds_needed(found, 0.02) == np.ceil(logs.var(ddof=1) / 0.02**2)


def test_paired_runs_begin_with_the_same_weights_wherever_shapes_allow(tmp_path):
    run = describe_ablation(compose_options("ablate", []))
    trained = {name.partition("+")[0]: variant.training for name, variant in run.variants.items()}
    listener = ProgressListener()
    built = {name: build_trainer(each, tmp_path / name, listener) for name, each in trained.items()}
    first = built["none"].problem.build(0, None).state_dict()
    for name in ("claims", "graph", "all"):
        shared = ablating.shared_weights(built[name], built["none"])
        own = built[name].problem.build(0, shared).state_dict()
        same = {key for key, value in own.items() if key in first and value.equal(first[key])}
        assert {key for key in own if key in first and own[key].shape == first[key].shape} == same
        assert "option.weight" in same
        assert ("last.2.weight" in same) == ("last.2.weight" in own)


@pytest.fixture(scope="module")
def ablated(tmp_path_factory):
    """(working directory, folder, output) of a tiny ablation."""
    here = tmp_path_factory.mktemp("ablation")
    done = run_here(here, "ablate", *TINY)
    assert done.returncode == 0, done.stderr
    return here, run_folder(here, done), done.stdout


@pytest.mark.slow
def test_an_ablation_writes_tables_and_a_chart(ablated):
    _, folder, out = ablated
    runs = pd.read_csv(folder / "runs.csv")
    assert list(zip(runs["variant"], runs["seed"], strict=True)) == [(n, s) for n in ("none", "graph") for s in (0, 1)]
    table = pd.read_csv(folder / "ablation.csv").set_index("variant")
    assert table["seeds"].tolist() == [2, 2]
    jct = runs.pivot_table(index="seed", columns="variant", values="mean_jct")
    expected = 100 * np.expm1(np.log(jct["graph"] / jct["none"]).mean())
    assert table.loc["graph", "difference (%)"] == pytest.approx(expected, abs=1e-9)
    assert (folder / "ablation.png").stat().st_size > 5_000
    assert "after 2 training seeds: a standard error of 2.0% of every difference needs" in " ".join(out.split())


@pytest.mark.slow
def test_a_resumed_ablation_trains_only_what_is_not_finished(ablated, monkeypatch):
    here, folder, _ = ablated
    gone = folder / "graph" / "seed_1"
    before = json.loads((gone / "figures.json").read_text())["figures"]
    (gone / "figures.json").unlink()
    trained, train = [], ablating.train_variant

    def note_and_train(name, *given):
        trained.append(name)
        return train(name, *given)

    monkeypatch.setattr(ablating, "train_variant", note_and_train)
    done = run_here(here, "ablate", *TINY, f"resume={folder}")
    assert (done.returncode, trained, run_folder(here, done)) == (0, ["graph"], folder), done.stderr
    assert json.loads((gone / "figures.json").read_text())["figures"]["jct"] == before["jct"]
    done = run_here(here, "ablate", *TINY, f"resume={folder}", "workloads=1")
    assert (done.returncode, trained) == (2, ["graph"])
    assert len(done.stderr.splitlines()) == 1
    assert "figures.json: was made with" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("variants={a: ''}", "there must be two variants at least"),
        ("variants={a: '', b: [1]}", r"variants: variant b is \[1\]; it must be options of scripts/train.py"),
        ("variants={a: '', b.c: ''}", "variants: variant 'b.c' is no name"),
        ("variants={a: '', b: 'agent=optoins'}", "optoins"),
        ("error=0", "error=0: must be above 0"),
        ("resume=nowhere", "nowhere"),
    ],
)
def test_a_wrong_ablation_is_refused_before_it_begins(given, said):
    with pytest.raises(Exception, match=said) as refused:
        describe_ablation(compose_options("ablate", [given]))
    assert isinstance(refused.value, ChoiceError) or "optoins" in said
