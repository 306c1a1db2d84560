"""The load at efficient sizes: by hand, against the bounds, and as the target of a generator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.cluster import build_cluster
from envs.metrics.bounds import Relaxation
from envs.performance import default_model
from envs.simulation import Setup
from envs.types import ClusterSpec, JobSpec, NodeSpec, TraceError
from envs.workloads import JobStream, LogNormal, SyntheticSource, Workload
from envs.workloads.demand import efficient_throughputs, least_cluster_seconds
from envs.workloads.distributions import Arrivals

ZOO = default_model()
ONE_TYPE = build_cluster("one_type", [{"gpu_type": "V100", "num_nodes": 4, "num_gpus": 8}])
MIXED = build_cluster(
    "mixed",
    [
        {"gpu_type": gpu_type, "num_nodes": nodes, "num_gpus": 8}
        for gpu_type, nodes in (("V100", 3), ("P100", 3), ("K80", 2))
    ],
)


class Concave:
    """On V100 n GPUs do 1, 1.8 and 2.4 samples/s, on K80 half of it on one node; "big" needs two GPUs."""

    models = ("small", "big")

    def throughput(self, model, configuration):
        if model == "big" and configuration.num_gpus < 2:
            return 0.0
        curve = {1: 1.0, 2: 1.8, 3: 2.4}.get(configuration.num_gpus, 0.0)
        if configuration.gpu_type == "K80":
            return curve / 2 if configuration.num_nodes == 1 else 0.0
        return curve


PAIR = ClusterSpec((NodeSpec("V100", 2), NodeSpec("K80", 2)))


def test_the_most_efficient_size_by_hand():
    """Three GPUs need two nodes, where K80 does nothing; "big" on two GPUs does 0.9 samples/s per GPU."""
    ranges = np.array([[0, 1, 3], [1, 1, 3], [0, 2, 2], [0, 3, 3], [1, 1, 1]])
    found = efficient_throughputs(("small", "big"), ranges, PAIR, Concave())
    assert found == pytest.approx(np.array([[1.0, 0.5], [0.9, 0.45], [0.9, 0.45], [0.8, 0.0], [0.0, 0.0]]))


def test_sizes_above_the_cluster_are_left_out():
    found = efficient_throughputs(("small",), np.array([[0, 1, 100], [0, 50, 100]]), PAIR, Concave())
    assert found.tolist() == [[1.0, 0.5], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("gpu_seconds", "num_gpus", "seconds"),
    [
        ([[12.0], [4.0]], [8], 2.0),  # one type: the sum over the GPUs
        ([[2.0, 4.0], [4.0, 2.0]], [1, 1], 2.0),  # each class on its own type
        ([[2.0, 2.0]], [1, 1], 1.0),  # divided
        ([[2.0, 2.0]], [1, 3], 0.5),  # divided by the GPUs of each type
        ([[6.0, np.inf], [6.0, 3.0]], [2, 1], 3.0),  # only the second class can use the second type
        ([[0.0, 0.0]], [1, 1], 0.0),
        ([[1.0, 1.0], [np.inf, np.inf]], [1, 1], np.inf),
    ],
)
def test_least_seconds_by_hand(gpu_seconds, num_gpus, seconds):
    assert least_cluster_seconds(np.array(gpu_seconds), np.array(num_gpus)) == pytest.approx(seconds)


@given(st.integers(0, 10**6))
def test_least_seconds_are_between_the_bounds_of_duality(seed):
    """No prices under which the cluster costs 1 charge more, and no division of the jobs takes less time."""
    rng = np.random.default_rng(seed)
    classes, types = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    gpu_seconds = rng.lognormal(5, 3, (classes, types))
    gpu_seconds[:, 1:][rng.random((classes, types - 1)) < 0.3] = np.inf
    num_gpus = rng.integers(1, 100, types)
    found = least_cluster_seconds(gpu_seconds, num_gpus)
    for _ in range(20):
        prices = rng.dirichlet(np.ones(types)) / num_gpus
        assert (gpu_seconds * prices).min(axis=1).sum() <= found * (1 + 1e-6)
        shares = np.where(np.isfinite(gpu_seconds), rng.random((classes, types)), 0.0)
        shares /= shares.sum(axis=1, keepdims=True)
        busy = (shares * np.where(np.isfinite(gpu_seconds), gpu_seconds, 0.0)).sum(axis=0) / num_gpus
        assert found <= busy.max() * (1 + 1e-6)


def test_efficient_load_by_hand():
    """Over 10 s, 18 samples of "small" at 1 sample/s per V100 and 9 of "big" at 0.9: 18 + 10 GPU-seconds on 4 V100."""
    cluster = ClusterSpec((NodeSpec("V100", 2), NodeSpec("V100", 2)))
    jobs = [JobSpec(0, 0.0, 2, 18.0, "small", 1, 3), JobSpec(1, 10.0, 2, 9.0, "big", 2, 3)]
    workload = Workload.of(jobs)
    assert workload.efficient_load(cluster, Concave()) == pytest.approx(28 / 40)
    assert workload.load(cluster, Concave(), "efficient") == workload.efficient_load(cluster, Concave())
    assert workload.load(cluster, Concave(), "requested") == workload.offered_load(cluster, Concave())["all"]
    rigid = Workload.of([JobSpec(job.id, job.submit_time, 2, job.work, job.model) for job in jobs])
    assert rigid.efficient_load(cluster, Concave()) == pytest.approx(rigid.offered_load(cluster, Concave())["all"])


def test_loads_without_a_time_base_or_a_place_to_run_are_infinite():
    burst = Workload.of([JobSpec(0, 5.0, 1, 1.0, "small"), JobSpec(1, 5.0, 1, 1.0, "small")])
    assert burst.efficient_load(PAIR, Concave()) == np.inf
    nowhere = Workload.of([JobSpec(0, 0.0, 1, 1.0, "small"), JobSpec(1, 5.0, 1, 1.0, "big")])
    assert nowhere.efficient_load(PAIR, Concave()) == np.inf


def test_an_unknown_definition_names_the_known_ones():
    workload = Workload.of([JobSpec(0, 0.0, 1, 1.0, "small"), JobSpec(1, 5.0, 1, 1.0, "small")])
    with pytest.raises(TraceError, match="load_definition is 'best'; it must be requested or efficient"):
        workload.load(PAIR, Concave(), "best")  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=r"workload\.load_definition is 'best'"):
        SyntheticSource(ONE_TYPE, ZOO, load_definition="best")  # type: ignore[arg-type]


@pytest.mark.parametrize("cluster", [ONE_TYPE, MIXED])
@pytest.mark.parametrize("elastic", [1.0, 2.0])
def test_the_load_is_at_least_that_of_the_bounds_and_at_most_the_requested_one(cluster, elastic):
    """On one GPU type it is exactly that of `Relaxation.cluster_seconds`, whose prices are chosen for mean JCT."""
    for workload in SyntheticSource(cluster, ZOO, elastic=elastic, num_evaluation=3).evaluation():
        span = np.ptp(workload.jobs["submit_time"])
        bound = Relaxation.of(workload, Setup(cluster, ZOO)).cluster_seconds.sum() / span
        load = workload.efficient_load(cluster, ZOO)
        assert load >= bound * (1 - 1e-9)
        assert load <= workload.offered_load(cluster, ZOO)["all"] * (1 + 1e-9)
        if cluster is ONE_TYPE:
            assert load == pytest.approx(bound)


@pytest.mark.parametrize("cluster", [ONE_TYPE, MIXED])
def test_a_generator_offers_exactly_the_load_at_efficient_sizes(cluster):
    source = SyntheticSource(cluster, ZOO, load=1.2, load_definition="efficient")
    for workload in (*source.evaluation("test"), source.episode(np.random.default_rng(0))):
        assert workload.efficient_load(cluster, ZOO) == pytest.approx(1.2)
        assert workload.offered_load(cluster, ZOO)["all"] > 1.25  # these jobs are elastic


def test_without_exact_load_the_mean_load_at_efficient_sizes_is_right():
    stream = JobStream({1: 0.5, 4: 0.5}, {1: LogNormal(600.0, 0.5)}, Arrivals(), "made for this test")
    source = SyntheticSource(
        ONE_TYPE,
        ZOO,
        stream=stream,
        load=0.8,
        load_definition="efficient",
        exact_load=False,
        num_jobs=40_000,
        num_evaluation=1,
    )
    assert source.evaluation()[0].efficient_load(ONE_TYPE, ZOO) == pytest.approx(0.8, rel=0.03)


def test_the_definition_changes_only_the_submission_times():
    requested, efficient = (
        SyntheticSource(ONE_TYPE, ZOO, load_definition=definition).evaluation()[0].jobs
        for definition in ("requested", "efficient")
    )
    assert (requested["work"] == efficient["work"]).all()
    stretch = efficient["submit_time"][1:] / requested["submit_time"][1:]
    assert stretch == pytest.approx(np.full(len(stretch), stretch[0]))


def test_what_all_episodes_share_is_computed_once(monkeypatch):
    """A linear program takes as long as a tenth of an episode; each episode needs one, for its own jobs."""
    solved = []

    def counted(*args):
        solved.append(args)
        return least_cluster_seconds(*args)

    monkeypatch.setattr("envs.workloads.synthetic.least_cluster_seconds", counted)
    source = SyntheticSource(MIXED, ZOO, load=1.2, load_definition="efficient", num_jobs=20)
    for i in range(4):
        source.episode(np.random.default_rng(i))
    assert len(solved) == 5
