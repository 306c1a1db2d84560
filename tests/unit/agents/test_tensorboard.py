"""What TensorBoard shows: levels, texts, hyperparameters, a layout, pictures; nothing twice after a resume."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from agents.loggers.protocol import flatten
from agents.loggers.tensorboard import HEADINGS, TensorBoardWriter, as_code
from agents.methods.vdn import VDNSettings
from agents.networks.bidding import BiddingPolicy
from agents.networks.graph import DenseAttention, GraphAttention
from agents.pictures import allocation_heat_map, is_power_of_two, picture_episode
from agents.policies import BiddingScheduler
from agents.policies.options.scheduler import OptionScheduler
from agents.policies.watching import attention_weights, watch_attention
from agents.problems.options import OptionProblem
from agents.tags import AXES, GAIN, HEADLINE, POLICY, PROGRESS, RETURN
from agents.training import Trainer, TrainingSettings
from baselines.srtf import Srtf
from envs.bidding import BiddingRules, BiddingSpec
from envs.episodes.drawing import WIDTH
from envs.simulation import FifoMarket
from envs.types import MurmurationError
from tests.conformance.test_training import SETTINGS, Told, trainer
from tests.unit.agents import test_evolution_training, test_rllib_ppo
from tests.unit.agents.curves import charts_of, scalars
from tests.unit.agents.worlds import QUICK_PPO, scorer, small_world
from tests.unit.metrics.fabricated import three_jobs


def test_after_a_resume_no_step_appears_twice(tmp_path):
    """Steps 3 and 4 were written before the run was cut off and are lost: its state is that of iteration 2."""
    first = TensorBoardWriter(tmp_path, print)
    for step in range(5):
        first.write({"train/return": float(step)}, step)
    first.write({"imitation/loss": 1.0}, 4096, "imitation")
    first.draw_level({HEADLINE: 7.0}, 4, "fifo")
    first.close()
    again = TensorBoardWriter(tmp_path, print)
    again.continue_after(2, {})
    for step in (3, 4, 5):
        again.write({"train/return": 10.0 * step}, step)
    again.draw_level({HEADLINE: 7.0}, 5, "fifo")
    again.close()
    assert scalars(tmp_path / "tensorboard" / POLICY)["train/return"] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 30),
        (4, 40),
        (5, 50),
    ]
    assert scalars(tmp_path / "tensorboard" / "imitation")["imitation/loss"] == [(4096, 1.0)]
    assert scalars(tmp_path / "tensorboard" / "fifo")[HEADLINE] == [(0, 7.0), (5, 7.0)]


def test_costs_are_axes_and_a_resumed_run_goes_on_where_they_were(tmp_path):
    """Validated at 0, 10 and 20 CPU-s; the state is that of 10 CPU-s, and what was written after it is lost."""

    def write(writer, step, spent, value):
        writer.write({HEADLINE: value, RETURN: -value, f"{PROGRESS}/cpu_seconds": spent}, step)

    first = TensorBoardWriter(tmp_path, print)
    first.draw_level({HEADLINE: 7.0}, 4, "fifo")
    for step, spent, value in ((0, 0.0, 9.0), (1, 10.2, 8.0), (2, 20.0, 6.0)):
        write(first, step, spent, value)
    first.close()
    again = TensorBoardWriter(tmp_path, print)
    again.continue_after(1, {"cpu_seconds": 10.2})
    again.draw_level({HEADLINE: 7.0}, 4, "fifo")
    write(again, 2, 30.0, 5.0)
    again.close()
    drawn = scalars(tmp_path / "tensorboard" / POLICY / "over_cpu_seconds")
    assert drawn["1_over_cpu_seconds/validation_mean_jct_hours"] == [(0, 9.0), (10, 8.0), (30, 5.0)]
    assert drawn["1_over_cpu_seconds/return"] == [(0, -9.0), (10, -8.0), (30, -5.0)]
    level = scalars(tmp_path / "tensorboard" / "fifo")
    assert level["1_over_cpu_seconds/validation_mean_jct_hours"] == [(0, 7.0), (30, 7.0)]
    assert "1_over_cpu_seconds/return" not in level


def test_the_overview_comes_first():
    assert (
        min([HEADLINE, "imitation/x", "learner/x", "throughput/x", "train/x", "validation/x", "1_over/x"]) == HEADLINE
    )


def options_trained_by(method, **changes):
    settings = replace(SETTINGS, iterations=1, method=method, teacher="none", **changes)
    return lambda folder: trainer(folder, settings), HEADLINE


def bids_trained(folder):
    settings = TrainingSettings(
        test_evolution_training.SETTINGS, 1, validate_every=1, num_validation=3, picture_every=0
    )
    problem = test_evolution_training.problem_of()
    return Trainer(problem, settings, {"srtf": Srtf}, folder, 3, Told())


def nodes_trained(folder):
    settings = TrainingSettings(
        replace(test_rllib_ppo.SETTINGS, steps=200), 1, validate_every=1, num_validation=1, picture_every=0
    )
    problem = OptionProblem([test_rllib_ppo.task()], test_rllib_ppo.NETWORKS["scorer"])
    return Trainer(problem, settings, {"srtf": Srtf}, folder, 3, Told())


EPISODES = {
    "return of training episodes",
    "environment steps of a training episode",
    "mean JCT of training episodes (s)",
}
THROUGHPUT = {"environment steps per second", "CPU seconds of an iteration"}
POLICY_GRADIENT = {"entropy", "loss of the policy"}
CRITIC = {"explained variance of the critic", "loss of the critic"}
TRAINED = {
    "group_ppo": (*options_trained_by(QUICK_PPO), POLICY_GRADIENT | {"KL divergence"}),
    "critic_ppo": (
        *options_trained_by(replace(QUICK_PPO, baseline="critic")),
        POLICY_GRADIENT | CRITIC | {"KL divergence"},
    ),
    "vdn": (*options_trained_by(VDNSettings(num_workloads=2, group_size=2)), CRITIC),
    "imitation": (
        lambda folder: trainer(folder, replace(SETTINGS, iterations=1)),
        HEADLINE,
        POLICY_GRADIENT | {"KL divergence", "cross-entropy", "decisions in which the policy agrees"},
    ),
    "evolution": (bids_trained, GAIN, {"share of the signal in the difference of pairs"}),
    "rllib_ppo": (nodes_trained, HEADLINE, POLICY_GRADIENT | CRITIC),
}


@pytest.mark.parametrize("name", TRAINED)
def test_every_chart_of_every_method_has_curves(tmp_path, name):
    make, metric, learnt = TRAINED[name]
    made = make(tmp_path)
    made.loggers.describe({}, {}, metric)
    state = made.run()
    charts = charts_of(tmp_path / "tensorboard")
    assert [title for title, tags in charts.items() if not tags] == []
    assert next(iter(charts.values())) == [metric], "the measure that chooses checkpoints comes first"
    over = {title for title in charts if " over " in title}
    validated = {title for title in charts if title.startswith("validation: ") and " over " not in title}
    assert len(over) == 4 + (metric == GAIN), "the heading of gains says over the market"
    assert set(charts) - over - validated == EPISODES | THROUGHPUT | {"norm of the gradient"} | learnt
    for axis in AXES:
        drawn = scalars(tmp_path / "tensorboard" / POLICY / f"over_{axis}")
        assert [step for step, _ in drawn[f"1_over_{axis}/{metric.rpartition('/')[2]}"]][-1] == round(
            state.progress[axis]
        )
    assert state.progress["env_steps"] > 0


def test_settings_are_text_and_hyperparameters(tmp_path):
    writer = TensorBoardWriter(tmp_path, print)
    writer.write({HEADLINE: 3.0}, 0)
    writer.describe({"configuration": as_code("a: 1\nb: |")}, {"trainer": {"lr": 0.1, "on": True}, "seed": None})
    writer.close()
    events = EventAccumulator(str(tmp_path / "tensorboard" / POLICY))
    events.Reload()
    text = events.Tensors("configuration/text_summary")[0].tensor_proto.string_val[0].decode()
    assert text == "    a: 1\n    b: |"
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    known = HParamsPluginData.FromString(content).session_start_info.hparams
    assert {name: value.number_value or value.bool_value for name, value in known.items()} == {
        "trainer.lr": 0.1,
        "trainer.on": True,
    }
    assert charts_of(tmp_path / "tensorboard") == {HEADINGS[HEADLINE]: [HEADLINE]}
    assert events.Scalars(HEADLINE)[0].value == 3.0
    assert len(events.Scalars(HEADLINE)) == 1


def test_nested_settings_become_flat():
    assert flatten({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": None, "f": "x"}) == {"a.b": 1, "a.c.d": "[1, 2]", "f": "x"}


def test_powers_of_two():
    assert [number for number in range(1, 20) if is_power_of_two(number)] == [1, 2, 4, 8, 16]


def test_pictures_of_a_policy_are_written(tmp_path):
    world = small_world(num_jobs=6)
    scheduler = OptionScheduler(scorer(), world.task().rules)
    workload = world.source.episode(np.random.default_rng(0))
    pictures = picture_episode(scheduler, workload, world.setup, seed=0)
    assert set(pictures) == {"gantt", "allocation", "cluster"}
    writer = TensorBoardWriter(tmp_path, print)
    writer.show(pictures, 5)
    writer.close()
    events = EventAccumulator(str(tmp_path / "tensorboard" / POLICY))
    events.Reload()
    assert set(events.Tags()["images"]) == {f"pictures/{name}" for name in pictures}
    assert events.Images("pictures/cluster")[0].step == 5
    assert events.Images("pictures/cluster")[0].width == WIDTH


@pytest.mark.parametrize("mixing", ["graph", "dense", "none"])
def test_pictures_of_a_bidding_policy_show_bids_and_graph(mixing):
    world = small_world(num_nodes=4, num_jobs=8)
    spec = BiddingSpec.of(world.setup.cluster, BiddingRules(), world.setup.scenario)
    torch.manual_seed(0)
    policy = BiddingPolicy(spec, width=4, mixing=mixing)
    torch.nn.init.normal_(policy.direct.weight)
    scheduler = BiddingScheduler(policy, FifoMarket(), BiddingRules())
    pictures = picture_episode(scheduler, world.source.episode(np.random.default_rng(0)), world.setup, seed=0)
    assert ("attention" in pictures) == (mixing != "none")
    assert isinstance(pictures["cluster"], np.ndarray)
    assert isinstance(pictures["gantt"], Figure)


@pytest.mark.parametrize("layer", [DenseAttention(8, 2), GraphAttention(8, 3, 2)])
def test_attention_weights_are_those_that_the_layer_uses(layer):
    """Rows add up to 1; mixing values by the weights gives the layer's own messages (with one head)."""
    layer.heads = 1
    if isinstance(layer, GraphAttention):
        layer.edge_score = torch.nn.Linear(3, 1)
    torch.manual_seed(1)
    nodes = torch.randn(1, 4, 8)
    pairs = [(s, t) for s in range(4) for t in range(4) if s != t]
    graph = (torch.tensor(pairs).T[None], torch.randn(1, len(pairs), 3)) if isinstance(layer, GraphAttention) else ()
    weights = attention_weights(layer, nodes, *graph)
    assert weights.sum(axis=1) == pytest.approx(np.ones(4))
    query, key, value = layer.query_key_value(nodes)[0].chunk(3, -1)
    mixed = torch.from_numpy(weights).float() @ value
    if isinstance(layer, GraphAttention):
        assert torch.allclose(layer.attend(nodes, *graph)[0][0], mixed, atol=1e-5)
    else:
        theirs = torch.nn.functional.scaled_dot_product_attention(query[None], key[None], value[None])[0]
        assert torch.allclose(theirs, mixed, atol=1e-5)


def test_watching_leaves_no_hook_behind():
    policy = DenseAttention(8, 2)
    with watch_attention(policy) as seen:
        pass
    assert seen == []
    assert all(not layer._forward_pre_hooks for layer in policy.modules())
    with watch_attention(object()) as seen:
        assert seen == []


def test_the_heat_map_shows_shares_of_gpus_held():
    """Of `three_jobs`: node 0 is full from 0 to 13; node 1 half full from 1 to 3 and 4 to 8, and full from 10 to 13."""
    image = np.asarray(allocation_heat_map(three_jobs()).axes[0].get_images()[0].get_array())
    assert image.shape == (2, 120)
    assert image[0].mean() == pytest.approx(1.0)
    assert image[1].mean() == pytest.approx((0.5 * 6 + 3) / 13)


def test_a_negative_distance_between_pictures_is_refused():
    with pytest.raises(MurmurationError, match="trainer.picture_every is -1; it must not be negative"):
        TrainingSettings(QUICK_PPO, picture_every=-1)
    assert json.dumps(TrainingSettings(QUICK_PPO).picture_every) == "10"
