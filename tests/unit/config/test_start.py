"""What training begins with: the weights that `start=` names."""

from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from agents.networks import Blueprint
from agents.policies import BiddingCheckpoint
from agents.policies.options.checkpoint import OptionCheckpoint
from agents.problems.bids import BidProblem
from agents.terminal import ProgressListener
from envs.options import OptionRules, OptionSpec
from envs.types import CheckpointError, MurmurationError
from murmuration.config.building import build_object
from murmuration.config.choices import CONF
from murmuration.config.describe import as_component, describe_training
from murmuration.config.descriptions import SeedRun
from murmuration.config.errors import ChoiceError
from murmuration.runs.training import build_trainer, read_start
from tests.unit.agents.test_evolution_training import SETTINGS, fixed_batches, setup_of

IMITATION = "agents.methods.imitation.ImitationSettings"


def config(*options: str) -> DictConfig:
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose("train", ["experiment=bidding_16", *options])


def described(cfg: DictConfig) -> SeedRun:
    return describe_training(cfg).seeds[0]


def problem(cfg: DictConfig, num_bids: int = 6) -> BidProblem:
    """A small world in which nodes state so many bids, and the network of a config."""
    tasks = (setup_of() if num_bids == 7 else fixed_batches(SETTINGS)).tasks
    found = BidProblem(tasks, build_object(as_component(cfg.agent)), {"name": "fifo", "options": {}})
    assert found.spec.num_bids == num_bids
    return found


def test_the_shipped_policy_can_be_trained_further(tmp_path):
    folder = CONF.parent / "checkpoints" / "bids-mix"
    cfg = config(f"start={folder}")
    found = read_start(described(cfg), problem(cfg), tmp_path)
    expected = BiddingCheckpoint.load(folder).network.state_dict()
    assert found is not None
    assert set(found) == set(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_shipped_policy_gets_a_bid_for_batch_sizes_where_they_may_be_chosen(tmp_path):
    folder = CONF.parent / "checkpoints" / "bids-mix"
    cfg = config(f"start={folder}")
    found, six = (read_start(described(cfg), problem(cfg, num_bids), tmp_path) for num_bids in (7, 6))
    assert found is not None
    assert six is not None
    for name in ("out.weight", "out.bias", "direct.weight"):
        assert torch.equal(found[name][:6], six[name])
        assert len(found[name]) == 7
        assert not found[name][6].any()


def test_a_resumed_run_and_a_run_without_start_read_no_policy(tmp_path):
    assert read_start(described(config()), problem(config()), tmp_path) is None
    (tmp_path / "state.json").touch()
    assert read_start(described(config("start=missing")), problem(config()), tmp_path) is None


def untrained(folder: Path) -> Path:
    """The checkpoint of a policy over options with random weights, as `agent=options` builds it."""
    blueprint = Blueprint("agents.networks.option_scorer.OptionScorer", {"hidden": 24})
    OptionCheckpoint(blueprint.build(OptionSpec()), blueprint, OptionRules(changes="move"), {}).save(folder)
    return folder


def test_what_cannot_start_a_run_is_refused_in_one_line(tmp_path):
    folder = CONF.parent / "checkpoints" / "bids-mix"
    cfg = config(f"start={folder}", "agent.options.width=8")
    with pytest.raises(CheckpointError, match=r"start=.*bids-mix: the network to train has width 8 and that of .* 16"):
        read_start(described(cfg), problem(cfg), tmp_path)
    with pytest.raises(ChoiceError, match="start=missing: no such folder"):
        read_start(described(config("start=missing")), problem(cfg), tmp_path)
    with pytest.raises(ChoiceError, match="bids-mix: is no policy that chooses options"):
        build_trainer(described(config("experiment=from_nothing", f"start={folder}")), tmp_path, ProgressListener())
    options = untrained(tmp_path / "other")
    with pytest.raises(ChoiceError, match="other: is no policy that bids"):
        read_start(described(config(f"start={options}")), problem(cfg), tmp_path)
    with pytest.raises(CheckpointError, match=r"other: the network to train is .*'hidden': 8.* choose the same"):
        build_trainer(
            described(config("experiment=from_nothing", f"start={options}", "agent.options.hidden=8")),
            tmp_path,
            ProgressListener(),
        )


def test_a_policy_for_options_can_be_trained_further_on_another_task(tmp_path):
    folder = untrained(tmp_path / "policy")
    options = ("experiment=from_nothing", "task=rigid-64", f"start={folder}", "++agent.options.reluctance=11")
    trainer = build_trainer(described(config(*options)), tmp_path, ProgressListener())
    expected = OptionCheckpoint.load(folder).network.state_dict()
    network = trainer.problem.build(0, trainer.start)
    assert all(torch.equal(value, expected[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["experiment=bidding", "agent=options"],
            "agents.networks.option_scorer.OptionScorer does not bid: it has no method bids; use agent=bidding",
        ),
        (
            ["experiment=bidding", "trainer=group_ppo"],
            r"group_ppo trains by options, and nodes of this environment act by bids; choose env=options",
        ),
        (
            ["experiment=bidding", "env=options", "~market"],
            "evolution trains by bids, and nodes of this environment act by options",
        ),
        (
            ["experiment=from_nothing", "agent=bidding"],
            "BiddingPolicy does not score options: it has no method scores",
        ),
        (
            ["experiment=from_nothing", "+market._target_=envs.simulation.FifoMarket"],
            "market: only policies that bid have",
        ),
        (
            [
                *("experiment=bidding", "+trainer.teacher=fifo", f"+trainer.imitation._target_={IMITATION}"),
                "+schedulers.fifo._target_=baselines.fifo.Fifo",
            ],
            "imitation trains by options, and nodes of this environment act by bids; choose env=options",
        ),
    ],
)
def test_a_wrong_pair_of_method_network_and_environment_is_one_line(tmp_path, options, said):
    with pytest.raises(MurmurationError, match=said) as refusal:
        build_trainer(described(config(*options)), tmp_path, ProgressListener())
    assert "\n" not in str(refusal.value)
