"""Rewards add up to the objective that they represent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.gpu_cluster import Elapsed, GpuClusterEnv, TeamReward
from envs.simulation import EventKind, Rounds, Scenario, Setup
from envs.types import FloatArray, MurmurationError
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.gpu_cluster.players import FREE_OF_CHARGE, Fixed, act, bursts, jobs_like, play_env, table_top
from tests.unit.simulation.plays import cluster_of

LONG = 1e6  # seconds: no horizon cuts these episodes


def jcts(env: GpuClusterEnv) -> FloatArray:
    """Completion times of the jobs that finished, from the log."""
    events = env.log.events
    ends = {int(row["job"]): float(row["time"]) for row in events if row["kind"] == EventKind.FINISH}
    starts = {int(row["job"]): float(row["time"]) for row in events if row["kind"] == EventKind.ARRIVE}
    return np.array([ends[job] - starts[job] for job in ends])


@settings(max_examples=12)
@given(seed=st.integers(0, 500), costs=st.sampled_from([(0.0, None), (2.0, None), (30.0, None), (0.5, 7.0)]))
def test_the_return_is_minus_total_jct(seed, costs):
    restart, interval = costs
    workload = bursts(seed, models=("any", "large"))
    scenario = Scenario(restart_delay=restart, horizon=LONG, rounds=Rounds(interval=interval))
    env = GpuClusterEnv(Setup(HETEROGENEOUS, Curved(), scenario), Fixed(workload))
    _, paid, told = play_env(env, seed)
    assert len(jcts(env)) == len(workload)
    assert sum(paid) == pytest.approx(-jcts(env).sum(), rel=1e-9)
    assert sum(info["elapsed"] for info in told) == pytest.approx(told[-1]["time"] - told[0]["time"], rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_makespan_and_mixtures(seed):
    """Makespan counts from the first submission on; weights and scale apply to each second."""
    workload = bursts(seed)
    scenario = Scenario(restart_delay=1.0, horizon=LONG)
    returns = []
    for reward in (TeamReward(0.0, 1.0), TeamReward(1.0, 0.0), TeamReward(0.5, 3.0, scale=10.0)):
        env = GpuClusterEnv(Setup(HOMOGENEOUS, Curved(), scenario), Fixed(workload), reward=reward)
        returns.append(sum(play_env(env, seed)[1]))
    span = env.log.events["time"][-1] - workload.jobs["submit_time"][0]
    assert returns[0] == pytest.approx(-span, rel=1e-9)
    assert returns[1] == pytest.approx(-jcts(env).sum(), rel=1e-9)
    assert returns[2] == pytest.approx((3.0 * returns[0] + 0.5 * returns[1]) / 10.0, rel=1e-9)


@pytest.mark.parametrize("paid", [[np.nan], [np.inf], [0.0, 1.0], 0.0])
def test_a_reward_that_is_none_is_refused_by_name(paid):
    class Odd:
        """Not a finite number for each episode."""

        def __call__(self, elapsed: Elapsed) -> FloatArray:
            return np.array(paid)

    batch = table_top(cluster_of(4), jobs_like((0, 4, 40)), reward=Odd())
    with pytest.raises(MurmurationError, match="reward Odd: is .*; it must be 1 finite numbers, one for each episode"):
        act(batch, {0: ("claim", 0, 4)})


def test_every_step_pays_for_its_own_seconds():
    """A (10 s) alone until B comes at 4; then both until A ends at 10; B alone until 14: 4, 6 x 2, 4."""
    batch = table_top(cluster_of(4, 4), jobs_like((0, 4, 40), (4, 4, 40)))
    assert act(batch, {0: ("claim", 0, 4)}) == 0.0
    assert act(batch) == -4.0
    assert act(batch, {1: ("claim", 1, 4)}) == 0.0
    assert act(batch) == -12.0
    assert act(batch) == -4.0
    assert batch.ended.all()


def test_no_time_passes_within_a_round():
    batch = table_top(cluster_of(4, 4), jobs_like((3, 2, 40), (3, 2, 40)))
    assert batch.time.tolist() == [3.0]
    act(batch, {0: ("claim", 0, 2)})
    act(batch, {1: ("claim", 1, 2)})
    assert batch.time.tolist() == [3.0]
    act(batch)
    assert batch.time.tolist() == [23.0]


def test_jobs_left_at_the_horizon_are_charged_up_to_it():
    """No node ever takes B: A 0-10, B 0-100."""
    scenario = Scenario(restart_delay=0.0, horizon=100.0)
    batch = table_top(cluster_of(4, 4), jobs_like((0, 4, 40), (0, 4, 40)), scenario=scenario)
    total = act(batch, {0: ("claim", 0, 4)})
    while not batch.ended[0]:
        total += act(batch)
    assert total == -110.0


def test_without_a_horizon_leaving_jobs_undone_never_pays():
    """The horizon lies where all would be done one after the other, so giving up costs at least as much."""
    workload = jobs_like((0, 4, 40), (5, 4, 40))
    lazy = table_top(cluster_of(4), workload, scenario=FREE_OF_CHARGE)
    total = 0.0
    while not lazy.ended[0]:
        total += act(lazy)
    assert lazy.time.tolist() == [5 + 10 + 10]
    serial = table_top(cluster_of(4), workload)
    paid = 0.0
    while not serial.ended[0]:
        heads = serial.negotiation.arrays.heads[0]
        free = serial.state.nodes[0, 0].free
        paid += act(serial, {0: ("claim", int(heads[0]), 4)} if heads[0] >= 0 and free == 4 else {})
    assert total < paid == -(10 + 15)


def test_a_reward_is_any_function_of_what_happened():
    """Three episodes at once; busy GPU-seconds are there for rewards of one's own."""
    elapsed = Elapsed(np.array([1.0, 2.0, 0.0]), np.array([3.0, 8.0, 0.0]), np.array([4.0, 0.0, 0.0]))
    assert TeamReward()(elapsed).tolist() == [-3.0, -8.0, 0.0]
    assert TeamReward(0.5, 2.0, 0.5)(elapsed).tolist() == [-7.0, -16.0, 0.0]

    class Busy:
        def __call__(self, elapsed: Elapsed) -> FloatArray:
            return elapsed.busy_seconds

    batch = table_top(cluster_of(4, 4), jobs_like((0, 3, 30)), reward=Busy())
    assert act(batch, {1: ("claim", 0, 3)}) + act(batch) == 30.0


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_an_impossible_scale_is_refused(scale):
    with pytest.raises(MurmurationError, match=f"reward.scale is {scale}; it must be positive"):
        TeamReward(scale=scale)
