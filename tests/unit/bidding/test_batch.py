"""Many episodes of bids in one call are many episodes."""

from itertools import pairwise

import numpy as np
import pytest

from envs.bidding import BiddingBatch, BiddingRules, BiddingVectorEnv, columns
from envs.simulation import Information, Scenario, Setup
from envs.types import AllocationError, MurmurationError
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.bidding.bidders import WhimMarket, loud, silent
from tests.unit.episodes.players import Fixed, bursts, equal_observations

MODELS = ("any", "large")
SETUP = Setup(HETEROGENEOUS, Curved(), Scenario(restart_delay=0.5, horizon=1e4, information=Information("estimate")))
SOURCE = Fixed(*(bursts(seed, num_jobs=8, models=MODELS) for seed in range(5)))


def batch_of(size: int) -> BiddingBatch:
    """Room for episodes of up to 12 jobs on three GPU types."""
    return BiddingBatch(SETUP, MODELS, 12, size, WhimMarket(), BiddingRules(num_candidates=4))


def test_a_batch_is_its_single_episodes_step_for_step():
    """Workloads of different lengths; whatever one does, no other one notices, also after its end."""
    lengths = (12, 3, 7)
    together, alone = batch_of(3), [batch_of(1) for _ in lengths]
    for b, length in enumerate(lengths):
        workload = bursts(b, num_jobs=length, models=MODELS)
        together.load(b, workload, np.random.default_rng(b))
        alone[b].load(0, workload, np.random.default_rng(b))
    steps = 0
    while not together.ended.all():
        for b, single in enumerate(alone):
            assert all(np.array_equal(together.observation[k][b], single.observation[k][0]) for k in single.observation)
        ended = together.ended
        said = np.concatenate([loud(single.observation) for single in alone])
        rewards, seconds, now = together.step(said)
        for b, single in enumerate(alone):
            if not ended[b]:
                reward, second, end = single.step(said[b : b + 1])
                assert (rewards[b], seconds[b], now[b]) == (reward[0], second[0], end[0])
            else:
                assert (rewards[b], seconds[b], now[b]) == (0.0, 0.0, True)
        steps += 1
        assert steps < 3000
    assert steps > 10


def test_an_episode_of_the_batch_can_be_restarted():
    """Nothing of the former episode is left."""
    used, fresh = batch_of(1), batch_of(1)
    used.load(0, bursts(7, models=MODELS), np.random.default_rng(0))
    for _ in range(15):
        used.step(loud(used.observation))
    for batch in (used, fresh):
        batch.load(0, bursts(8, models=MODELS), np.random.default_rng(1))
    while not used.ended[0]:
        assert equal_observations(used.observation, fresh.observation)
        for batch in (used, fresh):
            batch.step(loud(batch.observation))
    assert fresh.ended[0]


def test_bids_are_erased_after_each_round():
    """Bids of a job that is no longer seen must not reach the market later."""
    batch = batch_of(2)
    for b in range(2):
        batch.load(b, bursts(b, models=MODELS), np.random.default_rng(b))
    for _ in range(30):
        batch.step(loud(batch.observation))
        assert not any(offsets.any() for offsets in batch.auction.bids)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (np.zeros((1, 5, 8, 5), np.float32), r"actions are float32\[1, 5, 8, 5\]; they must be float32\[1, 5, 8, 7\]"),
        (np.zeros((1, 5, 8, 6)), r"actions are float64\[1, 5, 8, 6\]"),
        (np.full((1, 5, 8, 6), np.nan, np.float32), r"action \[0, 0, 0, 0\] is nan; it must lie in -1 \.\.\. 1"),
        (np.full((1, 5, 8, 6), 1.25, np.float32), r"is 1\.25; it must lie in"),
        (None, "actions are None"),
    ],
)
def test_wrong_actions_are_refused(wrong, told):
    batch = batch_of(1)
    batch.load(0, bursts(1, models=MODELS), np.random.default_rng(0))
    with pytest.raises(MurmurationError, match=told):
        batch.step(wrong)


class Greedy(WhimMarket):
    """Gives the first job more GPUs than the first node has."""

    def attach(self, setup, table, state):
        """See `Market`."""
        made = super().attach(setup, table, state)
        made.__class__ = Greedy
        return made

    def clear(self, worlds, bids):
        """See `Market`."""
        self.cleared.rows[0, 0] = (0, 0, 5, np.nan, np.nan, -1, 0, 0, 0.0, 0.0, 0)
        self.cleared.num_rows[0] = 1
        return self.cleared


def test_a_market_that_is_wrong_is_named():
    batch = BiddingBatch(SETUP, MODELS, 12, 1, Greedy())
    batch.load(0, bursts(1, models=MODELS), np.random.default_rng(0))
    with pytest.raises(AllocationError, match=r"market: in episode 0 .* more GPUs than the node has left \(job 0\)"):
        batch.step(silent(batch.observation))


def vector(num_envs: int = 4, group_size: int = 1) -> BiddingVectorEnv:
    """Episodes of eight jobs on three GPU types."""
    return BiddingVectorEnv(SETUP, SOURCE, num_envs, rules=BiddingRules(num_candidates=4), group_size=group_size)


def test_the_vector_environment_keeps_to_its_spaces_and_restarts():
    """NEXT_STEP: the end is told with the last observation; the step after pays nothing and shows a fresh start."""
    env = vector()
    observation, _ = env.reset(seed=1)
    assert env.single_observation_space.contains({name: array[0] for name, array in observation.items()})
    rows, ends = [], 0
    for _ in range(120):
        actions = env.action_space.sample()
        rows.append(env.step(actions))
        assert env.observation_space.contains(rows[-1][0])
    for (_, _, ended, _, _), (observation, rewards, after, cut, info) in pairwise(rows):
        assert not cut.any()
        for b in np.flatnonzero(ended):
            ends += 1
            assert (rewards[b], info["elapsed"][b], after[b]) == (0.0, 0.0, False)
            assert observation["cluster"][b, columns.CLUSTER_FREE] == 1.0
    assert ends > 4


def test_returned_observations_are_not_overwritten():
    env = vector()
    observation, _ = env.reset()
    before = {name: array.copy() for name, array in observation.items()}
    env.step(np.zeros(env.action_space.shape, np.float32))  # type: ignore[arg-type]
    assert equal_observations(observation, before)


def test_members_of_a_group_play_the_same_workloads():
    env = vector(group_size=2)
    env.reset(seed=3)
    assert env.batch.workloads[0] is env.batch.workloads[1]
    assert env.batch.workloads[2] is env.batch.workloads[3]
    with pytest.raises(MurmurationError, match="num_envs is 4; it must be a multiple of group_size, 3"):
        vector(group_size=3)
    with pytest.raises(MurmurationError, match=r"actions are float64\[4, 5, 8, 6\]"):
        env.step(silent(env.batch.observation).astype(float))


def test_a_workload_with_other_models_and_larger_jobs_than_the_source():
    batch = BiddingBatch(SETUP, ("any",), 12, 1, WhimMarket())
    batch.load(0, bursts(5, num_jobs=6, most_gpus=12, models=("large",)), np.random.default_rng(0))
    while not batch.ended[0]:
        batch.step(loud(batch.observation))
    assert batch.table.throughputs.shape[2] > 9


def test_all_episodes_must_have_begun():
    batch = batch_of(2)
    batch.load(0, bursts(1, models=MODELS), np.random.default_rng(0))
    assert batch.observation["nodes"][0].any()
    assert not batch.observation["nodes"][1].any()
    with pytest.raises(MurmurationError, match="episode 1 has not begun; load a workload first"):
        batch.step(silent(batch.observation))
