"""Objects built from configs: given objects are passed on unchanged, and mistakes are refused in one line."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from omegaconf import OmegaConf

from envs.performance import EFFICIENCY_SETTINGS
from envs.types import ClusterError, ClusterSpec, MurmurationError, NodeSpec
from murmuration.config.building import build_object, import_target
from murmuration.config.choices import CONF, LISTED_GROUPS, describe_config, describe_groups
from murmuration.config.describe import as_component, describe_problem, describe_schedulers
from murmuration.config.errors import ChoiceError, explain_error
from murmuration.config.inputs import build_inputs, build_schedulers
from murmuration.config.tables import read_choices

HERE = "tests.unit.config.test_build"


@dataclass
class Inner:
    """Something nested."""

    depth: int = 1


@dataclass
class Outer:
    """Something with options."""

    cluster: ClusterSpec
    name: str
    factor: float = 1.0
    labels: Sequence[str] = ()
    inner: Inner = field(default_factory=Inner)


def anything(**options):
    return options


def fails(cluster):
    raise ClusterError("cluster tiny: too small; take a larger one")


CLUSTER = ClusterSpec((NodeSpec("V100", 4),))


def node(**content):
    return as_component(OmegaConf.create({"thing": content}).thing)


def test_given_objects_are_passed_on_unchanged():
    outer = build_object(
        node(_target_=f"{HERE}.Outer", name="a", inner={"_target_": f"{HERE}.Inner", "depth": 3}), cluster=CLUSTER
    )
    assert outer.cluster is CLUSTER
    assert (outer.name, outer.factor, outer.inner.depth) == ("a", 1.0, 3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {"name": "a", "faktor": 2},
            r"thing\.faktor: .*Outer takes no faktor, did you mean factor\?; it takes: cluster, name",
        ),
        ({"name": "a", "factor": "much"}, r"thing\.factor is 'much'; it must be a number$"),
        ({"name": 3}, r"thing\.name is 3; it must be text; text that reads as a number needs quotes, as in .*$"),
        ({"name": None}, r"thing\.name is None; it must be text$"),
        ({"name": "a", "labels": [7e2]}, r"labels is \[700.0\]; .* a list, of which each entry is text; .* quotes"),
        ({}, r"thing: missing a required argument: 'name'; set it as thing\.<name>=<value>"),
        ({"name": "a", "inner": {"_target_": f"{HERE}.Inner", "dept": 3}}, r"thing\.inner\.dept: .*did you mean depth"),
        (
            {"name": "a", "inner": {"_target_": f"{HERE}.Iner"}},
            r"thing\.inner\._target_: cannot import .*test_build has no Iner, did you mean Inner\?$",
        ),
        ({"name": "a", "inner": {"_target_": "baselines.Fifoo"}}, r"baselines has no Fifoo, did you mean Fifo\?$"),
    ],
)
def test_mistakes_are_one_line(content, said):
    with pytest.raises(ChoiceError, match=said) as raised:
        build_object(node(_target_=f"{HERE}.Outer", **content), cluster=CLUSTER)
    assert "\n" not in str(raised.value)


def test_a_function_that_takes_everything_gets_everything():
    assert build_object(node(_target_=f"{HERE}.anything", a=1), b=2) == {"a": 1, "b": 2}


def test_an_error_of_the_called_function_keeps_its_message():
    with pytest.raises(ClusterError) as raised:
        build_object(node(_target_=f"{HERE}.fails"), cluster=CLUSTER)
    assert explain_error(raised.value) == "cluster tiny: too small; take a larger one"


def test_a_node_without_a_target_is_refused():
    with pytest.raises(ChoiceError, match="thing: has no _target_"):
        build_object(node(a=1))


@pytest.mark.parametrize(
    ("target", "said"),
    [("no_such_module.X", "No module named"), (f"{HERE}.X", "cannot import"), (f"{HERE}.CLUSTER.nodes", "is a tuple")],
)
def test_a_target_that_cannot_be_imported_is_named(target, said):
    with pytest.raises(ChoiceError, match=said) as raised:
        import_target("own", target)
    assert target in str(raised.value)


def test_a_name_that_is_module_and_function_is_the_function(tmp_path, monkeypatch):
    """A package may export a function from the module of the same name."""
    (tmp_path / "own_clusters").mkdir()
    (tmp_path / "own_clusters" / "racks.py").write_text("def racks(): pass\n")
    (tmp_path / "own_clusters" / "__init__.py").write_text("from own_clusters.racks import racks\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert callable(import_target("cluster", "own_clusters.racks"))


def test_a_bug_is_no_mistake_of_the_user():
    assert explain_error(KeyError("x")) is None
    assert explain_error(TypeError("bad operand")) is None


def test_a_mistake_of_the_user_is_found_among_the_causes():
    error = RuntimeError("while building")
    error.__cause__ = MurmurationError("trace: row 3 is bad")
    assert explain_error(error) == "trace: row 3 is bad"


@pytest.fixture
def config():
    def compose(*overrides):
        from hydra import compose, initialize_config_dir

        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            return compose(config_name="compare", overrides=list(overrides))

    return compose


def test_the_default_inputs_can_be_built(config):
    inputs = build_inputs(describe_problem(config()))
    assert inputs.setup.cluster.num_gpus > 0
    assert inputs.seed == 0
    assert inputs.source.evaluation(None)


def test_nested_settings_of_the_scenario_can_be_set(config):
    assert (
        build_inputs(describe_problem(config("++scenario.information.work=none"))).setup.scenario.information.work
        == "none"
    )
    assert build_inputs(describe_problem(config())).setup.scenario.statistical_efficiency == "measured"
    for setting in EFFICIENCY_SETTINGS:
        chosen = build_inputs(describe_problem(config(f"scenario.statistical_efficiency={setting}")))
        assert chosen.setup.scenario.statistical_efficiency == setting
    assert build_inputs(describe_problem(config("++scenario.rounds.interval=60"))).setup.scenario.rounds.interval == 60
    with pytest.raises(MurmurationError, match=r"scenario\.information\.work is 'nothing'"):
        build_inputs(describe_problem(config("++scenario.information.work=nothing")))


class Shortest:
    """A user's own scheduler."""

    def __init__(self, depth: int = 1):
        self.depth = depth

    def reset(self, cluster, rng):
        """Do nothing."""

    def schedule(self, view):
        """Keep every running job."""
        return view.allocation(keep_running=True)


def test_schedulers_of_the_library_and_of_the_user(config):
    own = (f"+own._target_={HERE}.Shortest", "+own.depth=4")
    built = build_schedulers(describe_schedulers(config("+scheduler@schedulers.fifo=fifo", *own)))
    assert list(built) == ["fifo", "own"]
    assert vars(built["own"]) == {"depth": 4}


def test_an_object_that_is_no_scheduler_is_refused(config):
    with pytest.raises(ChoiceError, match="own: Inner has no reset and no schedule; a scheduler needs both"):
        build_schedulers(describe_schedulers(config(f"+own._target_={HERE}.Inner")))


def test_the_catalogue_has_one_line_for_everything():
    catalogue = describe_groups()
    assert set(catalogue) <= set(LISTED_GROUPS)
    for group, lines in catalogue.items():
        assert list(lines) == list(read_choices(CONF / group))
        assert all(line and "\n" not in line for line in lines.values()), group


def test_an_unknown_group_names_the_nearest():
    with pytest.raises(ChoiceError, match="did you mean cluster?"):
        describe_groups(["clster"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# @package _global_\n# Sixty-four GPUs\n# in 8 nodes. More.\nname: x\n", "Sixty-four GPUs in 8 nodes."),
        (f"_target_: {HERE}.Inner\n", "Something nested."),
        ("name: x\n", ""),
    ],
)
def test_one_line_is_the_first_sentence_or_the_docstring(text, line):
    assert describe_config(text) == line
