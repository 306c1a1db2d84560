"""Reconfiguration costs by size and bandwidth, and by the published tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import CostBySize, CostByTable, no_cost, rubick_cost, sia_cost
from envs.performance.zoo import model_profile, zoo
from envs.types import PerformanceError

models = st.sampled_from(sorted(zoo()))


def test_by_size_by_hand():
    """LLaMA-7B: 6.738 G parameters x 12 bytes, written and read at 2 GB/s, and a restart of 20 s: 20 + 80.9 s."""
    cost = CostBySize(storage_gb_s=2.0, restart=20.0)
    assert cost.seconds("llama7b") == pytest.approx(20 + 6.738 * 12)
    assert cost.seconds("llama7b", first=True) == 20


@given(models, st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0, 1000))
def test_faster_storage_never_costs_more(name, bandwidth, more, restart):
    slow, fast = CostBySize(bandwidth, restart), CostBySize(bandwidth + more, restart)
    assert restart <= fast.seconds(name) <= slow.seconds(name)
    assert slow.seconds(name, first=True) == fast.seconds(name, first=True) == restart


@given(models, models)
def test_larger_models_cost_more(first, second):
    smaller, larger = sorted((first, second), key=lambda name: model_profile(name).checkpoint_gb)
    assert CostBySize().seconds(smaller) <= CostBySize().seconds(larger)


def test_sias_table():
    cost = sia_cost()
    found = {name: cost.seconds(name) for name in ("deepspeech2", "imagenet", "cifar10", "bert", "yolov3", "gpt2")}
    assert found == {"deepspeech2": 25, "imagenet": 250, "cifar10": 30, "bert": 120, "yolov3": 45, "gpt2": 30}
    assert cost.seconds("imagenet", first=True) == 0


@given(models)
def test_rubick_charges_every_model_and_the_first_start_equally(name):
    assert rubick_cost().seconds(name) == rubick_cost().seconds(name, first=True) == 260


@given(models, st.booleans())
def test_no_cost_is_zero(name, first):
    assert no_cost().seconds(name, first=first) == 0


def test_aliases_find_their_row():
    cost = CostByTable({"resnet50": 7.0}, other=1.0)
    assert (cost.seconds("ResNet-50"), cost.seconds("bert")) == (7, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CostBySize(storage_gb_s=0), "storage_gb_s is 0; it must be positive"),
        (lambda: CostBySize(storage_gb_s=float("nan")), "storage_gb_s is nan"),
        (lambda: CostBySize(restart=-1), "restart is -1 s"),
        (lambda: CostByTable({"bert": -3.0}), "reconfiguration of bert: -3.0 s"),
        (lambda: CostByTable({}, other=float("nan")), "reconfiguration of other: nan s"),
    ],
)
def test_impossible_costs_are_refused(make, message):
    with pytest.raises(PerformanceError, match=message):
        make()


def test_an_unknown_model_is_an_error():
    for cost in (sia_cost(), CostBySize()):
        with pytest.raises(PerformanceError, match="did you mean 'bert'"):
            cost.seconds("brt")
