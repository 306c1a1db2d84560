"""What evolution begins with: the weights that `start=` names."""

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from agents.bidding import BiddingCheckpoint
from agents.networks import Blueprint
from agents.terminal import ProgressListener
from envs.types import CheckpointError
from launch.building import build_object
from launch.choices import CONF
from launch.errors import ChoiceError
from launch.training import build_trainer, read_start


def config(*options: str) -> DictConfig:
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose("train", ["experiment=demo", *options])


def test_the_shipped_policy_can_be_trained_further(tmp_path):
    folder = CONF.parent / "checkpoints" / "bids-mix"
    cfg = config(f"start={folder}")
    found = read_start(cfg, build_object(cfg.agent), 6, tmp_path)
    expected = BiddingCheckpoint.load(folder).network.state_dict()
    assert found is not None
    assert set(found) == set(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_shipped_policy_gets_a_bid_for_batch_sizes_where_they_may_be_chosen(tmp_path):
    folder = CONF.parent / "checkpoints" / "bids-mix"
    cfg = config(f"start={folder}")
    found, six = (read_start(cfg, build_object(cfg.agent), num_bids, tmp_path) for num_bids in (7, 6))
    assert found is not None
    assert six is not None
    for name in ("out.weight", "out.bias", "direct.weight"):
        assert torch.equal(found[name][:6], six[name])
        assert len(found[name]) == 7
        assert not found[name][6].any()


def test_a_resumed_run_and_a_run_without_start_read_no_policy(tmp_path):
    assert read_start(config(), Blueprint(), 6, tmp_path) is None
    (tmp_path / "evolution.json").touch()
    assert read_start(config("start=missing"), Blueprint(), 6, tmp_path) is None


def test_what_cannot_start_a_run_is_refused_in_one_line(tmp_path):
    folder = CONF.parent / "checkpoints" / "bids-mix"
    cfg = config(f"start={folder}", "agent.options.width=8")
    with pytest.raises(CheckpointError, match=r"start=.*bids-mix: the network to train has width 8 and that of .* 16"):
        read_start(cfg, build_object(cfg.agent), 6, tmp_path)
    with pytest.raises(ChoiceError, match="start=missing: no such folder"):
        read_start(config("start=missing"), build_object(cfg.agent), 6, tmp_path)
    with pytest.raises(ChoiceError, match="only policies that bid start from another one"):
        build_trainer(config("experiment=discrete", f"start={folder}"), tmp_path, ProgressListener())
