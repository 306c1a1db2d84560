"""Curves drawn around measured ones."""

import numpy as np
import pytest

from envs.performance import DrawnModel, default_model, model_profile, name_of_draw, without_draw, zoo
from envs.performance.zoo import number_of_draw
from envs.types import Configuration, PerformanceError

TYPES = ("V100", "P100", "K80")


def test_names():
    name = name_of_draw("resnet50", 17)
    assert (name, without_draw(name), number_of_draw(name)) == ("resnet50~17", "resnet50", 17)
    assert (without_draw("resnet50"), number_of_draw("resnet50")) == ("resnet50", None)
    assert model_profile(name) is model_profile("resnet50")
    with pytest.raises(PerformanceError, match="'x' is no number of a draw; use a whole number from 0"):
        DrawnModel().throughput("resnet50~x", Configuration("V100", 1))
    with pytest.raises(PerformanceError, match="resnet51"):
        DrawnModel().throughput("resnet51~1", Configuration("V100", 1))


@pytest.mark.parametrize("model", ["resnet50", "bert"])
def test_without_a_draw_it_is_the_measured_model(model):
    for name in TYPES:
        here = Configuration(name, 4)
        assert DrawnModel().throughput(model, here) == default_model().throughput(model, here)


def test_a_draw_is_the_same_in_every_object_and_differs_from_others():
    here = Configuration("P100", 4)
    one, again = DrawnModel(), DrawnModel()
    first, second = (one.throughput(name_of_draw("bert", draw), here) for draw in (1, 2))
    assert first == again.throughput("bert~1", here) != second


def test_more_nodes_never_raise_a_drawn_throughput():
    performance = DrawnModel(scaling_spread=0.5, nodes_spread=0.5)
    for draw in range(20):
        curve = performance.curve(name_of_draw("vgg16", draw), "V100", 16)
        assert (np.diff(curve[16, 1:17]) <= 1e-9).all()


def test_the_curve_holds_the_throughputs():
    performance = DrawnModel()
    curve = performance.curve("bert~5", "K80", 8)
    for gpus in range(1, 9):
        for nodes in range(1, gpus + 1):
            assert curve[gpus, nodes] == performance.throughput("bert~5", Configuration("K80", gpus, nodes))


def test_the_spreads_are_those_of_the_draws():
    """The logarithms on one GPU differ from the measured one by the spread of a type, 0.2."""
    performance, here = DrawnModel(scaling_spread=0.0, nodes_spread=0.0), Configuration("V100", 1)
    measured = performance.throughput("m5", here)
    changes = [np.log(performance.throughput(name_of_draw("m5", draw), here) / measured) for draw in range(400)]
    assert np.std(changes) == pytest.approx(0.2, rel=0.15)
    assert abs(np.mean(changes)) < 0.04


def test_the_default_spreads_are_half_of_those_between_models():
    """The figures of the docstring, from the models of the zoo that run on one GPU of each type."""
    measured = default_model()

    def on(model, name, gpus, nodes=1):
        return measured.throughput(model, Configuration(name, gpus, nodes))

    models = [model for model in measured.models if all(on(model, name, 1) > 0 for name in TYPES)]

    def spread(of):
        return np.std(np.log([of(model) for model in models]), ddof=1)

    by_type = [spread(lambda model, name=name: on(model, name, 1) / on(model, "V100", 1)) for name in TYPES[1:]]
    scaling = spread(lambda model: on(model, "V100", 8) / on(model, "V100", 1)) / 3
    nodes = spread(lambda model: on(model, "V100", 8, 2) / on(model, "V100", 8))
    assert [round(float(each), 2) for each in (*by_type, scaling, nodes)] == [0.24, 0.53, 0.21, 0.54]
    default = DrawnModel()
    assert default.type_spread == pytest.approx(np.mean(by_type) / 2, abs=0.01)
    assert default.scaling_spread == pytest.approx(scaling / 2, abs=0.01)
    assert default.nodes_spread == pytest.approx(nodes / 2, abs=0.01)


def test_provenance_says_that_a_throughput_is_drawn():
    performance = DrawnModel()
    assert performance.provenance("resnet50~3", "V100") == "drawn"
    assert performance.provenance("resnet50", "V100") == "measured"
    assert performance.models == tuple(zoo())


def test_a_wrong_spread_is_refused():
    with pytest.raises(PerformanceError, match="performance.nodes_spread is 2.0; it must be from 0 to 1"):
        DrawnModel(nodes_spread=2.0)
