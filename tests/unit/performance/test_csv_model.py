"""Throughputs from a user's own table: interpolation, placements, and one line for every mistake in it."""

import pytest

from envs.performance.csv_model import CsvModel
from envs.types import Configuration, ExecutionPlan, PerformanceError

HEADER = "model,gpu_type,num_gpus,samples_per_s"
TABLE = f"""{HEADER},spread_samples_per_s
own,V100,2,20,
own,V100,4,36,
own,V100,8,30,16
own,A100,1,30,
other,A100,1,5,
"""


def model_of(folder, text, encoding="utf-8"):
    (folder / "own.csv").write_bytes(text.encode(encoding))
    return CsvModel(str(folder / "own.csv"))


@pytest.fixture
def model(tmp_path):
    return model_of(tmp_path, TABLE)


@pytest.mark.parametrize(
    ("gpus", "nodes", "throughput"),
    [
        (1, 1, 0.0),  # fewer than measured
        (2, 1, 20.0),
        (3, 1, 28.0),  # halfway between 20 and 36
        (4, 1, 36.0),
        (8, 1, 36.0),  # 30 was measured: four GPUs idle
        (16, 2, 36.0),  # beyond what was measured, on the fewest nodes of eight
        (8, 2, 16.0),  # spread
        (4, 2, 0.0),  # spread over nodes, fewer than measured
    ],
)
def test_throughputs_by_hand(model, gpus, nodes, throughput):
    assert model.throughput("own", Configuration("V100", gpus, nodes)) == throughput


def test_without_a_column_for_spread_jobs_placement_makes_no_difference(tmp_path):
    model = model_of(tmp_path, f"{HEADER}\r\nown,V100,1,10\r\n\r\nown,V100,8,60\r\n", "utf-8-sig")
    assert {model.throughput("own", Configuration("V100", 8, nodes)) for nodes in (1, 2, 8)} == {60.0}


def test_models_and_origins(model):
    assert model.models == ("own", "other")
    assert model.provenance("own", "V100") == "measured"
    assert model.provenance("other", "V100") == "infeasible"
    assert model.throughput("other", Configuration("V100", 4, 1)) == 0.0
    assert model.measured_batches("own", "V100") is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("model,gpu_type,gpus,samples_per_s\nown,V100,1,1", "has no column num_gpus, did you mean gpus?; it needs"),
        ("", "has no column model; it needs"),
        (HEADER, "has no rows below the header"),
        (f"{HEADER}\nown,V100,1.5,1", "row 2: num_gpus is 1.5; it must be a whole number"),
        (f"{HEADER}\nown,V100,x,1", "row 2: num_gpus is 'x'; it must be a number above 0"),
        (f"{HEADER}\nown,V100,1,1\n\nown,V100,2,-3", "row 4: samples_per_s is '-3'; it must be a number above 0"),
        (f"{HEADER}\nown,V100,1,inf", "samples_per_s is 'inf'"),
        (f"{HEADER}\nown,V100,1", "samples_per_s is ''"),
        (f"{HEADER}\n,V100,1,1", "row 2: model is ''; it must be a name"),
        (f"{HEADER}\no\x1b[31mn,V100,1,1", r"row 2: model is 'o\x1b[31mn'; it must be a name"),
        (f"{HEADER}\nown,V100,1,1\nown,V100,1,2", "row 3: repeats own on 1 V100 of an earlier row"),
        (f"{HEADER}\nown,V100,1,\xff", "cannot be read (no UTF-8 text)"),
    ],
)
def test_a_mistake_in_the_table_is_named_in_one_line(tmp_path, rows, said):
    with pytest.raises(PerformanceError) as caught:
        _ = model_of(tmp_path, rows, "latin-1").models
    assert said in str(caught.value)
    assert str(tmp_path / "own.csv") in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        (Configuration("H100", 1, 1), "GPU type 'H100' is not in .*, did you mean V100.*it has V100, A100"),
        (Configuration("V100", 1, 2), "1 GPUs on 2 nodes"),
        (Configuration("V100", 2, 1, batch_size=8), "has one batch size and replicas only"),
        (Configuration("V100", 4, 1, plan=ExecutionPlan(data=2, tensor=2)), "has one batch size and replicas only"),
    ],
)
def test_what_the_table_does_not_have_is_refused(model, configuration, said):
    with pytest.raises(PerformanceError, match=said):
        model.throughput("own", configuration)
    with pytest.raises(PerformanceError, match="model 'owm' is not in .*did you mean own"):
        model.throughput("owm", Configuration("V100", 1, 1))


def test_no_file_is_read_before_it_is_needed(tmp_path):
    for path in ("", str(tmp_path), str(tmp_path / "none.csv")):
        model = CsvModel(path)
        with pytest.raises(PerformanceError, match="no such file; give a CSV file with the columns model, gpu_type"):
            _ = model.models
    with pytest.raises(PerformanceError, match="gpus_per_node is 0"):
        CsvModel("own.csv", gpus_per_node=0)
