"""Trace files, workload configurations and checkpoints with random damage work or give one line."""

import json
import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from agents.networks import Blueprint
from agents.policies.description import DESCRIPTION, WEIGHTS
from agents.policies.options.checkpoint import OptionCheckpoint
from envs.options import OptionRules, OptionSpec
from envs.performance import default_model
from envs.types import ClusterSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from envs.workloads.readers import (
    AcmeTrace,
    CsvTrace,
    GavelTrace,
    HeliosTrace,
    ItpTrace,
    MuriTrace,
    OpenbTrace,
    PaiTrace,
    PhillyRawTrace,
    PhillyTrace,
    RubickTrace,
    SlurmTrace,
    SpotTrace,
    SwfTrace,
    TiresiasTrace,
)
from murmuration.config.building import Component, build_object
from murmuration.config.describe import as_component
from tests.reliability.test_bad_input import CELLS, VALUES, mutated, one_line, places, read_or_refuse

CLUSTER = ClusterSpec(tuple(NodeSpec("V100", 8, 24, 500) for _ in range(4)), "four")
PERFORMANCE = default_model()
PHILLY_JOB = {
    "status": "Pass",
    "vc": "a",
    "jobid": "j1",
    "attempts": [
        {
            "start_time": "2017-10-07 00:00:10",
            "end_time": "2017-10-07 01:00:10",
            "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
        }
    ],
    "submitted_time": "2017-10-07 00:00:00",
    "user": "u",
}


@dataclass(frozen=True)
class Sample:
    """A reader with a small sound file: rows of cells, with a header if the format has one."""

    reader: Any
    delimiter: str
    rows: tuple[tuple[str, ...], ...]

    def text(self, rows: Any) -> str:
        """Return the rows as the text of a file."""
        return "\n".join(self.delimiter.join(row) for row in rows) + "\n"


def sample(reader, delimiter, *lines):
    return Sample(reader, delimiter, tuple(tuple(line.split("|")) for line in lines))


SAMPLES = (
    sample(
        CsvTrace({name: name for name in ("submit_time", "duration", "num_gpus")}),
        ",",
        "submit_time|duration|num_gpus",
        "0|10|1",
        "5|20|2",
    ),
    sample(
        SwfTrace(), " ", "1|0|5|100|2|-1|-1|2|100|-1|1|3|1|1|1|-1|-1|-1", "2|9|5|50|1|-1|-1|1|50|-1|1|3|1|1|1|-1|-1|-1"
    ),
    sample(
        HeliosTrace(),
        ",",
        "job_id|user|vc|gpu_num|cpu_num|node_num|state|submit_time|start_time|end_time|duration|queue",
        "1|u|vc1|4|8|1|COMPLETED|2020-05-01 10:00:00|2020-05-01 10:00:05|2020-05-01 11:00:05|3600|5",
        "2|u|vc2|1|2|1|FAILED|2020-05-01 10:30:00|2020-05-01 10:30:05|2020-05-01 10:31:05|60|5",
    ),
    sample(
        AcmeTrace(),
        ",",
        "job_id|user|gpu_num|type|submit_time|start_time|end_time",
        "1|u1|8|Other|2023-03-01 00:10:00+08:00|2023-03-01 00:10:30+08:00|2023-03-01 00:12:30+08:00",
        "2|u2|16|Pretrain|2023-03-01 00:20:00+08:00|2023-03-01 00:20:00+08:00|2023-03-01 01:20:00+08:00",
    ),
    sample(
        OpenbTrace(),
        ",",
        "name|num_gpu|gpu_milli|gpu_spec|creation_time|deletion_time|scheduled_time",
        "p1|8|1000||9437497|9438497|9437507",
        "p2|1|220|G2|9437597|9439597|9437597",
    ),
    sample(
        SpotTrace(),
        ",",
        "job_name|organization|gpu_model|gpu_request|worker_num|submit_time|duration|job_type",
        "10|13|A10|1|1|0|2764|HP",
        "11|57|A100-SXM4-80GB|0.5|94|100|410|Spot",
    ),
    sample(
        GavelTrace(),
        "\t",
        "ResNet-18 (batch size 32)|python x|d|-n|0|1000|2|1|-1.0|0.0",
        "LM (batch size 20)|python x|d|-n|0|5000|1|1|-1.0|60.5",
    ),
    sample(
        RubickTrace(),
        ",",
        "name|submission_time|duration|application|num_gpus|exec_plan|steps|is_sla",
        "j1|0|100|bert|2|ga|500|1",
        "j2|10|100|gpt2|4|141|500|0",
    ),
    sample(
        SlurmTrace(timezone="Europe/Berlin"),
        "|",
        "JobID|State|Submit|Elapsed|AllocTRES|Account",
        "7|COMPLETED|2024-03-31T01:30:00|1-00:00:10|cpu=8,gres/gpu=2,gres/gpu:a100=2|a",
        "8_1|CANCELLED by 1000|2024-10-27T02:30:00|00:10:00|gres/gpu=1|b",
    ),
)
ids = [each.reader.name for each in SAMPLES]


@pytest.mark.parametrize("each", SAMPLES, ids=ids)
def test_the_sound_files_are_read(tmp_path, each):
    path = tmp_path / "trace.csv"
    path.write_text(each.text(each.rows))
    frame, report = each.reader.read(path)
    assert (len(frame), report.kept) == (2, 2), report


@given(st.sampled_from(SAMPLES), st.data())
def test_a_mutated_trace_is_counted_or_refused(tmp_path_factory, each, data):
    """Cells change, rows disappear, are cut short or come twice."""
    rows = [list(row) for row in each.rows]
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.integers(0, len(rows) - 1))
        match data.draw(st.sampled_from(["cell", "cell", "cell", "cut", "twice", "remove"])):
            case "cell" if rows[row]:
                rows[row][data.draw(st.integers(0, len(rows[row]) - 1))] = data.draw(CELLS)
            case "cut":
                rows[row] = rows[row][: data.draw(st.integers(0, len(rows[row])))]
            case "twice":
                rows.append(list(rows[row]))
            case "remove" if len(rows) > 1:
                del rows[row]
    content = each.text(rows).encode("utf-8", "replace")
    read_or_refuse(each.reader, tmp_path_factory.mktemp("rows") / "t.csv", content)


@given(
    st.sampled_from([HeliosTrace(), GavelTrace(), RubickTrace(), PhillyRawTrace(), ItpTrace(), MuriTrace()]),
    st.binary(max_size=300),
)
def test_any_bytes_are_no_trace_of_the_other_formats(tmp_path_factory, reader, content):
    read_or_refuse(reader, tmp_path_factory.mktemp("bytes") / "t.csv", content)


@given(st.sampled_from(places(PHILLY_JOB)), VALUES)
def test_a_mutated_job_of_phillys_log_is_counted_or_refused(tmp_path_factory, path, value):
    try:
        content = json.dumps([PHILLY_JOB, mutated(PHILLY_JOB, path, value)]).encode("utf-8", "replace")
    except TypeError:
        return
    read_or_refuse(PhillyRawTrace(), tmp_path_factory.mktemp("log") / "cluster_job_log", content)


JOB_ROW = ["job1", "i1", "user", "Terminated", "100.0", "200.0"]
TASK_ROW = ["job1", "task", "2", "Terminated", "110.0", "190.0", "600", "30", "50", "T4"]


@given(st.integers(0, 5), st.integers(0, 9), CELLS, CELLS)
def test_mutated_tables_of_pai_are_counted_or_refused(tmp_path_factory, at, task_at, cell, task_cell):
    folder = tmp_path_factory.mktemp("pai")
    job, task = list(JOB_ROW), list(TASK_ROW)
    job[at], task[task_at] = cell, task_cell
    for name, rows in (("job", (JOB_ROW, job)), ("task", (TASK_ROW, task))):
        text = "\n".join(",".join(row) for row in rows)
        (folder / f"pai_{name}_table.csv").write_bytes(text.encode("utf-8", "replace"))
    try:
        frame, _ = PaiTrace().read(folder)
    except MurmurationError as error:
        one_line(error)
    else:
        assert (frame["num_gpus"] >= 1).all()


@pytest.mark.parametrize("reader", [PhillyTrace(), TiresiasTrace(), PaiTrace(), PhillyRawTrace(), HeliosTrace()])
@pytest.mark.parametrize("what", ["nothing", "a folder", "an empty file", "a broken archive"])
def test_a_path_that_is_no_trace(tmp_path, reader, what):
    path = tmp_path / "trace.csv.gz"
    if what == "a folder":
        path.mkdir()
    elif what != "nothing":
        path.write_bytes(b"" if what == "an empty file" else b"\x1f\x8b\x08\x00broken")
    with pytest.raises(MurmurationError) as error:
        reader.read(path)
    one_line(error.value)


SYNTHETIC = {
    "_target_": "envs.workloads.SyntheticSource",
    "name": "made",
    "num_jobs": 6,
    "load": 0.9,
    "load_definition": "requested",
    "stream": "bursty",
    "mix": "resources",
    "elastic": 2.0,
    "max_gpus": 8,
    "seed": 0,
    "num_evaluation": 2,
    "warm_up": 1,
    "measured": 3,
}
TRACE = {
    "_target_": "envs.workloads.TraceSource",
    "name": "trace",
    "path": "set below",
    "strict": False,
    "days": [0, 1],
    "max_gpus": 8,
    "elastic": 2.0,
    "seed": 0,
    "num_jobs": 4,
    "splits": {"train": 0.5, "validation": 0.25, "test": 0.25},
    "evaluate_on": "test",
    "windows": {"_target_": "envs.workloads.Windows", "count": 1, "warmup": 0.001, "measure": 0.004, "after": 0.001},
    "recommended_cluster": "",
}


def build_workload(content):
    """Build a source, draw an episode, and take the first workload for results; one line if one of them is refused."""
    try:
        cfg = OmegaConf.create({"workload": content})
        source = build_object(as_component(cfg.workload), cluster=CLUSTER, performance=PERFORMANCE)
        found = [source.episode(np.random.default_rng(0), "train"), *source.evaluation()[:2]]
    except Exception as error:
        one_line(error)
        return 0
    for workload in found:
        assert isinstance(workload, Workload)
        assert len(workload) >= 1
        assert np.isfinite(workload.jobs["submit_time"]).all()
    return len(found)


def test_the_sound_workloads_are_built(csv):
    assert build_workload(SYNTHETIC) == 3
    assert build_workload(csv) == 2


@given(st.sampled_from(places(SYNTHETIC)), VALUES)
def test_a_mutated_synthetic_workload_is_built_or_refused(path, value):
    build_workload(mutated(SYNTHETIC, path, value))


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "jobs.csv"
    rows = "\n".join(f"{60 * i},{600 + i},{1 + i % 4}" for i in range(40))
    path.write_text(f"submit_time,duration,num_gpus\n{rows}\n")
    columns = {name: name for name in ("submit_time", "duration", "num_gpus")}
    reader = {"_target_": "envs.workloads.readers.CsvTrace", "columns": columns, "units": {}, "keep": {}, "drop": {}}
    return {**TRACE, "path": str(path), "reader": reader}


@given(st.data(), VALUES)
def test_a_mutated_trace_workload_is_built_or_refused(csv, data, value):
    build_workload(mutated(csv, data.draw(st.sampled_from(places(csv))), value))


@pytest.mark.parametrize("name", ["num_jobs", "num_evaluation", "num_tenants", "warm_up", "measured"])
def test_counts_that_no_memory_holds_are_refused_at_once(name):
    with pytest.raises(MurmurationError, match=name):
        build_object(
            Component("workload", {**SYNTHETIC, name: 10**12}),
            cluster=CLUSTER,
            performance=PERFORMANCE,
        )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("saved") / "policy"
    blueprint, rules = Blueprint(options={"hidden": 8}), OptionRules(num_candidates=4)
    OptionCheckpoint(blueprint.build(OptionSpec()), blueprint, rules, {"seed": 1}).save(folder)
    return folder


def load_or_refuse(folder):
    try:
        found = OptionCheckpoint.load(folder)
    except MurmurationError as error:
        one_line(error)
    else:
        assert all(torch.isfinite(weight).all() for weight in found.network.state_dict().values())


@given(st.data(), VALUES)
def test_a_mutated_description_is_loaded_or_refused(saved, tmp_path_factory, data, value):
    folder = shutil.copytree(saved, tmp_path_factory.mktemp("mutated") / "policy")
    content = json.loads((folder / DESCRIPTION).read_text())
    changed = mutated(content, data.draw(st.sampled_from(places(content))), value)
    try:
        (folder / DESCRIPTION).write_text(json.dumps(changed))
    except (TypeError, UnicodeEncodeError):
        return
    load_or_refuse(folder)


@given(st.data())
def test_damaged_weights_are_loaded_or_refused(saved, tmp_path_factory, data):
    """Bits change, also in the header with names and shapes; the file is cut."""
    folder = shutil.copytree(saved, tmp_path_factory.mktemp("damaged") / "policy")
    content = bytearray((folder / WEIGHTS).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(content), 4000) - 1))
        content[at] = data.draw(st.integers(0, 255))
    (folder / WEIGHTS).write_bytes(bytes(content[: data.draw(st.sampled_from([None, None, 7, 1000]))]))
    load_or_refuse(folder)
