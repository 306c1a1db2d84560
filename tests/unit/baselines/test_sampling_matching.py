"""The scheduler: options, declarations, and runs with failing nodes and scarce GPU types."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Optimus, SamplingMatching
from baselines.sampling_matching.search import Sampling
from envs.scheduling import Scheduler
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.simulation.scenario import Failures
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import CLUSTERS, Curved
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, play, times


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (partial(SamplingMatching, restart_cost=-1), ("SamplingMatching", "restart_cost", "-1", "not negative")),
        (partial(SamplingMatching, restart_cost=math.inf), ("SamplingMatching", "restart_cost", "inf", "finite")),
        (partial(SamplingMatching, shortness=-0.5), ("SamplingMatching", "shortness", "-0.5", "not negative")),
        (partial(SamplingMatching, shortness=math.nan), ("SamplingMatching", "shortness", "nan", "finite")),
    ],
    ids=["negative cost", "infinite cost", "negative shortness", "no shortness"],
)
def test_bad_options(build, words):
    with pytest.raises(MurmurationError) as error:
        build()
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words)


def test_declarations():
    scheduler = SamplingMatching()
    assert isinstance(scheduler, Scheduler)
    assert (scheduler.information, scheduler.preemptive, scheduler.elastic) == ("estimate", True, True)


def many_jobs(seed, count=30):
    """Elastic jobs of all sizes, most of them at once."""
    rng = np.random.default_rng(seed)
    specs = []
    for i in range(count):
        gpus = int(rng.integers(1, 7))
        most = int(rng.integers(gpus, 9))
        model = str(rng.choice(["any", "large"]))
        specs.append(JobSpec(i, float(rng.choice([0.0, 5.0, 9.0])), gpus, float(rng.uniform(5, 300)), model, 1, most))
    return Workload.of(specs)


@settings(max_examples=8)
@given(seed=st.integers(0, 1000))
def test_all_jobs_finish_on_failing_nodes(seed):
    """Every job finishes although each node fails about every minute for ten seconds."""
    scenario = Scenario(restart_delay=1.0, failures=Failures(mtbf=60.0, repair_time=10.0))
    simulator = Simulator(many_jobs(seed), Setup(CLUSTERS["mixed"], Curved(), scenario), seed)
    assert run_episode(SamplingMatching(Sampling(samples=5)), simulator).finished.all()


def test_jobs_take_turns_on_scarce_types():
    """Many jobs whose model does not run on half of the GPUs: they take turns, and the others use the rest."""
    cluster = ClusterSpec((NodeSpec("new", 2), NodeSpec("small", 6)))
    specs = [JobSpec(i, 0.0, 2, 20.0, "large" if i % 2 else "any") for i in range(10)]
    result = run_episode(SamplingMatching(), Simulator(Workload.of(specs), Setup(cluster, Curved())))
    assert result.finished.all()
    assert (result.records["start_time"] == 0).sum() == 4  # two GPUs each, on eight


def test_gangs_over_several_types_beat_gangs_of_one_type():
    """One elastic job on as many fast and slow GPUs: Optimus leaves the slow ones idle."""
    workload, cluster = jobs((0, 4, 40), elastic=(1, 8)), fast_and_slow()
    matched = play(SamplingMatching(), workload, cluster, performance=TwoThroughputs())
    single = play(Optimus(), workload, cluster, performance=TwoThroughputs())
    assert times(matched) == [(0, round(160 / 12, 6))]
    assert times(single) == [(0, 160 / 8)]


@pytest.mark.parametrize("seed", range(3))
def test_mean_completion_is_near_that_of_optimus(seed):
    """On a crowded mixed cluster with restarts of two seconds: at most a tenth worse, for every seed."""
    workload, cluster, scenario = many_jobs(seed, 40), CLUSTERS["mixed"], Scenario(restart_delay=2.0)
    means = []
    for scheduler in (SamplingMatching(), Optimus()):
        records = run_episode(scheduler, Simulator(workload, Setup(cluster, Curved(), scenario), seed)).records
        means.append(np.mean(records["finish_time"] - records["submit_time"]))
    assert means[0] <= 1.1 * means[1]
