"""Readers of traces by the schemas that their repositories publish: rows of the documented form, invented values."""

import pytest

from envs.types import TraceError
from envs.workloads.readers import AcmeTrace, OpenbTrace, SpotTrace, locate

SEREN = """job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
1,u1,1,8,128,Other,FAILED,2023-03-01 00:10:00+08:00,2023-03-01 00:10:30+08:00,2023-03-01 00:12:30+08:00,120,30,960.0
2,u2,2,16,256,Pretrain,COMPLETED,2023-03-01 00:20:00+08:00,2023-03-01 00:20:00+08:00,2023-03-01 01:20:00+08:00,3600,0,1
3,u2,1,0,4,Other,COMPLETED,2023-03-01 00:21:00+08:00,2023-03-01 00:21:00+08:00,2023-03-01 00:22:00+08:00,60,0,0.0
4,u3,1,1,4,Debug,CANCELLED,2023-03-01 00:22:00+08:00,,,0,90,0.0
5,u3,1,1,4,Debug,FAILED,2023-03-01 00:23:00+08:00,2023-03-01 00:24:00+08:00,2023-03-01 00:23:30+08:00,-30,60,0.0
"""
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,"
    "fail_time,stop_time,duration,queue,gpu_time\n"
    "dlc1,u7,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,"
    "2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0\n"
)
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0001,88000,327680,8,1000,,Burstable,Succeeded,9437497,9438497,9437507
openb-pod-0002,4000,15258,1,220,,BE,Running,9437597,9439597,9437597
openb-pod-0003,16000,32768,1,1000,V100M16|V100M32,LS,Running,9437697,9437797,9437697
openb-pod-0004,16000,32768,1,1000,G2|P100,LS,Running,9437698,9437798,9437698
openb-pod-0005,16000,32768,0,0,,LS,Running,9437699,9437799,9437699
openb-pod-0006,16000,32768,2,1000,,LS,Pending,9437700,9437800,
openb-pod-0007,16000,32768,9,1000,,LS,Running,9437701,9437801,9437701
"""
SPOT = """job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
10,13,A10,20,1,1,0,2764,HP
11,57,A100-SXM4-80GB,15,0.5,94,100,410,Spot
12,57,GPU-series-1,15,2,3,200,500,Spot
13,57,A100-SXM4-80GB,15,1,1,300,0,Spot
14,57,A100-SXM4-80GB,15,1,1,400,10,Other
"""


@pytest.fixture
def write(tmp_path):
    def put(text):
        (tmp_path / "trace.csv").write_text(text)
        return tmp_path / "trace.csv"

    return put


def test_acme_runs_from_start_to_end_and_skips_what_held_no_gpu(write):
    frame, report = AcmeTrace().read(write(SEREN))
    assert frame["submit_time"].tolist() == [0.0, 600.0]
    assert frame["duration"].tolist() == [120.0, 3600.0]
    assert frame["num_gpus"].tolist() == [8, 16]
    assert frame["tenant"].tolist() == ["u1", "u2"]
    assert report.skipped == {"jobs that never started": 1, "no GPUs requested": 1}
    assert report.bad == {"end_time must not be before start_time": 1}


def test_the_duration_of_kalos_is_without_its_time_in_the_queue(write):
    frame, _ = AcmeTrace().read(write(KALOS))
    assert frame["duration"].tolist() == [8.0], "the column says 18, with 10 s in the queue"


def test_types_of_work_are_chosen_without_moving_the_origin(write):
    frame, report = AcmeTrace(workload_types=["Pretrain"]).read(write(SEREN))
    assert frame["submit_time"].tolist() == [600.0]
    assert report.skipped["other types of work"] == 1
    with pytest.raises(TraceError, match="workload_types"):
        AcmeTrace(workload_types=["Pretraining"]).read(write(SEREN))


def test_openb_keeps_fractions_and_takes_the_first_known_gpu_type(write):
    frame, report = OpenbTrace().read(write(OPENB))
    assert frame["submit_time"].tolist() == [0.0, 100.0, 200.0, 201.0]
    assert frame["duration"].tolist() == [990.0, 2000.0, 100.0, 100.0]
    assert frame["num_gpus"].tolist() == [8, 1, 1, 1]
    assert frame["gpu_type"].tolist() == ["T4", "T4", "V100", "P100"]
    assert report.skipped == {"no GPUs requested": 1, "pods that were never scheduled": 1}
    assert report.bad == {"num_gpu must be at most 8": 1}
    assert frame["gpu_fraction"].tolist() == [1.0, 0.22, 1.0, 1.0]


def test_spot_jobs_have_workers_tenants_and_a_priority(write):
    frame, report = SpotTrace().read(write(SPOT))
    assert frame["num_gpus"].tolist() == [1, 94, 6]
    assert frame["guaranteed"].tolist() == [True, False, False]
    assert frame["tenant"].tolist() == ["13", "57", "57"]
    assert frame["gpu_type"].tolist() == ["A100", "A100", "A100"]
    assert report.skipped == {"zero duration": 1}
    assert report.bad == {"job_type must be HP or Spot": 1}
    assert "GPU types that count as A100: A10, GPU-series-1" in report.notes


@pytest.mark.parametrize(("reader", "text"), [(AcmeTrace(), SEREN), (OpenbTrace(), OPENB), (SpotTrace(), SPOT)])
def test_a_missing_column_and_a_missing_file_are_named(write, reader, text, monkeypatch):
    head, _, rest = text.partition("\n")
    with pytest.raises(TraceError, match=f"has no column.*{head.split(',')[0]}"):
        reader.read(write(f"x{head}\n{rest}"))
    monkeypatch.delenv("MURMURATION_DATA", raising=False)
    with pytest.raises(TraceError) as caught:
        locate(reader, None)
    assert reader.source in str(caught.value)
