"""Gavel's file as a performance model, on files written here."""

import pytest

from envs.performance.gavel_model import GavelModel
from envs.types import ExecutionPlan, PerformanceError

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
    file = tmp_path / "speeds.csv"
    file.write_text(HEADER + ROWS)
    return str(file)


def test_samples_are_steps_times_batch_times_gpus(path):
    model = GavelModel(path)
    assert model.throughput(RESNET, "V100", 1) == 30 * 16
    assert model.throughput(RESNET, "V100", 2) == 20 * 16 * 2
    assert model.throughput(RESNET, "K80", 2) == 4 * 16 * 2
    assert model.throughput("A3C", "V100", 1) == 2.5
    assert model.models == (RESNET, "A3C")


def test_what_was_not_measured_leaves_gpus_idle(path):
    model = GavelModel(path)
    assert model.throughput(RESNET, "V100", 3) == model.throughput(RESNET, "V100", 2)
    assert model.throughput(RESNET, "V100", 64, 8) == model.throughput(RESNET, "V100", 4)
    assert model.throughput("A3C", "V100", 8) == 2.5


def test_more_is_never_slower(path):
    """Measured, 2 GPUs of a K80 give 128 samples/s and 1 gives 80; where it is the other way round, one idles."""
    model = GavelModel(path)
    for kind in ("V100", "K80"):
        speeds = [model.throughput(RESNET, kind, gpus) for gpus in range(1, 9)]
        assert speeds == sorted(speeds)


def test_spread_jobs_are_consolidated_unless_told_otherwise(path):
    assert GavelModel(path).throughput(RESNET, "V100", 2, 2) == 20 * 32
    assert GavelModel(path, spread=True).throughput(RESNET, "V100", 2, 2) == 11 * 32
    assert GavelModel(path, spread=True).throughput(RESNET, "V100", 2, 1) == 20 * 32


def test_where_it_does_not_run_the_speed_is_nothing(path):
    model = GavelModel(path)
    assert model.throughput("A3C", "K80", 1) == 0.0
    assert model.provenance("A3C", "K80") == "infeasible"
    assert model.provenance("A3C", "V100") == "measured"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (("VGG", "V100", 1), "model 'VGG' is unknown to Gavel's file; it has 2 job types on K80, V100"),
        ((RESNET, "A100", 1), "GPU type 'A100' is unknown to Gavel's file; it has K80, V100"),
        ((RESNET, "V100", 1, 2), "1 GPUs on 2 nodes"),
    ],
)
def test_unknown_questions(path, question, said):
    with pytest.raises(PerformanceError, match=said):
        GavelModel(path).throughput(*question)


def test_batch_and_plan_were_not_measured(path):
    model = GavelModel(path)
    assert model.throughput(RESNET, "V100", 2, plan=ExecutionPlan(data=2)) == 20 * 32
    with pytest.raises(PerformanceError, match="leave batch_size and plan open"):
        model.throughput(RESNET, "V100", 1, batch_size=32)
    with pytest.raises(PerformanceError, match="leave batch_size and plan open"):
        model.throughput(RESNET, "V100", 2, plan=ExecutionPlan(tensor=2))


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
def test_a_file_that_is_none_says_where(tmp_path, text, said):
    file = tmp_path / "speeds.csv"
    file.write_text(text)
    with pytest.raises(PerformanceError, match=said) as error:
        GavelModel(str(file)).throughput("A3C", "K80", 1)
    assert "\n" not in str(error.value)


def test_a_missing_file_says_how_to_name_it(monkeypatch, tmp_path):
    monkeypatch.delenv("MURMURATION_DATA", raising=False)
    with pytest.raises(PerformanceError, match=r"set performance\.path=<file>, or \$MURMURATION_DATA"):
        _ = GavelModel().models
    with pytest.raises(PerformanceError, match="does not exist"):
        _ = GavelModel(str(tmp_path / "nothing.csv")).models
    monkeypatch.setenv("MURMURATION_DATA", str(tmp_path))
    with pytest.raises(PerformanceError, match="simulation_throughputs_isolated.csv does not exist"):
        _ = GavelModel().models


def test_the_published_file(real_data):
    """26 job types on three GPU types; the V100 is the fastest for each on one GPU, 2 GPUs never slower than 1."""
    model = GavelModel(str(real_data("profiles/gavel/simulation_throughputs_isolated.csv")))
    assert len(model.models) == 26
    for name in model.models:
        assert model.throughput(name, "V100", 1) > 0
        assert model.throughput(name, "V100", 2) >= model.throughput(name, "V100", 1)
