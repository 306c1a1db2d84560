"""Keys that no script reads are refused by name, at any level."""

import pytest
from omegaconf import OmegaConf

from murmuration.config.arguments import compose_options, hydra_arguments
from murmuration.config.choices import CONF
from murmuration.config.describe import describe_problem, describe_schedulers
from murmuration.config.errors import ChoiceError
from murmuration.config.help import help_text
from murmuration.config.inputs import build_inputs
from murmuration.config.plain import read_configuration
from tests.unit.runs.test_scripts import SMALL, here

__all__ = ["here"]  # a fixture
OWN = "+own._target_=tests.unit.config.test_build.Shortest"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["+foo=3"], "error: foo: no such key; there are: again, cluster, "),
        (["++foo.bar=3"], "error: foo: no such key; there are: again, cluster, "),
        (["+sed=3"], "error: sed: no such key, did you mean seed?"),
        (["+own.foo=1"], "error: own: no such key; there are: "),
        (["trainer.iterations=3"], "error: trainer: no such key, did you mean renew?; there are: "),
        ([OWN, "schedulers.own.foo=1"], "error: schedulers.own: own is a scheduler of your own"),
        ([OWN, "own.foo=1"], "takes no foo; it takes: depth"),
        ([OWN.replace("own.", "fifo.")], "error: fifo: is a scheduler of the library and one of your own"),
    ],
)
def test_a_key_that_is_not_read_is_refused_by_name(here, arguments, said):
    done = here(*SMALL, "scheduler=fifo", *arguments)
    assert (done.code, len(done.err.strip().splitlines())) == (2, 1)
    assert said in done.err


def test_a_scheduler_of_the_users_own_and_its_options_pass(here):
    done = here(*SMALL, "scheduler=fifo", OWN, "own.depth=4", "+contention@scenario.contention=off")
    assert done.code == 0, done.err
    assert " own " in done.out


def test_options_that_would_be_ignored_say_how_to_write_them():
    cfg = OmegaConf.create({"schedulers": {"own": {"a": 1, "b": 2}}, "own": {"_target_": "m.C"}})
    with pytest.raises(ChoiceError, match=r"write own\.a, own\.b=<value>"):
        describe_schedulers(cfg)


def test_schedulers_are_the_chosen_ones_and_further_keys_with_a_target():
    cfg = OmegaConf.create(
        {"schedulers": {"fifo": {"_target_": "m.F"}}, "own": {"_target_": "m.C"}, "cluster": {"_target_": "m.K"}}
    )
    assert list(describe_schedulers(cfg)) == ["fifo", "own"]


@pytest.mark.parametrize("config", sorted(path.stem for path in CONF.glob("*.yaml")))
def test_known_keys_are_the_keys_of_the_config_and_its_groups(config):
    _, known = hydra_arguments([], config, None)
    text = help_text("", config)
    assert known
    assert "defaults" not in known
    assert all(name in text for name in known)
    assert ("workload" in known) == ("- workload: " in text)


def test_the_clusters_own_links_return_where_a_task_names_others():
    options = (["task=shared-64"], ["task=shared-64", "network=own"], ["task=none", "cluster=three_types_64"])
    problems = [describe_problem(compose_options("compare", each, "[]")) for each in options]
    of_task, own, bare = (build_inputs(each).setup.cluster for each in problems)
    assert {node.inter_node_bandwidth for node in of_task.nodes} == {1.25}
    assert own.nodes == bare.nodes != of_task.nodes


def test_racks_of_an_earlier_run_are_dropped(tmp_path):
    (tmp_path / "config.yaml").write_text("cluster: {groups: [{num_gpus: 8, nodes_per_rack: 4}, 3]}\n")
    assert read_configuration(tmp_path / "config.yaml") == {"cluster": {"groups": [{"num_gpus": 8}, 3]}}
