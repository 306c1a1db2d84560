"""Limits of QoS and associations: how they are read, and schedules worked by hand."""

import math

import pytest

from baselines.slurm import Slurm
from baselines.slurm.accounting import read_accounting
from baselines.slurm.limits import Ceiling, read_ceiling
from envs.performance import IdealModel
from envs.simulation import Information, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload

ACCOUNTING = """Account|User|Share|GrpJobs|GrpTRES|MaxJobs|MaxWall
root||1|||1|
 lab||1||cpu=64,gres/gpu=4||
  lab|ann|1|||2|1-00:00:00
  lab|bob|1||||
Name|Priority|GrpTRES|MaxTRESPU|MaxJobsPU|MaxJobsPA
high|10|gres/gpu=6|gres/gpu=2|1|3
"""


def starts(jobs, accounting):
    """Play on a node of eight GPUs, compiled and plainly, which agree; return first starts."""
    setup = Setup(ClusterSpec((NodeSpec("A100", 8),)), IdealModel(), Scenario(0, 0, information=Information("limit")))
    runs = []
    for compiled in (True, False):
        simulator = Simulator(Workload.of(jobs), setup)
        runs.append(run_episode(Slurm(accounting=str(accounting)), simulator, compiled=compiled))
    assert runs[0].log == runs[1].log
    return runs[0].records["start_time"].tolist()


def job(gpus, user, qos="", seconds=100.0, tenant="lab"):
    return JobSpec(0, 0.0, gpus, gpus * seconds, "any", user=user, tenant=tenant, qos=qos, time_limit=2 * seconds)


@pytest.fixture
def accounting(tmp_path):
    path = tmp_path / "accounting.txt"
    path.write_text(ACCOUNTING)
    return path


def test_limits_are_read_and_others_named(accounting):
    associations, qos, left_out = read_accounting(accounting)
    assert {each.user or each.account: each.most for each in associations} == {
        "lab": Ceiling(gpus=4),
        "ann": Ceiling(jobs=2),
        "bob": Ceiling(),
    }
    high = qos["high"]
    assert (high.most, high.most_of_user, high.most_of_account) == (Ceiling(6), Ceiling(2, 1), Ceiling(jobs=3))
    assert left_out == ("GrpTRES=cpu of associations", "MaxWall of associations")


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([job(2, "ann"), job(2, "bob"), job(2, "bob"), job(2, "eve", tenant="free")], [0, 0, 100, 0]),  # 4 GPUs of lab
        ([job(1, "ann"), job(1, "ann"), job(1, "ann")], [0, 0, 100]),  # two jobs of ann
        ([job(1, "x", "high", tenant="a"), job(1, "x", "high", tenant="b")], [0, 100]),  # one job of a user
        ([job(1, f"u{n}", "high", tenant="a") for n in range(4)], [0, 0, 0, 100]),  # three of an account
        ([job(2, f"u{n}", "high", tenant=f"a{n}") for n in range(4)], [0, 0, 0, 100]),  # six GPUs of the QoS
        ([job(8, "bob"), job(1, "bob")], [0, 100]),  # more than the limit, alone
    ],
)
def test_a_job_that_a_limit_holds_back_starts_when_it_may_and_blocks_no_other(accounting, jobs, expected):
    assert starts(jobs, accounting) == expected


def test_no_limit_is_infinite_and_a_wrong_one_is_named():
    assert read_ceiling("x:1", {"GrpTRES": "gres/gpu=-1", "GrpJobs": "-1"}, ["GrpTRES"], ["GrpJobs"]).gpus == math.inf
    with pytest.raises(MurmurationError, match="x:1: GrpJobs is 'many'; it must be a whole number"):
        read_ceiling("x:1", {"GrpJobs": "many"}, ["GrpTRES"], ["GrpJobs"])
