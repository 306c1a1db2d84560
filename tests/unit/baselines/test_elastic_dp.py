"""The autoscaler: options, counters, state between episodes, and optimal shares."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import ElasticDp
from baselines.elastic_dp.scheduler import by_type
from baselines.parts.scalability import AnalysedJobs, Analyser
from envs.scheduling import Scheduler
from envs.simulation import EventKind, Information, Rounds, Scenario, Setup, Simulator, run_episode
from envs.simulation.scenario import Failures
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.audit import check_run
from tests.conformance.worlds import CLUSTERS, Curved, workloads
from tests.unit.baselines.rounds import round_at
from tests.unit.baselines.slow_dp import try_everything

BIG_NODE = ClusterSpec((NodeSpec("new", 8),))
SMALL_NODES = ClusterSpec(tuple(NodeSpec("new", 4) for _ in range(2)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": "bset"}, ("batch", "'bset'", "best, least, usual, most")),
        ({"overload": "wait"}, ("overload", "'wait'", "queue or drop")),
        ({"interval": -1.0}, ("interval", "-1", "not negative")),
        ({"interval": math.inf}, ("interval", "inf", "finite")),
        ({"move_gain": 0.5}, ("move_gain", "0.5", "at least 1")),
        ({"move_gain": math.nan}, ("move_gain", "nan", "at least 1")),
        ({"patience": -1.0}, ("patience", "-1", "not be negative")),
        ({"patience": math.nan}, ("patience", "nan", "not be negative")),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(MurmurationError) as error:
        ElasticDp(**options)
    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in ("ElasticDp", *words)), message


def test_declarations():
    assert isinstance(ElasticDp(), Scheduler)
    assert (ElasticDp.information, ElasticDp.preemptive, ElasticDp.elastic) == ("none", True, True)


def elastic(count: int, least: int = 1, most: int = 8, submit: float = 0.0, work: float = 50.0) -> list[JobSpec]:
    """Create equal jobs."""
    return [JobSpec(i, submit, least, work, "any", least, most) for i in range(count)]


@given(seed=st.integers(0, 10_000))
def test_the_sum_of_scaling_factors_is_the_largest(seed):
    """On one node, where no share is split: no other sizes of the jobs that run have a larger sum."""
    rng = np.random.default_rng(seed)
    specs = []
    for i in range(int(rng.integers(1, 5))):
        least = int(rng.integers(1, 4))
        specs.append(JobSpec(i, 0.0, least, 1e6, str(rng.choice(["any", "large"])), least, int(rng.integers(least, 9))))
    view = round_at(0, Workload.of(specs), BIG_NODE, performance=Curved())
    scheduler = ElasticDp()
    scheduler.reset(view.cluster, rng)
    allocation = scheduler.schedule(view)
    known = AnalysedJobs(Analyser(), view.cluster)
    known.look_up(view)
    chosen = sorted(allocation.jobs())
    values = known.factors[known.table[chosen], 0]
    sizes = [allocation.placement(job).num_gpus for job in chosen]  # type: ignore[union-attr]
    assert chosen == list(range(len(chosen)))
    assert values[np.arange(len(chosen)), sizes].sum() == pytest.approx(try_everything(values, 8))


def test_an_unchanged_state_keeps_its_allocation():
    """A second round in the same state changes no job and counts no decision."""
    view = round_at(0, Workload.of(elastic(3)), SMALL_NODES, performance=Curved())
    scheduler = ElasticDp()
    scheduler.reset(view.cluster, np.random.default_rng(0))
    allocation = scheduler.schedule(view)
    placed = {job: dict(its.gpus) for job in sorted(allocation.jobs()) if (its := allocation.placement(job))}
    later = round_at(1, Workload.of(elastic(3)), SMALL_NODES, place=[(0, placed)], performance=Curved())
    again = scheduler.schedule(later)
    assert (again.changes, again.keep_running, scheduler.counters["decisions"]) == ({}, True, 1)


def test_a_reset_forgets_the_last_episode():
    """Dropped jobs, counters and the time of the last decision are reset."""
    scheduler = ElasticDp(overload="drop", interval=1e6)
    workload = Workload.of(elastic(10))
    first = run_episode(scheduler, Simulator(workload, Setup(SMALL_NODES, Curved())))
    again = run_episode(scheduler, Simulator(workload, Setup(SMALL_NODES, Curved())))
    assert first.log == again.log
    assert first.counters == again.counters == {"decisions": 1, "proved": 1, "dropped": 2}
    assert first.num_unfinished == 2


def test_dropped_jobs_never_run():
    """Ten jobs for eight GPUs, and a later job that finds room: the two jobs without room never run."""
    late = [JobSpec(10, 1000.0, 1, 50.0, "any", 1, 8)]
    result = run_episode(
        ElasticDp(overload="drop"), Simulator(Workload.of([*elastic(10), *late]), Setup(SMALL_NODES, Curved()))
    )
    assert result.finished.tolist() == [True] * 8 + [False] * 2 + [True]
    assert np.isnan(result.records["start_time"][8:10]).all()


def test_a_job_stopped_by_a_failed_node_is_not_dropped():
    """Nodes fail often; with dropping on, every job that ever ran finishes."""
    scenario = Scenario(failures=Failures(mtbf=300.0, repair_time=100.0), rounds=Rounds(on_events=True, interval=20.0))
    specs = elastic(4, least=2, work=2000.0)
    result = run_episode(
        ElasticDp(overload="drop"), Simulator(Workload.of(specs), Setup(SMALL_NODES, Curved(), scenario), seed=1)
    )
    assert result.finished.all()
    assert result.records["num_restarts"].sum() > 0


@given(data=st.data(), interval=st.sampled_from([0.0, 4.0, 30.0]), cluster=st.sampled_from(sorted(CLUSTERS)))
def test_sound_with_any_interval(data, interval, cluster):
    """With an interval runs are sound, every job ends, and changes lie at least so far apart."""
    scenario = Scenario(rounds=Rounds(on_events=True, interval=2.0), information=Information("none"))
    workload = data.draw(workloads(CLUSTERS[cluster]))
    result = run_episode(
        ElasticDp(interval=interval), Simulator(workload, Setup(CLUSTERS[cluster], Curved(), scenario))
    )
    check_run(result, Curved(), scenario)
    assert result.finished.all()
    events = result.log.events
    decided = np.unique(events["time"][np.isin(events["kind"], [EventKind.START, EventKind.RESIZE, EventKind.STOP])])
    assert (np.diff(decided) >= interval).all()


@given(data=st.data(), cluster=st.sampled_from(sorted(CLUSTERS)))
def test_every_job_finishes_or_is_dropped(data, cluster):
    """Each job has finished or was dropped before it ever ran, and the counter equals the number of dropped jobs."""
    workload = data.draw(workloads(CLUSTERS[cluster]))
    result = run_episode(ElasticDp(overload="drop"), Simulator(workload, Setup(CLUSTERS[cluster], Curved())))
    check_run(result, Curved(), Scenario())
    assert result.num_unfinished == result.counters["dropped"]
    assert np.isnan(result.records["start_time"][~result.finished]).all()


@given(rows=st.lists(st.tuples(st.integers(0, 20), st.floats(1.0, 100.0)), min_size=1, max_size=20))
def test_waiting_jobs_start_in_order(rows):
    """More jobs than GPUs, each of which runs on one: no job starts before a job that was submitted earlier."""
    specs = [JobSpec(i, float(submit), 1, work, "any", 1, 4) for i, (submit, work) in enumerate(rows)]
    result = run_episode(ElasticDp(), Simulator(Workload.of(specs), Setup(SMALL_NODES, Curved())))
    assert (np.diff(result.records["start_time"]) >= 0).all()


def test_gpus_by_type():
    cluster = CLUSTERS["mixed"]
    assert by_type(cluster, cluster.node_gpus).tolist() == list(cluster.gpus_by_type.values())
