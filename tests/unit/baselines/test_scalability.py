"""The scalability analyser: batch sizes compared with enumeration, and defaults where no range is known."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.scalability import (
    AnalysedJobs,
    Analyser,
    BatchRule,
    Scalability,
    Throughput,
    fewest_nodes,
    most_per_gpu,
    usual_batches,
)
from envs.performance import batch_range
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec, PerformanceError

ONE_NODE = ClusterSpec((NodeSpec("V100", 8),))
LEAST: BatchRule = "least"
MOST: BatchRule = "most"
TWO_TYPES = ClusterSpec((NodeSpec("K80", 4), NodeSpec("V100", 2), NodeSpec("V100", 4)))


@dataclass(frozen=True)
class Steps:
    """A step takes `fixed` s, `each` s for each sample of the fullest GPU, and `reduce` s on several GPUs."""

    fixed: float = 0.0
    each: float = 1 / 16
    reduce: float = 1.0
    usual: int = 32  # samples per GPU where no batch is given

    def __call__(self, gpu_type: int, gpus: int, nodes: int, batch: int | None) -> float:
        size = self.usual * gpus if batch is None else batch
        seconds = self.fixed + self.each * -(-size // gpus) + self.reduce * (gpus > 1)
        return (gpu_type + 1) * size / seconds


def job(
    model: str = "resnet18", gpus: int = 4, least: int = 1, most: int = 8, batch: tuple[int, int] = (0, 0)
) -> JobSpec:
    """Create a job with its own batch range; (0, 0) leaves it to the model."""
    return JobSpec(0, 0.0, gpus, 100.0, model, least, most, batch[0], batch[1])


def analyse(
    spec: JobSpec,
    throughput: Throughput,
    rule: BatchRule = "best",
    cluster: ClusterSpec = ONE_NODE,
    measured_only: bool = True,
) -> Scalability:
    return Analyser(rule, measured_only).analyse(spec, cluster, fewest_nodes(cluster), throughput)


def test_scaling_by_hand():
    """Batches 16 to 128, 1/16 s a sample, 1 s to reduce: 16 samples/s on one GPU whatever the batch, so 16 is enough.
    128 samples on two GPUs take 4 + 1 s: 1.6 times as fast. On four 2 + 1 s: 2.67 times. On eight 1 + 1 s: 4 times.
    """
    found = analyse(job(batch=(16, 128)), Steps())
    assert found.batch[0, [1, 2, 4, 8]].tolist() == [16, 128, 128, 128]
    np.testing.assert_allclose(found.factor[0, [1, 2, 4, 8]], [1, 1.6, 8 / 3, 4])
    assert found.factor[0, 0] == -np.inf


def test_at_a_fixed_batch_more_gpus_are_worth_less():
    """At 16 samples two GPUs are slower than one (16 / 1.5 s). At 64, what a user takes for one GPU: 64 / 3 s = 4/3."""
    least = analyse(job(batch=(16, 128)), Steps(), "least")
    np.testing.assert_allclose(least.factor[0, 1:3], [1, 2 / 3])
    assert set(least.batch[0, 1:].tolist()) == {16}
    usual = analyse(job(gpus=1, batch=(16, 128)), Steps(), "usual")
    np.testing.assert_allclose(usual.factor[0, 1:3], [1, 4 / 3])
    assert set(usual.batch[0, 1:].tolist()) == {64}
    most = analyse(job(batch=(16, 128)), Steps(), "most")
    np.testing.assert_allclose(most.factor[0, 1:3], [1, 1.6])


def test_a_large_fixed_batch_needs_enough_gpus():
    """A V100 was measured with up to 256 samples of ResNet-18. 1,024 need at least four GPUs; a job with a free
    batch size runs on one as well. Without that limit the large batch runs on any number of GPUs.
    """
    spec = job(batch=(16, 1024))
    fixed = analyse(spec, Steps(), "most")
    assert np.isfinite(fixed.factor[0]).tolist() == [False] * 4 + [True] * 5
    assert np.isfinite(analyse(spec, Steps()).factor[0, 1:]).all()
    assert np.isfinite(analyse(spec, Steps(), "most", measured_only=False).factor[0, 1:]).all()


def test_a_fixed_batch_fits_on_the_jobs_gpus():
    """The most of 16 to 4,096 that eight GPUs of 256 hold is 2,048; for jobs of at most two GPUs it is 512."""
    assert analyse(job(), Steps(), "most").batch[0].max() == 2048
    assert analyse(job(gpus=2, most=2), Steps(), "most").batch[0].max() == 512
    assert (
        analyse(job("lm", gpus=8, least=8), Steps(), "least").batch[0, 8] == 8
    )  # the least of the range, 5, is too few


@given(
    low=st.integers(16, 300),
    more=st.integers(0, 900),
    most=st.integers(2, 8),  # 300 samples are too many for one GPU, and then its usual batch is taken
    fixed=st.sampled_from([0.0, 0.3]),
    reduce=st.sampled_from([0.0, 0.5, 2.0]),
)
def test_no_other_batch_is_faster(low, more, most, fixed, reduce):
    """Where larger batches are never slower, as in data parallelism with equal shares: compare with all sizes."""
    throughput = Steps(fixed, reduce=reduce)
    found = analyse(job(gpus=most, most=most, batch=(low, low + more)), throughput)
    reference = max(throughput(0, 1, 1, batch) for batch in range(low, low + more + 1) if batch <= 256 or low > 256)
    for gpus in range(1, most + 1):
        allowed = [batch for batch in range(max(low, gpus), low + more + 1) if batch <= 256 * gpus]
        if not allowed:
            assert found.factor[0, gpus] == -np.inf
            continue
        reached = throughput(0, gpus, 1, int(found.batch[0, gpus]))
        assert found.batch[0, gpus] in allowed
        assert reached == pytest.approx(max(throughput(0, gpus, 1, batch) for batch in allowed))
        if found.batch[0, 1]:
            assert found.factor[0, gpus] == pytest.approx(reached / reference)


def test_factors_compare_across_types():
    """A V100 is twice as fast as a K80 and has factor 1. Sizes that a type does not have are excluded."""
    found = analyse(job(batch=(16, 128)), Steps(), cluster=TWO_TYPES)
    np.testing.assert_allclose(found.factor[:, 1], [0.5, 1.0])
    assert np.isfinite(found.factor).sum(axis=1).tolist() == [4, 6]


def test_a_model_without_a_batch_range_runs_at_the_usual_batch():
    spec = job("any", gpus=2, least=2, most=4)
    found = analyse(spec, Steps())
    assert np.flatnonzero(np.isfinite(found.factor[0])).tolist() == [2, 3, 4]
    assert not found.batch.any()
    assert batch_range(spec.model) is None


def test_a_job_that_runs_with_no_chosen_batch_runs_at_the_usual_one():
    """A model that runs at its usual batch size only."""

    def stubborn(gpu_type: int, gpus: int, nodes: int, batch: int | None) -> float:
        if batch is not None:
            raise PerformanceError(f"batch {batch} is out of range")
        return float(gpus)

    found = analyse(job(), stubborn)
    assert np.isfinite(found.factor[0, 1:]).all()
    assert not found.batch.any()


def test_a_model_too_large_for_one_gpu():
    """A model that runs on at least four GPUs: its factor on four is four."""

    def large(gpu_type: int, gpus: int, nodes: int, batch: int | None) -> float:
        return 10.0 * gpus**0.5 if gpus >= 4 else 0.0

    found = analyse(job(), large)
    np.testing.assert_allclose(found.factor[0, [4, 8]], [4, 4 * 2**0.5])
    assert not np.isfinite(found.factor[0, :4]).any()


def test_a_job_that_runs_nowhere():
    found = analyse(job(), lambda gpu_type, gpus, nodes, batch: 0.0)
    assert not np.isfinite(found.factor).any()
    assert not found.batch.any()


def test_the_fewest_nodes_are_used():
    """Throughputs are requested for the fewest nodes of a type that hold the GPUs; 0 if the type has too few."""
    assert fewest_nodes(TWO_TYPES).tolist() == [[0, 1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 2, 2]]
    asked: set[tuple[int, int, int]] = set()

    def listening(gpu_type: int, gpus: int, nodes: int, batch: int | None) -> float:
        asked.add((gpu_type, gpus, nodes))
        return 1.0

    analyse(job(), listening, cluster=TWO_TYPES)
    assert {nodes for gpu_type, gpus, nodes in asked if (gpu_type, gpus) == (1, 5)} == {2}
    assert max(gpus for gpu_type, gpus, _ in asked if gpu_type == 0) == 4


@pytest.mark.parametrize(
    ("model", "gpu_type", "most"),
    [("resnet50", "V100", 128), ("ResNet-50", "V100", 128), ("resnet50", "A100", 128), ("resnet50", "H100", 128),
     ("lm", "K80", 80), ("any", "V100", np.inf)],
)  # fmt: skip
def test_most_samples_measured_on_a_gpu(model, gpu_type, most):
    """Gavel's largest on a V100, ElasticFlow's on an A100; a type that was not measured takes the smallest value."""
    assert most_per_gpu(model, gpu_type) == most


def test_a_model_of_the_worlds_own_has_the_jobs_range():
    """No profile says which batches "any" may have; the job does, and the world allows all of them."""
    found = analyse(job("any", batch=(64, 256)), Steps(reduce=0.0, fixed=1.0))
    assert found.batch[0, [1, 2, 4, 8]].tolist() == [256] * 4
    least, most = (analyse(job("any", batch=(64, 256)), Steps(), rule).batch[0, 1:] for rule in (LEAST, MOST))
    assert (set(least.tolist()), set(most.tolist())) == ({64}, {256})


def test_a_usual_batch_that_is_not_known_is_left_to_the_world():
    found = analyse(job("any", batch=(64, 256)), Steps(), "usual")
    assert (found.throughput[0, 1:] > 0).all()
    assert not found.batch.any()


def fake_view(specs: list[JobSpec], throughput: Callable[..., float], cluster: ClusterSpec = ONE_NODE) -> Any:
    """Fake the part of a view that the analyser uses."""
    return SimpleNamespace(
        num_gpus=np.array([spec.num_gpus for spec in specs]),
        job=lambda job: specs[job],
        cluster=cluster,
        goodput=throughput,
        num_beliefs=0,
        batch_range=lambda job, gpu_type, gpus: batch_range(
            specs[job].model, specs[job].min_batch, specs[job].max_batch
        ),
    )


def test_equal_jobs_are_analysed_once():
    asked: list[int] = []

    def throughput(job: int, configuration: Configuration) -> float:
        asked.append(job)
        return Steps()(0, configuration.num_gpus, configuration.num_nodes, configuration.batch_size)

    def numbered(number: int, most: int) -> JobSpec:
        return JobSpec(number, float(number), 2, 100.0, "resnet18", 1, most)

    known = AnalysedJobs(Analyser(), ONE_NODE)
    known.look_up(fake_view([numbered(0, 2), numbered(1, 2)], throughput))
    assert (set(asked), known.table.tolist(), known.factors.shape) == ({0}, [0, 0], (1, 1, 3))
    known.look_up(fake_view([numbered(0, 2), numbered(1, 2), numbered(2, 8), numbered(3, 2)], throughput))
    assert (set(asked), known.table.tolist(), known.factors.shape) == ({0, 2}, [0, 0, 1, 0], (2, 1, 9))
    assert known.throughputs.shape == (2, 1, 9)
    assert ((known.throughputs > 0) == np.isfinite(known.factors)).all()
    assert np.isfinite(known.factors[0, 0]).tolist() == [False, True, True] + [False] * 6
    assert known.batches[0, 0, 3:].tolist() == [0] * 6
    calls = len(asked)
    known.look_up(fake_view([numbered(i, 2) for i in range(4)], throughput))
    assert len(asked) == calls


@given(
    gpus=st.integers(1, 8),
    low=st.integers(16, 256),
    more=st.integers(0, 700),
    rule=st.sampled_from(["best", "least", "most"]),
)
def test_factors_are_throughputs_over_the_best_on_one_gpu(gpus, low, more, rule):
    """Throughputs are those of the performance model at the batch sizes found."""
    found = analyse(job(gpus=gpus, batch=(low, low + more)), Steps(), rule)
    for size in np.flatnonzero(found.throughput[0]).tolist():
        assert found.throughput[0, size] == Steps()(0, size, 1, int(found.batch[0, size]))
    assert ((found.throughput[0] > 0) == np.isfinite(found.factor[0])).all()
    runs = found.throughput[0] > 0
    np.testing.assert_allclose(
        found.factor[0, runs] * 16.0, found.throughput[0, runs]
    )  # 16 samples/s on one, at any batch


def test_the_usual_batch_is_used_where_the_range_allows_it():
    """ResNet-18: 64 samples a GPU. A range of 100 to 200 has it on two and three GPUs; an unknown model has none."""
    assert usual_batches(job(batch=(100, 200)), 4).tolist() == [0, 0, 128, 192, 0]
    assert usual_batches(job(), 4).tolist() == [0, 64, 128, 192, 256]
    assert usual_batches(job(model="any"), 3).tolist() == [0, 0, 0, 0]
    assert usual_batches(job(model="any", batch=(8, 16)), 3).tolist() == [0, -1, -1, -1]
