"""Lower bounds: exact where nothing was relaxed, and never above the result of a scheduler."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from baselines import ElasticDp, Fifo, Optimus, Pollux, Random, Sia, Srtf, Starling
from envs.metrics import departures, makespan
from envs.metrics.best_batches import BATCH_SLACK, BatchSearch, fastest_batch
from envs.metrics.bounds import Relaxation
from envs.performance import EFFICIENCY_SETTINGS, IdealModel, batch_range, default_model
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import (
    ClusterError,
    ClusterSpec,
    Configuration,
    JobSpec,
    NodeSpec,
    PerformanceError,
    without_constraints,
)
from envs.workloads import Workload
from tests.conformance.constrained_worlds import HALLS, halls_workload
from tests.conformance.worlds import CLUSTERS, Curved, workloads
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, play
from tests.unit.metrics.one_machine_in_python import busy_date_bound

ONE_GPU = ClusterSpec((NodeSpec("plain", 1),))
EVERY_SAMPLE = Scenario(statistical_efficiency="every_sample")
times_of = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=9)


def relaxed(workload, cluster, performance=None):
    """Relax a workload, by default at one sample per second and GPU."""
    return Relaxation.of(workload, Setup(cluster, performance or IdealModel()))


@given(rows=times_of)
@settings(max_examples=25)
def test_srtf_reaches_the_bound_on_one_gpu(rows):
    """On one machine with free restarts, shortest remaining time first is optimal and equals the bound."""
    workload = jobs(*((float(submit), 1, float(seconds)) for submit, seconds in rows))
    result = play(Srtf(), workload, ONE_GPU)
    bound = relaxed(workload, ONE_GPU)
    jct = result.records["finish_time"] - result.records["submit_time"]
    assert bound.mean_jct() == pytest.approx(jct.mean())
    assert bound.makespan() == pytest.approx(makespan(result))


@pytest.mark.parametrize("scheduler", [Fifo(), Srtf(), Optimus(), Starling()], ids=lambda one: type(one).__name__)
@settings(max_examples=12)
@given(data=st.data(), cluster=st.sampled_from(sorted(CLUSTERS)))
def test_no_scheduler_beats_the_bound(scheduler, data, cluster):
    workload = data.draw(workloads(CLUSTERS[cluster]))
    result = run_episode(
        scheduler, Simulator(workload, Setup(CLUSTERS[cluster], Curved(), Scenario(restart_delay=0.0)))
    )
    bound = relaxed(workload, CLUSTERS[cluster], Curved())
    some = np.flatnonzero(np.arange(len(workload)) % 3 != 1)
    jct = result.records["finish_time"] - result.records["submit_time"]
    assert jct.mean() >= bound.mean_jct() * (1 - 1e-9)
    assert jct[some].mean() >= bound.of_jobs(some).mean_jct() * (1 - 1e-9)
    assert makespan(result) >= bound.makespan() * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_constraints_raise_the_bound_and_no_scheduler_beats_it(seed):
    workload, setup = halls_workload(seed), Setup(HALLS, Curved(), Scenario(restart_delay=0.0))
    free = replace(workload, models=tuple(map(without_constraints, workload.models)))
    bound, lower = Relaxation.of(workload, setup), Relaxation.of(free, setup)
    assert bound.mean_jct() > lower.mean_jct() * (1 + 1e-3)
    assert bound.makespan() >= lower.makespan()
    for scheduler in (Srtf(), Starling()):
        result = run_episode(scheduler, Simulator(workload, setup))
        jct = result.records["finish_time"] - result.records["submit_time"]
        assert jct.mean() >= bound.mean_jct() * (1 - 1e-9)
        assert makespan(result) >= bound.makespan() * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_time_limits_lower_the_bound_and_no_scheduler_beats_it(seed):
    rng, setup = np.random.default_rng(seed), Setup(HALLS, Curved(), Scenario(restart_delay=0.0))
    limited = [replace(job, time_limit=float(rng.uniform(5, 60))) for job in halls_workload(seed)]
    workload = Workload.of(limited)
    bound, free = Relaxation.of(workload, setup), Relaxation.of(halls_workload(seed), setup)
    assert bound.makespan() < free.makespan()
    for scheduler in (Srtf(), Starling()):
        result = run_episode(scheduler, Simulator(workload, setup))
        assert result.at_limit.any()
        assert not result.num_unfinished
        stays = departures(result) - result.records["submit_time"]
        assert stays.mean() >= bound.mean_jct() * (1 - 1e-9)
        assert makespan(result) >= bound.makespan() * (1 - 1e-9)


def test_alone_a_job_runs_at_the_fastest_size_of_the_fastest_type():
    """100 samples on up to 8 of 4 slow and 4 fast GPUs at 2/s: bounded by the time on 8 fast GPUs.

    Its demand takes the whole cluster, 12 samples/s, for 100 / 12 s, which is more.
    """
    workload = Workload.of([JobSpec(0, 3.0, 1, 100.0, "any", min_gpus=1, max_gpus=8)])
    bound = relaxed(workload, fast_and_slow(), TwoThroughputs())
    assert bound.alone.tolist() == [100 / 16]
    assert bound.demand.tolist() == [[100.0, 50.0]]
    assert bound.mean_jct() == pytest.approx(100 / 12)


def test_two_gpu_types_are_priced_by_their_throughput():
    """Four slow and four fast GPUs give 12 samples/s: twelve such jobs take 8.33 s each, one after the other, and no
    price makes this larger. Their busy dates are 50 s on average; alone each takes 12.5 s.
    """
    workload = jobs(*((0.0, 4, 25.0) for _ in range(12)))
    bound = relaxed(workload, fast_and_slow(), TwoThroughputs())
    assert bound.cluster_seconds == pytest.approx(np.full(12, 100 / 12), rel=1e-3)
    assert bound.makespan() == pytest.approx(100, rel=1e-3)
    assert bound.mean_jct() == pytest.approx(50 + 12.5 / 2, rel=1e-3)


def test_the_limits_of_cluster_and_jobs_together():
    """Four jobs of one GPU and 10 s on two GPUs: two run at a time, so the sum is 10 + 10 + 20 + 20.

    Alone: 40. As one machine, 5 s each: 5 + 10 + 15 + 20 = 50. Busy dates 2.5, 7.5, 12.5, 17.5 and half of 10 each: 60.
    """
    workload, pair = jobs(*((0.0, 1, 10.0) for _ in range(4))), ClusterSpec((NodeSpec("plain", 2),))
    bound = relaxed(workload, pair)
    assert busy_date_bound(bound.submit_time, bound.alone, bound.cluster_seconds) == pytest.approx(60)
    assert bound.mean_jct() == pytest.approx(15)
    assert play(Srtf(), workload, pair).records["finish_time"].mean() == 15


def test_the_makespan_includes_late_submissions():
    """Ten GPU-s at 0, and at 100 three jobs of 8 GPU-s on 8 GPUs, one GPU each at most: alone 8 s; together 3 s."""
    eight = ClusterSpec((NodeSpec("plain", 8),))
    assert relaxed(jobs((5, 1, 10), (100, 1, 8), (100, 1, 8), (100, 1, 8)), eight).makespan() == 103
    assert relaxed(jobs((5, 8, 2), (100, 8, 7), (100, 8, 7)), eight).makespan() == 109


def test_without_jobs_there_is_no_bound():
    nobody = relaxed(jobs((0, 1, 1)), ONE_GPU).of_jobs(np.zeros(0, np.int64))
    assert np.isnan(nobody.mean_jct())
    assert np.isnan(nobody.makespan())


def test_the_error_names_a_job_that_does_not_run_on_the_cluster():
    with pytest.raises(ClusterError, match="any on 2 to 2 GPUs does not run on cluster cluster; take a larger cluster"):
        relaxed(jobs((0, 2, 1)), ONE_GPU)


ZOO_GPUS = ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 4), NodeSpec("T4", 4)))
ZOO = default_model()
batch_ends = st.sampled_from([(0, 0), (0, 128), (64, 0), (64, 64), (50, 300)])


@st.composite
def elastic_jobs(draw):
    """Up to eight elastic jobs of four models, some with batch ranges of their own."""
    specs = []
    for i in range(draw(st.integers(1, 8))):
        model = draw(st.sampled_from(["resnet18", "transformer", "bert", "vgg16"]))
        gpus, (low, high) = draw(st.integers(1, 4)), draw(batch_ends)
        seconds = draw(st.floats(10, 2000))
        specs.append(
            JobSpec(
                i, draw(st.sampled_from([0.0, 30.0, 200.0])), gpus,
                seconds * ZOO.throughput(model, Configuration("V100", gpus)), model,
                min_gpus=1, max_gpus=draw(st.integers(gpus, 10)), min_batch=low, max_batch=high,
            )
        )  # fmt: skip
    return Workload.of(specs)


CHOOSING = (
    lambda: ElasticDp(measured_only=True),
    lambda: ElasticDp(measured_only=False),
    lambda: Starling(batch="best", measured_only=False),
    Pollux,
    Sia,
)


@given(workload=elastic_jobs(), choosing=st.sampled_from(CHOOSING), setting=st.sampled_from(EFFICIENCY_SETTINGS))
@settings(max_examples=20)
def test_no_scheduler_that_chooses_batch_sizes_beats_the_second_bound(workload, choosing, setting):
    """They take the best batch size that they find, up to the measured ones or to the end of the range."""
    scheduler = choosing()
    setup = Setup(ZOO_GPUS, ZOO, Scenario(restart_delay=0.0, statistical_efficiency=setting))
    result = run_episode(scheduler, Simulator(workload, setup))
    bound = Relaxation.of(workload, setup, any_batch=True)
    jct = result.records["finish_time"] - result.records["submit_time"]
    assert jct.mean() >= bound.mean_jct() * (1 - 1e-9)
    assert makespan(result) >= bound.makespan() * (1 - 1e-9)


def test_a_scheduler_that_chooses_batch_sizes_can_be_below_the_first_bound():
    """A job alone on a V100, batches of up to 4096 instead of 64: below the bound at 64, not below the second."""
    workload = Workload.of([JobSpec(0, 0.0, 1, 1e6, "resnet18")])
    cluster = ClusterSpec((NodeSpec("V100", 1),))
    setup = Setup(cluster, ZOO, Scenario(restart_delay=0.0, statistical_efficiency="every_sample"))
    result = run_episode(ElasticDp(measured_only=False), Simulator(workload, setup))
    first, second = (Relaxation.of(workload, setup, any_batch=any_batch) for any_batch in (False, True))
    assert second.makespan() <= makespan(result) < first.makespan()
    assert second.makespan() >= makespan(result) * (1 - BATCH_SLACK - 0.01)


@pytest.mark.parametrize(
    ("model", "gpu_type", "high"),
    [("llama7b", "T4", 0), ("gpt2_xl", "V100", 0), ("cyclegan", "A100", 0), ("transformer", "V100", 500)],
)
def test_the_fastest_batch_against_all_batch_sizes(model, gpu_type, high):
    """On 1 to 24 GPUs of nodes of 8: three models of few batch sizes, whose throughput jumps with how samples divide,
    and one whose throughput on one GPU has its peak in the middle, at a batch size of 152.
    """
    span = batch_range(model, 0, high)
    assert span is not None

    def throughputs_at(batch):
        return np.array(
            [ZOO.throughput(model, Configuration(gpu_type, n, -(-n // 8), batch_size=batch)) for n in range(1, 25)]
        )

    best = np.max([throughputs_at(batch) for batch in range(span[0], span[1] + 1)], axis=0)
    found = fastest_batch(throughputs_at, BatchSearch(*span))
    assert (found >= best * (1 - 1e-12)).all()
    assert (found <= best * (1 + BATCH_SLACK) + 1e-9).all()


@given(
    low=st.integers(1, 40),
    width=st.integers(0, 400),
    fixed=st.floats(0, 50),
    gpus=st.lists(st.integers(1, 16), min_size=1, max_size=4),
)
@example(low=1, width=3, fixed=0.0, gpus=[3])  # the fastest size is the smallest that runs
@settings(max_examples=30)
def test_the_fastest_batch_of_steps(low, width, fixed, gpus):
    """Steps of a fixed time and one per sample of the GPU that has most; a batch smaller than the GPUs does not run."""
    counts = np.array(gpus)

    def throughputs_at(batch):
        return np.where(batch >= counts, batch / (fixed + np.ceil(batch / counts)), 0.0)

    best = np.max([throughputs_at(batch) for batch in range(low, low + width + 1)], axis=0)
    found = fastest_batch(throughputs_at, BatchSearch(low, low + width))
    assert (found >= best * (1 - 1e-12)).all()
    assert (found <= best * (1 + BATCH_SLACK) * (1 + 1e-12)).all()


@given(
    low=st.integers(1, 40),
    width=st.integers(0, 400),
    noise=st.floats(0, 2000),
    fixed=st.floats(0, 50),
    rows=st.lists(st.tuples(st.integers(1, 16), st.integers(0, 450), st.integers(0, 450)), min_size=1, max_size=4),
)
@settings(max_examples=40)
def test_the_best_batch_by_goodput_within_windows(low, width, noise, fixed, rows):
    """Steps as before, an efficiency that falls as 1 / (noise + batch), and a window for each number of GPUs."""
    counts, windows = np.array([row[0] for row in rows]), np.array([row[1:] for row in rows])

    def goodputs_at(batch):
        runs = (batch >= counts) & (windows[:, 0] <= batch) & (batch <= windows[:, 1])
        return np.where(runs, batch / (fixed + np.ceil(batch / counts)) / (noise + batch), 0.0)

    best = np.max([goodputs_at(batch) for batch in range(low, low + width + 1)], axis=0)
    found = fastest_batch(goodputs_at, BatchSearch(low, low + width, noise, windows))
    assert (found >= best * (1 - 1e-12)).all()
    assert (found <= best * (1 + BATCH_SLACK) * (1 + 1e-12)).all()


def test_few_batch_sizes_are_evaluated():
    asked = []

    def throughputs_at(batch):
        asked.append(batch)
        return np.array([batch / (100.0 + batch)])

    fastest_batch(throughputs_at, BatchSearch(1, 100_000))
    assert len(asked) == len(set(asked)) < 300


class Picky(IdealModel):
    """One sample per second and GPU, twice as many at batch sizes of 100 to 200; others are refused."""

    def throughput(self, model, configuration):
        """Samples per second."""
        if configuration.batch_size is None:
            return float(configuration.num_gpus)
        if not 100 <= configuration.batch_size <= 200:
            raise PerformanceError(f"batch_size {configuration.batch_size} is out of range")
        return 2.0 * configuration.num_gpus


@pytest.mark.parametrize(
    ("own", "seconds"), [((0, 0), 50.0), ((16, 64), 100.0), ((120, 150), 50.0), ((100, 4096), 50.0), ((300, 0), 100.0)]
)
def test_never_slower_than_at_the_simulators_batch_size(own, seconds):
    """A refused batch size has no throughput, and the simulator's own one counts even outside the job's range."""
    job = JobSpec(0, 0.0, 1, 100.0, "resnet18", min_batch=own[0], max_batch=own[1])
    bound = Relaxation.of(Workload.of([job]), Setup(ONE_GPU, Picky(), EVERY_SAMPLE), any_batch=True)
    assert bound.makespan() <= seconds
    assert bound.makespan() >= seconds / (1 + BATCH_SLACK)


@pytest.mark.parametrize(
    ("model", "setting", "faster"),
    [
        ("resnet18", "measured", True),
        ("transformer", "measured", False),  # its noise scale is not measured: it keeps its usual batch size
        ("ncf", "measured", False),  # its throughput was measured at one batch size
        ("transformer", "assumed", True),
        ("ncf", "assumed", False),
    ],
)
def test_the_second_bound_counts_only_batch_sizes_that_are_offered(model, setting, faster):
    workload, cluster = Workload.of([JobSpec(0, 0.0, 1, 1e6, model)]), ClusterSpec((NodeSpec("V100", 1),))
    setup = Setup(cluster, ZOO, Scenario(statistical_efficiency=setting))
    first, second = (Relaxation.of(workload, setup, any_batch=any_batch).alone[0] for any_batch in (False, True))
    assert bool(second < first) is faster
    every = Relaxation.of(workload, replace(setup, scenario=EVERY_SAMPLE), any_batch=True).alone[0]
    assert every <= second * (1 + BATCH_SLACK)


def test_jobs_with_ranges_of_their_own():
    """Of two otherwise equal jobs the one with the wider range is faster, but only if batch sizes may be chosen."""
    specs = [JobSpec(i, 0.0, 1, 1e5, "resnet18", max_batch=most) for i, most in enumerate((64, 2048))]
    workload, cluster = Workload.of(specs), ClusterSpec((NodeSpec("V100", 1),))
    narrow, wide = Relaxation.of(workload, Setup(cluster, ZOO, EVERY_SAMPLE), any_batch=True).alone
    assert wide < narrow
    plain = Relaxation.of(workload, Setup(cluster, ZOO)).alone
    assert plain[0] == plain[1] >= narrow


@dataclass(frozen=True)
class AnyCurve:
    """Throughputs drawn for every number of GPUs and nodes: more of them may be slower or faster."""

    table: tuple[tuple[float, ...], ...]
    models: tuple[str, ...] = ("any",)

    def throughput(self, model, configuration):
        """Samples per second."""
        return self.table[configuration.num_gpus - 1][configuration.num_nodes - 1]


@given(seed=st.integers(0, 1000), scheduler=st.sampled_from([Srtf, Starling, Random]))
@settings(max_examples=60)
def test_no_schedule_beats_the_bound_of_any_curve(seed, scheduler):
    """Three nodes of three GPUs; spread placements may be the fastest ones, as those of `Random` are spread."""
    rng = np.random.default_rng(seed)
    cluster = ClusterSpec(tuple(NodeSpec("plain", 3) for _ in range(3)))
    curve = AnyCurve(tuple(map(tuple, rng.uniform(1.0, 5.0, (9, 9)).tolist())))
    rows = [(float(rng.integers(0, 9)), int(rng.integers(1, 10)), float(rng.integers(1, 9))) for _ in range(5)]
    workload = jobs(*rows, elastic=(1, 9))
    bound = relaxed(workload, cluster, curve)
    result = play(scheduler(), workload, cluster, performance=curve, seed=seed)
    jct = result.records["finish_time"] - result.records["submit_time"]
    assert (jct >= bound.alone * (1 - 1e-9)).all()
    assert jct.mean() >= bound.mean_jct() * (1 - 1e-9)
    assert makespan(result) >= bound.makespan() * (1 - 1e-9)


def test_the_bound_counts_the_fastest_number_of_nodes():
    """Two GPUs do 1 sample/s on one node and 4 on two: 2 x 10 samples take at least 5 s."""
    curve = AnyCurve(((1.0,), (1.0, 4.0), (1.0,) * 3, (1.0,) * 4))
    assert relaxed(jobs((0, 2, 10)), ClusterSpec((NodeSpec("plain", 2),) * 2), curve).alone.tolist() == [5.0]
