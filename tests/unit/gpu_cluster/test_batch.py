"""Many episodes in one call are many episodes."""

from itertools import pairwise

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs.episodes.defaults import Illegal
from envs.gpu_cluster import DecisionRules, GpuClusterBatch, TeamReward
from envs.gpu_cluster.vector import GpuClusterVectorEnv
from envs.simulation import Information, Scenario, Setup
from envs.types import MurmurationError
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.gpu_cluster.players import Fixed, bursts, chance, equal_observations, jobs_like

MODELS = ("any", "large")
SCENARIO = Scenario(restart_delay=0.5, information=Information("estimate"))
SOURCE = Fixed(*(bursts(seed, num_jobs=8, models=MODELS) for seed in range(5)))


def batch_of(size: int) -> GpuClusterBatch:
    """Room for episodes of up to 12 jobs on three GPU types."""
    rules = DecisionRules(num_candidates=4, max_decisions=5)
    return GpuClusterBatch(Setup(HETEROGENEOUS, Curved(), SCENARIO), MODELS, 12, size, rules)


def test_a_batch_is_its_single_episodes_step_for_step():
    """Workloads of different lengths, each with its own random play; whatever one does, no other one notices."""
    lengths = (12, 3, 7)
    together = batch_of(3)
    alone = [batch_of(1) for _ in lengths]
    for b, length in enumerate(lengths):
        workload = bursts(b, num_jobs=length, models=MODELS)
        together.load(b, workload, np.random.default_rng(b))
        alone[b].load(0, workload, np.random.default_rng(b))
    rng = np.random.default_rng(0)
    steps = 0
    while not together.ended.all():
        for b, single in enumerate(alone):
            assert all(np.array_equal(together.observation[k][b], single.observation[k][0]) for k in single.observation)
        ended = together.ended
        actions = chance(together.observation["mask"], rng)
        rewards, seconds, now = together.step(np.where(ended[:, None], 0, actions))
        for b, single in enumerate(alone):
            if not ended[b]:
                reward, second, end = single.step(actions[b : b + 1])
                assert (rewards[b], seconds[b], now[b]) == (reward[0], second[0], end[0])
        steps += 1
        assert steps < 3000
    assert steps > 30
    assert [together.counters(b) for b in range(3)][1:] != [alone[0].counters()] * 2


def test_an_ended_episode_stays_ended():
    """Other episodes continue: no time, no reward, no event."""
    batch = batch_of(2)
    batch.load(0, jobs_like((0, 1, 5)), np.random.default_rng(0))
    batch.load(1, bursts(1, models=MODELS), np.random.default_rng(0))
    rng = np.random.default_rng(0)
    while not batch.ended[0]:
        batch.step(chance(batch.observation["mask"], rng, 0.0))
    end = float(batch.time[0])
    for _ in range(20):
        actions = chance(batch.observation["mask"], rng)
        actions[0] = 0
        rewards, seconds, ended = batch.step(actions)
        assert (rewards[0], seconds[0], ended[0], batch.time[0]) == (0.0, 0.0, True, end)


def test_an_episode_of_the_batch_can_be_restarted():
    """Nothing of the former episode is left."""
    used, fresh = batch_of(1), batch_of(1)
    rng = np.random.default_rng(0)
    used.load(0, bursts(7, models=MODELS), np.random.default_rng(0))
    for _ in range(15):
        used.step(chance(used.observation["mask"], rng, 0.2))
    for batch in (used, fresh):
        batch.load(0, bursts(8, models=MODELS), np.random.default_rng(1))
    rngs = [np.random.default_rng(2), np.random.default_rng(2)]
    while not used.ended[0]:
        assert equal_observations(used.observation, fresh.observation)
        for batch, one in zip((used, fresh), rngs, strict=True):
            batch.step(chance(batch.observation["mask"], one))
        assert used.counters() == fresh.counters()
    assert fresh.ended[0]


def test_views_belong_to_their_episode():
    batch = batch_of(2)
    batch.load(0, bursts(1, num_jobs=3), np.random.default_rng(0))
    with pytest.raises(MurmurationError, match="episode 1 has not begun; load a workload first"):
        batch.view(1)
    batch.load(1, jobs_like((4, 2, 60)), np.random.default_rng(0))
    view = batch.view(1)
    assert view.time == 4.0
    assert view.queued.tolist() == [0]
    assert view.num_gpus.tolist() == [2]


def test_logs_are_for_one_episode_only():
    with pytest.raises(MurmurationError, match="batch_size is 2 with logging"):
        GpuClusterBatch(Setup(HOMOGENEOUS, Curved()), MODELS, 4, 2, logging=True)


def vector(num_envs: int = 4, group_size: int = 1, seed: int = 0, illegal: Illegal = "nothing") -> GpuClusterVectorEnv:
    """Episodes of eight jobs on three GPU types."""
    rules = DecisionRules(num_candidates=4)
    return GpuClusterVectorEnv(
        Setup(HETEROGENEOUS, Curved(), Scenario(restart_delay=0.5, horizon=1e5, information=Information("estimate"))),
        SOURCE,
        num_envs,
        rules,
        TeamReward(scale=10.0),
        group_size,
        seed=seed,
        illegal=illegal,
    )


def names(env: GpuClusterVectorEnv) -> list[int]:
    """Which workload of the source each place plays."""
    return [number(workload) for workload in env.batch.workloads]


def number(workload: Workload | None) -> int:
    """Its place in the source; -1 for none."""
    return next((i for i, known in enumerate(SOURCE.workloads) if known is workload), -1)


def roll(env: GpuClusterVectorEnv, steps: int, seed: int = 0, passing: float = 0.8):
    """Observation, rewards and ends of every step."""
    rng = np.random.default_rng(seed)
    observation, _ = env.reset()
    rows = []
    for _ in range(steps):
        observation, rewards, ended, cut, info = env.step(chance(observation["mask"], rng, passing))
        rows.append((observation, rewards.copy(), ended.copy(), cut.copy(), info["elapsed"].copy(), names(env)))
    return rows


def test_spaces_hold_what_is_given():
    env = vector()
    observation, info = env.reset(seed=1)
    assert info == {}
    assert env.observation_space.contains(observation)
    assert env.single_observation_space.contains({name: array[0] for name, array in observation.items()})
    assert env.action_space.contains(np.zeros((4, 5), np.int64))
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    for row in roll(env, 5):
        assert env.observation_space.contains(row[0])
        assert not row[3].any()  # nothing is truncated: the horizon is an end with its price paid


def test_an_ended_episode_restarts_at_the_next_step():
    """NEXT_STEP: the end is told with the last observation; the step after pays nothing and shows a fresh start."""
    env = vector()
    rows = roll(env, 250)
    ends = 0
    for (_, _, ended, _, _, _), (observation, rewards, after, _, elapsed, _) in pairwise(rows):
        for b in np.flatnonzero(ended):
            ends += 1
            assert rewards[b] == 0.0
            assert elapsed[b] == 0.0
            assert not after[b]
            assert observation["cluster"][b, 2] == 1.0  # all GPUs are free
            assert observation["cluster"][b, 4] == 1.0  # no decision yet
    assert ends > 4


def test_each_episode_pays_minus_its_total_jct():
    """Rewards between two ends, times the scale, against the jobs' own records."""
    env = vector(num_envs=1)
    rng = np.random.default_rng(4)
    observation, _ = env.reset(seed=3)
    for _ in range(3):
        paid, ended = 0.0, np.array([False])
        while not ended[0]:
            observation, rewards, ended, _, _ = env.step(chance(observation["mask"], rng))
            paid += float(rewards[0])
        jobs = env.batch.state.jobs[0]  # all workloads of the source are of one length
        assert (jobs["status"] == 3).all()
        assert paid * 10.0 == pytest.approx(-(jobs["finish"] - jobs["submit"]).sum(), rel=1e-9)
        observation, rewards, _, _, _ = env.step(chance(observation["mask"], rng))
        assert rewards[0] == 0.0


def test_returned_observations_are_not_overwritten():
    env = vector()
    observation, _ = env.reset()
    before = {name: array.copy() for name, array in observation.items()}
    env.step(chance(observation["mask"], np.random.default_rng(0), 0.0))
    assert equal_observations(observation, before)


def test_members_of_a_group_play_the_same_workloads():
    """Four places in groups of two: the n-th episodes of a pair are equal, whenever they begin."""
    env = vector(group_size=2)
    played: list[list[int]] = [[] for _ in range(4)]
    begin = env.begin

    def noting(b: int) -> None:
        begin(b)
        played[b].append(names(env)[b])

    env.begin = noting  # type: ignore[method-assign]
    roll(env, 250)
    for one, other in ((0, 1), (2, 3)):
        shared = min(len(played[one]), len(played[other]))
        assert shared > 1
        assert played[one][:shared] == played[other][:shared]
    assert played[0][:3] != played[2][:3]


def test_a_seed_gives_one_sequence_of_everything():
    one, again = vector(seed=5), vector(seed=5)
    for a, b in zip(roll(one, 60), roll(again, 60), strict=True):
        assert equal_observations(a[0], b[0])
        assert all(np.array_equal(x, y) for x, y in zip(a[1:5], b[1:5], strict=True))
        assert a[5] == b[5]
    one.reset(seed=11)
    again.reset(seed=11)
    assert names(one) == names(again)


def test_groups_must_fill_the_batch():
    with pytest.raises(MurmurationError, match="num_envs is 4; it must be a multiple of group_size, 3"):
        vector(group_size=3)


def test_actions_that_no_mask_allows_are_refused_by_node():
    """The refused ones change nothing; an episode that restarts ignores its action."""
    env = vector(2, illegal="raise")
    observation, _ = env.reset()
    good = np.argmax(observation["mask"], axis=2)
    masked = int(np.argmin(observation["mask"][1, 2]))
    for wrong in (masked, -1, env.batch.spec.num_actions, 10**6):
        bad = good.copy()
        bad[1, 2] = wrong
        with pytest.raises(MurmurationError, match=f"action {wrong} of node 2 in episode 1 is masked out"):
            env.step(bad)
    assert all(np.array_equal(observation[name], array) for name, array in env.batch.observation.items())
    env.step(good)


@pytest.mark.parametrize(
    ("actions", "found"),
    [
        (np.zeros((3, 1), np.int64), r"int64\[3, 1\]"),
        (np.zeros((2, 7)), r"float64\[2, 7\]"),
        (None, "None"),
    ],
)
def test_actions_of_another_shape_are_refused(actions, found):
    env = vector(2)
    env.reset()
    with pytest.raises(MurmurationError, match=f"actions are {found}; they must be int64"):
        env.step(actions)
