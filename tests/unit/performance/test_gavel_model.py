"""Gavel's file as a performance model, tested on fabricated files."""

import gzip
from pathlib import Path

import pytest

from envs.performance import find_pair_factor
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
PAIRS_HEADER = "worker_type,job_type_1,scale_factor_1,job_type_2,scale_factor_2,steps_per_s_1,steps_per_s_2\n"
PAIRS = (
    "v100,ResNet-18 (batch size 16),1,A3C,1,24,0.5\n"
    "v100,ResNet-18 (batch size 16),1,ResNet-18 (batch size 16),1,31.5,31.5\n"
    "v100_unconsolidated,ResNet-18 (batch size 16),1,A3C,1,1,1\n"
    "v100,ResNet-18 (batch size 16),2,A3C,2,2,2\n"
    "v100,A3C,1,A3C,1,0,0\n"
    "k80,ResNet-18 (batch size 16),1,ResNet-18 (batch size 16),1,0,4\n"
    "k80,ResNet-18 (batch size 16),1,A3C,1,4,1\n"
)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "throughputs.csv"
    file.write_text(HEADER + ROWS)
    return str(file)


@pytest.fixture
def shared(path, tmp_path):
    """The model with the fabricated pairs, compressed as Gavel's own file is."""
    file = tmp_path / "pairs.csv.gz"
    file.write_bytes(gzip.compress((PAIRS_HEADER + PAIRS).encode()))
    return GavelModel(path, pairs_path=str(file))


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
        (HEADER + "k80,A3C,one,5\n", "row 2: scale_factor is 'one'"),
        (
            HEADER + ROWS + "k80,A3C,1,nan\n",
            "row 10: steps_per_s is 'nan'; it must be a number of steps/s of at least 0; correct the row",
        ),
        (HEADER + "k80,A3C,1,-1\n", "row 2"),
        (HEADER + "k80,A3C,0,1\n", "row 2"),
        (HEADER + "k80,A3C\n", "row 2"),
        (HEADER + "k80,A3C,1.5,1\n", "row 2: scale_factor is '1.5'; it must be a whole number of at least 1"),
        (HEADER + 'k80,A3C,1,"5\n\x1b[2J"\n', r"steps_per_s is '5\\n\\x1b\[2J'"),
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


def test_a_factor_is_the_throughput_beside_over_alone(shared):
    """24 of 30 steps/s are kept and 0.5 of 2.5; the rows of two GPUs and of spread jobs do not count."""
    assert find_pair_factor(shared, RESNET, "A3C", "V100") == pytest.approx(24 / 30)
    assert find_pair_factor(shared, "A3C", RESNET, "V100") == pytest.approx(0.5 / 2.5)
    assert shared.pair_provenance("A3C", RESNET, "V100") == "measured"


def test_a_factor_above_one_is_noise(shared):
    assert find_pair_factor(shared, RESNET, RESNET, "V100") == 1


def test_a_pair_that_did_not_fit_has_factor_zero_in_both_directions(shared):
    assert find_pair_factor(shared, "A3C", "A3C", "V100") == 0  # both 0 in the file
    assert find_pair_factor(shared, RESNET, RESNET, "K80") == 0  # one of them
    assert find_pair_factor(shared, RESNET, "A3C", "K80") == find_pair_factor(shared, "A3C", RESNET, "K80") == 0
    assert shared.pair_provenance(RESNET, "A3C", "K80") == "infeasible"


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("VGG", "A3C", "V100"), "model 'VGG' is not in Gavel's file; it has 2 job types on K80, V100"),
        (("A3C", "VGG", "V100"), "model 'VGG' is not in Gavel's file"),
        (("A3C", "A3C", "A100"), "GPU type 'A100' is not in Gavel's file; it has K80, V100"),
        (("A3C", "A3C", "K80"), "'A3C' beside 'A3C' on K80 is not in Gavel's file of pairs; add a row"),
    ],
)
def test_unknown_pairs_are_refused(shared, pair, said):
    for ask in (shared.pair_factor, shared.pair_provenance):
        with pytest.raises(PerformanceError, match=said):
            ask(*pair)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker_type,job_type_1\n", "has no column scale_factor_1; Gavel's file needs worker_type, job_type_1"),
        (PAIRS_HEADER + "v100,A3C,1,A3C,1,fast,1\n", "row 2: steps_per_s_1 is 'fast'; it must be a number of steps/s"),
        (PAIRS_HEADER + PAIRS + "v100,A3C,1,A3C,1,1,-2\n", "row 9: steps_per_s_2 is '-2'; .* correct the row"),
        (PAIRS_HEADER + "v100,A3C,1,A3C,1,inf,1\n", "row 2: steps_per_s_1 is 'inf'"),
        (PAIRS_HEADER + "v100,A3C,0,A3C,1,1,1\n", "row 2: scale_factor_1 is '0'; it must be a whole number"),
        (PAIRS_HEADER + "v100,A3C,1,A3C\n", "row 2: scale_factor_2 is ''"),
        (PAIRS_HEADER + 'v100,A3C,1,A3C,1,"1\n\x1b[2J",1\n', r"steps_per_s_1 is '1\\n\\x1b\[2J'"),
    ],
)
@pytest.mark.parametrize("name", ["pairs.csv", "pairs.csv.gz"])
def test_errors_name_the_broken_pair(path, tmp_path, text, said, name):
    file = tmp_path / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    with pytest.raises(PerformanceError, match=said) as error:
        GavelModel(path, pairs_path=str(file)).pair_factor("A3C", "A3C", "V100")
    assert str(error.value).startswith(f"{file}: ")
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.csv.gz"])
def test_a_file_that_is_no_text_is_one_line(path, tmp_path, name):
    """Neither UTF-8 nor compressed, and compressed but cut off."""
    whole = gzip.compress((PAIRS_HEADER + PAIRS).encode())
    for content in (b"\xff\xfe\x00" * 40, whole[:40], whole[:-4]):
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(PerformanceError, match=r"pairs.*: cannot be read \(\w+\); give Gavel's own file") as error:
            GavelModel(path, pairs_path=str(file)).pair_factor("A3C", "A3C", "V100")
        assert len(str(error.value).splitlines()) == 1


def test_a_missing_file_of_pairs_says_how_to_set_it(path, monkeypatch, tmp_path):
    monkeypatch.setenv("MURMURATION_DATA", str(tmp_path))
    with pytest.raises(
        PerformanceError, match=r"set performance\.pairs_path=<file>, or \$MURMURATION_DATA .*colocated"
    ):
        GavelModel(path).pair_factor("A3C", "A3C", "V100")
    assert GavelModel(path).throughput("A3C", Configuration("V100", 1)) == 2.5  # which needs no pairs


def test_the_published_pairs(real_data):
    """ResNet-50 beside the language model, by hand from both files; 330 of 351 pairs fit a V100."""
    folder = Path(real_data("profiles/gavel/simulation_throughputs_colocated.csv.gz")).parent
    model = GavelModel(
        str(folder / "simulation_throughputs_isolated.csv"),
        pairs_path=str(folder / "simulation_throughputs_colocated.csv.gz"),
    )
    resnet, language = "ResNet-50 (batch size 64)", "LM (batch size 20)"
    assert find_pair_factor(model, resnet, language, "V100") == pytest.approx(0.688, abs=5e-4)
    assert find_pair_factor(model, language, resnet, "V100") == pytest.approx(0.383, abs=5e-4)
    names = model.models
    pairs = [(first, second) for place, first in enumerate(names) for second in names[place:]]
    assert sum(find_pair_factor(model, *pair, "V100") > 0 for pair in pairs) == 330
    assert len(pairs) == 351
