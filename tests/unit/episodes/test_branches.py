"""Branches: played to the end they are the episode that they copy, and futures differ only in what arrives."""

from typing import Any

import numpy as np
import pytest

from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.bidding import BiddingBatch
from envs.episodes.backlog import (
    MOST_ROWS,
    BacklogColumn,
    backlog_seconds,
    num_backlog_rows,
    observe_backlog,
)
from envs.episodes.branches import Branches
from envs.gpu_cluster import DecisionRules
from envs.gpu_cluster.batch import GpuClusterBatch
from envs.gpu_cluster.branches import ChoiceBranches
from envs.performance import Contention
from envs.simulation import Failures, FifoMarket, Scenario
from envs.simulation.market import no_bids
from envs.simulation.state import Status
from envs.types import MurmurationError
from tests.unit.agents.worlds import small_world

HARSH = Scenario(cpu_memory="shared", contention=Contention(mode="measured"), failures=Failures(20_000.0, 600.0))


def world(**changes):
    return small_world(num_nodes=3, num_jobs=14, load=2.5, **changes)


def batch_of(made, market, size=2, **options):
    batch = BiddingBatch(made.setup, made.source.models, made.source.num_jobs, size, market, **options)
    for b in range(size):
        batch.load(b, made.source.episode(np.random.default_rng(b), "train"), np.random.default_rng(b))
    return batch


def silent(batch):
    return np.zeros(batch.auction.action_shape, np.float32)


def step_silently(batch, rounds):
    for _ in range(rounds):
        batch.step(silent(batch))


@pytest.mark.parametrize("market", [FifoMarket(), StarlingMarket(Starling(look_ahead=0, batch="usual"))])
@pytest.mark.parametrize("scenario", [Scenario(), HARSH])
def test_a_branch_of_the_markets_decision_is_the_rest_of_the_episode(market, scenario):
    """In one go or in stretches of 300 s; the episodes of the batch are not disturbed."""
    batch = batch_of(world(scenario=scenario), market)
    step_silently(batch, 5)
    before = batch.state.episode["job_seconds"][:, 0].copy()
    branches = Branches(batch, 5, market)
    places, episodes = np.array([4, 0, 2]), np.array([1, 0, 1])
    branches.copy(places, episodes)
    branches.plan(places, batch.auction.clear(silent(batch)), episodes)
    whole = branches.play(places[:2], np.full(2, np.inf)).total()
    pieces = np.zeros(5)
    for cut in range(1, 2000):
        stretch = branches.play(places[2:], batch.time[1:] + 300.0 * cut)
        pieces += stretch.total()
        assert (stretch.seconds >= 0).all()
        if branches.finished(places[2:])[0]:
            break
    assert branches.finished(places).all()
    while not batch.ended.all():
        batch.step(silent(batch))
    spent = batch.state.episode["job_seconds"][:, 0] - before
    assert whole[[0, 4]] == pytest.approx(spent, rel=1e-12)
    assert pieces[2] == pytest.approx(spent[1], rel=1e-12)
    assert (whole[[1, 2, 3]] == 0).all()
    for place, b in zip(places, episodes, strict=True):
        for name in ("status", "finish", "num_restarts", "gpus"):
            assert (branches.state.jobs[name][place] == batch.state.jobs[name][b]).all(), name


def test_branches_can_be_made_again_of_later_rounds_and_other_episodes():
    made, market = world(), FifoMarket()
    batch = batch_of(made, market)
    branches = Branches(batch, 1, market)
    place, first, second = np.array([0]), np.array([0]), np.array([1])
    for episodes, rounds in ((first, 3), (second, 2), (second, 4)):
        step_silently(batch, rounds)
        branches.copy(place, episodes)
        branches.plan(place, batch.auction.clear(silent(batch)), episodes)
        assert branches.state.episode["time"][0, 0] == batch.time[episodes[0]]
        branches.play(place, np.full(1, np.inf))
    batch.load(1, made.source.episode(np.random.default_rng(7), "train"), np.random.default_rng(7))
    branches.copy(place, second)
    branches.plan(place, batch.auction.clear(silent(batch)), second)
    total = branches.play(place, np.full(1, np.inf)).total()
    batch.stop(0)
    while not batch.ended[1]:
        batch.step(silent(batch))
    assert total[0] == pytest.approx(float(batch.state.episode["job_seconds"][1, 0]), rel=1e-12)


@pytest.mark.parametrize("num_levels", [1, 6])
def test_nodes_that_choose_are_branched_with_what_they_decided(num_levels):
    """A random joint decision, then the market alone; the batch itself decides the same and passes from then on."""
    made, market = world(scenario=Scenario(cpu_memory="shared")), StarlingMarket(Starling(look_ahead=0, batch="usual"))
    rules = DecisionRules(amendments=True, num_candidates=6, max_decisions=1, num_levels=num_levels)
    batch = GpuClusterBatch(made.setup, made.source.models, made.source.num_jobs, 2, rules, market=market)
    for b in range(2):
        batch.load(b, made.source.episode(np.random.default_rng(b), "train"), np.random.default_rng(b))
    nothing, rng = np.zeros((2, 3), np.int64), np.random.default_rng(3)
    for _ in range(4):
        batch.step(nothing)
    before = batch.state.episode["job_seconds"][:, 0].copy()
    mask = batch.observation["mask"]
    chosen = np.array([[rng.choice(np.flatnonzero(mask[b, n])) for n in range(3)] for b in range(2)])
    branches = ChoiceBranches(batch, 4, market)
    branches.copy(np.arange(4), np.array([0, 1, 0, 1]))
    branches.decide(np.arange(2), chosen)
    total = branches.play(np.arange(4), np.full(4, np.inf)).total()
    assert (total[:2] != total[2:]).any()
    batch.step(chosen)
    for b in range(2):
        while not batch.ended[b]:
            batch.replay(b, nothing[:1])
    assert total[:2] == pytest.approx(batch.state.episode["job_seconds"][:, 0] - before, rel=1e-12)


class Listening(FifoMarket):
    """Keeps the affinities for the first node that it hears."""

    def __init__(self):
        super().__init__()
        self.heard: list[Any] = []

    def attach(self, setup, table, state):
        market = super().attach(setup, table, state)
        market.heard = []
        return market

    def clear(self, worlds, bids):
        self.heard.append(bids.affinity[:, :, 0].copy())
        return super().clear(worlds, bids)


def test_held_bids_are_heard_in_all_later_rounds_until_a_branch_is_copied_anew():
    made, market = world(), Listening()
    batch = batch_of(made, market, size=1)
    step_silently(batch, 4)
    branches = Branches(batch, 2, market)
    both, episodes, nowhere = np.arange(2), np.zeros(2, np.int64), np.full(2, np.inf)
    bids = no_bids(batch.state)
    bids.affinity[0] = 0.5
    branches.copy(both, episodes)
    branches.plan(both, batch.auction.clear(silent(batch)), episodes)
    branches.hold(both[1:], bids, episodes[1:])
    branches.play(both, nowhere)
    assert isinstance(branches.market, Listening)
    heard = branches.market.heard
    assert len(heard) > 1
    assert all((each[0] == 0).all() and (each[1] == 0.5).all() for each in heard)
    heard.clear()
    branches.copy(both, episodes)
    branches.plan(both, batch.auction.clear(silent(batch)), episodes)
    branches.play(both, nowhere)
    assert heard
    assert not np.any(heard)


def test_a_redrawn_future_keeps_the_present_and_follows_the_other_workload():
    made, market = world(), FifoMarket()
    batch = batch_of(made, market, size=1)
    step_silently(batch, 6)
    now, first = float(batch.time[0]), int(batch.state.episode["next_job"][0, 0])
    other = made.source.episode(np.random.default_rng(99), "train")
    assert 0 < first < len(other)
    branches = Branches(batch, 2, market)
    both, episodes = np.arange(2), np.zeros(2, np.int64)
    branches.copy(both, episodes)
    branches.redraw_arrivals(1, 0, other)
    branches.plan(both, batch.auction.clear(silent(batch)), episodes)
    jobs = branches.state.jobs
    assert (jobs[0, :first] == jobs[1, :first]).all()
    gaps = np.diff(other.jobs["submit_time"][first - 1 :])
    assert np.diff(np.concatenate([[now], jobs["submit"][1, first:]])) == pytest.approx(gaps)
    assert (jobs["work"][1, first:] == other.jobs["work"][first:]).all()
    own, redrawn = branches.play(both, np.full(2, np.inf)).total()
    assert own != redrawn
    assert (jobs["status"] == Status.DONE).all()
    shorter = small_world(num_nodes=3, num_jobs=5, load=2.5).source.episode(np.random.default_rng(0), "train")
    branches.copy(both, episodes)
    with pytest.raises(MurmurationError, match="has 5 jobs, the branch 14"):
        branches.redraw_arrivals(1, 0, shorter)


def test_an_episode_that_has_not_begun_is_not_branched():
    made = world()
    batch = BiddingBatch(made.setup, made.source.models, made.source.num_jobs, 1)
    with pytest.raises(MurmurationError, match="episode 0 has not begun"):
        Branches(batch, 1, FifoMarket()).copy(np.zeros(1, np.int64), np.zeros(1, np.int64))


def test_the_backlog_of_waiting_jobs_is_their_queue_by_gpu_time():
    """At t = 0 with nothing running: the end is the work up to a job's own over all GPUs, or its own run time."""
    batch = batch_of(world(), FifoMarket(), size=1)
    state, table = batch.state, batch.table
    found = observe_backlog(state, table, np.zeros(1, np.int64))
    jobs = state.jobs[0]
    present = np.flatnonzero((jobs["status"] == Status.QUEUED) | (jobs["status"] == Status.RUNNING))
    alone = {
        j: jobs["remaining"][j] / table.reference()[jobs["model"][j], jobs["num_gpus"][j]] for j in present.tolist()
    }
    done, ends = 0.0, []
    for j in sorted(alone, key=lambda j: alone[j] * jobs["num_gpus"][j]):
        done += alone[j] * jobs["num_gpus"][j] / 12
        ends.append(max(alone[j], done))
    assert found.ends[0, : len(ends)] == pytest.approx(ends, rel=1e-5)
    assert found.counts[0].tolist() == [1.0] * len(ends) + [0.0] * (14 - len(ends))
    assert (found.jobs[0, len(ends) :] == 0).all()
    assert backlog_seconds(found) == pytest.approx([sum(ends)], rel=1e-5)
    assert backlog_seconds(found, 1000.0) == pytest.approx(
        [1000 * (1 - np.exp(-np.array(ends) / 1000)).sum()], rel=1e-5
    )


def test_the_backlog_falls_as_jobs_run_and_is_zero_at_the_end():
    batch = batch_of(world(scenario=HARSH), FifoMarket(), size=1)
    here = np.zeros(1, np.int64)
    step_silently(batch, 4)
    running = observe_backlog(batch.state, batch.table, here)
    assert (running.jobs[0, :, BacklogColumn.WAITING] == 0).any()
    assert np.isfinite(running.jobs).all()
    while not batch.ended[0]:
        batch.step(silent(batch))
    end = observe_backlog(batch.state, batch.table, here)
    assert backlog_seconds(end).tolist() == [0.0]
    assert end.counts.sum() == 0


def test_the_last_row_of_a_long_backlog_stands_for_the_rest():
    count = MOST_ROWS + 20
    made = small_world(num_nodes=2, num_jobs=count, load=50.0)
    batch = batch_of(made, FifoMarket(), size=1)
    batch.state.jobs["status"][0], batch.state.jobs["submit"][0] = Status.QUEUED, 0.0
    found = observe_backlog(batch.state, batch.table, np.zeros(1, np.int64))
    assert found.ends.shape == (1, num_backlog_rows(count)) == (1, MOST_ROWS)
    assert found.counts[0, -1] == 21
    assert found.counts.sum() == count
    jobs = batch.state.jobs[0]
    alone = jobs["remaining"] / batch.table.reference()[jobs["model"], jobs["num_gpus"]]
    demand = np.sort(alone * jobs["num_gpus"])
    assert backlog_seconds(found)[0] >= np.cumsum(demand).sum() / 8 * 0.999
