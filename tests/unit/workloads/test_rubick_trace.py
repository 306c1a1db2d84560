"""Rubick's trace: work from steps, plans from their short names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import ExecutionPlan, TraceError
from envs.workloads.readers import RubickTrace
from envs.workloads.readers.rubick import GLOBAL_BATCH, user_plan

HEADER = "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla\n"


def test_a_trace_by_hand(write):
    text = HEADER + "vit-0,0,3163.09,vit,2,16,0,zero-dp,37239,1\nllama30-1,1639,142.2,llama30,48,384,1.25,344,64,0\n"
    frame, report = RubickTrace().read(write("r.csv", text), strict=True)
    assert frame["work"].tolist() == [37239 * 64.0, 64 * 4.0]
    assert frame["duration"].tolist() == [3163.09, 142.2]
    assert frame["guaranteed"].tolist() == [True, False]
    assert frame["id"].tolist() == ["vit-0", "llama30-1"]
    assert frame["plan"].tolist() == [
        ExecutionPlan(data=2, zero_stage=2),
        ExecutionPlan(data=4, tensor=4, pipeline=3, accumulation=1),
    ]
    assert "seem to be swapped" in report.notes[0]


@pytest.mark.parametrize(
    ("text", "num_gpus", "batch", "plan"),
    [
        ("ga", 1, 16, ExecutionPlan(data=1, accumulation=8)),  # the artifact's GPT-2: 8 micro-steps on one GPU
        ("ga", 2, 16, ExecutionPlan(data=2, accumulation=4)),  # and 4 on two
        ("ga", 8, 16, ExecutionPlan(data=8)),
        ("ga", 64, 16, ExecutionPlan(data=64)),
        ("gc", 4, 64, ExecutionPlan(data=4, checkpointing=True)),
        ("zero-dp", 8, 64, ExecutionPlan(data=8, zero_stage=2)),
        ("zero-offload", 8, 8, ExecutionPlan(data=8, zero_stage=2, offload=True)),
        ("151", 5, 16, ExecutionPlan(tensor=5)),
        ("244", 32, 8, ExecutionPlan(data=4, tensor=4, pipeline=2, accumulation=2)),
        ("641", 24, 4, ExecutionPlan(data=1, tensor=4, pipeline=6, accumulation=4)),
        ("244", 16, 8, None),
        ("044", 16, 8, None),
        ("24", 8, 8, None),
        ("2440", 32, 8, None),
        ("²44", 32, 8, None),
        ("magic", 8, 8, None),
        ("", 8, 8, None),
    ],
)
def test_the_short_names_of_plans(text, num_gpus, batch, plan):
    assert user_plan(text, num_gpus, batch) == plan


@given(pipeline=st.integers(1, 9), tensor=st.integers(1, 9), data=st.integers(1, 9), batch=st.integers(1, 64))
def test_digits_are_pipeline_tensor_data(pipeline, tensor, data, batch):
    plan = user_plan(f"{pipeline}{tensor}{data}", pipeline * tensor * data, batch)
    assert plan is not None
    assert (plan.pipeline, plan.tensor, plan.data) == (pipeline, tensor, data)
    assert plan.accumulation * data <= max(batch, data)


@given(text=st.sampled_from(["ga", "gc", "zero-dp", "zero-offload"]), num_gpus=st.integers(1, 64))
def test_a_plan_occupies_the_requested_gpus(text, num_gpus):
    plan = user_plan(text, num_gpus, 16)
    assert plan is not None
    assert plan.num_gpus == num_gpus


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("j,0,5,alexnet,1,8,0,ga,5,0", "application"),
        ("j,0,5,vit,1,8,0,warp,5,0", "exec_plan"),
        ("j,0,5,vit,6,8,0,244,5,0", "exec_plan"),
        ("j,0,5,vit,1,8,0,ga,-5,0", "steps"),
        ("j,0,5,vit,1,8,0,ga,5,2", "is_sla"),
    ],
)
def test_malformed_rows(write, row, field):
    path = write("r.csv", HEADER + "ok,0,5,vit,1,8,0,ga,5,0\n" + row + "\n")
    _, report = RubickTrace().read(path)
    assert report.kept == 1
    assert (report.examples[0].row, report.examples[0].field) == (3, field)
    with pytest.raises(TraceError, match=f"row 3: {field} is"):
        RubickTrace().read(path, strict=True)


def test_a_job_of_no_steps_is_skipped(write):
    path = write("r.csv", HEADER + "ok,0,5,vit,1,8,0,ga,5,0\nj,0,5,vit,1,8,0,ga,0,0\n")
    assert RubickTrace().read(path)[1].skipped == {"no steps to run": 1}


def test_variants_are_files():
    assert {RubickTrace(variant).location for variant in ("base", "mt")} == {
        "traces/rubick/workload-base.csv",
        "traces/rubick/workload-mt.csv",
    }
    assert set(GLOBAL_BATCH) == {"vit", "roberta", "bert", "t5", "gpt2", "llama7", "llama30"}
