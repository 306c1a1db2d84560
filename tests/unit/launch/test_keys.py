"""Keys that nobody reads are refused by name, wherever they stand."""

import pytest
from omegaconf import OmegaConf

from launch.keys import known_keys
from launch.names import CONF, ChoiceError
from launch.schedulers import scheduler_nodes
from tests.unit.launch.test_scripts import SMALL, here

__all__ = ["here"]  # a fixture
OWN = "+own._target_=tests.unit.launch.test_build.Shortest"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["+foo=3"], "error: foo: no such key; there are: cluster, "),
        (["++foo.bar=3"], "error: foo: no such key; there are: cluster, "),
        (["+sed=3"], "error: sed: no such key, did you mean seed?"),
        (["+own.foo=1"], "error: own: no such key; there are: "),
        (["trainer.iterations=3"], "error: trainer: no such key; there are: "),
        ([OWN, "schedulers.own.foo=1"], "error: schedulers.own: own is a scheduler of your own"),
        ([OWN, "own.foo=1"], "takes no foo; it takes: depth"),
        ([OWN.replace("own.", "fifo.")], "error: fifo: is a scheduler of the library and one of your own"),
    ],
)
def test_what_nobody_reads_is_refused_by_name(here, arguments, said):
    done = here(*SMALL, "scheduler=fifo", *arguments)
    assert (done.code, len(done.err.strip().splitlines())) == (2, 1)
    assert said in done.err


def test_ones_own_scheduler_and_its_options_pass(here):
    done = here(*SMALL, "scheduler=fifo", OWN, "own.depth=4", "+contention@scenario.contention=off")
    assert done.code == 0, done.err
    assert " own " in done.out


def test_options_that_would_be_passed_over_say_how_to_write_them():
    cfg = OmegaConf.create({"schedulers": {"own": {"a": 1, "b": 2}}, "own": {"_target_": "m.C"}})
    with pytest.raises(ChoiceError, match=r"write own\.a, own\.b=<value>"):
        scheduler_nodes(cfg)


def test_schedulers_are_those_chosen_and_those_with_a_target():
    cfg = OmegaConf.create(
        {"schedulers": {"fifo": {"_target_": "m.F"}}, "own": {"_target_": "m.C"}, "cluster": {"_target_": "m.K"}}
    )
    assert list(scheduler_nodes(cfg)) == ["fifo", "own"]


@pytest.mark.parametrize("config", sorted(path.stem for path in CONF.glob("*.yaml")))
def test_known_keys_are_those_of_the_config_and_its_groups(config):
    known = known_keys(config)
    text = (CONF / f"{config}.yaml").read_text()
    assert known
    assert "defaults" not in known
    assert all(name in text for name in known)
    assert ("workload" in known) == ("- workload: " in text)
