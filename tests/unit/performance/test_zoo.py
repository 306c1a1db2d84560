"""The model zoo: rows are plausible, names resolve to models, and mistakes raise one-line errors."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.gpus import find_gpu_type, gpu_types
from envs.performance.measurements import TESTBEDS, measured_points, measured_types, parse_measured_points
from envs.performance.zoo import ALIASES, SOURCE_ALIASES, batch_range, model_profile, zoo, zoo_name
from envs.types import PerformanceError

NAMED_BY_OTHERS = {
    "gavel": ("ResNet-18", "ResNet-50", "Transformer", "LM", "Recommendation", "A3C", "CycleGAN"),
    "elasticflow": ("bert", "gpt2", "vgg16", "inception3", "deepspeech2", "resnet50", "cifar10", "imagenet", "ncf"),
    "rubick": ("vit", "roberta", "bert", "t5", "gpt2", "llama7", "llama30", "llama7b", "llama30b"),
    "muri": ("shufflenet_v2_x1_0", "a2c", "dqn", "vgg16", "vgg19", "bert", "gpt2", "resnet18"),
    "synergy": ("alexnet", "res18", "res50", "mobilenet", "shufflenet", "m5", "deepspeech", "gnmt", "lstm", "vae"),
}

models = st.sampled_from(sorted(zoo()))


@pytest.mark.parametrize(
    ("source", "name"), [(source, name) for source, all_ in NAMED_BY_OTHERS.items() for name in all_]
)
def test_names_used_by_sources_resolve_to_a_model(source, name):
    assert zoo_name(name) in zoo()
    assert zoo_name(name, source) in zoo()


def test_aliases_resolve_to_models_and_shadow_none():
    assert set(ALIASES.values()) <= set(zoo())
    assert not set(ALIASES) & set(zoo())


def test_a_name_can_mean_different_models_to_different_sources():
    assert zoo_name("bert") == "bert"
    assert zoo_name("bert", "rubick") == "bert_large"
    assert zoo_name("gpt2", "rubick") == "gpt2_xl"
    assert zoo_name("bert", "some other trace") == "bert"
    assert {own for names in SOURCE_ALIASES.values() for own in names.values()} <= set(zoo())


@given(models)
def test_a_profile_makes_sense(name):
    profile = model_profile(name)
    assert 1 <= profile.min_batch <= profile.max_batch
    assert profile.min_batch <= profile.usual_batch(1) <= profile.max_batch
    assert profile.optimizer in ("sgd", "adam")
    assert profile.plans in ("dp", "sharded")
    assert profile.scaling in ("weak", "strong")
    assert profile.domain in ("image", "language", "speech", "recommendation", "reinforcement")
    assert 0 < profile.gpu_share <= 1
    assert profile.params_millions > 0
    assert profile.source


@given(models, st.integers(1, 512))
def test_usual_batch_grows_with_gpus_only_under_weak_scaling(name, gpus):
    profile = model_profile(name)
    usual = profile.usual_batch(gpus)
    assert profile.min_batch <= usual <= profile.max_batch
    if profile.scaling == "strong":
        assert usual == profile.usual_batch(1)
    elif profile.min_batch <= profile.batch * gpus <= profile.max_batch:
        assert usual == profile.batch * gpus


def test_checkpoint_sizes_by_hand():
    """Adam keeps 4 + 8 bytes per parameter, momentum 4 + 4; training adds 4 of gradient."""
    assert model_profile("llama7b").checkpoint_gb == pytest.approx(6.738 * 12)
    assert model_profile("resnet50").checkpoint_gb == pytest.approx(0.0256 * 8)
    assert model_profile("llama7b").state_gb == pytest.approx(6.738 * 16)
    assert model_profile("resnet50").gradient_gb == pytest.approx(0.0256 * 4)


@pytest.mark.parametrize("batch", [-1, 0, 15, 6401])
def test_a_batch_out_of_range_is_refused(batch):
    with pytest.raises(PerformanceError, match=rf"^model resnet50: batch_size {batch} is out of range; use 16 to 6400"):
        model_profile("resnet50").check_batch(batch)


@pytest.mark.parametrize(
    ("typed", "meant"), [("resnet5", "resnet50"), ("Llama7B", "llama7b"), ("shuflenet", "shufflenet")]
)
def test_an_unknown_model_suggests_a_similar_name(typed, meant):
    with pytest.raises(
        PerformanceError, match=rf"model '{typed}' has no figures; known: .*; did you mean '{meant}'\?$"
    ):
        model_profile(typed)


def test_a_name_without_similar_names_gets_no_suggestion():
    with pytest.raises(PerformanceError) as error:
        model_profile("zzzzzz")
    assert "did you mean" not in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_gpu_type_suggests_a_similar_name():
    with pytest.raises(PerformanceError, match=r"GPU type 'V10O' has no figures; .* did you mean 'V100'\?"):
        find_gpu_type("V10O")


def test_every_model_was_measured_somewhere_and_every_measurement_is_of_a_model():
    assert {name for name, _ in measured_points()} == set(zoo())
    assert all(measured_types(name) for name in zoo())
    assert {gpu_type for _, gpu_type in measured_points()} <= set(gpu_types())
    assert {point.source for points in measured_points().values() for point in points} == set(TESTBEDS)


def test_the_points_of_a_model_are_of_one_program():
    """Sia's artifact has Pollux's applications on further GPU types, and llm-foundry has two testbeds."""
    for name in zoo():
        sources = {point.source for gpu_type in measured_types(name) for point in measured_points()[name, gpu_type]}
        assert len(sources) == 1 or sources in ({"pollux", "sia"}, {"llm_foundry", "llm_foundry_h100"}), name


def test_measurements_are_possible_placements_within_the_batch_range():
    for (name, _), points in measured_points().items():
        profile = model_profile(name)
        for point in points:
            assert 1 <= point.num_nodes <= point.num_gpus
            assert point.num_gpus <= TESTBEDS[point.source].gpus_per_node * point.num_nodes
            assert point.source in ("pollux", "sia") or profile.min_batch <= point.batch_size <= profile.max_batch, (
                point
            )
            assert point.seconds == pytest.approx(point.batch_size / point.samples_per_s)


def test_each_model_has_at_most_sixty_figures():
    counts = {name: sum(len(p) for (model, _), p in measured_points().items() if model == name) for name in zoo()}
    assert max(counts.values()) <= 60
    assert math.fsum(counts.values()) < 700


HEADER = "model,gpu_type,num_gpus,num_nodes,batch_size,samples_per_s,source\n"


@pytest.mark.parametrize("throughput", ["nan", "0", "-3", "inf"])
def test_an_invalid_throughput_is_refused_with_its_row(throughput):
    text = HEADER + "bert,A100,1,1,64,100,elasticflow\n" + f"bert,A100,2,1,64,{throughput},elasticflow\n"
    with pytest.raises(PerformanceError, match=rf"^mine.csv: row 3: samples_per_s is {throughput}; .* remove the row$"):
        parse_measured_points(text, "mine.csv")


def test_a_table_reads_as_written():
    found = parse_measured_points(HEADER + "bert,A100,2,1,64,128,elasticflow\nbert,T4,1,1,64,8,pollux\n")
    assert list(found) == [("bert", "A100"), ("bert", "T4")]
    assert found["bert", "A100"][0].seconds == 0.5


@pytest.mark.parametrize(
    ("model", "own", "range_"),
    [
        ("resnet18", (0, 0), (16, 4096)),
        ("resnet18", (32, 0), (32, 4096)),
        ("resnet18", (1, 64), (16, 64)),
        ("resnet18", (64, 9999), (64, 4096)),
        ("resnet18", (5000, 0), None),
        ("unknown model", (0, 0), None),
        ("unknown model", (8, 32), (8, 32)),
    ],
)
def test_a_jobs_batch_range_is_within_its_models(model, own, range_):
    assert batch_range(model, *own) == range_
