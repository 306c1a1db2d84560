"""Imitation and PPO where each round begins with a proposal: training, resuming, its checkpoint as a scheduler."""

import json
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agents.checkpoint import Checkpoint
from agents.imitation import Demonstrator, ImitationSettings, imitate
from agents.networks import Blueprint
from agents.scheduler import PolicyScheduler
from agents.training import Trainer, TrainingSettings
from agents.validation import validate_scheduler
from baselines.srtf import Srtf
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.gpu_cluster import DecisionRules
from envs.simulation import FifoMarket, Scenario, Simulator, run_episode
from envs.types import CheckpointError, MurmurationError
from launch.policies import load_policy
from tests.unit.agents.worlds import PPO, small_world
from tests.unit.gpu_cluster.players import chance

RULES = DecisionRules(amendments=True, num_candidates=12, max_decisions=4)


def starling() -> Starling:
    """A scheduler of the same settings as the one that proposes."""
    return Starling(look_ahead=0, hidden_look_ahead=0)


DESCRIBED = {"name": "starling", "options": {"starling": {"look_ahead": 0, "hidden_look_ahead": 0}}}
SCENARIO = Scenario(batch_sizes="usual")  # bids choose no batch sizes
WORLD = small_world(
    num_jobs=10, num_evaluation=2, load=1.5, scenario=SCENARIO, rules=RULES, market=StarlingMarket(starling())
)
BLUEPRINT = Blueprint(options={"width": 16, "layers": 1, "heads": 2})
SETTINGS = TrainingSettings(
    iterations=2,
    validate_every=1,
    num_validation=2,
    imitation=ImitationSettings(passes=1, steps=100, epochs=2, batch_size=32),
    ppo=PPO,
    num_threads=1,
)


class Silent:
    """A listener that interrupts PPO at a step."""

    def __init__(self, stop_at: int = 1000) -> None:
        self.stop_at, self.name = stop_at, ""

    def phase(self, name, total):
        self.name = name

    def step(self, done, figures):
        if self.name == "ppo" and done >= self.stop_at:
            raise KeyboardInterrupt

    def note(self, text):
        pass


def trainer(folder, listener=None, world=WORLD, market=DESCRIBED):
    return Trainer(world, BLUEPRINT, SETTINGS, {"starling": starling}, folder, 0, listener or Silent(), market)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(folder, state) of a finished run whose teacher is the scheduler that proposes."""
    folder = tmp_path_factory.mktemp("proposals") / "run"
    return folder, trainer(folder).run()


def test_a_policy_that_imitates_its_adviser_is_the_adviser_to_the_bit():
    """The likeliest action of every node is to pass."""
    torch.manual_seed(0)
    network = BLUEPRINT.build(WORLD.spec)
    settings = replace(SETTINGS.imitation, epochs=1)
    imitate(network, WORLD.vector_env(4), starling, settings, 0, lambda *_: None)
    check_is_adviser(network, sampled=False)


def test_a_fresh_policy_with_a_bias_towards_passing_is_the_adviser_to_the_bit():
    """Even sampled: each node passes with a probability of about 1 - 1e-10."""
    torch.manual_seed(0)
    check_is_adviser(Blueprint(options={**BLUEPRINT.options, "pass_bias": 30.0}).build(WORLD.spec), sampled=True)


def check_is_adviser(network, *, sampled):
    """Play a validation workload with the policy and with its adviser; the event logs must be equal."""
    types, market = WORLD.setup.cluster.gpu_types, WORLD.market
    policy = PolicyScheduler(network, WORLD.spec, RULES, types, sampled=sampled, market=market)
    workload = WORLD.source.evaluation("validation")[0]
    logs = [run_episode(each, Simulator(workload, WORLD.setup)).log for each in (policy, starling())]
    assert logs[0] == logs[1]
    assert policy.counters["decisions"] > 10


def test_the_adviser_as_teacher_passes():
    env = WORLD.vector_env(4, seed=3)
    env.reset(seed=3)
    demonstrator = Demonstrator(env, [starling() for _ in range(4)], np.random.default_rng(0))
    for b in range(4):
        demonstrator.begin(b)
    for _ in range(20):
        assert not demonstrator.actions().any()
        env.batch.step(np.zeros((4, env.batch.spec.num_nodes), np.int64))


def test_another_teacher_amends_the_proposal():
    env = WORLD.vector_env(2, seed=3)
    env.reset(seed=3)
    demonstrator = Demonstrator(env, [Srtf(), Srtf()], np.random.default_rng(0))
    for b in range(2):
        demonstrator.begin(b)
    amended = 0
    for _ in range(30):
        actions = demonstrator.actions()
        amended += int(actions.any())
        env.batch.step(actions)
    assert amended > 3


def test_episodes_of_training_begin_with_the_proposal():
    """If all nodes pass in all rounds, each episode is that of the scheduler that proposes."""
    env = WORLD.vector_env(2, seed=5)
    env.reset(seed=5)
    passing = np.zeros((2, env.batch.spec.num_nodes), np.int64)
    workloads = list(env.batch.workloads)
    while not env.batch.ended.all():
        env.batch.step(passing)
    for b, workload in enumerate(workloads):
        assert workload is not None
        alone = run_episode(starling(), Simulator(workload, WORLD.setup))
        np.testing.assert_array_equal(env.batch.state.jobs[b]["finish"], alone.records["finish_time"])


def test_a_checkpoint_names_its_market_and_plays_as_validated(run):
    folder, state = run
    assert json.loads((folder / "checkpoints" / "best" / "policy.json").read_text())["market"] == DESCRIBED
    best = Checkpoint.load(folder)
    assert best.market == DESCRIBED
    assert best.rules == RULES
    policy: Any = load_policy(folder)  # as scripts/evaluate.py does
    assert isinstance(policy.market, StarlingMarket)
    assert policy.market.starling.look_ahead == 0
    workloads = [WORLD.source.episode(np.random.default_rng(i), "validation") for i in range(2)]
    again = validate_scheduler(policy, WORLD.setup, workloads)
    assert again == pytest.approx(state.validation[str(state.best_iteration)])


def test_a_policy_is_not_played_without_its_market(run):
    folder, _ = run
    with pytest.raises(CheckpointError, match="trained with the market starling; give the market"):
        Checkpoint.load(folder).scheduler()
    free = Checkpoint(**{**Checkpoint.load(folder).__dict__, "market": None})
    with pytest.raises(CheckpointError, match="trained with no market"):
        free.scheduler(market=FifoMarket())


def test_an_interrupted_run_continues_to_the_bit(run, tmp_path):
    """Episodes that are under way are played again, with their proposals."""
    folder, _ = run
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "run", Silent(stop_at=1)).run()
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    trainer(tmp_path / "again").run()
    whole, resumed = (
        Checkpoint.load(each / "checkpoints" / "last").network.state_dict() for each in (folder, tmp_path / "again")
    )
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.parametrize("wrong", [{"name": 5, "options": {}}, {"name": "starling"}, "starling", 7])
def test_a_wrong_market_in_a_description_is_refused(run, tmp_path, wrong):
    folder, _ = run
    shutil.copytree(folder / "checkpoints" / "best", tmp_path / "best")
    content = json.loads((tmp_path / "best" / "policy.json").read_text())
    (tmp_path / "best" / "policy.json").write_text(json.dumps({**content, "market": wrong}))
    with pytest.raises(CheckpointError, match="is not a policy description .*market"):
        Checkpoint.load(tmp_path / "best")


def test_parts_that_do_not_belong_together_are_refused(tmp_path):
    with pytest.raises(MurmurationError, match="set amendments to true"):
        replace(WORLD, rules=DecisionRules())
    with pytest.raises(MurmurationError, match="needs its name"):
        trainer(tmp_path, market=None)


def test_a_replayed_episode_with_proposals_is_where_it_was():
    env, other = (WORLD.vector_env(1, seed=2) for _ in range(2))
    rng = np.random.default_rng(1)
    origin = env.rng_state(0)
    env.begin(0)
    actions = []
    for _ in range(15):
        actions.append(chance(env.batch.observation["mask"], rng)[0])
        env.batch.step(actions[-1][None])
    other.set_rng_state(0, origin)
    other.begin(0)
    other.batch.replay(0, np.array(actions))
    for name, array in env.batch.observation.items():
        np.testing.assert_array_equal(array, other.batch.observation[name])
    assert len(np.unique([each.any() for each in actions])) == 2
