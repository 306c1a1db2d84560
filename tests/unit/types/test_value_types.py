"""Jobs, plans, nodes and clusters: derived values, and values that are refused."""

import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from envs.types import (
    AllocationError,
    CheckpointError,
    ClusterError,
    ClusterSpec,
    ConservationError,
    ExecutionPlan,
    JobRecord,
    JobSpec,
    MurmurationError,
    NodeSpec,
    PerformanceError,
    TraceError,
    did_you_mean,
)


def test_a_job_without_a_range_is_a_rigid_gang():
    job = JobSpec(0, 0.0, 4, 100.0, "any")
    assert (job.min_gpus, job.max_gpus) == (4, 4)
    assert not job.elastic


@pytest.mark.parametrize(("least", "most", "elastic"), [(1, 4, True), (4, 8, True), (0, 8, True), (4, 0, False)])
def test_a_range_makes_a_job_elastic(least, most, elastic):
    assert JobSpec(0, 0.0, 4, 100.0, "any", min_gpus=least, max_gpus=most).elastic is elastic


@pytest.mark.parametrize(("least", "gpus", "most"), [(0, 0, 0), (5, 4, 8), (1, 4, 3), (-1, 4, 4), (0, -2, 0)])
def test_an_impossible_range_is_refused(least, gpus, most):
    with pytest.raises(ValueError, match=r"they must satisfy 1 <= min_gpus <= num_gpus <= max_gpus"):
        JobSpec(0, 0.0, gpus, 1.0, "any", min_gpus=least, max_gpus=most, name="train")


@pytest.mark.parametrize("work", [0.0, -1.0, math.inf])
def test_work_is_positive_and_finite(work):
    with pytest.raises(ValueError, match=f"job 3: work is {work} samples; it must be positive and finite"):
        JobSpec(3, 0.0, 1, work, "any")


def test_hidden_work_is_allowed():
    assert math.isnan(JobSpec(3, 0.0, 1, math.nan, "any").work)


def test_the_types_are_immutable():
    for word, field in ((JobSpec(0, 0.0, 1, 1.0, "any"), "work"), (NodeSpec("V100", 8), "num_gpus")):
        with pytest.raises(FrozenInstanceError):
            setattr(word, field, 2)


def test_a_record_knows_whether_the_job_finished():
    job = JobSpec(0, 0.0, 1, 1.0, "any")
    assert JobRecord(job, 0.0, 5.0, 5.0, 0, 0).finished
    assert not JobRecord(job, 0.0, math.nan, 5.0, 0, 0).finished


def test_a_plan_occupies_the_product_of_its_degrees():
    assert ExecutionPlan().num_gpus == 1
    assert ExecutionPlan(data=2, tensor=4, pipeline=3, zero_stage=2, accumulation=5).num_gpus == 24


@pytest.mark.parametrize("name", ["data", "tensor", "pipeline", "accumulation"])
def test_degrees_are_at_least_one(name):
    with pytest.raises(ValueError, match=f"ExecutionPlan.{name} is 0; it must be at least 1"):
        replace(ExecutionPlan(), **{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("stage", [-1, 4])
def test_zero_has_four_stages(stage):
    with pytest.raises(ValueError, match=f"ExecutionPlan.zero_stage is {stage}"):
        ExecutionPlan(zero_stage=stage)


def test_a_cluster_counts_its_gpus_by_type_in_order_of_appearance():
    cluster = ClusterSpec((NodeSpec("V100", 8), NodeSpec("K80", 4), NodeSpec("V100", 2)))
    assert cluster.gpu_types == ("V100", "K80")
    assert cluster.node_gpus.tolist() == [8, 4, 2]
    assert cluster.node_types.tolist() == [0, 1, 0]
    assert (cluster.num_nodes, cluster.num_gpus) == (3, 14)
    assert cluster.gpus_by_type == {"V100": 10, "K80": 4}


def test_the_arrays_of_a_cluster_cannot_be_written():
    cluster = ClusterSpec((NodeSpec("V100", 8),))
    for array in (cluster.node_gpus, cluster.node_types):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert cluster.node_gpus.dtype == np.int64


def test_equal_clusters_are_equal():
    nodes = (NodeSpec("V100", 8), NodeSpec("K80", 4))
    assert ClusterSpec(nodes) == ClusterSpec(nodes)
    assert ClusterSpec(nodes) != ClusterSpec(nodes[::-1])


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: NodeSpec("", 4), "gpu_type is empty"),
        (lambda: NodeSpec("V100", 0), "node of V100: num_gpus is 0; it must be from 1 to 1,024"),
        (lambda: NodeSpec("V100", 4, cpu_cores=0.0), "node of V100: cpu_cores is 0.0"),
        (lambda: NodeSpec("V100", 4, memory=math.nan), "node of V100: memory is nan"),
        (lambda: NodeSpec("V100", 4, intra_node_bandwidth=math.inf), "intra_node_bandwidth is inf"),
        (lambda: NodeSpec("V100", 4, inter_node_bandwidth=-1.0), "inter_node_bandwidth is -1.0"),
        (lambda: ClusterSpec((), "void"), "cluster void: has no nodes; give at least one"),
    ],
)
def test_impossible_nodes_and_clusters_are_refused_in_one_line(build, says):
    with pytest.raises(ClusterError) as error:
        build()
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("error", [TraceError, ClusterError, AllocationError, PerformanceError, CheckpointError])
def test_mistakes_of_users_have_one_base_class(error):
    assert issubclass(error, MurmurationError)
    assert issubclass(error, ValueError)


def test_a_lost_job_is_not_a_mistake_of_the_user():
    assert not issubclass(ConservationError, MurmurationError)
    assert issubclass(ConservationError, AssertionError)


@pytest.mark.parametrize(
    ("name", "options", "hint"),
    [
        ("fif0", {}, "; did you mean fifo?"),
        ("FIF0", {}, "; did you mean fifo?"),
        ("fif0", {"quoted": True}, "; did you mean 'fifo'?"),
        ("fofo", {"lead": ", ", "cutoff": 0.5}, ", did you mean fifo?"),
        ("ResNet5", {}, "; did you mean ResNet50?"),
        ("zzz", {}, ""),
        ("fi", {}, "; did you mean fifo?"),
        ("fi", {"cutoff": 0.9}, ""),
    ],
)
def test_a_similar_name_is_suggested(name, options, hint):
    assert did_you_mean(name, ["srtf", "fifo", "ResNet50"], **options) == hint


def test_without_choices_nothing_is_suggested():
    assert did_you_mean("fifo", []) == ""
    assert did_you_mean("fifo", (choice for choice in ["fifo"])) == "; did you mean fifo?"
