"""Statistical efficiency by hand, the ranges that are offered, and the measured noise scales."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import (
    EFFICIENCY_SETTINGS,
    BatchSizes,
    IdealModel,
    RubickModel,
    TableModel,
    batch_range,
    efficiency_notes,
    model_profile,
    noise_scales,
    zoo,
)
from envs.performance.gavel_model import GavelModel
from envs.performance.rubick.measured import MeasuredModel
from envs.performance.table_model import local_batches
from envs.simulation import Scenario
from envs.types import Configuration, MurmurationError, PerformanceError

ZOO = TableModel()
models, counts = st.sampled_from(sorted(zoo())), st.integers(1, 64)
gpu_types = st.sampled_from(["V100", "P100", "K80", "T4", "A100", "A800", "H100"])
settings = st.sampled_from(EFFICIENCY_SETTINGS)


def test_efficiency_by_hand():
    """YOLOv3: phi = 511, usual batch 64; at 512, (511 + 64) / (511 + 512). Transformer, assumed: phi = 4096."""
    measured, assumed, every = (BatchSizes(ZOO, setting) for setting in EFFICIENCY_SETTINGS)
    assert measured.efficiency("yolov3", 4, 512) == 575 / 1023
    assert measured.efficiency("yolov3", 4, 8) == 575 / 519
    assert [one.efficiency("yolov3", 4, 64) for one in (measured, assumed, every)] == [1, 1, 1]
    assert [one.efficiency("yolov3", 4, None) for one in (measured, assumed, every)] == [1, 1, 1]
    assert every.efficiency("yolov3", 4, 512) == 1
    assert assumed.efficiency("transformer", 2, 1024) == (4096 + 128) / (4096 + 1024)
    assert measured.efficiency("transformer", 2, 1024) == 1  # and it is not offered
    assert assumed.efficiency("any", 2, 1024) == 1


@given(model=models, setting=settings, gpus=counts, size=st.integers(1, 70_000), more=st.integers(1, 70_000))
def test_useful_throughput_is_at_most_throughput_for_larger_batches(model, setting, gpus, size, more):
    """Efficiency falls with the batch size, but a step at a larger batch size makes no less progress."""
    batches = BatchSizes(ZOO, setting)
    small, large = (batches.efficiency(model, gpus, batch) for batch in (size, size + more))
    assert large <= small
    assert large * (size + more) >= small * size * (1 - 1e-12)
    if size >= model_profile(model).usual_batch(gpus):
        assert small <= 1


@given(model=models, gpu_type=gpu_types, gpus=counts, setting=settings)
def test_offered_batch_sizes_are_within_all_ranges(model, gpu_type, gpus, setting):
    """The range is within those of the model, of the noise scale and of the throughputs; all of it is valid."""
    batches, profile = BatchSizes(ZOO, setting), model_profile(model)
    offered = batches.offered(model, gpu_type, gpus)
    if setting == "every_sample":
        assert offered == batch_range(model)
        return
    if offered is None:
        with pytest.raises(PerformanceError, match="is not offered"):
            batches.check(model, [gpu_type], gpus, profile.usual_batch(gpus) + 1)
    else:
        low, high = offered
        assert profile.min_batch <= low <= high <= profile.max_batch
        noise, local = noise_scales().get(model), local_batches(model, gpu_type)
        assert local is not None
        assert local[0] * gpus <= low <= high <= local[1] * gpus
        if noise is None:
            assert setting == "assumed"
        else:
            assert noise.min_batch <= low <= high <= noise.max_batch
        for end in offered:
            batches.check(model, [gpu_type], gpus, end)
            ZOO.throughput(model, Configuration(gpu_type, gpus, batch_size=end))
        for outside in (low - 1, high + 1):
            if outside != profile.usual_batch(gpus):
                with pytest.raises(PerformanceError, match=f"batch size {outside} is not offered"):
                    batches.check(model, [gpu_type], gpus, outside)
    batches.check(model, [gpu_type], gpus, profile.usual_batch(gpus))


def test_a_jobs_own_range_narrows_what_is_offered():
    batches = BatchSizes(ZOO, "measured")
    assert batches.offered("resnet18", "V100", 2) == (128, 512)
    assert batches.offered("resnet18", "V100", 2, 200, 0) == (200, 512)
    assert batches.offered("resnet18", "V100", 2, 0, 300) == (128, 300)
    assert batches.offered("resnet18", "V100", 2, 16, 64) is None


@pytest.mark.parametrize(
    ("model", "gpu_type", "expected"),
    [
        ("resnet18", "V100", (16, 256)),
        ("resnet18_cifar10", "T4", (64, 1024)),
        ("resnet18", "A100", (16, 256)),  # scaled from V100
        ("resnet50_imagenet", "A100", (40, 200)),
        ("ncf", "T4", (257, 16413)),
        ("mobilenet", "V100", None),
    ],
)
def test_samples_per_gpu_at_which_throughput_was_measured(model, gpu_type, expected):
    assert local_batches(model, gpu_type) == expected
    assert ZOO.measured_batches(model, gpu_type) == expected


def test_other_performance_models():
    """A model that does not say what was measured sets no limit; Rubick's was measured at one batch size."""
    assert BatchSizes(IdealModel(("resnet18",)), "measured").offered("resnet18", "plain", 1) == (128, 4096)
    assert BatchSizes(IdealModel(("any",)), "assumed").offered("any", "plain", 1, 8, 16) is None
    for measured_once in (RubickModel(), GavelModel("throughputs.csv"), MeasuredModel(())):
        assert BatchSizes(measured_once, "assumed").offered("resnet18", "A800", 8) is None
    assert BatchSizes(RubickModel(), "assumed").offered("bert_large", "A800", 8) is None


def test_notes():
    """What is assumed is stated; with measured values there is nothing to state."""
    assert efficiency_notes(["resnet18", "lm"], "measured") == []
    assert efficiency_notes(["resnet18"], "assumed") == []
    (note,) = efficiency_notes(["resnet18", "LM", "lm", "vgg16", "any"], "assumed")
    assert note.endswith("(noise scale 1 times the largest batch size of the model's range): lm, vgg16")
    (note,) = efficiency_notes(["lm"], "every_sample")
    assert note.startswith("every sample counts alike")


def test_an_unknown_setting_is_refused():
    with pytest.raises(MurmurationError, match="statistical_efficiency is 'guessed'; it must be one of measured, assu"):
        Scenario(statistical_efficiency="guessed")  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", ["measured", "assumed", "every_sample"])
def test_a_scenario_can_fix_the_batch_sizes(setting):
    """No batch size is offered, and only the usual one, 128 samples a GPU here, may be named."""
    batches = Scenario(statistical_efficiency=setting, batch_sizes="usual").offered_batches(IdealModel(("resnet18",)))
    usual = model_profile("resnet18").usual_batch(2)
    assert batches.offered("resnet18", "plain", 2) is None
    for size in (None, usual):
        batches.check("resnet18", ["plain"], 2, size)
        assert batches.efficiency("resnet18", 2, size) == 1.0
    with pytest.raises(PerformanceError, match=r"scenario\.batch_sizes=chosen"):
        batches.check("resnet18", ["plain"], 2, usual + 1)


def test_an_unknown_choice_of_batch_sizes_is_refused():
    with pytest.raises(MurmurationError, match="batch_sizes is 'any'; it must be chosen or usual"):
        Scenario(batch_sizes="any")  # type: ignore[arg-type]
