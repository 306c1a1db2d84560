"""Slurm's accounting, in the format that `man sacct` documents."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from envs.types import TraceError
from envs.workloads import TraceSource
from envs.workloads.readers import SlurmTrace
from envs.workloads.readers.clock import NO_ZONE_NOTE

HEADER = "JobID|JobName|User|Account|State|Submit|Start|End|Elapsed|AllocTRES\n"
START = "2024-03-04T08:00:00"
TRES = "billing=8,cpu=8,gres/gpu=2,mem=64G,node=1"


def line(job="101", state="COMPLETED", submit=START, elapsed="01:00:00", tres=TRES, *, name="train", account="vision"):
    return f"{job}|{name}|ann|{account}|{state}|{submit}|{submit}|2024-03-04T09:00:00|{elapsed}|{tres}\n"


def read(write, *lines, strict=True, header=HEADER, **options):
    """The frame and the report of a file with these lines."""
    return SlurmTrace(**options).read(write("jobs.txt", header + "".join(lines)), strict=strict)


# What sacct prints without --allocations: an array of two tasks with steps, a job that was cancelled while it ran, one
# that was cancelled before, two that wait, one that runs, and one without GPUs.
FILE = f"""{HEADER}\
101_4|train|ann|vision|COMPLETED|2024-03-04T08:00:00|2024-03-04T08:01:00|2024-03-05T15:31:00|1-07:30:00|\
billing=40,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G,node=1
101_4.batch|batch||vision|COMPLETED|2024-03-04T08:01:00|2024-03-04T08:01:00|2024-03-05T15:31:00|1-07:30:00|\
cpu=8,gres/gpu=2,mem=64G,node=1
101_4.extern|extern||vision|COMPLETED|2024-03-04T08:01:00|2024-03-04T08:01:00|2024-03-05T15:31:00|1-07:30:00|\
billing=40,cpu=8,gres/gpu=2,mem=64G,node=1
101_4.0|python||vision|COMPLETED|2024-03-04T08:01:00|2024-03-04T08:01:00|2024-03-05T15:31:00|1-07:30:00|\
cpu=8,gres/gpu=2,mem=64G,node=1
101_5|train|ann|vision|TIMEOUT|2024-03-04T08:00:00|2024-03-04T08:01:00|2024-03-04T08:31:05|00:30:05|\
billing=40,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G,node=1
102|a "name|bob|speech|CANCELLED by 1000|2024-03-04T08:10:00|2024-03-04T08:10:00|2024-03-04T08:10:07|00:00:07|\
billing=40,cpu=8,gres/gpu:v100=16,mem=64G,node=2
103|eval|bob|speech|CANCELLED by 1000|2024-03-04T08:20:00|None|2024-03-04T08:21:00|00:00:00|
104|eval|bob|speech|PENDING|2024-03-04T08:20:00|Unknown|Unknown|00:00:00|
105_[6-9%2]|eval|bob|speech|PENDING|2024-03-04T08:20:00|Unknown|Unknown|00:00:00|
106|eval|bob|speech|RUNNING|2024-03-04T08:20:00|2024-03-04T08:20:00|Unknown|00:40:00|{TRES}
107|tables|eve|vision|COMPLETED|2024-03-04T08:20:00|2024-03-04T08:20:00|2024-03-04T08:40:00|00:20:00|billing=4,cpu=4,mem=8G,node=1
"""


def test_a_file_by_hand(write):
    frame, report = SlurmTrace().read(write("jobs.txt", FILE), strict=True)
    assert frame["id"].tolist() == ["101_4", "101_5", "102"]
    assert frame["submit_time"].tolist() == [8 * 3600.0, 8 * 3600.0, 8 * 3600.0 + 600]
    assert frame["duration"].tolist() == [86400 + 7.5 * 3600, 1805.0, 7.0]
    assert frame["num_gpus"].tolist() == [2, 2, 16]
    assert frame["tenant"].tolist() == ["vision", "vision", "speech"]
    assert frame["user"].tolist() == ["ann", "ann", "bob"]
    assert frame["name"].tolist() == ["train", "train", 'a "name']
    assert frame["row"].tolist() == [2, 6, 7]
    assert report.skipped == {"job steps": 3, "not ended": 3, "no GPUs requested": 2}
    assert report.rows == 11
    assert "GPU types a100, v100 all count as V100; reader.gpu_types tells them apart" in report.notes
    assert NO_ZONE_NOTE in report.notes


def test_the_file_plays_as_a_workload(write, cluster, ideal):
    source = TraceSource(cluster, ideal, SlurmTrace(), path=str(write("jobs.txt", FILE)), evaluate_on="all")
    (workload,) = source.evaluation()
    assert len(workload) == 3
    assert workload.users == ("ann", "ann", "bob")
    assert workload.spec(2).name == 'a "name'
    assert workload.slice(1, 3).label(1) == "job 1 (102)"
    assert not any("was chosen for" in note for note in workload.notes)


def test_gpu_types_are_translated_and_others_are_bad(write):
    typed = line(tres="gres/gpu=4,gres/gpu:a100=4"), line("2"), line("3", tres="gres/gpu:gtx=1")
    frame, report = read(write, *typed, strict=False, gpu_types={"a100": "A100"}, gpu_type="T4")
    assert frame["gpu_type"].tolist() == ["A100", "T4"]
    assert report.bad == {"AllocTRES must have GPUs of a100 (reader.gpu_types)": 1}
    assert not any("all count as" in note for note in report.notes)


def test_states_are_kept_by_name(write):
    lines = line("1"), line("2", "CANCELLED by 1000"), line("3", "TIMEOUT"), line("4", "OUT_OF_ME+")
    frame, report = read(write, *lines[:3], states=["COMPLETED", "CANCELLED"])
    assert frame["id"].tolist() == ["1", "2"]
    assert report.skipped == {"other states": 1}
    with pytest.raises(TraceError, match=r"workload\.reader\.states has 'DONE', but no row has it; .*'COMPLETED'"):
        read(write, *lines[:3], states=["DONE"])
    _, report = read(write, *lines, strict=False)
    assert list(report.bad) == [report.examples[0].field + " " + report.examples[0].reason]
    assert report.examples[0].value == "OUT_OF_ME+"


@pytest.mark.parametrize(
    "state", ["BOOT_FAIL", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "CANCELLED+"]
)
def test_jobs_that_held_gpus_are_kept_however_they_ended(write, state):
    assert read(write, line(state=state))[1].kept == 1


def test_of_a_requeued_job_the_last_run_counts(write):
    """sacct --duplicates prints every run; monthly files that are joined repeat lines and headers.

    The submission is that of the first run. A job whose number was used again is another one, and the last counts.
    """
    lines = (
        line("7", "PREEMPTED", elapsed="00:10:00"),
        line("7", "REQUEUED", elapsed="00:00:30"),
        line("7", "COMPLETED", "2024-03-04T09:00:00", "00:20:00"),
        line("9", "COMPLETED"),
        line("9", "COMPLETED", "2024-03-05T08:00:00"),
        line("8", "FAILED"),
        line("8", "PENDING", "2024-03-04T10:00:00", "00:00:00", ""),
        HEADER,
        line("7", "COMPLETED", "2024-03-04T09:00:00", "00:20:00"),
    )
    frame, report = read(write, *lines)
    assert frame["id"].tolist() == ["7", "8", "9"]
    assert frame["submit_time"].tolist() == [8 * 3600.0, 8 * 3600.0, 32 * 3600.0]
    assert frame["duration"].tolist() == [1200.0, 3600.0, 3600.0]
    assert report.skipped == {
        "repeated header lines": 1,
        "not ended": 2,
        "exact duplicates of an earlier row": 1,
        "earlier runs of requeued jobs": 2,
    }


@pytest.mark.parametrize(
    ("elapsed", "seconds"),
    [("00:00:07", 7), ("10:00:00", 36000), ("3-00:00:01", 259201), ("01:30", 90), ("00:00:01.500000", 1.5)],
)
def test_elapsed_times(write, elapsed, seconds):
    assert read(write, line(elapsed=elapsed))[0]["duration"].tolist() == [seconds]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"elapsed": "INVALID"}, "Elapsed"),
        ({"elapsed": ""}, "Elapsed"),
        ({"elapsed": "9" * 400 + ":00:00"}, "Elapsed"),
        ({"elapsed": "99999-00:00:00"}, "Elapsed"),
        ({"state": "DONE"}, "State"),
        ({"state": ""}, "State"),
        ({"submit": "yesterday"}, "Submit"),
        ({"submit": "0001-01-01T00:00:00"}, "Submit"),
        ({"tres": "gres/gpu=99999999"}, "AllocTRES"),
        ({"tres": "gres/gpu=2,gres/gpu:a100=1,gres/gpu:v100=1"}, "AllocTRES"),
        ({"submit": "a|b|c"}, "JobID"),
    ],
)
def test_a_bad_line_is_counted_with_its_field_or_raised(write, changes, field):
    frame, report = read(write, line(), line("102", **changes), strict=False)
    assert len(frame) == 1
    assert [(bad.row, bad.field) for bad in report.examples] == [(3, field)]
    with pytest.raises(TraceError, match=rf"jobs\.txt: row 3: {field} is "):
        read(write, line(), line("102", **changes))


@pytest.mark.parametrize("tres", ["", "billing=8,cpu=8,mem=64G", "gres/gpu=0", "gres/shard=4", "gres/gpumem=80G"])
def test_jobs_without_gpus_are_skipped(write, tres):
    assert read(write, line(), line("2", tres=tres))[1].skipped == {"no GPUs requested": 1}


def test_a_submission_that_is_unknown_is_skipped(write):
    assert read(write, line(), line("2", submit="Unknown"))[1].skipped == {"no recorded submission": 1}


def test_the_output_of_parsable_with_its_last_bar_and_other_columns(write):
    header = "JobID|State|Submit|Elapsed|AllocTRES|Partition|\n"
    frame, _ = read(write, f"5|COMPLETED|{START}|01:00:00|gres/gpu=1|long|\n", header=header)
    assert frame["num_gpus"].tolist() == [1]
    assert "tenant" not in frame


def test_users_are_tenants_where_accounts_are_not_in_the_file(write):
    frame, _ = read(write, line().replace("|vision", ""), header=HEADER.replace("|Account", ""))
    assert frame["tenant"].tolist() == ["ann"]


def test_times_follow_the_clock_of_a_zone(write):
    lines = line("1", submit="2024-10-27T01:00:00"), line("2", submit="2024-10-27T08:00:00")
    frame, report = read(write, *lines, timezone="Europe/Berlin")
    assert frame["submit_time"].tolist() == [3600.0, 9 * 3600.0]
    assert NO_ZONE_NOTE not in report.notes


FULL = (
    "JobIDRaw|JobID|JobName|User|Account|Partition|QOS|Priority|Submit|Eligible|Elapsed|Timelimit|State|NNodes|AllocTRES|"
    "SubmitLine\n"
)


def full(
    number, *, name="train", limit="02:00:00", priority="4294901000", eligible=START, line="sbatch job.sh", **given
):
    values = {"partition": "gpu", "elapsed": "01:00:00", "state": "COMPLETED", "tres": TRES, **given}
    return (
        f"{number}|{number}|{name}|ann|vision|{values['partition']}|high|{priority}|{START}|{eligible}|{values['elapsed']}|"
        f"{limit}|{values['state']}|1|{values['tres']}|{line}\n"
    )


def test_what_users_state_is_read(write):
    lines = (
        full(1, name="a|b|c", limit="1-00:00:30"),
        full(2, limit="UNLIMITED", eligible="2024-03-04T09:00:00", line="sbatch -a 0-9%3 --requeue x.sh | tee log"),
        full(3, name="x|y", limit="Partition_Limit", line="sbatch --dependency=afterok:1 --nice=-7 x.sh | tee"),
        full(4, limit="Partition_Limit", partition="debug", priority="", line="sbatch --nice -d after:1 x.sh"),
        full("4.batch", limit="", priority=""),
    )
    frame, report = read(write, *lines, header=FULL, default_limits={"debug": "30:00", "": 7200})
    assert frame["name"].tolist() == ["a|b|c", "train", "x|y", "train"]
    assert frame["time_limit"].tolist() == [86430.0, 0.0, 7200.0, 1800.0]
    assert frame["priority"].tolist() == [4294901000.0] * 3 + [0.0]
    assert frame["eligible_after"].tolist() == [0.0, 3600.0, 0.0, 0.0]
    assert frame["begin_after"].tolist() == [0.0, 3600.0, 0.0, 0.0]
    assert frame["dependency"].tolist() == ["", "", "afterok:1", ""]
    assert frame["array_limit"].tolist() == [0.0, 3.0, 0.0, 0.0]
    assert frame["requeue"].tolist() == ["", "1", "", ""]
    assert frame["nice"].tolist() == [0.0, 0.0, -7.0, 100.0]
    said = (
        "read, and not enforced: jobs state a priority (3 jobs), a QoS (4 jobs), a word on requeueing (1 jobs), a "
        "limit on running tasks of their array (1 jobs)"
    )
    assert said in report.notes
    assert "1 dependencies are not enforced, as of dependency 'after:1': 'after:1' is not" in "".join(report.notes)


def test_jobs_wait_for_what_the_file_states_unless_that_is_lifted(write, cluster, ideal):
    """Job 9 is not in the file, so that its dependency is met; 7 stands for all tasks of the array."""
    lines = (
        full("7_1"),
        full("7_2", eligible="2024-03-04T09:00:00"),
        full(8, line="sbatch -d afterok:7,afterany:9 x.sh", eligible="2024-03-04T09:00:00"),
        full(10, line="sbatch --dependency=singleton x.sh"),
        full(11, line="sbatch --dependency=afterok:12 x.sh"),
        full(12),
    )
    path = str(write("jobs.txt", FULL + "".join(lines)))
    found = {}
    for setting in ("trace", "none"):
        (workload,) = TraceSource(
            cluster, ideal, SlurmTrace(), path=path, evaluate_on="all", holds=setting
        ).evaluation()
        begins = workload.jobs["begin_time"] - workload.jobs["submit_time"][0]
        found[setting] = workload.dependencies, np.maximum(begins, 0.0).tolist(), "holds=none" in str(workload.notes)
    singleton = tuple((3, on, 3) for on in range(3))
    assert found["trace"] == (((2, 0, 1), (2, 1, 1), *singleton), [0.0, 3600.0, 0.0, 0.0, 0.0, 0.0], True)
    assert found["none"] == ((), [0.0] * 6, False)
    with pytest.raises(TraceError, match=r"workload\.holds is 'all'; it must be trace or none"):
        TraceSource(cluster, ideal, SlurmTrace(), path=path, holds="all")  # type: ignore[arg-type]


def test_limits_end_jobs_unless_they_are_lifted(write, cluster, ideal):
    timed_out = full(3, state="TIMEOUT", elapsed="02:00:00"), full(4, state="TIMEOUT", elapsed="02:00:31")
    assert read(write, *timed_out, header=FULL)[0]["duration"].tolist() == [pytest.approx(7200.0072, abs=1e-9), 7231.0]
    path = str(write("jobs.txt", FULL + full(1) + full(2, limit="UNLIMITED")))
    limits = {}
    for setting in ("trace", "none"):
        source = TraceSource(cluster, ideal, SlurmTrace(), path=path, evaluate_on="all", limits=setting)
        (workload,) = source.evaluation()
        limits[setting] = [job.time_limit for job in workload]
        assert [(job.priority, job.qos, job.nice) for job in workload] == [(4294901000.0, "high", 0.0)] * 2
    assert limits == {"trace": [7200.0, math.inf], "none": [math.inf] * 2}
    with pytest.raises(TraceError, match=r"workload\.limits is 'all'; it must be trace, drawn or none"):
        TraceSource(cluster, ideal, SlurmTrace(), path=path, limits="all")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"limit": "soon"}, "Timelimit"), ({"priority": "high"}, "Priority"), ({"eligible": "x"}, "Eligible")],
)
def test_a_bad_statement_is_named_with_row_and_column(write, changes, field):
    with pytest.raises(TraceError, match=rf"jobs\.txt: row 3: {field} is .*; it must be"):
        read(write, full(1), full(2, **changes), header=FULL)


def test_a_bad_default_limit_is_refused(write):
    with pytest.raises(TraceError, match=r"workload\.reader\.default_limits\.debug is 'long'; it must be a time like"):
        read(write, full(1), header=FULL, default_limits={"debug": "long"})


def test_raw_ids_alone_and_comma_separated_exports_are_read(write):
    header = HEADER.replace("JobID", "JobIDRaw")
    assert read(write, line("7"), header=header)[0]["id"].tolist() == ["7"]
    rows = [HEADER, line("7", name='a "quoted", name').replace('"', '""')]
    text = "".join(",".join(f'"{cell}"' for cell in row.strip().split("|")) + "\n" for row in rows)
    frame, _ = SlurmTrace().read(write("jobs.csv", text), strict=True)
    assert (frame["name"].tolist(), frame["num_gpus"].tolist()) == (['a "quoted", name'], [2])


TIME = {
    "submission": 1709539200, "eligible": 1709539260, "elapsed": 90061,
    "limit": {"set": True, "infinite": False, "number": 3000},
}  # fmt: skip
ENTRY = {
    "job_id": 12, "name": "a|b", "user": "ann", "account": "vision", "partition": "gpu", "qos": "high",
    "allocation_nodes": 1, "priority": {"set": True, "infinite": False, "number": 77},
    "array": {"job_id": 10, "task_id": {"set": True, "infinite": False, "number": 2},
              "limits": {"max": {"running": {"tasks": 5}}}},
    "time": TIME,
    "state": {"current": ["COMPLETED"]},
    "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8}, {"type": "gres", "name": "gpu:a100", "count": 2}]},
}  # fmt: skip


def test_json_is_read(write):
    old = ENTRY | {"job_id": 13, "array": {"job_id": 0, "task_id": None}, "priority": 5, "state": {"current": "FAILED"}}
    old["time"] = TIME | {"limit": {"set": True, "infinite": True, "number": 0}}
    text = json.dumps({"meta": {}, "jobs": [ENTRY, old, 3]})
    frame, report = SlurmTrace(gpu_types={"a100": "A100"}).read(write("jobs.json", text))
    assert frame["id"].tolist() == ["10_2", "13"]
    assert frame["name"].tolist() == ["a|b", "a|b"]
    assert frame["submit_time"].tolist() == [8 * 3600.0] * 2
    assert frame["duration"].tolist() == [90061.0] * 2
    assert frame["time_limit"].tolist() == [180000.0, 0.0]
    assert frame["priority"].tolist() == [77.0, 5.0]
    assert frame["array_limit"].tolist() == [5.0, 0.0]
    assert frame["gpu_type"].tolist() == ["A100", "A100"]
    assert report.bad == {"JobID must be in an object of sacct's JSON": 1}


QUEUE = Path(__file__).parents[1] / "deployment" / "recorded" / "squeue_accounts_22_05.json"


def test_a_recorded_queue_is_read_as_jobs_that_run_until_their_limits():
    """Slurm 22.05 had two arrays, one of them begun, a singleton, a held job, one on two GPU types, and one ended."""
    frame, report = SlurmTrace(gpu_types={"a100": "A100", "v100": "V100"}, default_limits={"": 3600}).read(QUEUE)
    assert frame["id"].tolist() == [*(f"2_{task}" for task in range(1, 6)), "3", "4", "6", "8_1", "8_2", "8_3"]
    assert frame["num_gpus"].tolist() == [1] * 5 + [2, 4, 4, 2, 2, 2]
    assert (
        frame["duration"].tolist()
        == frame["time_limit"].tolist()
        == [300.0] * 5 + [3000.0, 300.0, 3600.0] + [600.0] * 3
    )
    assert frame["pool"].tolist() == ["a100"] * 5 + ["v100", "a100,v100"] + ["a100"] * 4
    assert frame["ran_on"].tolist() == [""] * 5 + ["V100", "", "", "A100", "", ""]
    assert frame["begin_after"].tolist() == [3600.0] * 5 + [0.0] * 6
    assert frame["dependency"].tolist() == [""] * 6 + ["singleton"] + [""] * 4
    assert frame["array_limit"].tolist() == [2.0] * 5 + [0.0] * 3 + [1.0] * 3
    assert set(frame["tenant"]) == {"speech", "vision"}
    assert report.skipped == {"ended": 1, "held by their users or by administrators": 1}
    assert report.bad == {"AllocTRES must have GPUs of one type": 1}
    _, report = SlurmTrace().read(QUEUE)
    assert report.kept == 10  # job 6 has no limit


def test_a_queue_of_newer_versions_is_read(write):
    """Numbers are objects there, states lists; GPUs may not be accounted for."""

    def number(value):
        return {"set": True, "infinite": False, "number": value}

    job = {
        "job_id": 5, "job_state": ["RUNNING"], "submit_time": number(1709539200), "time_limit": number(90),
        "eligible_time": number(1709539200), "array_job_id": number(0), "array_task_id": {"set": False}, "name": "a",
        "tres_req_str": "cpu=4", "tres_per_node": "gres/gpu:a100=2", "node_count": number(3), "user_name": "ann",
    }  # fmt: skip
    array = job | {"job_id": 9, "array_job_id": number(9), "array_task_string": "0,4-8:2%3", "job_state": ["PENDING"]}
    array |= {"dependency": "afterok:5(unfulfilled),afterany:77", "tres_per_node": "", "tres_per_job": "gres:gpu:7"}
    frame, report = SlurmTrace(gpu_types={"a100": "A100"}).read(write("queue.json", json.dumps({"jobs": [job, array]})))
    assert frame["id"].tolist() == ["5", "9_0", "9_4", "9_6", "9_8"]
    assert frame["num_gpus"].tolist() == [6, 7, 7, 7, 7]
    assert frame["duration"].tolist() == [5400.0] * 5
    assert frame["dependency"].tolist() == ["", *["afterok:5"] * 4]
    assert "4 dependencies are not enforced, as of job '77' is not submitted" in "".join(report.notes)


TERMINAL = "       JobID    State              Submit \n------------ -------- ------------------- \n101 COMPLETED x\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TERMINAL, "is no table that can be split without doubt"),
        (line(), r"does not begin with the names of sacct's columns \(leave out --noheader\)"),
        (HEADER.replace("Elapsed", "Start2") + line(), "has no column 'Elapsed'; it has JobID, JobName"),
        (HEADER, "has a header but no rows"),
        ((HEADER + line()).replace("|", ","), "its rows have more fields than its header"),
        ("- job_id: 3\n  state: COMPLETED\n", "does not begin with the names of sacct's columns"),
        ('{"jobs": [}', r"is not the JSON of sacct \(Expecting value"),
        ('{"jobs": []}', "has no list of jobs"),
        (HEADER.replace("User", "State") + line(), "two columns are named 'State'"),
    ],
)
def test_other_forms_are_refused_with_the_command(write, text, said):
    with pytest.raises(TraceError, match=rf"jobs\.txt: .*{said}.*sacct --allusers .*--parsable2.*> jobs\.txt$"):
        SlurmTrace().read(write("jobs.txt", text))
