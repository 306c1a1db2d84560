"""Every key of every configuration has a form, and a value of another form is refused in one line."""

import math
from typing import Any

import pytest
import yaml

from murmuration.config.arguments import hydra_arguments
from murmuration.config.choices import CONF
from murmuration.config.commands import COMMANDS
from murmuration.config.declare import GREATEST_SEED
from murmuration.config.errors import ChoiceError
from murmuration.config.schema import OPTIONAL, REQUIRED, describe_keys, keys_of
from murmuration.config.values import ALLOWED, check_values, has_form

HOSTILE: tuple[Any, ...] = (
    *(1e-300, 2, -1, math.nan, math.inf, 2**63 - 1, True, None, "", "x"),
    *([1, 0], [math.nan], [], [[]], {}, {"a": 1}),
)
PARTS = ("defaults", "network", "experiment", "settings")  # of a configuration that are no keys of it


def keys_of_groups(content):
    """The names of the groups in a list of defaults."""
    return {str(key).removeprefix("optional ") for entry in content if isinstance(entry, dict) for key in entry}


@pytest.mark.parametrize("name", sorted(path.stem for path in CONF.glob("*.yaml")))
def test_every_key_of_a_configuration_is_declared_once_and_has_a_form(name):
    content, declared = yaml.safe_load((CONF / f"{name}.yaml").read_text()), keys_of(name)
    assert {"settings": name} in content["defaults"]
    assert declared.keys() & content.keys() == set()
    keys = (declared.keys() | content.keys() | keys_of_groups(content["defaults"])) - {*PARTS}
    assert keys - {*ALLOWED, *REQUIRED, *OPTIONAL, "schedulers", "runs"} == set()
    own = {key: value for key, value in {**declared, **content}.items() if key in ALLOWED and value != "???"}
    check_values(own)  # its defaults are of these forms


@pytest.mark.parametrize("word", ["settings=train", "~settings", "+settings@x=train"])
def test_the_settings_of_another_command_cannot_be_chosen(word):
    with pytest.raises(ChoiceError, match="settings are set one by one"):
        hydra_arguments([word], "compare", "all")


def test_help_shows_every_setting_with_its_default_and_what_it_is():
    for name in COMMANDS:
        lines = describe_keys(name).splitlines()
        assert yaml.safe_load("\n".join(lines)) == keys_of(name)
        assert all("  # " in line for line in lines if line != "ray:")


@pytest.mark.parametrize("key", [*ALLOWED, *REQUIRED, *OPTIONAL, "schedulers"])
def test_a_value_is_of_a_form_of_its_key_or_refused_by_name(key):
    group, dot, option = key.partition(".")
    for value in HOSTILE:
        content = {group: {"_target_": "a.B", option: value}} if dot else {key: value}
        if key in ALLOWED and any(has_form(value, form) for form in ALLOWED[key]):
            check_values(content)
        elif key in ALLOWED or value not in (None, {}):
            with pytest.raises(ChoiceError, match=f"^config.yaml: {key} is .* must "):
                check_values(content, "config.yaml: ")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"seed": GREATEST_SEED + 1}, "seed is 4294967296; it must be a whole number from 0 to 4294967295"),
        ({"seed": True}, "seed is True; it must be a whole number from 0"),
        ({"seeds": 0}, "seeds is 0; it must be a whole number of at least 1 or null"),
        ({"processes": True}, "processes is True; it must be a whole number of at least 1 or null"),
        ({"trust": "my.Class"}, "trust is 'my.Class'; it must be a list of texts"),
        ({"loads": [0.5, math.nan]}, r"loads is \[0.5, nan\]; it must be a number or a list of numbers"),
        ({"frames": "xls"}, "frames is 'xls'; it must be csv or parquet or null"),
        ({"ray": {"address": 5}}, "ray.address is 5; it must be a text or null"),
    ],
)
def test_messages_name_key_value_and_what_is_allowed(values, said):
    with pytest.raises(ChoiceError, match=said):
        check_values(values)


def test_references_wait_until_they_are_resolved():
    check_values({"seed": "${oc.env:SEED}", "cluster": "${other}"})


def test_a_scheduler_of_the_users_own_may_have_the_name_of_another_commands_key():
    own = {"one": {"_target_": "my_module.One"}}
    check_values(own, known=("seed", "cluster"))
    with pytest.raises(ChoiceError, match="one is .*; it must be a text"):
        check_values(own, known=("one",))
