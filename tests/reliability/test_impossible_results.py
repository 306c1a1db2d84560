"""Results that cannot be are refused: every run is recomputed from its event log and compared with a lower bound."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Fifo, Srtf
from envs.evaluation import Comparison, compare_schedulers
from envs.evaluation.audit import Audit
from envs.evaluation.comparison import BOUND
from envs.evaluation.plausible import refuse_below_bound
from envs.metrics.bounds import Relaxation
from envs.performance import IdealModel
from envs.scheduling import ClusterView
from envs.simulation import EventKind, EventLog, Failures, Scenario, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import Allocation, ClusterSpec, ImpossibleResultError
from tests.conformance.worlds import CLUSTERS, Curved, scenarios, workloads
from tests.golden.playground import jobs, two_nodes
from tests.unit.simulation.plays import Chance

ROWS = [(3.0 * i, 1 + i % 4, 20.0 + 7 * (i % 5)) for i in range(12)]
SETUP = Setup(two_nodes(), IdealModel(), Scenario(restart_delay=2.0))
OUTAGES = Failures(mtbf=40.0, repair_time=5.0, checkpoint_interval=3.0)


@pytest.mark.parametrize("engine", [Simulator, ReferenceSimulator])
@settings(max_examples=60)
@given(data=st.data(), scenario=scenarios, failing=st.booleans(), disturb=st.sampled_from([0.0, 0.2, 0.6]))
def test_what_the_engines_do_passes(engine, data, scenario, failing, disturb):
    cluster = CLUSTERS[data.draw(st.sampled_from(sorted(CLUSTERS)))]
    setup = Setup(cluster, Curved(), replace(scenario, failures=OUTAGES if failing else None))
    result = run_episode(Chance(disturb=disturb), engine(data.draw(workloads(cluster)), setup, 7))
    counts = Audit(setup).check(result)
    assert (counts.events, counts.jobs) == (len(result.log), len(result.records))


@pytest.fixture
def result():
    """A run in which jobs were preempted, so that all kinds of event but failures occur."""
    found = run_episode(Chance(disturb=0.5), Simulator(jobs(*ROWS), SETUP, 3))
    assert set(found.log.events["kind"]) >= {EventKind.STOP, EventKind.START, EventKind.FINISH, EventKind.ARRIVE}
    return found


def changed(table, row, **columns):
    """Return a copy of a table of records with some columns of one row set."""
    copy = table.copy()
    for name, value in columns.items():
        copy[name][row] = value
    return copy


def with_events(result, events):
    return replace(result, log=EventLog(events, result.log.shares, result.log.plans))


def refused(result, match):
    with pytest.raises(ImpossibleResultError, match=match) as error:
        Audit(SETUP).check(result)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{result.scheduler} on {result.workload.name}: ")


@pytest.mark.parametrize("column", ["finish_time", "start_time", "submit_time"])
def test_a_record_with_another_time_is_refused(result, column):
    refused(replace(result, records=changed(result.records, 5, **{column: result.records[column][5] - 1.0})), "job 5")


@pytest.mark.parametrize("column", ["num_preemptions", "num_interruptions", "num_restarts", "attained_service"])
def test_a_record_with_another_count_is_refused(result, column):
    refused(replace(result, records=changed(result.records, 4, **{column: 99})), "job 4")


def test_a_job_that_ends_too_early_is_refused(result):
    """The same second is taken from the log and from the record, as a faulty engine would do."""
    row = int(np.flatnonzero(result.log.events["kind"] == EventKind.FINISH)[0])
    job, time = int(result.log.events["job"][row]), float(result.log.events["time"][row]) - 0.25
    service = result.records["attained_service"][job] - 0.25 * result.records["num_gpus"][job]
    records = changed(result.records, job, finish_time=time, attained_service=service)
    earlier = replace(with_events(result, changed(result.log.events, row, time=time)), records=records)
    refused(earlier, f"job {job} finished with work for|out of order|runs backwards")


def test_more_work_than_a_job_has_is_refused(result):
    """The workload says less work than was processed."""
    table = result.workload.jobs.copy()
    table["work"] *= 0.5
    refused(replace(result, workload=replace(result.workload, jobs=table)), "processed .* more than its work")


def test_gpus_that_a_node_does_not_have_are_refused(result):
    shares = result.log.shares.copy()
    shares["gpus"] += 4
    refused(replace(result, log=EventLog(result.log.events, shares, result.log.plans)), "node . has . GPUs")


def test_events_out_of_order_are_refused(result):
    events = result.log.events
    start = int(np.flatnonzero(events["kind"] == EventKind.START)[0])
    refused(with_events(result, changed(events, start, kind=EventKind.RESIZE)), "has a RESIZE .* out of order")
    refused(with_events(result, np.delete(events, start)), "out of order")
    swapped = changed(events, start, time=1e6)
    refused(with_events(result, swapped), "time runs backwards")
    arrivals = events["kind"] == EventKind.ARRIVE
    refused(with_events(result, events[~(arrivals & (events["job"] == 3))]), "job 3 has a START|jobs arrive")


def test_a_lost_job_is_refused(result):
    refused(replace(result, records=result.records[:-1]), "12 jobs arrive in the log, 11 have a record")


class Cheat:
    """FIFO that shortens all jobs through the engine's side of the view, which no scheduler may use."""

    def __init__(self) -> None:
        self.fifo = Fifo()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.fifo.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Shorten jobs, then decide."""
        view._engine_side.jobs["remaining"] *= 0.5  # type: ignore[attr-defined]
        return self.fifo.schedule(view)


def test_a_comparison_refuses_a_scheduler_that_changes_the_state():
    comparison = compare_schedulers({"cheat": Cheat(), "fifo": Fifo()}, [jobs(*ROWS)], SETUP, resamples=20)
    assert list(comparison.runs) == ["fifo"]
    assert "the result cannot be" in comparison.failures["cheat"].message
    assert "cheat on" in comparison.failures["cheat"].message
    with pytest.raises(ImpossibleResultError, match="cheat on"):
        compare_schedulers({"cheat": Cheat()}, [jobs(*ROWS)], SETUP)


def test_a_mean_below_the_lower_bound_is_refused_by_name():
    """With a bound that claims more than jobs need, the best scheduler is below it, and the worst one is not."""
    found = compare_schedulers({"fifo": Fifo(), "srtf": Srtf()}, [jobs(*ROWS)], SETUP, resamples=20)
    jct = {row["scheduler"]: row["mean_jct"] for row in found.rows}
    assert jct["srtf"] < jct["fifo"]
    middle = (jct["srtf"] + jct["fifo"]) / 2
    count = len(ROWS)
    none = np.zeros(count)
    bound = Relaxation(none, none, np.full(count, middle), np.full((count, 1), 1e-9), np.array([8]), None)
    assert bound.mean_jct() == pytest.approx(middle)
    wrong = Comparison(found.runs, relaxations={BOUND: [bound]}, resamples=20)
    kept = refuse_below_bound(wrong)
    assert list(kept.runs) == ["fifo"]
    assert "below the lower bound" in kept.failures["srtf"].message
    assert refuse_below_bound(found) is found
    with pytest.raises(ImpossibleResultError, match="srtf on"):
        refuse_below_bound(Comparison({"srtf": found.runs["srtf"]}, relaxations={BOUND: [bound]}, resamples=20))
