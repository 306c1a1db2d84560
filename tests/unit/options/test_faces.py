"""One policy through all interfaces of the options environment leaves one event log, under both rules of turn."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest

import envs.registration
from envs.options import OptionBatch, OptionEnv, OptionRules, OptionVectorEnv, env
from envs.options.columns import NUM_JOB_COLUMNS, NUM_OPTION_COLUMNS
from envs.options.vector import JointOptionEnv
from envs.simulation import EventKind, EventLog, Scenario, Setup
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.episodes.players import Fixed, bursts

assert envs.registration.VECTOR_ENVS  # the import registers the ids

SETUP = Setup(HETEROGENEOUS, Curved(), Scenario(restart_delay=2.0, horizon=1e5))
RULES = {
    f"{turn}, {changes}": OptionRules(turn=turn, changes=changes, max_decisions=16)
    for turn in ("auction", "turns")
    for changes in ("start", "move")
}
MOST = 400  # decisions of one episode that are compared
Rows = npt.NDArray[np.float32]


def scores(options: Rows, jobs: Rows) -> npt.NDArray[np.float64]:
    """Fixed random scores of all features, so that a difference in any last bit shows."""
    weights = np.random.default_rng(0).standard_normal(NUM_OPTION_COLUMNS + NUM_JOB_COLUMNS)
    seen = np.concatenate([options, jobs], axis=1).astype(np.float64)
    found: npt.NDArray[np.float64] = np.sin(1e3 * (seen * weights).sum(axis=1))
    return found - (options[:, 0] > 0)  # waiting is seldom best, or nothing would ever start


def jobs_of(jobs: Rows, rows: npt.NDArray[Any]) -> Rows:
    """The row of each option's job, zeros for waiting."""
    found: Rows = np.where((rows >= 0)[:, None], jobs[np.maximum(rows, 0)], np.float32(0.0))
    return found


def by_batch(workload: Workload, rules: OptionRules) -> EventLog:
    """As training does."""
    batch = OptionBatch(SETUP, workload.models, len(workload), rules=rules, logging=True)
    batch.load(0, workload, np.random.default_rng(0))
    for _ in range(MOST):
        if not batch.ended[0]:
            options = batch.options()
            batch.step(np.array([int(scores(options.options, jobs_of(options.jobs, options.job_of)).argmax())]))
    return batch.state.log(0)


def choice(observation: dict[str, Any], mask: str) -> Any:
    """An agent's best choice: a place, or with its score as a bid."""
    values = np.where(observation[mask] > 0, scores(observation["options"], observation["jobs"]), -np.inf)
    best = int(values.argmax())
    return best if mask == "action_mask" else {"option": best, "bid": values[[best]].astype(np.float32)}


def by_parallel(workload: Workload, rules: OptionRules) -> EventLog:
    """PettingZoo's parallel form."""
    made = OptionEnv(SETUP, Fixed(workload), rules, illegal="raise")
    observations, _ = made.reset(seed=0)
    for _ in range(MOST):
        if made.agents:
            observations, *_ = made.step({agent: choice(observations[agent], made.mask_name) for agent in made.agents})
    return made.log


def by_agents(workload: Workload, rules: OptionRules) -> EventLog:
    """PettingZoo's AEC form."""
    made = env(setup=SETUP, source=Fixed(workload), rules=rules, illegal="raise")
    made.reset(seed=0)
    parallel: Any = made.unwrapped.aec_env if rules.turn == "turns" else made.unwrapped
    steps = 0
    for agent in made.agent_iter(10**9):
        observation, _, ended, cut, _ = made.last()
        steps += rules.turn == "turns" or agent == "node_0"
        if ended or cut or steps > MOST:
            break
        made.step(choice(observation, parallel.mask_name))
    log: EventLog = parallel.log
    return log


def joint_choice(observation: dict[str, Any]) -> int:
    """The best option of all that are shown."""
    values = scores(observation["options"], jobs_of(observation["jobs"], observation["option_jobs"]))
    return int(np.where(observation["action_mask"] > 0, values, -np.inf).argmax())


def by_gymnasium(workload: Workload, rules: OptionRules) -> EventLog:
    """Gymnasium's form of one episode."""
    made = gymnasium.make("murmuration/Options-v0", setup=SETUP, source=Fixed(workload), rules=rules, illegal="raise")
    joint = made.unwrapped
    assert isinstance(joint, JointOptionEnv)
    logged(joint._vector.batch)
    observation, _ = made.reset(seed=0)
    ended, steps = False, 0
    while not ended and steps < MOST:
        assert joint.action_masks().tolist() == (observation["action_mask"] > 0).tolist()
        observation, _, ended, _, _ = made.step(joint_choice(observation))
        steps += 1
    log: EventLog = joint._vector.batch.state.log(0)
    return log


def by_vector(workload: Workload, rules: OptionRules) -> EventLog:
    """Gymnasium's vector form."""
    made = OptionVectorEnv(SETUP, Fixed(workload), 1, rules, illegal="raise")
    logged(made.batch)
    observation, _ = made.reset(seed=0)
    for _ in range(MOST):
        if not made.batch.ended[0]:
            first = {name: values[0] for name, values in observation.items()}
            observation, *_ = made.step(np.array([joint_choice(first)]))
    return made.batch.state.log(0)


def logged(batch: Any) -> None:
    """Let a batch of one episode log its events."""
    batch.state.grow_log()
    batch._use_table()


FACES: dict[str, Callable[[Workload, OptionRules], EventLog]] = {
    "parallel": by_parallel,
    "agents": by_agents,
    "gymnasium": by_gymnasium,
    "vector": by_vector,
}


@pytest.mark.parametrize("rules", sorted(RULES))
@pytest.mark.parametrize("face", sorted(FACES))
def test_all_faces_leave_one_log(face, rules):
    for seed in range(2):
        workload = bursts(seed, num_jobs=10, models=("any", "large"))
        expected = by_batch(workload, RULES[rules])
        assert (expected.events["kind"] == EventKind.START).sum() >= 5
        assert FACES[face](workload, RULES[rules]) == expected
