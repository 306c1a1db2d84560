"""Synthetic workloads: load, splits, time to draw them, and their jobs."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.cluster import build_cluster
from envs.performance import default_model
from envs.types import ClusterError, Configuration, TraceError
from envs.workloads import Arrivals, JobMix, JobStream, LogNormal, SyntheticSource

EIGHT = build_cluster("eight_nodes", [{"gpu_type": "V100", "num_nodes": 8, "num_gpus": 8}])
MIXED = build_cluster(
    "mixed",
    [
        {"gpu_type": gpu_type, "num_nodes": nodes, "num_gpus": 8}
        for gpu_type, nodes in (("V100", 3), ("P100", 3), ("K80", 2))
    ],
)
ZOO = default_model()


class Picky:
    """Model "wide" runs on at least four GPUs, the others on any number."""

    models = ("narrow", "wide")

    def throughput(self, model, configuration):
        return 0.0 if model == "wide" and configuration.num_gpus < 4 else float(configuration.num_gpus)


@pytest.mark.parametrize("cluster", [EIGHT, MIXED])
@pytest.mark.parametrize("load", [0.4, 0.9, 1.3])
def test_exact_load_is_the_load_that_the_workload_offers(cluster, load):
    source = SyntheticSource(cluster, ZOO, load=load)
    for workload in (*source.evaluation("test"), source.episode(np.random.default_rng(0))):
        assert workload.offered_load(cluster, ZOO)["all"] == pytest.approx(load, rel=1e-9)


@pytest.mark.parametrize("cluster", [EIGHT, MIXED])
def test_without_exact_load_the_mean_load_is_right(cluster):
    """Offered load of one long draw; the demo's run times have a moderate tail."""
    source = SyntheticSource(cluster, ZOO, load=0.8, exact_load=False, num_jobs=60_000, num_evaluation=1)
    workload = source.evaluation()[0]
    assert workload.offered_load(cluster, ZOO)["all"] == pytest.approx(0.8, rel=0.05)
    assert np.diff(workload.jobs["submit_time"]).mean() == pytest.approx(source.mean_gap, rel=0.05)


def test_a_workload_has_the_sizes_and_durations_of_its_stream():
    source = SyntheticSource(EIGHT, ZOO, num_jobs=20_000, num_evaluation=1)
    jobs = source.evaluation()[0].jobs
    sizes, counts = np.unique(jobs["num_gpus"], return_counts=True)
    assert dict(zip(sizes.tolist(), (counts / len(jobs)).round(2).tolist(), strict=True)) == pytest.approx(
        source.stream.sizes, abs=0.011
    )
    assert np.bincount(jobs["model"]) / len(jobs) == pytest.approx(np.full(5, 0.2), abs=0.011)
    durations = source.stream.durations_of(1)
    assert jobs["duration"].mean() == pytest.approx(durations.mean, rel=0.05)
    # Work is the samples that the requested GPUs of the cluster's first type process in that time.
    for row in jobs[:50]:
        throughput = ZOO.throughput(
            source.models[row["model"]], Configuration("V100", int(row["num_gpus"]), -(-int(row["num_gpus"]) // 8))
        )
        assert row["work"] == pytest.approx(row["duration"] * throughput)


def test_elastic_ranges_and_notes():
    workload = SyntheticSource(EIGHT, ZOO, elastic=2.0).evaluation()[0]
    jobs = workload.jobs
    assert (jobs["min_gpus"] == np.ceil(jobs["num_gpus"] / 2)).all()
    assert (jobs["max_gpus"] == jobs["num_gpus"] * 2).all()
    assert workload.notes[1] == "elastic ranges are assigned: n/2 to 2n GPUs, at most all GPUs of one type"
    rigid = SyntheticSource(EIGHT, ZOO, elastic=1.0).evaluation()[0].jobs
    assert (rigid["min_gpus"] == rigid["max_gpus"]).all()


def test_a_seed_determines_the_result_and_evaluation_is_fixed():
    first, again = SyntheticSource(EIGHT, ZOO, seed=3), SyntheticSource(EIGHT, ZOO, seed=3)
    assert first.evaluation() is first.evaluation()
    for a, b in zip(first.evaluation("train"), again.evaluation("train"), strict=True):
        assert (a.jobs == b.jobs).all()
    a, b = (source.episode(np.random.default_rng(7)) for source in (first, again))
    assert (a.jobs == b.jobs).all()
    other = SyntheticSource(EIGHT, ZOO, seed=4).episode(np.random.default_rng(7))
    assert (a.jobs["work"] != other.jobs["work"]).any()


def test_evaluation_does_not_depend_on_what_was_drawn_before():
    drawn, fresh = SyntheticSource(EIGHT, ZOO), SyntheticSource(EIGHT, ZOO)
    for _ in range(3):
        drawn.episode(np.random.default_rng(1))
    assert (drawn.evaluation()[0].jobs == fresh.evaluation()[0].jobs).all()


def test_splits_share_no_workload_even_from_equal_draws():
    source = SyntheticSource(EIGHT, ZOO)
    works = {
        split: source.episode(np.random.default_rng(1), split).jobs["work"] for split in ("train", "validation", "test")
    }
    fixed = [workload.jobs["work"] for split in works for workload in source.evaluation(split)]
    everything = np.concatenate([*works.values(), *fixed])
    assert len(np.unique(everything)) == len(everything) == 18 * source.num_jobs


def test_the_sources_own_evaluation_is_the_test_split():
    source = SyntheticSource(EIGHT, ZOO, num_evaluation=2)
    assert [workload.name for workload in source.evaluation()] == ["synthetic-test-0", "synthetic-test-1"]


def test_all_workloads_share_the_models():
    source = SyntheticSource(EIGHT, ZOO, mix=JobMix(("vgg16", "bert")))
    assert source.models == ("vgg16", "bert")
    assert {source.episode(np.random.default_rng(i)).models for i in range(3)} == {source.models}


def test_models_are_drawn_only_where_they_run():
    source = SyntheticSource(EIGHT, Picky(), num_jobs=2000)
    jobs = source.evaluation()[0].jobs
    assert set(jobs["model"][jobs["num_gpus"] < 4]) == {0}
    assert set(jobs["model"][jobs["num_gpus"] >= 4]) == {0, 1}


def test_a_size_without_a_model_is_an_error():
    with pytest.raises(TraceError, match=r"none of wide runs on 1 GPUs of cluster eight_nodes"):
        SyntheticSource(EIGHT, Picky(), mix=JobMix(("wide",))).evaluation()


def test_larger_jobs_are_left_out_on_request_and_refused_otherwise():
    small = build_cluster("small", [{"gpu_type": "V100", "num_nodes": 2, "num_gpus": 4}])
    with pytest.raises(ClusterError, match=r"jobs of 16 GPUs; cluster small has 8 of one type; .*workload\.max_gpus=8"):
        SyntheticSource(small, ZOO).evaluation()
    workload = SyntheticSource(small, ZOO, max_gpus=8).evaluation()[0]
    assert workload.jobs["num_gpus"].max() == 8
    assert "jobs of more than 8 GPUs are left out" in workload.notes[0]
    big = JobStream({4: 1.0}, {1: LogNormal(100.0, 1.0)}, Arrivals(), "test")
    with pytest.raises(TraceError, match="max_gpus=2 leaves no job of the stream; its smallest jobs request 4 GPUs"):
        SyntheticSource(small, ZOO, stream=big, max_gpus=2).evaluation()


def test_tenants_and_guaranteed_jobs():
    source = SyntheticSource(EIGHT, ZOO, num_jobs=4000, num_tenants=3, guaranteed=0.25, num_evaluation=1)
    workload = source.evaluation()[0]
    assert workload.tenants == ("tenant-0", "tenant-1", "tenant-2")
    assert np.bincount(workload.jobs["tenant"]) / 4000 == pytest.approx(np.full(3, 1 / 3), abs=0.03)
    assert workload.jobs["guaranteed"].mean() == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(
    ("what", "value", "allowed"),
    [
        ("num_jobs", 1, "from 2 to 10,000,000"),
        ("num_jobs", -3, "from 2 to 10,000,000"),
        ("load", 0.0, "above 0 and finite"),
        ("load", float("nan"), "above 0 and finite"),
        ("elastic", 0.5, r"from 1 \(rigid\) to 1,000,000"),
        ("max_gpus", 0, "at least 1, or null for all"),
        ("num_tenants", 0, "from 1 to 10,000,000"),
        ("guaranteed", 1.5, "a share from 0 to 1"),
        ("num_evaluation", 0, "from 1 to 100,000"),
        ("seed", -1, "at least 0"),
    ],
)
def test_the_error_for_an_impossible_argument_states_what_is_allowed(what, value, allowed):
    with pytest.raises(TraceError, match=f"workload.{what} is {value}; it must be {allowed}$"):
        SyntheticSource(EIGHT, ZOO, **{what: value})


def test_the_error_names_an_unknown_stream_model_or_option():
    with pytest.raises(TraceError, match="workload.stream is 'phily'; choose one of demo, philly, itp"):
        SyntheticSource(EIGHT, ZOO, stream="phily")
    with pytest.raises(
        TraceError, match=r"there is no split 'tests'; it has train, validation, test; did you mean test\?"
    ):
        SyntheticSource(EIGHT, ZOO).evaluation("tests")
    with pytest.raises(TypeError, match="unexpected keyword argument 'laod'"):
        SyntheticSource(EIGHT, ZOO, laod=0.9)  # type: ignore[call-arg]


@given(seed=st.integers(0, 2**32 - 1), stream=st.sampled_from(["demo", "philly", "itp"]), count=st.integers(2, 150))
def test_every_draw_is_a_valid_workload(seed, stream, count):
    source = SyntheticSource(EIGHT, ZOO, stream=stream, num_jobs=count, seed=seed)
    workload = source.episode(np.random.default_rng(seed))
    jobs = workload.jobs
    assert len(workload) == count
    assert jobs["submit_time"][0] == 0.0
    assert (jobs["num_gpus"] <= 64).all()
    assert (
        (jobs["min_gpus"] >= 1) & (jobs["min_gpus"] <= jobs["num_gpus"]) & (jobs["num_gpus"] <= jobs["max_gpus"])
    ).all()
    assert all(spec.work > 0 for spec in workload)


def test_an_episode_is_drawn_in_about_a_millisecond():
    source, rng = SyntheticSource(EIGHT, ZOO, num_jobs=120), np.random.default_rng(0)
    source.episode(rng)
    best = min(_timed(source, rng) for _ in range(30))
    assert best < 2e-3


def _timed(source, rng):
    start = time.process_time()
    source.episode(rng)
    return time.process_time() - start
