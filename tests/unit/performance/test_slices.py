"""Parts of a GPU: slices, and jobs that ask for less than a GPU."""

import math

import pytest

from envs.performance import TableModel, default_model, find_pair_factor, find_throughput, zoo
from envs.performance.colocation import colocation
from envs.performance.drawn import DrawnModel
from envs.performance.gpus import MIG_PROFILES, find_gpu_type, find_parts, gpu_types
from envs.performance.planned import planned_models
from envs.performance.slices import FRACTIONS, part_factor
from envs.performance.zoo import fraction_of, name_of_draw, name_of_fraction, zoo_name
from envs.types import Configuration, ExecutionPlan, PerformanceError

NAMES = [f"{name}/{parts}" for name in ("V100", "A100", "K80") for parts in (2, 3, 4, 7)]


def throughput(model, gpu_type, gpus=1, **options):
    return find_throughput(default_model(), model, Configuration(gpu_type, gpus, **options))


def test_mig_gives_a_half_three_of_seven_units_and_other_types_divide_evenly():
    half, even = find_gpu_type("A100/2"), find_gpu_type("V100/2")
    whole = gpu_types()
    assert (half.fp32_tflops, half.memory_gb) == (whole["A100"].fp32_tflops * (3 / 7), 40.0)
    assert (even.fp32_tflops, even.memory_gb, even.bandwidth_gb_s) == (15.7 / 2, 8.0, 450.0)
    assert find_gpu_type("H100/7").memory_gb == 10.0
    assert all(parts * compute <= 1.0 for parts, (compute, _) in MIG_PROFILES.items())


def test_half_a_gpu_does_what_each_of_two_equal_jobs_keeps():
    """Gavel measured resnet50 beside itself on V100, and transformer."""
    for model in ("resnet50", "transformer"):
        kept = colocation()[model, model, "V100"]
        assert throughput(model, "V100/2") == pytest.approx(max(kept, 0.5) * throughput(model, "V100"))
        assert throughput(model, "V100/4") == pytest.approx(max(kept**2, 0.25) * throughput(model, "V100"))


def test_memory_decides_what_runs_on_a_slice():
    """A quarter of a V100 has 4 GB; the states and a micro-batch of bert need more, those of resnet18 do not."""
    assert throughput("bert", "V100/2") > 0.0
    assert throughput("bert", "V100/4") == 0.0
    assert throughput("resnet18", "V100/4") > 0.0
    model = default_model()
    assert model.provenance("bert", "V100/4") == "infeasible"
    assert model.provenance("bert", "V100/2") == "modelled"


@pytest.mark.parametrize("name", NAMES)
def test_a_slice_does_at_least_its_share_and_at_most_the_whole(name):
    parts = find_parts(name)
    for model in zoo():
        part, whole = throughput(model, name), throughput(model, parts.gpu_type)
        assert part == 0.0 or parts.compute * whole * (1 - 1e-9) <= part <= whole, model
        assert throughput(model, name, 4) == throughput(model, name), "a job runs on one slice"


def test_plans_of_one_gpu_run_on_slices_and_others_do_not():
    one = {name: throughput(name, "A800/2", plan=ExecutionPlan(data=1)) for name in planned_models()}
    assert any(one.values())
    for name, found in one.items():
        assert found <= throughput(name, "A800", plan=ExecutionPlan(data=1))
        assert throughput(name, "A800/2", 2, plan=ExecutionPlan(data=2)) == 0.0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("A100/5", "A100 can be divided into 2, 3, 4, 7 parts; write A100/2"),
        ("V100/1", "V100 can be divided into 2, 3, 4, 5, 6, 7, 8 parts"),
        ("V100/02", "can be divided"),
        ("V100/", "can be divided"),
        ("B300/2", "has no figures"),
    ],
)
def test_a_division_that_there_is_not_is_refused(name, text):
    with pytest.raises(PerformanceError, match=text):
        throughput("resnet50", name)


def test_a_fraction_gets_what_it_asks_for_on_a_whole_gpu_and_on_a_slice():
    asked = name_of_fraction("resnet50", 0.25)
    assert (asked, fraction_of(asked), zoo_name(asked)) == ("resnet50@0.25", 0.25, "resnet50")
    quarter = part_factor("resnet50", "V100", 0.25) * throughput("resnet50", "V100")
    for gpu_type in ("V100", "V100/2", "V100/4"):
        assert throughput(asked, gpu_type) == pytest.approx(quarter)
    # A quarter of an A100 by MIG has the memory and a seventh of the units; an eighth of a V100 has neither.
    seventh = part_factor("resnet50", "A100", 1 / 7) * throughput("resnet50", "A100")
    assert throughput(asked, "A100/4") == pytest.approx(seventh)
    assert throughput(asked, "V100/8") == 0.0
    assert default_model().provenance(asked, "V100/8") == "infeasible"


def test_fractions_that_fit_together_keep_all_and_others_do_not_meet():
    def kept(model, other, gpu_type="V100"):
        return find_pair_factor(default_model(), model, other, gpu_type)

    assert kept("resnet50@0.5", "bert@0.5") == kept("bert@0.25", "lm@0.75") == 1.0
    assert kept("resnet50@0.5", "bert@0.75") == kept("resnet50@0.5", "lm") == kept("lm", "resnet50@0.5") == 0.0
    assert kept("lm", "a3c", "V100/2") == kept("lm@0.25", "lm@0.25", "V100/2") == 0.0, "a slice takes one job"
    assert default_model().pair_provenance("resnet50@0.5", "bert@0.5", "V100") == "modelled"
    assert default_model().pair_provenance("resnet50@0.5", "bert", "V100") == "infeasible"


@pytest.mark.parametrize("name", ["lm@2", "lm@0", "lm@", "lm@half", "lm@nan"])
def test_no_fraction_is_refused(name):
    with pytest.raises(PerformanceError, match="no fraction of a GPU"):
        throughput(name, "V100")


def test_a_draw_of_a_fraction_is_drawn_as_the_model_is():
    drawn = DrawnModel()
    asked = name_of_draw(name_of_fraction("resnet50", 0.5), 3)
    whole = name_of_draw("resnet50", 3)
    assert fraction_of(asked) == 0.5
    for gpu_type in ("V100", "V100/2"):
        part = find_throughput(drawn, asked, Configuration(gpu_type, 1))
        assert part == pytest.approx(
            part_factor("resnet50", "V100", 0.5) * find_throughput(drawn, whole, Configuration("V100", 1))
        )


def test_a_part_needs_as_much_less_of_the_cores_as_it_does():
    model, half = default_model(), part_factor("resnet50", "V100", 0.5)
    assert model.cpu_scale("resnet50", "V100") == 1.0
    assert model.cpu_scale("resnet50@0.5", "V100") == model.cpu_scale("resnet50", "V100/2") == pytest.approx(half)


def test_fractions_are_steps_in_order():
    assert list(FRACTIONS) == sorted(FRACTIONS)
    assert all(0.0 < fraction < 1.0 for fraction in FRACTIONS)
    assert TableModel.knows_fractions
    assert math.isclose(part_factor("resnet50", "V100", 1.0), 1.0)
