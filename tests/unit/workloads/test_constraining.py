"""Constraints of jobs from the columns of a trace."""

import pytest

from envs.cluster import build_cluster
from envs.performance import IdealModel
from envs.types import ClusterError, Constraints, JobSpec, TraceError
from envs.workloads import TraceSource, Workload
from envs.workloads.readers import CsvTrace, SlurmTrace

CLUSTER = build_cluster(
    "halls",
    [
        {"gpu_type": "A100", "num_nodes": 2, "num_gpus": 4, "pools": ["day"], "features": ["ib"]},
        {"gpu_type": "H100", "num_nodes": 1, "num_gpus": 8, "pools": ["day", "night"]},
    ],
)
SLURM = """JobID|Partition|State|Submit|Elapsed|AllocTRES
1|day|COMPLETED|2024-03-04T08:00:00|01:00:00|gres/gpu=2,gres/gpu:a100=2
2|night|COMPLETED|2024-03-04T08:00:01|01:00:00|gres/gpu=2
3|old,older|COMPLETED|2024-03-04T08:00:02|01:00:00|gres/gpu=2,gres/gpu:k80=2
4|day|COMPLETED|2024-03-04T08:00:03|01:00:00|gres/gpu=2
"""
OURS = {"a100": "A100", "k80": "K80"}


def slurm_jobs(write, **options) -> Workload:
    source = TraceSource(
        CLUSTER,
        IdealModel(),
        SlurmTrace(gpu_types=OURS),
        path=str(write("jobs.txt", SLURM)),
        elastic=1.0,
        evaluate_on="all",
        **options,
    )
    return source.evaluation()[0]


def test_a_job_may_run_where_it_ran(write):
    """Partition day is the whole cluster, old ones and K80 are nowhere: neither constrains a job."""
    jobs = slurm_jobs(write, constraints="trace")
    assert [spec.constraints for spec in jobs] == [
        Constraints(gpu_types=("A100",), pools=("day",)),
        Constraints(pools=("night",)),
        Constraints(),
        Constraints(),
    ]
    assert jobs.jobs["work"].tolist() == [7200.0] * 4
    said = "jobs may run only where the trace says (types=A100 pools=day: 1 jobs, pools=night: 1 jobs)"
    assert any(note.startswith(said) for note in jobs.notes)
    lacks = "cluster halls has no GPU type K80 (1 jobs), pool old, older (1 jobs): that constrains no job"
    assert lacks in jobs.notes


@pytest.mark.parametrize("options", [{}, {"constraints": "none"}])
def test_constraints_are_left_out_unless_they_are_asked_for(write, options):
    jobs = slurm_jobs(write, **options)
    assert jobs.models == ("any",)
    assert not any("constrain" in note for note in jobs.notes)


def test_another_setting_is_refused(write):
    with pytest.raises(TraceError, match=r"^workload\.constraints is 'all'; it must be trace or none$"):
        slurm_jobs(write, constraints="all")


HEADER = "at,took,n,pool,have,most,nodes,each,alone,gb,mig\n"
COLUMNS = {
    "submit_time": "at",
    "duration": "took",
    "num_gpus": "n",
    "pool": "pool",
    "features": "have",
    "max_nodes": "most",
    "num_nodes": "nodes",
    "gpus_per_node": "each",
    "exclusive": "alone",
    "gpu_memory": "gb",
    "mig_profile": "mig",
}
FORMS = {
    "0,9,8,,,,,,,,": Constraints(),
    "0,9,8,day+night,ib,2,,4,yes,40,": Constraints(
        pools=("day", "night"), features=("ib",), max_nodes=2, gpus_per_node=4, exclusive=True, gpu_memory=40
    ),
    "0,9,8,,,0,2,0,no,0,": Constraints(num_nodes=2),
    "0,9,4,,,,2,,,,": Constraints(num_nodes=2),
}


def csv_jobs(write, line):
    path = str(write("jobs.csv", f"{HEADER}{line}\n"))
    return TraceSource(CLUSTER, IdealModel(), CsvTrace(COLUMNS), path=path, constraints="trace", evaluate_on="all")


@pytest.mark.parametrize("line", FORMS)
def test_columns_of_a_table_are_constraints(write, line):
    assert csv_jobs(write, line).evaluation()[0].spec(0).constraints == FORMS[line]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0,9,8,a|b,,,,,,,", r"pool is 'a\|b'; it must be a list of names"),
        ("0,9,8,,,-1,,,,,", r"most is '-1'; it must be at least 0"),
        ("0,9,8,,,,1.5,,,,", r"nodes is '1\.5'; it must be a whole number"),
        ("0,9,8,,,,,,perhaps,,", r"alone is 'perhaps'; it must be one of 1, true"),
        ("0,9,8,,,,,,,,9g.1gb", r"mig is '9g\.1gb'; it must be a profile like 1g\.10gb"),
    ],
)
def test_what_cannot_be_read_is_a_bad_row(write, line, said):
    with pytest.raises(TraceError, match=said):
        csv_jobs(write, line).evaluation()


def test_a_job_that_no_node_may_run_is_refused_with_the_fix(write):
    with pytest.raises(ClusterError, match=r"any where features=fast\) does not run on 8 GPUs .*constraints=none$"):
        csv_jobs(write, "0,9,8,,fast,,,,,,").evaluation()


@pytest.mark.parametrize(
    ("labels", "said"), [({"pools": "day"}, "give a list of names"), ({"features": ["a b"]}, "use letters, digits")]
)
def test_labels_of_nodes_are_checked(labels, said):
    with pytest.raises(ClusterError, match=said):
        build_cluster("halls", [{"gpu_type": "A100", "num_nodes": 2, "num_gpus": 4, **labels}])


def test_jobs_that_may_not_use_the_same_nodes_load_the_cluster_side_by_side():
    """64 GPU-seconds on the 8 A100 and as many on the 8 H100, within 10 s: each hall is busy for 8 of them."""
    asked = [Constraints(gpu_types=("A100",)), Constraints(gpu_types=("H100",))]
    jobs = [JobSpec(0, at, 4, 64.0, "any", constraints=each) for at, each in zip((0.0, 10.0), asked, strict=True)]
    assert Workload.of(jobs).offered_load(CLUSTER, IdealModel())["all"] == pytest.approx(0.8)
