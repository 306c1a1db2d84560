"""Values that the keys of a configuration can hold: their forms, and how messages call these.

Typed options, the user's own YAML files and recalled configurations all pass through here before a run is described, so
that the code behind may rely on the types.
"""

import math
from collections.abc import Callable, Collection, Mapping
from types import NoneType
from typing import Any

from murmuration.config.declare import (
    GREATEST_SEED,
    Count,
    Lists,
    Natural,
    Naturals,
    Number,
    Numbers,
    OptionGroup,
    OptionGroups,
    Seed,
    Switch,
    Text,
    Texts,
    forms_of,
)
from murmuration.config.errors import ChoiceError
from murmuration.config.plain import KEY, is_unsafe, shorten
from murmuration.config.schema import OPTIONAL, REQUIRED, forms_by_key


def _is_whole(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _is_list_of(form: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(form(each) for each in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_groups(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in value.values())


# The forms of values, as messages call them and as `murmuration.config.settings` declares them.
FORMS: Mapping[str, Callable[[Any], bool]] = {
    form: check
    for hint, check in (
        (NoneType, lambda value: value is None),
        (Switch, lambda value: isinstance(value, bool)),
        (Seed, lambda value: _is_whole(value, 0, GREATEST_SEED)),
        (Count, lambda value: _is_whole(value, 1)),
        (Natural, lambda value: _is_whole(value, 0)),
        (Number, _is_number),
        (Text, _is_text),
        (Texts, _is_list_of(_is_text)),
        (Numbers, _is_list_of(_is_number)),
        (Naturals, _is_list_of(lambda value: _is_whole(value, 0))),
        (Lists, _is_list_of(_is_list_of(_is_text))),
        (OptionGroup, lambda value: isinstance(value, Mapping)),
        (
            OptionGroups,
            lambda value: isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in value.values()),
        ),
    )
    for form in forms_of(hint)
}
ALLOWED = forms_by_key()  # besides groups; other top-level keys name schedulers of the user's own


def has_form(value: Any, form: str) -> bool:
    """Whether a value is of a form; a form that is none of `FORMS` is the only word of its form."""
    return FORMS[form](value) if form in FORMS else value == form


def check_values(values: Mapping[str, Any], where: str = "", known: Collection[str] = ALLOWED) -> None:
    """Check that the keys of a configuration hold what they can.

    Args:
        values: by top-level key, as plain values. References are passed over: they are checked when they are resolved.
        where: begins messages: the file that they were read from, with a colon and a space.
        known: the keys that the script reads; any other one may name a class, a scheduler of the user's own.

    Raises:
        ChoiceError: names the key, its value, and what is allowed.
    """
    for key, value in values.items():
        if key in known or not (isinstance(value, Mapping) and "_target_" in value):
            check_value(str(key), value, where)
    for key in (key for key in ALLOWED if "." in key):
        group, _, option = key.partition(".")
        if isinstance(node := values.get(group), Mapping) and option in node:
            check_value(key, node[option], where)


def check_value(key: str, value: Any, where: str = "") -> None:
    """Check what one key of a configuration holds; see `check_values`.

    Raises:
        ChoiceError: names the key, its value, and what is allowed.
    """
    if isinstance(value, str) and is_unsafe(value):
        return
    names_class = isinstance(value, Mapping) and "_target_" in value
    if key in REQUIRED and not names_class:
        raise ChoiceError(f"{where}{key} is {shorten(value)}; it must name a class to build as {key}._target_")
    if key in OPTIONAL and value not in (None, {}) and not names_class:
        raise ChoiceError(f"{where}{key} is {shorten(value)}; it must name a class as {key}._target_, or be null")
    if key == "schedulers":
        nodes = value if isinstance(value, Mapping) else {"": None}
        # Of a new run, `describe_schedulers` says more about a scheduler without a class.
        if not all(isinstance(node, Mapping) and ("_target_" in node or not where) for node in nodes.values()):
            raise ChoiceError(f"{where}schedulers is {shorten(value)}; each of them must name a class as _target_")
        if wrong := [name for name in nodes if not KEY.fullmatch(str(name))]:  # files of the report are named after it
            raise ChoiceError(
                f"{where}{shorten(wrong[0])} is no name of a scheduler; give it one of letters and digits"
            )
    if key in ALLOWED and not any(has_form(value, name) for name in ALLOWED[key]):
        raise ChoiceError(f"{where}{key} is {shorten(value)}; it must be {' or '.join(ALLOWED[key])}")
