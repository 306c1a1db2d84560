"""Checks that every run must pass, recomputed from its event log alone: slow, simple, independent of the engine."""

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from envs.metrics import censored_completion_times, times_to_start, waits
from envs.performance import PerformanceModel
from envs.simulation import EventKind, RunResult, Scenario
from envs.simulation.world.throughput import level_nodes, node_level
from envs.types import ClusterSpec, Configuration, GpuSeconds, JobId, NodeId, Samples, Seconds

Held = dict[NodeId, int]  # GPUs by node; empty while a job holds none


def check_run(result: RunResult, performance: PerformanceModel, scenario: Scenario) -> None:
    """Assert order, capacity, work, service and waits of one run."""
    check_order(result)
    check_capacity(result)
    check_work(result, performance, scenario)
    check_service(result)
    check_waits(result)


def check_order(result: RunResult) -> None:
    """Check that time never falls, that each job arrives, starts and ends in order, and holds GPUs only in between."""
    events = result.log.events
    assert (np.diff(events["time"]) >= 0).all()
    for job in range(len(result.records)):
        event_kinds = [EventKind(int(kind)) for kind in events["kind"][events["job"] == job]]
        if not event_kinds or event_kinds == [EventKind.NEVER]:
            assert result.never_ran[job] if event_kinds else result.held[job]
            continue
        assert event_kinds[0] is EventKind.ARRIVE
        running = False
        for kind in event_kinds[1:]:
            assert running is (kind is not EventKind.START), f"job {job}: {kind.name} while running is {running}"
            running = kind in (EventKind.START, EventKind.RESIZE)
        assert result.finished[job] == (event_kinds[-1] is EventKind.FINISH)
        assert result.at_limit[job] == (event_kinds[-1] is EventKind.LIMIT)


def check_capacity(result: RunResult) -> None:
    """Check that jobs never hold more GPUs of a node than it has."""
    held: dict[JobId, Held] = {}
    events = result.log.events
    for row in range(len(events)):
        held[int(events["job"][row])] = _held_after(result, row)
        if row + 1 < len(events) and events["time"][row + 1] == events["time"][row]:
            continue  # within an instant GPUs may change hands in any order
        used = np.zeros(result.cluster.num_nodes, dtype=np.int64)
        for gpus in held.values():
            for node, count in gpus.items():
                assert count > 0
                used[node] += count
        assert (used <= result.cluster.node_gpus).all(), f"t = {events['time'][row]}: {used} GPUs held"


def check_work(result: RunResult, performance: PerformanceModel, scenario: Scenario) -> None:
    """Check that every finished job processed exactly its samples, and every other job no more than its samples."""
    for record in result:
        done: Samples = 0.0
        starts = 0
        for begin, end, held in stays(result, record.job.id):
            if not held:
                continue
            delay = scenario.restart_delay if starts else scenario.start_delay
            starts += 1
            done += max(end - begin - delay, 0.0) * throughput_of(performance, result.cluster, record.job.model, held)
        if record.finished:
            np.testing.assert_allclose(done, record.job.work, rtol=1e-9, atol=1e-6)
        else:
            assert done <= record.job.work * (1 + 1e-9)


def check_service(result: RunResult) -> None:
    """Check that attained service is GPUs times the time held, including delays."""
    for record in result:
        service: GpuSeconds = sum(
            (end - begin) * sum(held.values()) for begin, end, held in stays(result, record.job.id)
        )
        np.testing.assert_allclose(record.attained_service, service, rtol=1e-9, atol=1e-6)


def check_waits(result: RunResult) -> None:
    """Check that a job waits whenever it holds no GPUs, at least until its first start."""
    wait, to_start = waits(result), times_to_start(result.records)
    held = np.array([sum(end - begin for begin, end, gpus in stays(result, job) if gpus) for job in range(len(wait))])
    events, queued = result.log.events, ~np.isnan(wait)
    in_system = censored_completion_times(result)
    arrivals = events[events["kind"] == EventKind.ARRIVE]
    in_system[arrivals["job"]] -= arrivals["time"] - result.records["submit_time"][arrivals["job"]]
    wait, held, in_system, to_start = wait[queued], held[queued], in_system[queued], to_start[queued]
    np.testing.assert_allclose(wait + held, in_system, rtol=1e-9, atol=1e-6)
    begun = ~np.isnan(to_start)
    if not result.workload.waits:
        assert (wait[begun] >= to_start[begun]).all()
        assert (wait[~begun] == in_system[~begun]).all()


def stays(result: RunResult, job: JobId) -> Iterator[tuple[Seconds, Seconds, Held]]:
    """Yield (from, to, GPUs by node) between the events of a job, from its arrival to its end or that of the run."""
    events = result.log.events
    rows = np.flatnonzero(events["job"] == job)
    for row, following in zip_longest(rows, rows[1:]):
        end = result.end_time if following is None else float(events["time"][following])
        if events["kind"][row] not in (EventKind.FINISH, EventKind.LIMIT, EventKind.NEVER):
            yield float(events["time"][row]), end, _held_after(result, int(row))


def throughput_of(performance: PerformanceModel, cluster: ClusterSpec, model: str, held: Held) -> float:
    """Samples per second of a placement: workers share the mini-batch in proportion to their throughput."""
    gpus = sum(held.values())
    nodes = min(level_nodes(node_level(len(held))), gpus)  # the node counts that the engine's tables hold
    return sum(
        count / gpus * performance.throughput(model, Configuration(cluster.nodes[node].gpu_type, gpus, nodes))
        for node, count in held.items()
    )


def _held_after(result: RunResult, row: int) -> Held:
    if result.log.events["kind"][row] in (EventKind.START, EventKind.RESIZE):
        return dict(result.log.placement(row).gpus)
    return {}
