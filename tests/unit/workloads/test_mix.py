"""Job mixes: which ones are accepted, and how models are drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.cluster import build_cluster
from envs.performance import IdealModel, default_model
from envs.types import TraceError
from envs.workloads import DEFAULT_MIX, JobMix
from envs.workloads.mix import ModelThroughputs, draw_models, known_as, mix_for


def test_weights_are_equal_if_none_are_given():
    assert JobMix(["a", "b"]) == JobMix(("a", "b"), (1.0, 1.0))


@pytest.mark.parametrize(
    ("models", "weights"),
    [
        ((), ()),
        (("a", "a"), ()),
        (("a", "b"), (1.0,)),
        (("a", "b"), (0.0, 0.0)),
        (("a",), (-1.0,)),
        (("a",), (float("nan"),)),
    ],
)
def test_impossible_mixes_are_refused(models, weights):
    with pytest.raises(TraceError, match="job mix"):
        JobMix(models, weights)


def test_the_default_mix_needs_figures_for_all_its_models():
    assert mix_for(IdealModel(models=(*DEFAULT_MIX.models, "x"))) == DEFAULT_MIX
    assert mix_for(IdealModel(models=("x", "y"))) == JobMix(("x", "y"))
    assert set(DEFAULT_MIX.models) <= set(default_model().models)


def test_a_mix_with_an_unknown_model_is_an_error(ideal):
    assert mix_for(ideal, JobMix(("b",))) == JobMix(("b",))
    with pytest.raises(TraceError, match="job mix: model 'c' has no throughput figures; known: a, b"):
        mix_for(ideal, JobMix(("a", "c")))


def test_the_source_decides_what_a_traces_model_names_mean():
    zoo = default_model()
    assert known_as("llama7", "rubick", zoo) == "llama7b"
    assert known_as("shufflenet_v2_x1_0", "muri", zoo) == "shufflenet"
    assert known_as("vgg16", "muri", zoo) == "vgg16"
    # Rubick's BERT has 336 M parameters, the zoo's plain BERT 110 M.
    assert known_as("bert", "rubick", zoo) == "bert_large"
    assert known_as("bert", "muri", zoo) == "bert"
    assert known_as("eliza", "muri", zoo) is None


def test_a_performance_model_that_knows_only_the_plain_name_gets_the_plain_name():
    assert known_as("bert", "rubick", IdealModel(models=("bert",))) == "bert"
    assert known_as("mine", "", IdealModel(models=("mine",))) == "mine"


def test_shares_follow_the_weights():
    rng = np.random.default_rng(0)
    drawn = draw_models(rng, np.full(20_000, 2), JobMix(("a", "b", "c"), (1, 0, 3)), lambda model, n: True)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / len(drawn), [0.25, 0.0, 0.75], atol=0.01)


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=50), seed=st.integers(0, 2**32 - 1))
def test_only_models_that_run_are_drawn(sizes, seed):
    def runs(model, n):
        return n <= {"small": 1, "mid": 2, "large": 4}[model]

    mix = JobMix(("small", "mid", "large"))
    drawn = draw_models(np.random.default_rng(seed), np.array(sizes), mix, runs)
    assert all(runs(mix.models[model], size) for model, size in zip(drawn, sizes, strict=True))


@pytest.mark.parametrize("sizes", [((1, 2),), ((0, 2), (1, 1)), ((3, 2), (1, 1))])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(TraceError, match="job mix: .*least and most GPUs"):
        JobMix(("a", "b"), sizes=sizes)


def test_models_are_of_jobs_of_their_sizes():
    mix = JobMix(("small", "large"), (3, 1), ((1, 2), (2, 8)))
    assert [mix.suits(size).tolist() for size in (1, 2, 8, 9)] == [[1, 0], [1, 1], [0, 1], [0, 0]]
    sizes = np.repeat([1, 2, 8], 4000)
    drawn = draw_models(np.random.default_rng(0), sizes, mix, lambda model, n: True)
    assert [drawn[sizes == size].mean() for size in (1, 2, 8)] == [0, pytest.approx(0.25, abs=0.03), 1]


def test_a_size_on_which_no_model_runs_is_an_error():
    with pytest.raises(TraceError, match=r"none of a runs on 8 GPUs here; .*workload\.max_gpus=7"):
        draw_models(np.random.default_rng(0), np.array([1, 8]), JobMix(("a",)), lambda model, n: n < 8)


def test_one_seed_gives_one_draw():
    draws = [
        draw_models(np.random.default_rng(9), np.arange(1, 50), JobMix(("a", "b")), lambda m, n: True) for _ in "12"
    ]
    assert draws[0].tolist() == draws[1].tolist()


class Counting(IdealModel):
    asked = 0

    def throughput(self, model, configuration):
        type(self).asked += 1
        return super().throughput(model, configuration)


def test_throughputs_are_computed_once_on_the_fewest_nodes():
    throughputs = ModelThroughputs(Counting(models=("a",)))
    before = Counting.asked
    assert [throughputs.of("a", "V100", 8, 4) for _ in range(3)] == [8.0] * 3
    assert Counting.asked == before + 1


def test_capacity_adds_up_all_gpu_types(ideal):
    cluster = build_cluster(
        "mixed",
        [{"gpu_type": "V100", "num_nodes": 1, "num_gpus": 4}, {"gpu_type": "K80", "num_nodes": 3, "num_gpus": 2}],
    )
    throughputs = ModelThroughputs(ideal)
    assert throughputs.capacity("a", 2, cluster) == 10.0
    assert throughputs.runs("a", 6, cluster)
    assert not throughputs.runs("a", 7, cluster)
