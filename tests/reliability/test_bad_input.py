"""Bad input works or gives one line: mutated configurations, jobs and trace files, and hostile schedulers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from baselines import Fifo
from envs.evaluation import compare_schedulers
from envs.simulation import Rounds, Scenario, Setup, Simulator, run_episode
from envs.simulation.scenario import Failures
from envs.types import ClusterError, ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from envs.workloads.readers import CsvTrace, ItpTrace, MuriTrace, PhillyTrace, SwfTrace, TiresiasTrace
from murmuration.config.building import Component, build_object
from murmuration.config.describe import as_component
from tests.unit.simulation.bench import Bench
from tests.unit.simulation.plays import cluster_of, jobs_of

VALUES = st.one_of(
    st.sampled_from(
        [None, True, "abc", "", "x", 0, -1, 5, 10**11, 2**70, 1e18, 1e308, -0.0, 2.5, [], {}, [1, "a"], {"a": 5}]
    ),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e-9, "${x}", [[]], {"_target_": "envs.simulation.Rounds"}]),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=8),
)
SCENARIO = {
    "_target_": "envs.simulation.Scenario",
    "start_delay": 0.0,
    "restart_delay": 30.0,
    "reconfiguration": {"_target_": "envs.performance.CostBySize"},
    "cpu_memory": "shared",
    "contention": {"_target_": "envs.performance.Contention", "mode": "measured"},
    "failures": {"_target_": "envs.simulation.Failures", "mtbf": 1e4, "repair_time": 10.0, "checkpoint_interval": 0.0},
    "quotas": {"a": 4},
    "worker_shares": "equal",
    "statistical_efficiency": "measured",
    "batch_sizes": "usual",
    "horizon": 1e6,
    "rounds": {
        "_target_": "envs.simulation.Rounds",
        "on_events": True,
        "interval": 60.0,
        "stall_interval": 60.0,
        "max_stalls": 10,
        "max_futile_rounds": 100,
    },
    "information": {"_target_": "envs.simulation.Information", "work": "exact", "error": 0.3},
}
CLUSTER = {
    "_target_": "envs.cluster.build_cluster",
    "name": "c",
    "groups": [
        {
            "gpu_type": "V100",
            "num_nodes": 2,
            "num_gpus": 8,
            "cpu_cores": 24,
            "memory": 500,
            "intra_node_bandwidth": 12.0,
            "inter_node_bandwidth": 12.5,
        }
    ],
    "network_gbps": 10,
}


def places(node, path=()):
    """Paths to all values of a plain configuration, inner nodes included."""
    found = []
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if key != "_target_":
            found.append((*path, key))
        if isinstance(value, dict | list):
            found += places(value, (*path, key))
    return found


def mutated(node, path, value):
    """A copy with one value replaced."""
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = mutated(node[path[0]], path[1:], value)
    return copy


def build_or_refuse(name, content):
    """Build a configuration; None if it is refused in one line. Any other error fails the test."""
    try:
        return build_object(as_component(OmegaConf.create({name: content})[name]))
    except Exception as error:
        one_line(error)
        return None


def one_line(error):
    """Check that an error is the user's, in one line of moderate length."""
    from murmuration.config.errors import explain_error

    said = explain_error(error)
    if said is None:
        raise error
    assert said
    assert "\n" not in said
    assert len(said) < 2000


@given(st.sampled_from(places(SCENARIO)), VALUES)
def test_a_mutated_scenario_plays_or_is_refused(path, value):
    scenario = build_or_refuse("scenario", mutated(SCENARIO, path, value))
    if scenario is not None:
        assert isinstance(scenario, Scenario)
        try:
            setup = Setup(cluster_of(4, 4), Bench(), scenario)
            result = run_episode(Fifo(), Simulator(jobs_of((0, 4, 40), (3, 2, 40), (5, 8, 40), model="vgg16"), setup))
        except MurmurationError as error:
            one_line(error)
        else:
            assert len(result.records) + result.num_not_arrived == 3


@given(st.sampled_from(places(CLUSTER)), VALUES)
def test_a_mutated_cluster_is_built_or_refused(path, value):
    cluster = build_or_refuse("cluster", mutated(CLUSTER, path, value))
    assert cluster is None or (isinstance(cluster, ClusterSpec) and cluster.num_gpus > 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_nodes", 100_000_000_000), ("num_gpus", 10**9), ("cpu_cores", "abc"), ("memory", [5]), ("gpu_type", 5)],
)
def test_clusters_that_cannot_be_are_refused_at_once(name, value):
    content = mutated(CLUSTER, ("groups", 0, name), value)
    with pytest.raises(ClusterError, match=name):
        build_object(Component("cluster", content))


@pytest.mark.parametrize("quotas", [5, "a", [4], {"a": "x"}, {"a": -1}])
def test_quotas_that_are_no_numbers_by_tenant(quotas):
    with pytest.raises(MurmurationError, match="quotas"):
        build_object(Component("scenario", {**SCENARIO, "quotas": quotas}))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Rounds(interval=1e-9), "rounds.interval"),
        (lambda: Rounds(max_stalls=10**18), "max_stalls"),
        (lambda: Failures(mtbf=1e-9), "mtbf"),
        (lambda: NodeSpec("V100", 2.5), "num_gpus is 2.5"),  # type: ignore[arg-type]
        (lambda: NodeSpec("V100", 2, cpu_cores="abc"), "cpu_cores is 'abc'"),  # type: ignore[arg-type]
        (lambda: JobSpec(0, 0.0, 1.5, 10.0, "any"), "num_gpus is 1.5; it must be a whole number"),  # type: ignore[arg-type]
        (lambda: JobSpec(0, 0.0, 2, 10.0, "any", max_gpus=2.5), "max_gpus is 2.5"),  # type: ignore[arg-type]
        (lambda: JobSpec(0, 0.0, 1, 10.0, "any", min_batch="x"), "min_batch is 'x'"),  # type: ignore[arg-type]
        (lambda: JobSpec(0, 1e18, 1, 10.0, "any"), r"submit_time is 1e\+18"),
        (lambda: JobSpec(0, math.nan, 1, 10.0, "any"), "submit_time is nan"),
        (lambda: JobSpec(0, -1.0, 1, 10.0, "any"), "submit_time is -1.0"),
    ],
)
def test_values_that_would_hang_or_be_cut_are_refused(build, said):
    with pytest.raises(MurmurationError, match=said):
        build()


def test_whole_numbers_of_numpy_are_whole_numbers():
    job = JobSpec(0, 0.0, np.int64(2), 10.0, "any")  # type: ignore[arg-type]
    assert (job.num_gpus, type(job.num_gpus)) == (2, int)


def test_a_workload_of_the_far_future_is_refused():
    jobs = jobs_of((0, 1, 40), (1, 1, 40)).jobs.copy()
    jobs["submit_time"][1] = 1e18
    with pytest.raises(MurmurationError, match=r"job 1 is submitted at 1e\+18 s"):
        Workload("w", jobs, ("any",), ("",))


def test_jobs_that_a_horizon_keeps_from_arriving_are_counted():
    setup = Setup(cluster_of(4), Bench(), Scenario(horizon=50.0))
    workload = jobs_of((0, 4, 40), (2, 4, 4000), (60, 4, 4), (70, 4, 4))
    result = run_episode(Fifo(), Simulator(workload, setup))
    assert (result.num_unfinished, result.num_not_arrived) == (1, 2)
    caption = compare_schedulers({"fifo": Fifo()}, [workload], setup).caption
    assert "kept from arriving, and that no figure counts: 2 under fifo." in caption


CELLS = st.one_of(
    st.sampled_from(["1", "0", "-3", "1.5", "1e18", "nan", "inf", "abc", "", '"', "9" * 400]), st.text(max_size=5)
)
COLUMNS = {name: name for name in ("submit_time", "duration", "num_gpus")}
READERS = (
    CsvTrace(COLUMNS, gpu_type="V100", gpus_per_node=8),
    SwfTrace(),
    PhillyTrace(),
    TiresiasTrace(),
    MuriTrace(),
    ItpTrace(),
)


@given(st.sampled_from(READERS), st.binary(max_size=300))
def test_any_bytes_are_no_trace_or_one(tmp_path_factory, reader, content):
    read_or_refuse(reader, tmp_path_factory.mktemp("bytes") / "t.csv", content)


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=5))
def test_any_cells_are_counted_or_refused(tmp_path_factory, rows):
    text = "\n".join(["submit_time,duration,num_gpus", *(",".join(row) for row in rows)])
    read_or_refuse(READERS[0], tmp_path_factory.mktemp("cells") / "t.csv", text.encode("utf-8", "replace"))


def read_or_refuse(reader, path, content):
    """Read a trace; what is kept can be run, and everything else gives one line."""
    path.write_bytes(content)
    try:
        frame, report = reader.read(path)
    except MurmurationError as error:
        one_line(error)
        return
    assert report.kept == len(frame)
    assert report.rows == report.kept + sum(report.bad.values()) + sum(report.skipped.values())
    assert np.isfinite(frame["submit_time"]).all()
    assert (frame["num_gpus"] >= 1).all()


class Hostile:
    """Returns or raises something in its first round."""

    def __init__(self, act):
        self.act = act

    def reset(self, cluster, rng):
        """Keep nothing."""

    def schedule(self, view):
        """Do as told."""
        return self.act(view)


def placed(view, job, placement):
    allocation = view.allocation()
    allocation.changes[job] = placement
    return allocation


@pytest.mark.parametrize(
    "act",
    [
        lambda view: None,
        lambda view: {},
        lambda view: view,
        lambda view: placed(view, 99, None),
        lambda view: placed(view, 0, {0: 99}),
        lambda view: view.allocation().place(0, {99: 4}),
        lambda view: view.allocation().place(0, {0: -4}),
        lambda view: view.allocation().place(0, {0: 2.5}),
        lambda view: view.allocation().place(0, {}),
        lambda view: view.num_gpus.__setitem__(0, 1),
        lambda view: 1 / 0,
        lambda view: (_ for _ in ()).throw(SystemError("no")),
    ],
)
def test_a_hostile_scheduler_costs_only_itself(act):
    """It has failed, in one line, and the comparison goes on with the others."""
    setup, workload = Setup(cluster_of(4), Bench()), jobs_of((0, 4, 40))
    found = compare_schedulers({"hostile": Hostile(act), "fifo": Fifo()}, [workload], setup)
    assert list(found.failures) == ["hostile"]
    assert "\n" not in str(found.failures["hostile"])
    assert list(found.runs) == ["fifo"]
