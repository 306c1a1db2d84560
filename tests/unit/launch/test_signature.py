"""Configs held against signatures, nested ones included, before anything is built."""

import pytest
from omegaconf import DictConfig, OmegaConf

from launch.build import build
from launch.names import CONF, ChoiceError, choices
from launch.signature import check_missing, check_options

HERE = "tests.unit.launch.test_signature"
GROUPS = ("cluster", "performance", "scenario", "scheduler", "workload")


class Tree:
    """A class without annotations on one argument, with defaults and with a plain one."""

    def __init__(self, left=None, right: "int | None" = None, *, label: str = "tree"):
        self.left, self.right, self.label = left, right, label


def required(a: int, b: float) -> tuple[int, float]:
    """A function, as `_target_` may name one too."""
    return a, b


def config(text: str) -> DictConfig:
    made = OmegaConf.create(text.replace("HERE", HERE))
    assert isinstance(made, DictConfig)
    return made


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in choices(group)])
def test_every_shipped_config_says_only_what_its_signature_takes(group, name):
    node = OmegaConf.create({group: OmegaConf.load(CONF / group / f"{name}.yaml")})[group]
    check_options(node, {})


def test_lists_of_plain_values_and_nested_targets_pass():
    check_options(config("t: {_target_: HERE.Tree, left: [1, 2], right: 3}").t, {})
    check_options(config("t: {_target_: HERE.Tree, left: {_target_: HERE.Tree, label: x}}").t, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t: {_target_: HERE.Tree, rigth: 3}", r"t\.rigth: .*Tree takes no rigth, did you mean right\?; it takes"),
        ("t: {_target_: HERE.Tree, right: x}", r"t\.right is 'x'; it must be a whole number or null"),
        ("t: {_target_: HERE.Tree, label: null}", r"t\.label is None; it must be text"),
        ("t: {_target_: HERE.Tree, left: {_target_: HERE.Tree, label: 3}}", r"t\.left\.label is 3; it must be text"),
        ("t: {_target_: HERE.Three}", r"t\._target_: cannot import .*Three"),
        ("t: {_target_: HERE.GROUPS}", r"t\._target_: .*GROUPS is a tuple; name a class or function in it"),
    ],
)  # fmt: skip
def test_what_no_signature_takes_is_refused(text, said):
    with pytest.raises(ChoiceError, match=said) as raised:
        check_options(config(text).t, {})
    assert "\n" not in str(raised.value)


def test_what_the_script_gives_must_be_taken_too():
    with pytest.raises(ChoiceError, match=r"t\.cluster: .*Tree takes no cluster"):
        check_options(config("t: {_target_: HERE.Tree}").t, {"cluster": object()})


def test_what_is_missing_is_said_before_the_call():
    from functools import partial

    check_missing("t", partial(required, a=1), {"b": 2.0})
    with pytest.raises(ChoiceError, match=r"t: missing a required argument: 'b'; set it as t\.<name>=<value>"):
        check_missing("t", partial(required, a=1), {})


def test_functions_are_built_as_classes_are():
    assert build(config("t: {_target_: HERE.required, a: 1}").t, b=2.5) == (1, 2.5)
    tree = build(config("t: {_target_: HERE.Tree, left: {_target_: HERE.Tree, label: x}, right: 2}").t)
    assert (tree.left.label, tree.right, tree.label) == ("x", 2, "tree")
