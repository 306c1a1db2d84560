"""What TensorBoard shows: levels, texts, hyperparameters, a layout, pictures; nothing twice after a resume."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from agents.loggers.protocol import flatten
from agents.loggers.tensorboard import TensorBoardWriter, as_code, layout_of
from agents.networks.bidding import BiddingPolicy
from agents.networks.graph import DenseAttention, GraphAttention
from agents.pictures import allocation_heat_map, is_power_of_two, picture_episode
from agents.policies import BiddingScheduler
from agents.policies.options.scheduler import OptionScheduler
from agents.policies.watching import attention_weights, watch_attention
from agents.tags import GAIN, HEADLINE, POLICY
from agents.training import TrainingSettings
from envs.bidding import BiddingRules, BiddingSpec
from envs.simulation import FifoMarket
from envs.types import MurmurationError
from tests.conformance.test_training import SETTINGS, trainer
from tests.unit.agents.curves import charts_without_curves, scalars
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
    again.continue_after(2)
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


def test_the_overview_comes_first_and_the_layout_names_it():
    assert min([HEADLINE, "imitation/x", "learner/x", "throughput/x", "train/x", "validation/x"]) == HEADLINE
    for metric in (HEADLINE, GAIN):
        first = list(layout_of(metric)["Overview"].values())
        assert first[0][1] == [metric]
        assert sum({HEADLINE, GAIN} & set(tags) != set() for _, tags in first) == 1, "two charts of one thing"


def test_every_chart_shows_curves_that_training_writes(tmp_path):
    method = replace(QUICK_PPO, baseline="critic", group_size=4)
    trainer(tmp_path, replace(SETTINGS, iterations=1, teacher="none", method=method)).run()
    assert charts_without_curves(HEADLINE, scalars(tmp_path / "tensorboard" / POLICY)) == []
    assert charts_without_curves(HEADLINE, [HEADLINE])


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
    layout = layout_pb2.Layout.FromString(events.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0])
    assert [category.title for category in layout.category] == list(layout_of(HEADLINE))
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
    assert events.Images("pictures/cluster")[0].width == 960


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
