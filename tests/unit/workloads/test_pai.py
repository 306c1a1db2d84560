"""Alibaba PAI: two tables without headers become one row per job."""

import pytest

from envs.types import TraceError
from envs.workloads.readers import PaiTrace

JOBS = (
    "j1,i1,alice,Terminated,1000.0,1700.0\n"
    "j2,i2,bob,Failed,900.0,1500.0\n"
    "j3,i3,bob,Terminated,950.0,1000.0\n"  # CPU only
    "j4,i4,carol,Running,2000.0,\n"  # its task has no end
    "j5,i5,carol,Waiting,,\n"
)
TASKS = (
    "j1,ps,1.0,Terminated,1100.0,1650.0,600.0,10.0,,\n"  # no GPU: neither its size nor its time counts
    "j1,worker,2.0,Terminated,1150.0,1600.0,400.0,20.0,50.0,V100M32\n"
    "j1,evaluator,1.0,Terminated,1200.0,1690.0,400.0,20.0,100.0,V100M32\n"
    "j2,tensorflow,1.0,Failed,910.0,1410.0,600.0,29.3,200.0,MISC\n"
    "j3,worker,1.0,Terminated,960.0,1000.0,600.0,29.3,0.0,\n"
    "j4,worker,1.0,Running,2010.0,,600.0,29.3,100.0,T4\n"
)


@pytest.fixture
def folder(write):
    def made(jobs=JOBS, tasks=TASKS, groups=None):
        if groups is not None:
            write("pai/pai_group_tag_table.csv", groups)
        write("pai/pai_job_table.csv", jobs)
        return write("pai/pai_task_table.csv", tasks).parent

    return made


def test_a_trace_by_hand(folder):
    frame, report = PaiTrace().read(folder(), strict=True)
    assert frame["id"].tolist() == ["j2", "j1"]
    assert frame["submit_time"].tolist() == [0.0, 100.0]
    # j1: two half GPUs count as two whole ones, plus one; from the start of its first GPU task to the end of its last.
    assert frame["num_gpus"].tolist() == [2, 3]
    assert frame["gpu_fraction"].tolist() == [1.0, 1.0]
    assert frame["duration"].tolist() == [500.0, 540.0]
    assert frame["gpu_type"].tolist() == ["K80", "V100"]
    assert frame["tenant"].tolist() == frame["user"].tolist() == ["bob", "alice"]
    assert "name" not in frame
    assert report.skipped == {"no recorded submission": 1, "no GPU task, or none with recorded times": 2}
    assert report.notes[:3] == (
        "1 GPU tasks request a share of a GPU, which counts as a whole GPU unless a job has no other",
        "2 tasks without GPUs",
        "1 GPU tasks without recorded times",
    )


def test_a_share_that_is_all_of_a_job_is_a_fraction(folder):
    tasks = TASKS.replace(
        "j2,tensorflow,1.0,Failed,910.0,1410.0,600.0,29.3,200.0", "j2,worker,1.0,Failed,910.0,1410.0,600.0,29.3,25.0"
    )
    frame, _ = PaiTrace().read(folder(tasks=tasks), strict=True)
    assert frame["num_gpus"].tolist() == [1, 3]
    assert frame["gpu_fraction"].tolist() == [0.25, 1.0]


def test_a_missing_gpu_type_is_that_of_the_reader(folder):
    tasks = TASKS.replace("MISC", "")
    assert PaiTrace(gpu_type="P100").read(folder(tasks=tasks))[0]["gpu_type"].tolist() == ["P100", "V100"]


def test_the_group_of_a_job_is_its_name(folder):
    """Jobs without a tag have no row there; the columns are inst_id, user, gpu_type_spec, group, workload."""
    groups = "i1,alice,,g7,bert\ni9,eve,V100,g8,\n"
    frame, _ = PaiTrace().read(folder(groups=groups), strict=True)
    assert frame["id"].tolist() == ["j2", "j1"]
    assert frame["name"].tolist() == ["", "g7"]
    with pytest.raises(TraceError, match=r"pai_group_tag_table\.csv: row 2: .* must be in a row of 5 fields"):
        PaiTrace().read(folder(groups="i1,alice,,g7,bert\ni2,bob\n"), strict=True)


def test_a_header_line_is_skipped(folder):
    header = "job_name,inst_id,user,status,start_time,end_time\n"
    assert len(PaiTrace().read(folder(jobs=header + JOBS), strict=True)[0]) == 2


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("j2,worker,1.0,Failed,910.0,900.0,600.0,29.3,200.0,T4", "end_time must not be before start_time"),
        ("j2,worker,1.0,Failed,910.0,1000.0,600.0,29.3,lots,T4", "plan_gpu must be a finite number"),
        ("j2,worker,-1,Failed,910.0,1000.0,600.0,29.3,100.0,T4", "inst_num must be at least 0"),
    ],
)
def test_bad_task_rows_are_in_the_notes_or_raised(folder, bad, message):
    path = folder(tasks=TASKS + bad + "\n")
    _, report = PaiTrace().read(path)
    assert f"1 bad task rows ({message})" in report.notes
    with pytest.raises(TraceError, match="pai_task_table.csv: row 7"):
        PaiTrace().read(path, strict=True)


def test_a_bad_submission_is_counted(folder):
    _, report = PaiTrace().read(folder(jobs=JOBS + "j1,i1,alice,Terminated,noon,1700.0\n"))
    assert report.bad == {"start_time must be a finite number": 1}


def test_the_error_names_a_missing_file(write, folder):
    with pytest.raises(TraceError, match="is not a folder; a PAI trace is a folder with pai_job_table.csv"):
        PaiTrace().read(write("pai.csv", "x"))
    (folder() / "pai_task_table.csv").unlink()
    with pytest.raises(TraceError, match="has no pai_task_table.csv; unpack pai_task_table.tar.gz"):
        PaiTrace().read(write("pai/note.txt", "x").parent)


def test_a_trace_without_any_gpu_task_is_an_error(folder):
    with pytest.raises(TraceError, match="none of its 5 rows is a usable pai job"):
        PaiTrace().read(folder(tasks="j3,worker,1.0,Terminated,960.0,1000.0,600.0,29.3,0.0,\n"))
