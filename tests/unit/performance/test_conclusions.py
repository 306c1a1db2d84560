"""Rankings of schedulers under measured throughputs, and under a model that has not seen them."""

import math
from functools import partial

import numpy as np
import pytest

from envs.performance import TableModel, model_profile
from envs.performance.scaling import surface, types_without
from envs.types import Configuration
from experiments.performance import conclusions
from experiments.performance.conclusions import (
    SCHEDULERS,
    HeldOutTable,
    OtherCurves,
    compare_ranks,
    find_reversed,
    fit_rows,
    list_tables,
    validate_conclusions,
    with_batch,
)
from experiments.performance.held_out import play_rows, read_held_out


def test_a_source_or_a_type_is_left_out_as_a_whole():
    """The zoo's ResNet-50 on ImageNet: Pollux measured T4, Sia V100 and A100."""
    assert types_without("resnet50_imagenet") == ["A100", "T4", "V100"]
    assert types_without("resnet50_imagenet", "sia") == ["T4"]
    assert types_without("resnet50_imagenet", "pollux") == ["A100", "V100"]
    assert types_without("resnet50_imagenet", "V100") == ["A100", "T4"]


@pytest.mark.parametrize(("held", "gpu_type"), [("sia", "A100"), ("pollux", "T4")])
def test_what_is_left_out_is_modelled_and_the_rest_is_as_it_was(held, gpu_type):
    model, default = OtherCurves(surface_of=partial(surface, without=held)), TableModel()
    for name in ("T4", "A100"):
        where = Configuration(name, 4, 1)
        same = model.throughput("yolov3", where) == default.throughput("yolov3", where)
        assert same == (name != gpu_type)


def test_every_table_is_modelled_without_being_measured():
    """In every table, some throughput of its cluster differs between the sides, and all are defined."""
    for table in list_tables():
        modelled, measured = table.sides().values()
        differs = False
        for name in table.models:
            for gpu_type in table.gpu_types:
                where = Configuration(gpu_type, 8, 8 // table.gpus_per_node)
                both = modelled.throughput(name, where), measured.throughput(name, where)
                assert min(both) > 0
                differs |= not math.isclose(*both, rel_tol=0.05)
        assert differs, table.title


def test_curves_of_held_out_rows_pass_through_them():
    """ElasticFlow measured VGG-16 on A100 with 256 samples a step."""
    rows = play_rows(read_held_out())
    rows = rows[rows["source"] == "ElasticFlow"]
    model = OtherCurves(8, fit_rows(rows), (with_batch("vgg16", "strong", 256),))
    vgg = rows[(rows["zoo_model"] == "vgg16") & (rows["note"] == "global batch 256")]
    assert len(vgg) == 7
    for gpus, nodes, measured in zip(vgg["num_gpus"], vgg["num_nodes"], vgg["measured"], strict=True):
        assert model.throughput("vgg16", Configuration("A100", gpus, nodes)) == pytest.approx(measured, rel=1e-6)
    assert with_batch("vgg16", "strong", 256).min_gpus == model_profile("vgg16").min_gpus


def test_ranks_worked_by_hand():
    """Modelled 1, 2, 4, 3 and measured 1, 3, 2, 4, alike in all episodes: d = 0, 1, 2, 1; 2 of 6 pairs are reversed.

    Spearman: 1 - 6 x 6 / (4 x 15) = 0.4. Kendall: (4 - 2) / 6.
    """
    modelled = np.array([[1.0], [2.0], [4.0], [3.0]]) * np.array([1.0, 2.0, 3.0])
    measured = np.array([[1.0], [3.0], [2.0], [4.0]]) * np.array([1.0, 2.0, 3.0])
    assert compare_ranks(modelled, measured) == {
        "Spearman": pytest.approx(0.4),
        "low": pytest.approx(0.4),
        "high": pytest.approx(0.4),
        "Kendall": pytest.approx(1 / 3),
        "repeated": pytest.approx(1.0),
        "pairs": 6,
        "reversed": 2,
        "clearly": 2,
    }
    assert find_reversed(modelled, measured) == [
        (2, 1, 4 / 2, 2 / 3, True),
        (2, 3, 4 / 3, 2 / 4, True),
    ]


def test_a_reversal_within_the_intervals_is_not_clear():
    """Measured, the first is faster in one episode of two and slower in the other: 10 + 1 against 1 + 11."""
    modelled = np.array([[2.0, 2.0], [1.0, 1.0]])
    measured = np.array([[10.0, 1.0], [1.0, 11.0]])
    assert find_reversed(modelled, measured) == [(0, 1, 2.0, 11 / 12, False)]
    assert compare_ranks(modelled, measured)["clearly"] == 0


def test_equal_sides_rank_alike(monkeypatch):
    monkeypatch.setattr(
        conclusions, "SCHEDULERS", {name: SCHEDULERS[name] for name in ("fifo", "srtf", "optimus", "afs")}
    )
    table = HeldOutTable("same", ("V100", "P100"), 4, ("resnet18", "transformer"), surface)
    rows, report = validate_conclusions(episodes=2, tables=[table])
    assert len(rows) == 2 * 4 * 2
    assert (rows["mean_jct"] > 0).all()
    relative, ranks, swaps = (frame for _, frame in report.tables)
    assert relative["same, modelled"].tolist() == relative["same, measured"].tolist()
    assert relative["same, modelled"][0] == 1.0
    assert ranks["Spearman"].tolist() == [pytest.approx(1.0)]
    assert swaps.empty
