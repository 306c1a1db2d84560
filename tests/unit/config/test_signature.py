"""Configs, nested ones included, are checked against signatures before anything is built."""

import pytest
from omegaconf import OmegaConf

from murmuration.config.building import Component, build_object, check_missing, check_options
from murmuration.config.choices import list_choices, read_choice
from murmuration.config.describe import as_component
from murmuration.config.errors import ChoiceError

HERE = "tests.unit.config.test_signature"
GROUPS = ("cluster", "performance", "scenario", "scheduler", "workload")


class Tree:
    """A class without annotations on one argument, with defaults and with a plain one."""

    def __init__(self, left=None, right: "int | None" = None, *, label: str = "tree"):
        self.left, self.right, self.label = left, right, label


def required(a: int, b: float) -> tuple[int, float]:
    """A function, as `_target_` may name one too."""
    return a, b


def described(text: str) -> Component:
    return as_component(OmegaConf.create(text.replace("HERE", HERE)).t)


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in list_choices(group)])
def test_every_config_of_the_library_has_only_options_of_its_signature(group, name):
    check_options(Component(group, read_choice(group, name)), {})


def test_lists_of_plain_values_and_nested_targets_pass():
    check_options(described("t: {_target_: HERE.Tree, left: [1, 2], right: 3}"), {})
    check_options(described("t: {_target_: HERE.Tree, left: {_target_: HERE.Tree, label: x}}"), {})


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
def test_an_option_that_no_signature_takes_is_refused(text, said):
    with pytest.raises(ChoiceError, match=said) as raised:
        check_options(described(text), {})
    assert "\n" not in str(raised.value)


def test_objects_given_by_the_script_must_be_taken_too():
    with pytest.raises(ChoiceError, match=r"t\.cluster: .*Tree takes no cluster"):
        check_options(described("t: {_target_: HERE.Tree}"), {"cluster": object()})


def test_a_missing_argument_is_reported_before_the_call():
    check_missing(described("t: {_target_: HERE.required, a: 1}"), {"b": 2.0})
    check_missing(described("t: {_target_: HERE.Tree, left: {_target_: HERE.required, _partial_: true}}"), {})
    with pytest.raises(ChoiceError, match=r"t: missing a required argument: 'b'; set it as t\.<name>=<value>"):
        check_missing(described("t: {_target_: HERE.required, a: 1}"), {})
    for text in ("left: {_target_: HERE.required}", "left: [{_target_: HERE.required}]"):
        with pytest.raises(ChoiceError, match=r"t\.left.*: missing a required argument: 'a'"):
            check_missing(described(f"t: {{_target_: HERE.Tree, {text}}}"), {})


def test_functions_are_built_as_classes_are():
    assert build_object(described("t: {_target_: HERE.required, a: 1}"), b=2.5) == (1, 2.5)
    tree = build_object(described("t: {_target_: HERE.Tree, left: {_target_: HERE.Tree, label: x}, right: 2}"))
    assert (tree.left.label, tree.right, tree.label) == ("x", 2, "tree")
