"""What really happened to the jobs of a trace is kept beside them: starts, ends, waits, runs, queues and nodes."""

import json
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from envs.evaluation.task import NOT_HASHED
from envs.workloads import TraceSource
from envs.workloads.readers import (
    AcmeTrace,
    CsvTrace,
    HeliosTrace,
    OpenbTrace,
    PaiTrace,
    PhillyRawTrace,
    SlurmTrace,
    SwfTrace,
    locate,
)
from envs.workloads.readers.reader import DATA_VARIABLE
from envs.workloads.recorded import RecordedPast

SLURM = """JobID|State|Submit|Start|End|Elapsed|Partition|NodeList|AllocTRES
1|COMPLETED|2024-03-04T08:00:00|2024-03-04T08:01:00|2024-03-04T09:01:00|01:00:00|a100|n[1-2]|gres/gpu=2
2|PREEMPTED|2024-03-04T08:00:00|2024-03-04T08:02:00|2024-03-04T08:12:00|00:10:00|a100|n3|gres/gpu=2
2|REQUEUED|2024-03-04T08:12:00|Unknown|2024-03-04T08:13:00|00:00:00|a100|None assigned|gres/gpu=2
2|COMPLETED|2024-03-04T08:12:00|2024-03-04T08:20:00|2024-03-04T08:40:00|00:20:00|v100|n4|gres/gpu=2
3|COMPLETED|2024-03-04T09:00:00|None|Unknown|01:00:00|v100|None assigned|gres/gpu=2
4|COMPLETED|2024-03-04T09:00:00|2024-03-04T08:59:00|2024-03-04T09:59:00|01:00:00|v100|n1|gres/gpu=2
"""
HELIOS = """job_id,user,vc,gpu_num,state,submit_time,start_time,end_time,duration
1,u,vc1,8,COMPLETED,2020-04-01 10:00:00,2020-04-01 10:00:30,2020-04-01 10:01:30,60
2,u,vc1,8,CANCELLED,2020-04-01 10:01:00,None,2020-04-01 10:02:00,60
"""
ACME = """job_id,user,gpu_num,type,submit_time,start_time,end_time
1,u1,8,Other,2023-03-01 00:10:00+08:00,2023-03-01 00:10:30+08:00,2023-03-01 00:12:30+08:00
"""
OPENB = """name,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time
p1,8,1000,,9437497,9438497,9437507
"""
SWF = "1 0 30 60 4 -1 -1 4 100 -1 1 7 1 3 1 1 -1 -1\n2 5 -1 60 4 -1 -1 4 100 -1 1 7 1 3 1 1 -1 -1\n"
PHILLY = [
    {"submitted_time": "2017-10-09 07:00:00", "vc": "v", "jobid": "a", "user": "u"}
    | {
        "attempts": [
            {"start_time": f"2017-10-09 0{hour}:10:00", "end_time": f"2017-10-09 0{hour}:20:00"}
            | {"detail": [{"ip": f"m{hour}", "gpus": ["gpu0"]}, {"ip": "m1", "gpus": ["gpu0"]}]}
            for hour in (7, 8)
        ]
    }
]
OWN = "submit_time,start_time,end_time,num_gpus,attempts,queue,nodes\n0,10,70,1,2,a,n1\n5,6,30,1,,,\n"
DATED = "submit_time,duration,start_time,num_gpus\n2024-03-04T08:00:00+01:00,60,2024-03-04T08:00:09+01:00,1\n"
DATED += "2024-03-04T08:00:00+01:00,60,,1\n"
OWN_COLUMNS = {name: name for name in OWN.partition("\n")[0].split(",")}
DATED_COLUMNS = {name: name for name in DATED.partition("\n")[0].split(",")}
NONE = np.nan
CASES: dict[str, Any] = {  # text, reader, time to start, seconds from submission to end, waited, attempts
    "slurm": (
        SLURM,
        SlurmTrace(),
        [60, 120, NONE, NONE],
        [3660, 2400, NONE, NONE],
        [60, 600, NONE, NONE],
        [1, 2, 0, 1],
    ),
    "helios": (HELIOS, HeliosTrace(), [30, NONE], [90, 60], [30, 0], [0, 0]),
    "acme": (ACME, AcmeTrace(), [30], [150], [30], [0]),
    "openb": (OPENB, OpenbTrace(), [10], [1000], [10], [0]),
    "swf": (SWF, SwfTrace(), [30, NONE], [90, NONE], [30, NONE], [0, 0]),
    "philly_raw": (json.dumps(PHILLY), PhillyRawTrace(), [600], [4800], [3600], [2]),
    "csv": (OWN, CsvTrace(OWN_COLUMNS), [10, 1], [70, 25], [10, 1], [2, 0]),
    "csv dated": (
        DATED,
        CsvTrace(DATED_COLUMNS, units={"submit_time": "ISO8601", "start_time": "ISO8601"}),
        *([9, NONE], [NONE, NONE], [NONE, NONE], [0, 0]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_readers_keep_what_really_happened(write, name):
    text, reader, start, end, waited, attempts = CASES[name]
    frame, _ = reader.read(write("trace", text), strict=True)
    recorded, submit = RecordedPast.of(frame), frame["submit_time"].to_numpy()
    np.testing.assert_array_equal(recorded.start - submit, start)
    np.testing.assert_array_equal(recorded.end - submit, end)
    np.testing.assert_array_equal(recorded.waited, waited)
    assert recorded.attempts.tolist() == attempts


def test_pai_keeps_the_span_of_the_tasks_of_a_job(write):
    write("pai/pai_job_table.csv", "j1,i1,u1,Terminated,100,900\n")
    tasks = "j1,worker,2,Terminated,{},{},600,29,100,T4\n"
    path = write("pai/pai_task_table.csv", tasks.format(130, 700) + tasks.format(140, 800))
    recorded = RecordedPast.of(PaiTrace().read(path.parent, strict=True)[0])
    assert [recorded.start.tolist(), recorded.end.tolist(), recorded.waited.tolist()] == [[30], [700], [30]]


def test_queues_nodes_dates_and_contradictions_of_slurm(write):
    frame, report = SlurmTrace(timezone="Europe/Berlin").read(write("jobs.txt", SLURM), strict=True)
    recorded = RecordedPast.of(frame)
    assert recorded.queue.tolist() == ["a100", "v100", "v100", "v100"]
    assert recorded.nodes.tolist() == ["n[1-2]", "n4", "", "n1"]
    assert recorded.zero is not None
    assert recorded.zero.isoformat() == "2024-03-04T00:00:00+01:00"
    assert "1 jobs have times that contradict each other; their start and end are unknown" in report.notes


@pytest.mark.parametrize(("text", "zero"), [(ACME, "2023-03-01T00:10:00+08:00"), (HELIOS, "2020-04-01T00:00:00")])
def test_zero_is_shown_on_the_clock_of_the_trace(write, text, zero):
    frame, _ = (AcmeTrace() if text is ACME else HeliosTrace()).read(write("trace.csv", text))
    assert frame.attrs["zero"] == datetime.fromisoformat(zero)


def test_a_workload_keeps_it_in_slices_and_no_hash_has_it(write, cluster, ideal):
    path = str(write("jobs.csv", OWN))
    workload = TraceSource(cluster, ideal, CsvTrace(OWN_COLUMNS), path=path, elastic=1.0).workload
    assert workload.recorded is not None
    assert workload.recorded.start.tolist() == [10, 6]
    later = workload.slice(1, 2)
    assert later.recorded is not None
    assert later.recorded.start.tolist() == [1]
    assert later.of_tenant(0).recorded.end.tolist() == [25]  # type: ignore[union-attr]
    assert workload.of_tenant(0).recorded.nodes.tolist() == ["n1", ""]  # type: ignore[union-attr]
    assert "recorded" in NOT_HASHED


def test_a_day_of_a_trace_begins_at_its_date(write, cluster, ideal):
    path = str(write("jobs.txt", SLURM.replace("2024-03-04T09", "2024-03-05T09")))
    source = TraceSource(cluster, ideal, SlurmTrace(), path=path, days=[1, 2], elastic=1.0)
    assert source.workload.recorded is not None
    assert source.workload.recorded.zero == datetime(2024, 3, 5)


def test_openb_waits(real_data, monkeypatch):
    """The published file, packed or not: 18 % of its pods with GPUs waited for over a minute."""
    path = real_data("traces/openb/openb_pod_list_default.csv.gz")
    monkeypatch.setenv(DATA_VARIABLE, str(path.parents[2]))
    frame, report = OpenbTrace().read(locate(OpenbTrace()), strict=True)
    waits = frame["start_after"].to_numpy()
    assert report.kept == 6203
    assert np.isfinite(waits).all()
    assert (waits > 60).mean() == pytest.approx(0.182, abs=0.001)
