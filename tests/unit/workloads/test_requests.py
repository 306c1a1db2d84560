"""Partitions that synthetic users choose, and time limits that they state."""

import numpy as np
import pytest

from envs.cluster import NodeGroup, build_cluster
from envs.performance import TableModel
from envs.types import Configuration, TraceError, constraints_of, without_constraints
from envs.workloads import Habits, Requests, SyntheticSource

CLUSTER = build_cluster("two", [NodeGroup("V100", 2, 8, pools=["fast", "all"]), NodeGroup("P100", 2, 8, pools=["all"])])
SHARES = {"fast": 3.0, "all": 1.0}


def drawn(num_jobs=2000, **options):
    """One workload, and the partition of each job."""
    asked = Requests(SHARES, **{"longest": {"fast": 36000.0}, **options})
    source = SyntheticSource(CLUSTER, TableModel(), num_jobs=num_jobs, elastic=1.0, load=0.8, requests=asked)
    workload = source.episode(np.random.default_rng(0))
    pools = np.array([constraints_of(model).pools[0] for model in workload.models])
    return workload, pools[workload.jobs["model"]]


def test_jobs_choose_partitions_by_their_shares_at_the_exact_load():
    workload, pools = drawn()
    assert (pools == "fast").mean() == pytest.approx(0.75, abs=0.03)
    assert workload.offered_load(CLUSTER, TableModel())["all"] == pytest.approx(0.8)


def test_run_times_are_those_on_the_slowest_gpus_of_the_partition():
    workload, pools = drawn(200)
    performance = TableModel()
    for job in (*np.flatnonzero(pools == "fast")[:5].tolist(), *np.flatnonzero(pools == "all")[:5].tolist()):
        spec, row = workload.spec(job), workload.jobs[job]
        nodes = -(-spec.num_gpus // 8)
        types = ["V100"] if pools[job] == "fast" else ["V100", "P100"]
        model, asked = without_constraints(spec.model), (spec.num_gpus, nodes)
        throughput = min(performance.throughput(model, Configuration(name, *asked)) for name in types)
        assert spec.work == pytest.approx(row["duration"] * throughput)


def test_limits_are_round_overstated_and_within_the_partitions():
    workload, pools = drawn(too_short=0.0, at_longest=0.2, least_accuracy=0.5)
    duration, limit = workload.jobs["duration"], workload.jobs["time_limit"]
    assert len(np.unique(limit)) < 25
    assert limit[pools == "fast"].max() == 36000.0
    assert (limit[pools == "fast"] == 36000.0).mean() > 0.2
    assert ((duration <= limit) | (limit == 36000.0)).all()


def test_some_limits_are_too_short():
    workload, _ = drawn(too_short=0.5, at_longest=0.0)
    assert 0.3 < (workload.jobs["duration"] > workload.jobs["time_limit"]).mean() < 0.6


def test_jobs_of_a_sweep_ask_for_the_same():
    source = SyntheticSource(
        CLUSTER, TableModel(), num_jobs=300, requests=Requests(SHARES), habits=Habits(fresh=1.0, sweep=5.0)
    )
    workload = source.episode(np.random.default_rng(1))
    asked: dict[tuple[str, str], set[tuple[int, float]]] = {}
    for name, user, row in zip(workload.names, workload.users, workload.jobs, strict=True):
        asked.setdefault((name, user), set()).add((int(row["model"]), float(row["time_limit"])))
    assert {len(each) for each in asked.values()} == {1}
    assert len(asked) < 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitions": {}}, "partitions is {}; give each partition a positive share"),
        ({"partitions": {"fast": 0.0}}, "give each partition a positive share"),
        ({"longest": {"slow": 3600.0}}, "longest names slow; partitions are fast, all"),
        ({"longest": {"fast": 1.0}}, "longest.fast is 1.0 s; it must be at least 300 s"),
        ({"too_short": 2.0}, "too_short is 2.0; it must be a share"),
        ({"least_accuracy": 0.0}, "least_accuracy is 0.0; it must be above 0"),
    ],
)
def test_impossible_requests_are_refused(options, message):
    with pytest.raises(TraceError, match=message):
        Requests(**{"partitions": SHARES, **options})


def test_a_partition_without_nodes_and_drawn_curves_are_refused():
    source = SyntheticSource(CLUSTER, TableModel(), requests=Requests({"debug": 1.0}))
    with pytest.raises(TraceError, match="names debug, which is no pool of cluster two"):
        source.episode(np.random.default_rng(0))
    with pytest.raises(TraceError, match="set curves=measured, exact_load=true"):
        SyntheticSource(CLUSTER, TableModel(), requests=Requests(SHARES), exact_load=False)
