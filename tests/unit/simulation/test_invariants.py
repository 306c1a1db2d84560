"""Invariants of lists, counts, work and service under random workloads and random decisions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.simulation import EventKind, RunResult, Scenario, Setup, Simulator, State
from envs.simulation.seen.view import members
from envs.simulation.world.kernels import DONE, PENDING, QUEUED, RUNNING
from envs.simulation.world.ordered_set import next_member
from tests.conformance.audit import check_run, stays, throughput_of
from tests.conformance.worlds import CLUSTERS, Curved, scenarios, workloads
from tests.unit.simulation.plays import Chance, held, pool_size, running_jobs, tenants_of

every_cluster = st.sampled_from(sorted(CLUSTERS))
horizons = st.sampled_from([np.inf, 40.0])


def drawn(data: st.DataObject, scenario: Scenario) -> tuple[Simulator, Chance]:
    """A simulator at t = 0 and a random scheduler."""
    cluster = CLUSTERS[data.draw(every_cluster)]
    simulator = Simulator(
        data.draw(workloads(cluster)), Setup(cluster, Curved(), scenario), data.draw(st.integers(0, 99))
    )
    chance = Chance(disturb=data.draw(st.sampled_from([0.0, 0.2, 0.6])))
    chance.reset(simulator.cluster, simulator.rng)
    return simulator, chance


@settings(max_examples=60)
@given(data=st.data(), scenario=scenarios)
def test_lists_and_counts_agree_after_every_round(data, scenario):
    """Jobs' lists mirror nodes' lists, free counts are consistent, and no share record is lost."""
    simulator, chance = drawn(data, scenario)
    for view in simulator.rounds():
        check_state(simulator.state)
        simulator.apply(chance.schedule(view))
        check_state(simulator.state)
    check_state(simulator.state)


def check_state(state: State) -> None:
    """Check one episode's arrays for consistency by following their lists."""
    episode, jobs, nodes = state.episode[0, 0], state.jobs[0], state.nodes[0]
    by_job = {job: held(state, job) for job in range(len(jobs)) if jobs[job].status == RUNNING}
    by_node = {node: tenants_of(state, node) for node in range(len(nodes))}
    assert {(j, n, g) for j, gpus in by_job.items() for n, g in gpus.items()} == {
        (j, n, g) for n, gpus in by_node.items() for j, g in gpus.items()
    }
    for job, record in enumerate(jobs):
        gpus = by_job.get(job, {})
        assert list(gpus) == sorted(gpus)
        assert (record.gpus, record.num_shares) == (sum(gpus.values()), len(gpus))
        assert record.touched == 0
        assert (record.first_share >= 0) == (record.status == RUNNING)
    for node, record in enumerate(nodes):
        tenants = by_node[node]
        assert list(tenants) == sorted(tenants)
        assert record.free == record.num_gpus - sum(tenants.values()) >= 0
        assert record.num_jobs == len(tenants)
    assert episode.num_free == nodes["free"].sum()
    assert pool_size(state) == state.shares.shape[1] - sum(map(len, by_job.values()))
    assert running_jobs(state).tolist() == sorted(by_job)
    for words, status in ((state.queued, QUEUED), (state.running, RUNNING)):
        found = members(words[0], len(jobs), len(jobs))
        assert found[: (jobs["status"] == status).sum()].tolist() == np.flatnonzero(jobs["status"] == status).tolist()
    for node, record in enumerate(nodes):
        for free in range(state.room.shape[2]):
            type_and_free = (record.gpu_type, free)
            has = next_member(state.room[0][type_and_free], len(nodes), node) == node
            assert has == (free == record.free)
    assert (jobs["status"][episode.next_job :] == PENDING).all()
    assert episode.num_touched == 0


@settings(max_examples=60)
@given(data=st.data(), scenario=scenarios, horizon=horizons)
def test_the_log_agrees_with_work_service_and_capacity(data, scenario, horizon):
    """Audit the log alone: capacity at every instant, work as the integral of throughput, service, order."""
    scenario = Scenario(scenario.start_delay, scenario.restart_delay, horizon=horizon, rounds=scenario.rounds)
    simulator, chance = drawn(data, scenario)
    for view in simulator.rounds():
        simulator.apply(chance.schedule(view))
    result = simulator.result("chance")
    check_run(result, Curved(), scenario)
    check_records(result, simulator.state)
    check_accumulators(result, simulator.state)


def check_records(result: RunResult, state: State) -> None:
    """Recompute each job's record from its events."""
    events = result.log.events
    for row, record in zip(result.records, result, strict=True):
        mine = events[events["job"] == row["job"]]
        starts = mine["time"][mine["kind"] == EventKind.START]
        assert mine["time"][0] == row["submit_time"] == record.job.submit_time
        np.testing.assert_equal(row["start_time"], starts[0] if len(starts) else np.nan)
        ends = mine["time"][mine["kind"] == EventKind.FINISH]
        np.testing.assert_equal(row["finish_time"], ends[0] if len(ends) else np.nan)
        assert row["num_preemptions"] == (mine["kind"] == EventKind.STOP).sum()
        assert row["num_restarts"] == max(len(starts) - 1, 0) + (mine["kind"] == EventKind.RESIZE).sum()
        assert record.finished == (state.jobs[0, int(row["job"])].status == DONE)


def check_accumulators(result: RunResult, state: State) -> None:
    """Check the sums of the kernels against the log."""
    episode = state.episode[0, 0]
    finish = np.where(result.finished, result.records["finish_time"], result.end_time)
    np.testing.assert_allclose(
        episode.job_seconds, (finish - result.records["submit_time"]).sum(), rtol=1e-9, atol=1e-6
    )
    np.testing.assert_allclose(episode.busy_seconds, result.records["attained_service"].sum(), rtol=1e-9, atol=1e-6)
    event_kinds = result.log.events["kind"]
    assert episode.num_events == np.isin(event_kinds, (EventKind.FINISH, EventKind.ARRIVE)).sum()
    assert episode.log_events == len(event_kinds)


@settings(max_examples=30)
@given(data=st.data(), scenario=scenarios)
def test_views_show_the_current_progress(data, scenario):
    """In every round the view's work and service agree with the log up to that time."""
    simulator, chance = drawn(data, scenario)
    for view in simulator.rounds():
        jobs = np.concatenate([view.running, view.queued])
        left, service = view.remaining_work(jobs), view.attained_service(jobs)
        so_far = simulator.result("so far")
        np.testing.assert_allclose(service, so_far.records["attained_service"][jobs], rtol=1e-9, atol=1e-6)
        for job, work in zip(jobs.tolist(), left.tolist(), strict=True):
            done = simulator.workload.spec(job).work - work
            np.testing.assert_allclose(done, work_done(so_far, scenario, job), rtol=1e-9, atol=1e-6)
        simulator.apply(chance.schedule(view))


def work_done(result: RunResult, scenario: Scenario, job: int) -> float:
    """Samples of one job by its events so far: each placement's throughput times its time less the delay."""
    done, placements = 0.0, 0
    for begin, end, gpus in stays(result, job):
        if gpus:
            delay = scenario.restart_delay if placements else scenario.start_delay
            placements += 1
            throughput = throughput_of(Curved(), result.cluster, result.workload.spec(job).model, gpus)
            done += max(end - begin - delay, 0.0) * throughput
    return done


@settings(max_examples=30)
@given(data=st.data(), scenario=scenarios, seed=st.integers(0, 9))
def test_one_seed_gives_one_run(data, scenario, seed):
    cluster = CLUSTERS[data.draw(every_cluster)]
    workload = data.draw(workloads(cluster))
    logs = []
    for _ in range(2):
        simulator, chance = Simulator(workload, Setup(cluster, Curved(), scenario), seed), Chance()
        chance.reset(cluster, simulator.rng)
        for view in simulator.rounds():
            simulator.apply(chance.schedule(view))
        logs.append(simulator.result("chance").log)
    assert logs[0] == logs[1]
