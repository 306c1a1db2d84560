"""Gavel's file as a performance model, tested on fabricated files."""

import pytest

from envs.performance.gavel_model import GavelModel
from envs.types import Configuration, ExecutionPlan, PerformanceError

HEADER = "worker_type,job_type,scale_factor,steps_per_s\n"
ROWS = (
    "k80,ResNet-18 (batch size 16),1,5\n"
    "k80,ResNet-18 (batch size 16),2,4\n"
    "v100,ResNet-18 (batch size 16),1,30\n"
    "v100,ResNet-18 (batch size 16),2,20\n"
    "v100,ResNet-18 (batch size 16),4,18\n"
    "v100_unconsolidated,ResNet-18 (batch size 16),2,11\n"
    "v100,A3C,1,2.5\n"
    "k80,A3C,1,0\n"
)
RESNET = "ResNet-18 (batch size 16)"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "throughputs.csv"
    file.write_text(HEADER + ROWS)
    return str(file)


def test_samples_are_steps_times_batch_times_gpus(path):
    model = GavelModel(path)
    assert model.throughput(RESNET, Configuration("V100", 1)) == 30 * 16
    assert model.throughput(RESNET, Configuration("V100", 2)) == 20 * 16 * 2
    assert model.throughput(RESNET, Configuration("K80", 2)) == 4 * 16 * 2
    assert model.throughput("A3C", Configuration("V100", 1)) == 2.5
    assert model.models == (RESNET, "A3C")


def test_gpus_beyond_a_measured_number_are_idle(path):
    model = GavelModel(path)
    assert model.throughput(RESNET, Configuration("V100", 3)) == model.throughput(RESNET, Configuration("V100", 2))
    assert model.throughput(RESNET, Configuration("V100", 64, 8)) == model.throughput(RESNET, Configuration("V100", 4))
    assert model.throughput("A3C", Configuration("V100", 8)) == 2.5


def test_more_is_never_slower(path):
    """One K80 has 80 samples/s and two have 128; where two are slower than one, the second idles."""
    model = GavelModel(path)
    for gpu_type in ("V100", "K80"):
        throughputs = [model.throughput(RESNET, Configuration(gpu_type, gpus)) for gpus in range(1, 9)]
        assert throughputs == sorted(throughputs)


def test_spread_throughputs_are_used_only_on_request(path):
    assert GavelModel(path).throughput(RESNET, Configuration("V100", 2, 2)) == 20 * 32
    assert GavelModel(path, spread=True).throughput(RESNET, Configuration("V100", 2, 2)) == 11 * 32
    assert GavelModel(path, spread=True).throughput(RESNET, Configuration("V100", 2, 1)) == 20 * 32


def test_throughput_is_zero_where_a_job_type_does_not_run(path):
    model = GavelModel(path)
    assert model.throughput("A3C", Configuration("K80", 1)) == 0.0
    assert model.provenance("A3C", "K80") == "infeasible"
    assert model.provenance("A3C", "V100") == "measured"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (("VGG", "V100", 1), "model 'VGG' is not in Gavel's file; it has 2 job types on K80, V100"),
        ((RESNET, "A100", 1), "GPU type 'A100' is not in Gavel's file; it has K80, V100"),
        ((RESNET, "V100", 1, 2), "1 GPUs on 2 nodes"),
    ],
)
def test_unknown_models_types_and_placements_are_refused(path, question, said):
    model, *resources = question
    with pytest.raises(PerformanceError, match=said):
        GavelModel(path).throughput(model, Configuration(*resources))


def test_batch_and_plan_were_not_measured(path):
    model = GavelModel(path)
    assert model.throughput(RESNET, Configuration("V100", 2, plan=ExecutionPlan(data=2))) == 20 * 32
    with pytest.raises(PerformanceError, match="leave batch_size and plan unset"):
        model.throughput(RESNET, Configuration("V100", 1, batch_size=32))
    with pytest.raises(PerformanceError, match="leave batch_size and plan unset"):
        model.throughput(RESNET, Configuration("V100", 2, plan=ExecutionPlan(tensor=2)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker_type,job_type,scale_factor\n", "has no column steps_per_s"),
        (HEADER + "k80,A3C,one,5\n", "row 2: scale_factor one"),
        (HEADER + ROWS + "k80,A3C,1,nan\n", "row 10: scale_factor 1 and steps_per_s nan"),
        (HEADER + "k80,A3C,1,-1\n", "row 2"),
        (HEADER + "k80,A3C,0,1\n", "row 2"),
        (HEADER + "k80,A3C\n", "row 2"),
    ],
)
def test_errors_name_the_broken_row(tmp_path, text, said):
    file = tmp_path / "throughputs.csv"
    file.write_text(text)
    with pytest.raises(PerformanceError, match=said) as error:
        GavelModel(str(file)).throughput("A3C", Configuration("K80", 1))
    assert "\n" not in str(error.value)


def test_the_error_of_a_missing_file_explains_how_to_set_it(monkeypatch, tmp_path):
    monkeypatch.delenv("MURMURATION_DATA", raising=False)
    with pytest.raises(PerformanceError, match=r"set performance\.path=<file>, or \$MURMURATION_DATA"):
        _ = GavelModel().models
    with pytest.raises(PerformanceError, match="does not exist"):
        _ = GavelModel(str(tmp_path / "nothing.csv")).models
    monkeypatch.setenv("MURMURATION_DATA", str(tmp_path))
    with pytest.raises(PerformanceError, match="simulation_throughputs_isolated.csv does not exist"):
        _ = GavelModel().models


def test_the_published_file(real_data):
    """All 26 job types run on one V100, and on two V100 they are at least as fast."""
    model = GavelModel(str(real_data("profiles/gavel/simulation_throughputs_isolated.csv")))
    assert len(model.models) == 26
    for name in model.models:
        assert model.throughput(name, Configuration("V100", 1)) > 0
        assert model.throughput(name, Configuration("V100", 2)) >= model.throughput(name, Configuration("V100", 1))
