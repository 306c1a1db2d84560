"""Rewards add up to the objective that they represent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.episodes import Elapsed, Reward, TeamReward
from envs.options import OptionBatch, OptionRules
from envs.options.columns import START, WAIT
from envs.performance import IdealModel, PerformanceModel
from envs.simulation import EventKind, Rounds, Scenario, Setup
from envs.types import ClusterSpec, FloatArray, MurmurationError
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.episodes.players import bursts, jobs_like
from tests.unit.options.worlds import draw, listed
from tests.unit.simulation.plays import cluster_of

LONG = 1e6  # seconds: no horizon cuts these episodes
FREE_OF_CHARGE = Scenario(restart_delay=0.0)


def begun(
    cluster: ClusterSpec,
    workload: Workload,
    scenario: Scenario = FREE_OF_CHARGE,
    performance: PerformanceModel | None = None,
    reward: Reward | None = None,
    changes: str = "start",
) -> OptionBatch:
    """One logged episode at its first decision."""
    rules, setup = OptionRules(changes=changes), Setup(cluster, performance or IdealModel(), scenario)  # type: ignore[arg-type]
    batch = OptionBatch(setup, workload.models, len(workload), rules=rules, reward=reward, logging=True)
    batch.load(0, workload, np.random.default_rng(0))
    return batch


def played(batch: OptionBatch, seed: int) -> tuple[FloatArray, FloatArray]:
    """Play random options to the end; rewards and seconds of every step."""
    rng, paid, spent = np.random.default_rng(seed), [], []
    while not batch.ended[0]:
        reward, elapsed, _ = batch.step(np.array([draw(batch, rng)]))
        paid.append(float(reward[0]))
        spent.append(float(elapsed[0]))
    return np.array(paid), np.array(spent)


def jcts(batch: OptionBatch) -> FloatArray:
    """Completion times of the jobs that finished, from the log."""
    events = batch.state.log(0).events
    ends = {int(row["job"]): float(row["time"]) for row in events if row["kind"] == EventKind.FINISH}
    starts = {int(row["job"]): float(row["time"]) for row in events if row["kind"] == EventKind.ARRIVE}
    return np.array([ends[job] - starts[job] for job in ends])


@settings(max_examples=12)
@given(seed=st.integers(0, 500), costs=st.sampled_from([(0.0, None), (2.0, None), (30.0, None), (0.5, 7.0)]))
def test_the_return_is_minus_total_jct(seed, costs):
    restart, interval = costs
    workload = bursts(seed, models=("any", "large"))
    scenario = Scenario(restart_delay=restart, horizon=LONG, rounds=Rounds(interval=interval))
    batch = begun(HETEROGENEOUS, workload, scenario, Curved(), changes="move")
    began = float(batch.time[0])
    paid, spent = played(batch, seed)
    assert len(jcts(batch)) == len(workload)
    waited = sum(max(began - submit, 0.0) for submit in workload.jobs["submit_time"])
    assert paid.sum() - waited == pytest.approx(-jcts(batch).sum(), rel=1e-9)
    assert spent.sum() == pytest.approx(float(batch.time[0]) - began, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_makespan_and_mixtures(seed):
    """Makespan counts from the first submission on; weights and scale apply to each second."""
    workload = bursts(seed)
    scenario = Scenario(restart_delay=1.0, horizon=LONG)
    returns = []
    for reward in (TeamReward(0.0, 1.0), TeamReward(1.0, 0.0), TeamReward(0.5, 3.0, scale=10.0)):
        batch = begun(HOMOGENEOUS, workload, scenario, Curved(), reward)
        returns.append(played(batch, seed)[0].sum())
    span = batch.state.log(0).events["time"][-1] - workload.jobs["submit_time"][0]
    assert returns[0] == pytest.approx(-span, rel=1e-9)
    assert returns[1] == pytest.approx(-jcts(batch).sum(), rel=1e-9)
    assert returns[2] == pytest.approx((3.0 * returns[0] + 0.5 * returns[1]) / 10.0, rel=1e-9)


@pytest.mark.parametrize("paid", [[np.nan], [np.inf], [0.0, 1.0], 0.0])
def test_a_reward_that_is_none_is_refused_by_name(paid):
    class Odd:
        """Not a finite number for each episode."""

        def __call__(self, elapsed: Elapsed) -> FloatArray:
            return np.array(paid)

    batch = begun(cluster_of(4), jobs_like((0, 4, 40)), reward=Odd())
    with pytest.raises(MurmurationError, match="reward Odd: is .*; it must be 1 finite numbers, one for each episode"):
        batch.step(np.zeros(1, np.int64))


def test_every_step_pays_for_its_own_seconds():
    """A (10 s) alone until B comes at 4; then both until A ends at 10; B alone until 14.

    Time passes after each start, since nobody has anything else to do: 4 s of one job; then 6 s of two and 4 s of one.
    """
    batch = begun(cluster_of(4, 4), jobs_like((0, 4, 40), (4, 4, 40)))
    assert [option[0] for option in listed(batch)] == [START]
    first = batch.step(np.zeros(1, np.int64))
    assert (float(first[0][0]), float(batch.time[0])) == (-4.0, 4.0)
    start = [option[0] for option in listed(batch)].index(START)
    second = batch.step(np.array([start]))
    assert (float(second[0][0]), float(batch.time[0])) == (-16.0, 14.0)


def test_jobs_left_at_the_horizon_are_charged_up_to_it():
    """B is never started while A runs, and waits for 10 s; then it runs for 4 s: A 0-10, B 0-14."""
    scenario = Scenario(restart_delay=0.0, horizon=12.0)
    batch = begun(cluster_of(4, 4), jobs_like((0, 4, 40), (0, 4, 40)), scenario)
    total, waits = 0.0, 0
    while not batch.ended[0]:
        places = [place for place, option in enumerate(listed(batch)) if option[0] == WAIT]
        waits += len(places)
        total += float(batch.step(np.array(places[:1] or [0]))[0][0])
    assert waits == 1
    assert total == -22.0


def test_a_reward_is_any_function_of_what_happened():
    """Three episodes at once; busy GPU-seconds are there for rewards of one's own."""
    elapsed = Elapsed(np.array([1.0, 2.0, 0.0]), np.array([3.0, 8.0, 0.0]), np.array([4.0, 0.0, 0.0]))
    assert TeamReward()(elapsed).tolist() == [-3.0, -8.0, 0.0]
    assert TeamReward(0.5, 2.0, 0.5)(elapsed).tolist() == [-7.0, -16.0, 0.0]

    class Busy:
        def __call__(self, elapsed: Elapsed) -> FloatArray:
            return elapsed.busy_seconds

    batch = begun(cluster_of(4, 4), jobs_like((0, 3, 30)), reward=Busy())
    assert played(batch, 0)[0].sum() == 30.0


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_an_impossible_scale_is_refused(scale):
    with pytest.raises(MurmurationError, match=f"reward.scale is {scale}; it must be positive"):
        TeamReward(scale=scale)
