"""Two jobs on one GPU: measured pairs are as measured, the others are modelled, and the memory must hold both."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import DrawnModel, TableModel, default_model, find_pair_factor, name_of_draw
from envs.performance.colocation import SHRINKAGE, colocation, fit_effects, fits_beside
from envs.performance.gpus import find_gpu_type, gpu_types
from envs.performance.zoo import model_profile, zoo
from envs.types import PerformanceError

models = st.sampled_from(sorted(zoo()))
types = st.sampled_from(sorted(gpu_types()))
SEVEN = sorted({model for model, _, _ in colocation()})


def factor(model: str, other: str, gpu_type: str) -> float:
    return find_pair_factor(default_model(), model, other, gpu_type)


def test_every_measured_pair_is_as_in_the_table():
    assert len(colocation()) == 7 * 7 * 3
    for (model, other, gpu_type), measured in colocation().items():
        assert factor(model, other, gpu_type) == measured
        source = default_model().pair_provenance(model, other, gpu_type)
        assert source == ("measured" if measured > 0 else "infeasible")


def test_measured_pairs_by_hand():
    """Gavel on V100: together with the language model ResNet-50 keeps 69 %, and the language model 38 %."""
    assert (factor("resnet50", "lm", "V100"), factor("lm", "resnet50", "V100")) == (0.688, 0.383)
    assert (factor("ResNet-50", "LM", "V100"), factor("LM", "ResNet-50", "V100")) == (0.688, 0.383)


def test_two_jobs_that_do_not_fit_do_not_run():
    assert factor("resnet50", "cyclegan", "K80") == factor("cyclegan", "resnet50", "K80") == 0  # measured so
    assert factor("llama7b", "bert", "A100") == factor("bert", "llama7b", "A100") == 0  # 108 GB of states
    assert default_model().pair_provenance("bert", "llama7b", "A100") == "infeasible"


@given(models, models, types)
def test_a_pair_runs_in_both_directions_or_in_none(model, other, gpu_type):
    both = factor(model, other, gpu_type), factor(other, model, gpu_type)
    sources = {default_model().pair_provenance(*pair, gpu_type) for pair in ((model, other), (other, model))}
    assert len(sources) == 1
    if sources == {"infeasible"}:
        assert both == (0, 0)
    else:
        assert all(0 < each <= 1 for each in both)
        assert sources == {"measured" if (model, other, gpu_type) in colocation() else "modelled"}


@given(models, models, types)
def test_jobs_fit_together_only_where_the_memory_holds_both(model, other, gpu_type):
    needs = sum(each.state_gb + each.working_gb for each in map(model_profile, (model, other)))
    usable = find_gpu_type(gpu_type).usable_gb
    if (model, other, gpu_type) not in colocation() and abs(needs - usable) > 1e-9:
        assert (factor(model, other, gpu_type) > 0) == fits_beside(model, other, gpu_type) == (needs < usable)


@given(models, models, types, st.integers(0, 99))
def test_a_draw_shares_like_its_model(model, other, gpu_type, draw):
    """The curves of throughput are drawn, what a job leaves to another one is not."""
    drawn = DrawnModel()
    names = name_of_draw(model, draw), name_of_draw(other, draw + 1)
    assert find_pair_factor(drawn, *names, gpu_type) == factor(model, other, gpu_type)
    assert drawn.pair_provenance(*names, gpu_type) == TableModel().pair_provenance(model, other, gpu_type)


def test_the_fit_by_hand():
    """Model a beside itself keeps a quarter, so the mean is ln(1/4) and nobody adds anything to it.

    With b: 1/2, 1/8, 1/2, 1/8 for (a, a), (a, b), (b, a), (b, b). Their logarithms have the mean ln(1/4), and a adds
    ln 2 to the job beside it. SHRINKAGE pairs of average factor count too: 2 / (2 + SHRINKAGE) of it is left.
    """
    assert fit_effects(["a"], ["a"], np.array([0.25])).factor("a", "a") == pytest.approx(0.25)
    found = fit_effects(["a", "a", "b", "b"], ["a", "b", "a", "b"], np.array([0.5, 0.125, 0.5, 0.125]))
    left = 2 / (2 + SHRINKAGE)
    assert found.own == pytest.approx({"a": 0, "b": 0})
    assert found.other == pytest.approx({"a": left * math.log(2), "b": -left * math.log(2)})
    assert found.factor("a", "b") == pytest.approx(0.25 * 0.5**left)
    assert found.factor("new", "newer") == pytest.approx(0.25)
    assert found.factor("new", "newer", overlap=0.5) == pytest.approx(0.5)
    assert found.factor("new", "newer", overlap=0.0) == 1


def test_a_job_never_gains_from_another_one():
    """The effects of a and b add up to more than 1, of which 1 is left."""
    found = fit_effects(["a", "c", "c"] * 9, ["b", "b", "d"] * 9, np.array([1.0, 1.0, 0.01] * 9))
    assert found.factor("a", "b") == 1


@pytest.mark.parametrize("gpu_type", sorted(gpu_types()))
def test_jobs_that_rarely_use_the_gpu_hardly_meet(gpu_type):
    """DQN uses it for 1.6 % of a step and ShuffleNet for 7.4 %, two BERT all the time."""
    assert factor("dqn", "shufflenet", gpu_type) > 0.99
    assert factor("bert", "shufflenet", gpu_type) > 0.9
    assert 0.5 < factor("bert", "bert", gpu_type) < 0.65


def test_a_model_that_was_not_measured_meets_resnet50_worst():
    """ResNet-50 leaves the least to others on V100 in Gavel's pairs, so also to a model of which nothing is known."""
    factors = {name: factor("vgg16", name, "V100") for name in SEVEN}
    assert min(factors, key=factors.__getitem__) == "resnet50"
    assert factors["resnet50"] < factor("vgg16", "bert", "V100") - 0.1


def test_unknown_names_are_refused():
    for ask in (default_model().pair_factor, default_model().pair_provenance):
        for pair in (("resnet5", "bert"), ("bert", "resnet5")):
            with pytest.raises(PerformanceError, match="did you mean 'resnet50'"):
                ask(*pair, "V100")
        with pytest.raises(PerformanceError, match="GPU type 'B300'"):
            ask("resnet50", "bert", "B300")


def test_the_fit_loads_no_solver():
    code = "import sys; from envs.performance import default_model; default_model().pair_factor('bert', 'bert', 'A100')"
    code += "; assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_table_holds_every_pair_once_as_measured(real_data):
    """Compares all pairs of the seven models, at their usual batch sizes on three types, with the public table."""
    usual = {
        "ResNet-18 (batch size 64)": "resnet18",
        "ResNet-50 (batch size 64)": "resnet50",
        "Transformer (batch size 64)": "transformer",
        "LM (batch size 20)": "lm",
        "Recommendation (batch size 2048)": "recommendation",
        "A3C": "a3c",
        "CycleGAN": "cyclegan",
    }
    pairs = pd.read_csv(real_data("profiles/gavel/simulation_throughputs_colocated.csv.gz"))
    alone = pd.read_csv(real_data("profiles/gavel/simulation_throughputs_isolated.csv"))
    throughput = alone.set_index(["worker_type", "job_type", "scale_factor"])["steps_per_s"]
    pairs = pairs[pairs["worker_type"].isin(["k80", "p100", "v100"]) & (pairs["scale_factor_1"] == 1)]
    pairs = pairs[pairs["job_type_1"].isin(usual) & pairs["job_type_2"].isin(usual)]
    for row in pairs.to_dict("records"):
        key = (usual[row["job_type_1"]], usual[row["job_type_2"]], row["worker_type"].upper())
        assert colocation()[key] == pytest.approx(
            row["steps_per_s_1"] / throughput[row["worker_type"], row["job_type_1"], 1], abs=6e-4
        )
