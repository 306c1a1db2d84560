"""Rubick's files: their values, the gaps filled by rules, and the errors of broken files."""

import math

import pytest

from envs.performance.rubick.data import (
    FOLDERS,
    fewest_micro_batches,
    find_profiles,
    model_shapes,
    parse_plan,
    read_fit_points,
    read_placements,
)
from envs.types import ExecutionPlan, PerformanceError

HEADER = "exec_plan,placement,iter_time,forward,overlap_sync,optimize\n"


@pytest.fixture
def folder(tmp_path):
    """A complete folder of fabricated placements, one row in each file."""
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "placements.csv").write_text(HEADER + "zero-offload,1,2.5,0,0,0\n")
    return tmp_path


def rewrite(folder, text, name="vit"):
    (folder / name / "placements.csv").write_text(text)


def test_rows_become_measurements(folder):
    rewrite(folder, HEADER + "ga,44,0.066,0,0,0\ngc,8,0.054,0,0,0\n")
    first, second, *rest = read_placements(folder)
    assert (first.model, first.plan, first.shares, first.batch) == ("vit", ExecutionPlan(data=8), (4, 4), 64)
    assert (first.iteration, first.cpus, first.plan_class) == (0.066, 4.0, "ga")
    assert second.plan == ExecutionPlan(data=8, checkpointing=True)
    assert len(rest) == len(FOLDERS) - 1


def test_plans_of_three_digits_are_pipeline_tensor_data(folder):
    rewrite(folder, HEADER + "248,88888888,0.673,0,0,0\n", "llama7")
    run = next(run for run in read_placements(folder) if run.folder == "llama7")
    assert run.plan == ExecutionPlan(data=8, tensor=4, pipeline=2)
    assert (run.plan_class, len(run.shares)) == ("3d", 8)


def test_cpu_threads_are_read_if_the_file_has_them(folder):
    rewrite(folder, "exec_plan,placement,cpu_threads,iter_time\nzero-offload+gc,4,2,30\n", "llama7b_bsz16")
    run = next(run for run in read_placements(folder) if run.folder == "llama7b_bsz16")
    assert (run.cpus, run.batch, run.plan_class) == (2.0, 16, "zero-offload")
    assert run.plan.checkpointing


def test_offload_of_the_larger_models_had_checkpointing():
    vit, gpt2 = model_shapes()["vit"], model_shapes()["gpt2"]
    assert not parse_plan(vit, "zero-offload", (8,), 64).checkpointing
    assert parse_plan(gpt2, "zero-offload", (8,), 16).checkpointing


def test_plans_have_as_few_micro_batches_as_fit():
    """GPT-2 XL keeps 9 GB per sample: sixteen at once need 148 GB, four 37 GB."""
    gpt2 = model_shapes()["gpt2"]
    assert parse_plan(gpt2, "ga", (1,), 16).accumulation == 4
    assert parse_plan(gpt2, "ga", (8,), 16).accumulation == 1
    llama = model_shapes()["llama7b"]
    assert fewest_micro_batches(llama, ExecutionPlan(), 8) == ExecutionPlan()  # nothing helps


def test_single_sample_micro_batches():
    llama = model_shapes()["llama7b"]
    assert parse_plan(llama, "441", (4, 4, 4, 4), 16, single=True).accumulation == 16
    assert parse_plan(llama, "441", (4, 4, 4, 4), 8).accumulation == 1


def test_unknown_plan_is_named():
    with pytest.raises(PerformanceError, match="execution plan 'fsdp' is unknown; known: ga, gc"):
        parse_plan(model_shapes()["vit"], "fsdp", (1,), 64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "ga,8,nan,0,0,0\n", "row 2, iter_time is 'nan'"),
        (HEADER + "ga,8,0.1,0,0,0\nga,4,-3,0,0,0\n", "row 3, iter_time is '-3'"),
        (HEADER + "ga,8,fast,0,0,0\n", "row 2, iter_time is 'fast'"),
        (HEADER + "ga,8,inf,0,0,0\n", "row 2, iter_time is 'inf'"),
        (HEADER + "ga,4x4,0.1,0,0,0\n", "row 2, placement is '4x4'"),
        (HEADER + "ga,40,0.1,0,0,0\n", "row 2, placement is '40'"),
        ("exec_plan,placement\nga,8\n", "column 'iter_time' is missing"),
        (HEADER, "the file is empty"),
    ],
)
def test_errors_name_the_broken_file_and_row(folder, text, message):
    rewrite(folder, text)
    with pytest.raises(PerformanceError, match=message) as error:
        read_placements(folder)
    assert "vit" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_error_of_a_missing_file_says_what_to_set(folder):
    (folder / "bert" / "placements.csv").unlink()
    with pytest.raises(PerformanceError, match=r"no such file; point `data` or \$MURMURATION_DATA"):
        read_placements(folder)


CONFIG = "nodes,gpus,parameter_size,batch_size,seq_hid,num_cpu_threads,zero_type,is_tp,is_pp\n"
TIMES = "forward_time,Tcc,Topt,iter_time,strategy\n"


def test_fit_points(tmp_path):
    (tmp_path / "vit").mkdir()
    config = CONFIG + "1,8,82.5,64,0,1,0,0,0\n1,4,82.5,64,0,4,1,0,0\n1,2,82.5,64,0,1,2,0,0\n"
    (tmp_path / "vit/config.csv").write_text("\ufeff" + config, encoding="utf-8")
    (tmp_path / "vit/data.csv").write_text(TIMES + "5,21,18,49,1100\n10,44,33,99,1111\n20,45,18,88,1102\n")
    plain, offload, zero = read_fit_points(tmp_path, "vit")
    assert (plain.plan, plain.iteration) == (ExecutionPlan(data=8), 49.0)
    assert offload.plan == ExecutionPlan(data=4, zero_stage=2, offload=True)
    assert (offload.cpus, offload.compute, offload.optimizer) == (4.0, 44.0, 33.0)
    assert zero.plan == ExecutionPlan(data=2, zero_stage=2)


def test_broken_fit_points(tmp_path):
    (tmp_path / "vit").mkdir()
    (tmp_path / "vit/config.csv").write_text(CONFIG + "1,8,82.5,64,0,1,0,0,0\n")
    (tmp_path / "vit/data.csv").write_text(TIMES + "5,nan,18,49,1100\n")
    with pytest.raises(PerformanceError, match=r"data\.csv: row 2, Tcc is 'nan'"):
        read_fit_points(tmp_path, "vit")
    (tmp_path / "vit/data.csv").write_text(TIMES + "5,1,18,49,1100\n5,1,18,49,1100\n")
    with pytest.raises(PerformanceError, match=r"has 2 rows, but config\.csv has 1"):
        read_fit_points(tmp_path, "vit")


def test_the_folder_of_profiles(tmp_path):
    (tmp_path / "profiles" / "rubick").mkdir(parents=True)
    assert find_profiles(tmp_path) == tmp_path / "profiles"
    with pytest.raises(PerformanceError, match=r"no data folder is set; set data=<folder> or \$MURMURATION_DATA"):
        find_profiles("")
    with pytest.raises(PerformanceError, match="has no folder profiles/rubick"):
        find_profiles(tmp_path / "elsewhere")


def test_shapes_have_the_parameters_that_their_layers_make():
    """Twelve h^2 per layer (T5's decoder has 16) and an embedding are within a tenth of the published count."""
    for name, shape in model_shapes().items():
        if name == "t5_3b":  # its feed-forward layers are 16 times as wide, not 4 times
            continue
        a_layer = {"t5": 14, "vit": 12}.get(name, 12) * shape.hidden**2
        gated = 1.0 if "llama" not in name else (4 + 3 * 8 / 3) / 12
        count = shape.layers * a_layer * gated + shape.vocabulary * shape.hidden * (2 if "llama" in name else 1)
        assert math.isclose(count, shape.parameters, rel_tol=0.1), name
        assert shape.hidden % shape.heads == 0
        assert shape.min_batch <= shape.batch <= shape.max_batch


def test_counts_of_the_real_files(real_data):
    runs = read_placements(real_data("profiles/rubick/vit/placements.csv").parents[1])
    assert len(runs) == 539
    assert sum(run.iteration > 0 for run in runs) == 535
    assert {run.folder for run in runs} == set(FOLDERS)
    assert len({(run.folder, run.exec_plan, run.placement, run.cpus) for run in runs}) == 539


def test_real_fit_points(real_data):
    root = real_data("profiles/rubick_fit_points/vit/data.csv").parents[1]
    counts = {model: len(read_fit_points(root, model)) for model in ("vit", "roberta", "bert", "t5", "gpt2", "llama7b")}
    assert counts == {"vit": 7, "roberta": 6, "bert": 7, "t5": 7, "gpt2": 4, "llama7b": 3}
