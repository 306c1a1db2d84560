"""Turning columns into jobs: work, assigned models, assigned elasticity."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.cluster import build_cluster
from envs.performance import IdealModel, default_model, find_throughput
from envs.types import Configuration, ExecutionPlan, TraceError
from envs.workloads import JobMix
from envs.workloads.assemble import Assembly, elastic_range

CLUSTER = build_cluster("two_nodes", [{"gpu_type": "V100", "num_nodes": 2, "num_gpus": 8}])


class Shaped:
    """K80 is half as fast; b is twice as fast; a second node costs a tenth; c runs on at least four GPUs."""

    models = ("a", "b", "c")

    def throughput(self, model, configuration):
        if model == "c" and configuration.num_gpus < 4:
            return 0.0
        throughput = (0.5 if configuration.gpu_type == "K80" else 1.0) * (2.0 if model == "b" else 1.0)
        return throughput * configuration.num_gpus * (0.9 if configuration.num_nodes > 1 else 1.0)


def frame(**columns):
    count = len(columns["num_gpus"])
    base = {"submit_time": np.arange(float(count)), "duration": np.full(count, 10.0), "row": np.arange(2, 2 + count)}
    return pd.DataFrame({**base, **columns})


def assembly(**options):
    return Assembly(**{"performance": Shaped(), "cluster": CLUSTER, "gpu_type": "V100", "gpus_per_node": 8, **options})


def test_work_is_duration_times_throughput_on_the_traces_own_gpus():
    jobs = frame(num_gpus=[1, 16, 4], model=["a", "a", "b"])
    assert assembly().workload(jobs, "w").jobs["work"].tolist() == [10.0, 144.0, 80.0]
    assert assembly(gpu_type="K80").workload(jobs, "w").jobs["work"].tolist() == [5.0, 72.0, 40.0]
    assert assembly(gpus_per_node=2).workload(jobs, "w").jobs["work"].tolist() == [10.0, 144.0, 72.0]


def test_the_gpu_type_of_a_row_overrides_that_of_the_trace():
    jobs = frame(num_gpus=[2, 2], model=["a", "a"], gpu_type=["K80", "V100"])
    assert assembly().workload(jobs, "w").jobs["work"].tolist() == [10.0, 20.0]


def test_stated_work_is_kept():
    assert assembly().workload(frame(num_gpus=[2], model=["a"], work=[77.0]), "w").jobs["work"].tolist() == [77.0]


def test_the_traces_columns_are_kept():
    plan = ExecutionPlan(data=2)
    jobs = frame(
        num_gpus=[2, 1],
        model=["b", "a"],
        tenant=["red", "blue"],
        name=["x", "y"],
        guaranteed=[True, False],
        plan=[plan, None],
    )
    made = assembly().workload(jobs, "w", ("read",))
    assert [(job.model, job.tenant, job.name, job.guaranteed, job.plan) for job in made] == [
        ("b", "red", "x", True, plan),
        ("a", "blue", "y", False, None),
    ]
    assert made.notes == (
        "read",
        "models are the trace's own",
        "jobs are rigid: they run on exactly the number of GPUs that they request",
    )


def test_models_are_assigned_by_seed_with_a_note():
    jobs = frame(num_gpus=[1] * 200)
    made = assembly(mix=JobMix(("a", "b"), (1, 3)), seed=5).workload(jobs, "w")
    again = assembly(mix=JobMix(("a", "b"), (1, 3)), seed=5).workload(jobs, "w")
    other = assembly(mix=JobMix(("a", "b"), (1, 3)), seed=6).workload(jobs, "w")
    assert made.jobs["model"].tolist() == again.jobs["model"].tolist() != other.jobs["model"].tolist()
    assert made.models == ("a", "b")
    assert made.jobs["model"].mean() == pytest.approx(0.75, abs=0.1)
    assert made.jobs["work"].tolist() == [20.0 if model else 10.0 for model in made.jobs["model"]]
    assert "models are assigned, not observed: drawn with seed 5 from a 25%, b 75%" in made.notes


def test_an_assigned_model_runs_on_the_jobs_gpus():
    made = assembly(mix=JobMix(("a", "c"), (1, 99))).workload(frame(num_gpus=[2, 8] * 50), "w")
    by_size = {size: set(made.jobs["model"][made.jobs["num_gpus"] == size]) for size in (2, 8)}
    assert by_size[2] == {0}
    assert 1 in by_size[8]


def test_the_error_names_an_unknown_model_and_its_row():
    with pytest.raises(TraceError, match="row 3: model 'zzz' has no throughput figures; known: a, b, c"):
        assembly().workload(frame(num_gpus=[1, 1], model=["a", "zzz"]), "w")


def test_the_error_names_a_model_that_does_not_run_on_the_traces_gpus():
    with pytest.raises(TraceError, match="row 2: model c does not run on 2 GPUs of type V100"):
        assembly().workload(frame(num_gpus=[2], model=["c"]), "w")


@pytest.mark.parametrize("factor", [0.5, 0.0, float("nan"), float("inf")])
def test_a_factor_under_one_is_refused(factor):
    with pytest.raises(TraceError, match=r"workload\.elastic is"):
        assembly(elastic=factor)


def test_elastic_ranges_by_hand():
    least, most = elastic_range(np.array([1, 2, 3, 8, 16]), 2.0, CLUSTER)
    assert least.tolist() == [1, 1, 2, 4, 8]
    assert most.tolist() == [2, 4, 6, 16, 16]
    least, most = elastic_range(np.array([1, 3, 8]), 1.0, CLUSTER)
    assert least.tolist() == most.tolist() == [1, 3, 8]


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=20), factor=st.floats(1.0, 8.0))
def test_the_request_is_within_the_range_and_the_range_within_the_cluster(sizes, factor):
    gpus = np.array(sizes)
    least, most = elastic_range(gpus, factor, CLUSTER)
    assert ((least >= 1) & (least <= gpus) & (gpus <= most)).all()
    assert (most <= np.maximum(gpus, 16)).all()
    assert (most <= gpus * factor).all()
    assert (least >= gpus / factor).all()


def test_with_the_ideal_model_work_is_gpu_seconds():
    made = assembly(performance=IdealModel(models=("a",)), mix=JobMix(("a",))).workload(frame(num_gpus=[3, 5]), "w")
    assert made.jobs["work"].tolist() == [30.0, 50.0]


def test_fractions_become_models_that_run_on_one_gpu():
    jobs = frame(num_gpus=[1, 2, 1, 1], gpu_fraction=[0.22, 1.0, 0.5, 0.8], model=["resnet50", "resnet50", "lm", "lm"])
    model = default_model()
    found = assembly(performance=model, elastic=2.0).workload(jobs, "parts")
    names = [found.models[code] for code in found.jobs["model"]]
    assert names == ["resnet50@0.25", "resnet50", "lm@0.5", "lm"]
    assert found.jobs["min_gpus"].tolist() == [1, 1, 1, 1]
    assert found.jobs["max_gpus"].tolist() == [1, 4, 1, 2]
    quarter = find_throughput(model, "resnet50@0.25", Configuration("V100", 1))
    assert found.jobs["work"][0] == pytest.approx(10.0 * quarter)
    assert "3 jobs ask for a fraction of a GPU: it counts as 0.25, 0.5, 0.75 or a whole one" in found.notes


def test_a_performance_model_without_fractions_counts_whole_gpus():
    jobs = frame(num_gpus=[1, 1], gpu_fraction=[0.5, 1.0], model=["a", "b"])
    found = assembly().workload(jobs, "parts")
    assert found.models == ("a", "b")
    assert any("1 jobs ask for a fraction of a GPU, which counts as a whole one" in note for note in found.notes)
