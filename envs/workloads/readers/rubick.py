"""Rubick's traces: one row per job, with a model, the user's execution plan, and its work in steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.types import ExecutionPlan
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, read_csv

# Samples per step. Reconfigurations do not change the batch size (artifact README, 7.2; sched/models/*.py).
GLOBAL_BATCH: Mapping[str, int] = MappingProxyType(
    {"vit": 64, "roberta": 64, "bert": 32, "t5": 16, "gpt2": 16, "llama7": 8, "llama30": 4}
)
MICRO_BATCH = 2  # samples per GPU and micro-step under plan "ga"
PLANS = (
    "must be ga, gc, zero-dp, zero-offload, or the degrees of PP, TP and DP as three digits whose product is num_gpus"
)


@dataclass(frozen=True)
class RubickTrace:
    """406 jobs on 64 A800 over 13.2 hours (Rubick, MLSys'25; AlibabaPAI/reconfigurable-dl-scheduler, Apache-2.0).

    Work is `steps` times the model's global batch. `is_sla` marks guaranteed jobs. The files base and bp seem to be
    swapped in the artifact: the plans of "base" are nearly optimal and those of "bp" are random, contrary to the names.

    Args:
        variant: name of the file under $MURMURATION_DATA: base, bp (other initial plans) or mt (multi-tenant, 194
            guaranteed jobs).
    """

    variant: str = "base"
    gpu_type: str = "A800"
    gpus_per_node: int = 8
    name: ClassVar[str] = "rubick"
    source: ClassVar[str] = "github.com/AlibabaPAI/reconfigurable-dl-scheduler"

    @property
    def location(self) -> str:
        """Path of the file under $MURMURATION_DATA."""
        return f"traces/rubick/workload-{self.variant}.csv"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        required = ("name", "submission_time", "duration", "application", "num_gpus", "exec_plan", "steps", "is_sla")
        table = read_csv(self.name, path, required, strict=strict)
        submit, duration = table.numbers("submission_time"), table.numbers("duration")
        num_gpus = table.numbers("num_gpus", high=MAX_GPUS, whole=True)
        steps = table.numbers("steps", high=1e12)
        guaranteed = table.numbers("is_sla", high=1, whole=True)
        model = table.text("application")
        batch = np.array([GLOBAL_BATCH.get(name, 0) for name in model])
        table.reject(batch == 0, "application", f"must be one of {', '.join(GLOBAL_BATCH)}")
        table.skip_idle(duration, num_gpus)
        table.skip(steps == 0, "no steps to run")
        plans = np.empty(len(table), dtype=object)
        for row in np.flatnonzero(table.sound):
            plans[row] = user_plan(table.text("exec_plan")[row], int(num_gpus[row]), int(batch[row]))
        table.reject(np.array([plan is None for plan in plans]), "exec_plan", PLANS)
        columns = {
            "submit_time": submit,
            "duration": duration,
            "num_gpus": num_gpus,
            "work": steps * batch,
            "model": model,
            "id": table.text("name"),
            "guaranteed": guaranteed == 1,
            "plan": plans,
        }
        notes = ("work is steps times the global batch; files base and bp seem to be swapped in the artifact",)
        return table.finish(columns, notes=notes)


def user_plan(text: str, num_gpus: int, batch: int) -> ExecutionPlan | None:
    """Parse a trace's `exec_plan`; None if it is no plan for this number of GPUs.

    The trace does not state how many micro-batches a step has. Reconstruction: under "ga" a GPU processes two samples
    at a time, which gives the 8 and 4 micro-steps of the artifact's GPT-2 on 1 and 2 GPUs; a pipeline processes one
    sample at a time.
    """
    if text == "ga":
        return ExecutionPlan(data=num_gpus, accumulation=max(1, batch // (MICRO_BATCH * num_gpus)))
    if text == "gc":
        return ExecutionPlan(data=num_gpus, checkpointing=True)
    if text == "zero-dp":
        return ExecutionPlan(data=num_gpus, zero_stage=2)
    if text == "zero-offload":
        return ExecutionPlan(data=num_gpus, zero_stage=2, offload=True)
    if len(text) == 3 and text.isascii() and text.isdigit() and "0" not in text:
        pipeline, tensor, data = (int(digit) for digit in text)
        micro_batches = max(1, batch // data) if pipeline > 1 else 1
        if pipeline * tensor * data == num_gpus:
            return ExecutionPlan(data, tensor, pipeline, accumulation=micro_batches)
    return None
