"""RLlib's own PPO on nodes that act together: what agents see, what they say of it, and a run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray
import torch
from ray.rllib.core.columns import Columns

from agents.methods.rllib_ppo.environment import NodesOfRLlib
from agents.methods.rllib_ppo.module import FORBIDDEN, NodeModule
from agents.methods.rllib_ppo.settings import RLlibPPOSettings
from agents.networks import Blueprint
from agents.on_ray.state import start_ray
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.scheduler import as_lesson
from agents.problems.options import OptionProblem, OptionTask
from agents.tags import WORKER_SECONDS
from agents.training import Trainer, TrainingSettings
from envs.options import OptionBatch, OptionRules, OptionSpec
from envs.types import MurmurationError
from tests.unit.options.tasks import small_task

RULES = OptionRules(turn="together", contested="drawn", distinct_nodes=False, ranks=True, changes="move")
NETWORKS = {
    "scorer": Blueprint("agents.networks.option_scorer.OptionScorer", {"output_scale": 0.5}),
    "attention": Blueprint("agents.networks.edge_attention.EdgeAttention", {"width": 8}),
}
SETTINGS = RLlibPPOSettings(steps=60, minibatch=32, num_epochs=2, hidden=8, max_options=24)


def task() -> OptionTask:
    """Three nodes that act together."""
    return small_task(num_nodes=3).under(RULES)


def environment(central: bool = False) -> NodesOfRLlib:
    """Three nodes, at the first decision of no episode."""
    return NodesOfRLlib({"tasks": (task(),), "max_options": 24, "central": central, "seed": 3})


@pytest.mark.parametrize("central", [True, False])
def test_agents_see_what_their_space_says_and_are_asked_if_they_have_options(central):
    made, steps = environment(central), 0
    seen, _ = made.reset()
    over, returns, asked = False, 0.0, set[int]()
    rng = np.random.default_rng(0)
    while not over and steps < 4000:
        rows = np.array([observation["node"] for observation in made._observations.values()])
        for agent, observation in seen.items():
            assert made.observation_spaces[agent].contains(observation)
            for edge, row in zip(observation["edges"], observation["linked"], strict=True):
                assert np.array_equal(row, rows[edge] if edge >= 0 else np.zeros_like(row)), "of linked nodes alone"
        asked.add(len(seen))
        actions = {agent: int(rng.choice(np.flatnonzero(one["action_mask"]))) for agent, one in seen.items()}
        seen, rewards, ended, _, _ = made.step(actions)
        over, returns, steps = ended["__all__"], returns + rewards["node_0"], steps + 1
    assert over
    assert set(seen) == {"node_0", "node_1", "node_2"}, "all learn that the episode has ended"
    assert 1 in asked
    assert 3 in asked
    assert -100 < returns < 0  # hours for each job


@pytest.mark.parametrize("name", NETWORKS)
def test_a_single_node_is_told_what_the_network_says_of_all(name):
    """The module, asked for one node with its neighbours, gives the scores of the network for the whole decision."""
    made = environment()
    seen, _ = made.reset()
    seen, *_ = made.step({agent: int(np.argmax(one["action_mask"])) for agent, one in seen.items()})
    module = NodeModule(
        observation_space=made.observation_spaces["node_0"],
        action_space=made.action_spaces["node_0"],
        model_config={"blueprint": NETWORKS[name], "start": randomised(name), "hidden": 8, "state": 0},
    )
    batch = {key: torch.from_numpy(np.stack([one[key] for one in seen.values()])) for key in next(iter(seen.values()))}
    logits = module._forward({Columns.OBS: batch})[Columns.ACTION_DIST_INPUTS]
    inner: OptionBatch = made._now.batch
    options = inner.options()
    lesson = as_lesson(options, together=True)
    scores = module.network.scores(gather_decisions(lesson, Rows.of(lesson), np.arange(1)))
    for row, agent in enumerate(seen):
        own = options.node_of == int(agent.removeprefix("node_"))
        allowed = logits[row] > FORBIDDEN / 2
        assert torch.allclose(logits[row][allowed], scores[torch.from_numpy(own)], atol=1e-5), agent
    assert module.compute_values({Columns.OBS: batch}).shape == (len(seen),)


def randomised(name: str) -> dict[str, torch.Tensor]:
    """Weights that are nowhere zero."""
    torch.manual_seed(0)
    network = NETWORKS[name].build(OptionSpec())
    return {key: torch.randn_like(value) * 0.3 for key, value in network.state_dict().items()}


@pytest.mark.parametrize("critic", ["own", "all"])
def test_a_run_learns_and_goes_on_from_its_state(critic, tmp_path: Path):
    problem = OptionProblem([task()], NETWORKS["attention"])
    settings, network = replace(SETTINGS, critic=critic), problem.build(1, None)
    algorithm = settings.start(problem, network, 1)
    try:
        figures = algorithm.train()
        assert figures["train/env_steps"] >= 60
        assert figures["learner/entropy"] > 0
        learnt = algorithm.network()
        assert any(not torch.equal(value, network.state_dict()[key]) for key, value in learnt.state_dict().items())
        assert learnt.rules == RULES
        algorithm.save(tmp_path)
        algorithm.train()
        algorithm.restore(tmp_path)
        again = algorithm.network().state_dict()
        assert all(torch.equal(value, again[key]) for key, value in learnt.state_dict().items())
    finally:
        algorithm.stop()


class Notes:
    """A listener that keeps notes and the figures of the last iteration."""

    def __init__(self) -> None:
        self.notes, self.figures = list[str](), dict[str, float]()

    def phase(self, name: str, total: int) -> None:
        pass

    def step(self, done: int, figures: Mapping[str, float]) -> None:
        self.figures = dict(figures)

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_two_workers_on_ray_play_their_cpu_time_counts_and_a_run_is_resumed(tmp_path: Path, monkeypatch, request):
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "300")
    request.addfinalizer(ray.shutdown)
    start_ray()
    problem, spent = OptionProblem([task()], NETWORKS["attention"]), list[float]()
    for iterations in (1, 2):
        length = TrainingSettings(replace(SETTINGS, num_env_runners=2), iterations, num_validation=1, picture_every=0)
        told = Notes()
        state = Trainer(problem, length, {}, tmp_path, 1, told).run()
        spent.append(told.figures["throughput/cpu_seconds"])
        assert state.cpu_time == spent
        assert 0 < told.figures[WORKER_SECONDS] < spent[-1]
    assert "resumed after iteration 1" in told.notes
    assert state.iteration == 2


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (OptionRules(), "turn=auction"),
        (replace(RULES, losers="next_best"), "losers=next_best"),
        (replace(RULES, contested="highest"), "contested=highest"),
    ],
)
def test_agents_that_must_say_more_than_an_option_are_refused(rules, said):
    problem = OptionProblem([task().under(rules)], NETWORKS["scorer"])
    with pytest.raises(MurmurationError, match=rf"{said}.*set env.rules.turn=together"):
        SETTINGS.start(problem, problem.build(1, None), 1)


@pytest.mark.parametrize(("name", "value"), [("critic", "both"), ("steps", 0), ("lr", 0.0), ("gamma", 1.5)])
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(MurmurationError, match=f"rllib_ppo.{name} is {value}"):
        replace(SETTINGS, **{name: value})
