"""Objects out of configs: what is passed on as it is, and what is refused in one line before anything is built."""

from dataclasses import dataclass, field

import pytest
from omegaconf import OmegaConf

from envs.types import ClusterError, ClusterSpec, MurmurationError, NodeSpec
from launch.build import build
from launch.catalogue import GROUPS, described, one_line
from launch.explain import explained
from launch.imports import imported
from launch.names import CONF, ChoiceError
from launch.world import build_schedulers, build_world

HERE = "tests.unit.launch.test_build"


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
    inner: Inner = field(default_factory=Inner)


def anything(**options):
    return options


def fails(cluster):
    raise ClusterError("cluster tiny: too small; take a larger one")


CLUSTER = ClusterSpec((NodeSpec("V100", 4),))


def node(**content):
    return OmegaConf.create({"thing": content}).thing


def test_what_is_given_is_passed_on_as_it_is():
    outer = build(
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
        ({"name": 3}, r"thing\.name is 3; it must be text$"),
        ({}, r"thing: missing a required argument: 'name'; set it as thing\.<name>=<value>"),
        ({"name": "a", "inner": {"_target_": f"{HERE}.Inner", "dept": 3}}, r"thing\.inner\.dept: .*did you mean depth"),
        ({"name": "a", "inner": {"_target_": f"{HERE}.Iner"}}, r"thing\.inner\._target_: cannot import"),
    ],
)
def test_slips_are_told_in_one_line(content, said):
    with pytest.raises(ChoiceError, match=said) as raised:
        build(node(_target_=f"{HERE}.Outer", **content), cluster=CLUSTER)
    assert "\n" not in str(raised.value)


def test_a_function_that_takes_everything_gets_everything():
    assert build(node(_target_=f"{HERE}.anything", a=1), b=2) == {"a": 1, "b": 2}


def test_what_the_world_refuses_is_told_as_it_says():
    with pytest.raises(ClusterError) as raised:
        build(node(_target_=f"{HERE}.fails"), cluster=CLUSTER)
    assert explained(raised.value) == "cluster tiny: too small; take a larger one"


def test_a_node_without_a_target_says_what_to_choose():
    with pytest.raises(ChoiceError, match="thing: has no _target_"):
        build(node(a=1))


@pytest.mark.parametrize(
    ("target", "said"),
    [("no_such_module.X", "No module named"), (f"{HERE}.X", "cannot import"), (f"{HERE}.CLUSTER.nodes", "is a tuple")],
)
def test_what_cannot_be_imported_is_named(target, said):
    with pytest.raises(ChoiceError, match=said) as raised:
        imported("own", target)
    assert target in str(raised.value)


def test_a_name_that_is_module_and_function_is_the_function():
    """As `envs.cluster.build`, a function that its package exports from the module of the same name."""
    assert callable(imported("cluster", "envs.cluster.build"))


def test_a_bug_is_no_slip_of_the_user():
    assert explained(KeyError("x")) is None
    assert explained(TypeError("bad operand")) is None


def test_a_cause_that_is_the_users_is_found():
    error = RuntimeError("while building")
    error.__cause__ = MurmurationError("trace: row 3 is bad")
    assert explained(error) == "trace: row 3 is bad"


@pytest.fixture
def config():
    def compose(*overrides):
        from hydra import compose, initialize_config_dir

        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            return compose(config_name="compare", overrides=list(overrides))

    return compose


def test_the_default_world_can_be_built(config):
    world = build_world(config())
    assert world.cluster.num_gpus > 0
    assert world.seed == 0
    assert world.source.evaluation(None)


@pytest.mark.parametrize("seed", ["-1", "abc", "1.5", "null"])
def test_a_seed_is_a_whole_number(config, seed):
    with pytest.raises(ChoiceError, match="seed is .*; it must be a whole number, not negative"):
        build_world(config(f"seed={seed}"))


def test_nested_settings_of_the_scenario_can_be_set(config):
    assert build_world(config("++scenario.information.work=none")).scenario.information.work == "none"
    assert build_world(config("++scenario.rounds.interval=60")).scenario.rounds.interval == 60
    with pytest.raises(MurmurationError, match=r"scenario\.information\.work is 'nothing'"):
        build_world(config("++scenario.information.work=nothing"))


class Shortest:
    """A user's own scheduler."""

    def __init__(self, depth: int = 1):
        self.depth = depth

    def reset(self, cluster, rng):
        """Nothing to forget."""

    def schedule(self, view):
        """Whatever runs goes on."""
        return view.allocation(keep_running=True)


def test_schedulers_of_the_library_and_ones_own(config):
    own = (f"+own._target_={HERE}.Shortest", "+own.depth=4")
    built = build_schedulers(config("+scheduler@schedulers.fifo=fifo", *own))
    assert list(built) == ["fifo", "own"]
    assert vars(built["own"]) == {"depth": 4}


def test_what_is_no_scheduler_is_refused(config):
    with pytest.raises(ChoiceError, match="own: Inner has no reset and no schedule; a scheduler needs both"):
        build_schedulers(config(f"+own._target_={HERE}.Inner"))


def test_the_catalogue_has_one_line_for_everything():
    catalogue = described()
    assert {group for group, _ in catalogue} <= set(GROUPS)
    for group, lines in catalogue:
        assert [name for name, _ in lines] == sorted(path.stem for path in (CONF / group).glob("*.yaml"))
        assert all(line and "\n" not in line for _, line in lines), group


def test_an_unknown_group_names_the_nearest():
    with pytest.raises(ChoiceError, match="did you mean cluster?"):
        described(["clster"])


def test_one_line_is_the_first_sentence_or_the_docstring(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("# @package _global_\n# Sixty-four GPUs\n# in 8 nodes. More.\nname: x\n")
    assert one_line(path) == "Sixty-four GPUs in 8 nodes."
    path.write_text(f"_target_: {HERE}.Inner\n")
    assert one_line(path) == "Something nested."
    path.write_text("name: x\n")
    assert one_line(path) == ""
