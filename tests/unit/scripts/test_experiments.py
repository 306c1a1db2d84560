"""Experiments that name their schedulers, on the command line."""

import pytest

from murmuration.config.arguments import NAMED_SCHEDULERS, compose_options, hydra_arguments
from murmuration.config.choices import list_choices, open_configs
from murmuration.config.errors import ChoiceError


@pytest.fixture
def mine(tmp_path):
    """A folder with an experiment that names schedulers and one that does not."""
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "whole.yaml").write_text("# @package _global_\nschedulers:\n  fifo:\n    _target_: baselines.fifo.Fifo\n")
    (folder / "part.yaml").write_text("# @package _global_\n# schedulers: none\nscenario:\n  restart_delay: 1.0\n")
    (folder / "above.yaml").write_text("# @package _global_\ndefaults:\n  - whole\n")
    return ["--config-dir", str(tmp_path)]


def chosen(*words, default="all"):
    """Names of the library's schedulers that `compare` adds for a command line."""
    arguments, _ = hydra_arguments(words, "compare", default)
    return [word.rpartition("=")[2] for word in arguments if word.startswith("+scheduler@")]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["experiment=whole"], []),
        (["experiment=above"], []),  # by its defaults list
        (["-m", "experiment=whole,part"], []),  # the first one counts
        (["experiment=part"], ["fifo"]),
        (["seed=1"], ["fifo"]),
    ],
)
def test_the_default_joins_no_experiment_that_names_schedulers(words, names, mine):
    assert chosen(*mine, *words, default="fifo") == names


def test_typed_schedulers_join_those_of_the_experiment(mine):
    arguments, _ = hydra_arguments([*mine, "experiment=whole", "scheduler=srtf"], "compare", "all")
    assert arguments == ["+scheduler@schedulers.srtf=srtf", "experiment=whole", *mine]


@pytest.mark.parametrize("name", ["xval_muri", "xval_tiresias", "xval_tiresias_counted", "xval_gavel"])
def test_cross_validations_name_their_schedulers(name):
    assert chosen(f"experiment={name}") == []


@pytest.mark.parametrize("words", [["experiment=hole"], ["-m", "experiment=whole,hole"]])
def test_an_experiment_that_does_not_exist_is_refused(words, mine):
    """Its group is optional, so Hydra alone would run without it."""
    with pytest.raises(
        ChoiceError, match=r"experiment=hole: no such experiment, did you mean whole\?; there are: .*part"
    ):
        chosen(*mine, *words)


def test_an_experiment_that_names_none_gets_all():
    arguments, _ = hydra_arguments(["experiment=bidding"], "train", "all")
    schedulers = [word.rpartition("=")[2] for word in arguments if word.startswith("+sch")]
    assert schedulers == [name for name in list_choices("scheduler") if name not in NAMED_SCHEDULERS]


def test_a_bidding_experiment_compares_with_the_market_without_bids():
    with open_configs():
        cfg = compose_options("train", ["experiment=bidding_16"], "all")
    alone = cfg.schedulers[cfg.reference]
    assert alone["_target_"] == cfg.market.starling["_target_"]
    assert alone.look_ahead == cfg.market.starling.look_ahead == 0
    assert "planner" not in cfg.schedulers


def test_a_network_that_does_not_exist_is_refused():
    """Hydra ignores a wrong choice in an optional group; the run would have the cluster's own bandwidth."""
    with pytest.raises(ChoiceError, match=r"network=10gb: no such network, did you mean 10g\?; there are: 100g, 10g"):
        hydra_arguments(["network=10gb"], "compare", "all")
    assert "network=10g" in hydra_arguments(["task=none", "network=10g"], "compare", "all")[0]
    with pytest.raises(ChoiceError, match=r"network=null: network is chosen by name; there are: 100g, 10g, 25g"):
        hydra_arguments(["task=none", "network=null"], "compare", "all")
