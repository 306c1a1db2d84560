"""How a setting is declared: a field of a dataclass, with its type, its default and what it is.

Nothing here takes long to import.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

GREATEST_SEED = 2**32 - 1  # that NumPy's older generators take, which Ray seeds
REQUIRED_VALUE = "???"  # a default in Hydra's notation: the user has to give one
IN_YAML = object()  # a default that stands in `conf/<command>.yaml`, which wires classes

# Types of settings, each with its form as messages call it; `murmuration.config.values` checks the forms.
Switch = Annotated[bool, "true or false"]
Seed = Annotated[int, f"a whole number from 0 to {GREATEST_SEED}"]
Count = Annotated[int, "a whole number of at least 1"]
Natural = Annotated[int, "a whole number of at least 0"]
Number = Annotated[float, "a number"]
Text = Annotated[str, "a text"]
Texts = Annotated[Sequence[str], "a list of texts"]
Numbers = Annotated[Sequence[float], "a list of numbers"]
Naturals = Annotated[Sequence[int], "a list of whole numbers, none negative"]
Lists = Annotated[Sequence[Sequence[str]], "a list of lists of options"]
OptionGroup = Annotated[Mapping[str, Any], "a group of options, each set as <group>.<option>=<value>"]
OptionGroups = Annotated[
    Mapping[str, Mapping[str, Any]], "groups of options by name, each set as <key>.<name>.<option>=<value>"
]
Schedulers = Annotated[Mapping[str, Any], "schedulers by name"]
NULL = "null"


def setting(default: Any, about: str = "", *, here: bool = False, resumed: bool = False) -> Any:
    """Declare a setting.

    Args:
        default: the value without one of the user.
        about: what it is, for `--help`.
        here: it belongs to the command that is typed; a run that is repeated or resumed does not bring it along.
        resumed: it may change when a run is resumed.
    """
    about_it = {"about": about, "here": here, "resumed": resumed, "default": default}
    if isinstance(default, list):
        return field(default=tuple(default), metadata=about_it)
    if default in (IN_YAML, REQUIRED_VALUE) or isinstance(default, Mapping):
        return field(metadata=about_it)
    return field(default=default, metadata=about_it)


def below(class_: type, about: str = "", *, here: bool = False) -> Any:
    """Declare a group of settings below one key."""
    return field(default=MISSING, metadata={"about": about, "here": here, "resumed": False, "part": class_})


def settings_in(class_: type) -> Iterator[tuple[str, Any, Any]]:
    """Yield (key, type, metadata) of the settings that a class declares or inherits."""
    hints = _hints(class_)
    for each in fields(class_):
        if "about" in each.metadata:
            yield each.name, hints[each.name], each.metadata


@cache
def _hints(class_: type) -> dict[str, Any]:
    return get_type_hints(class_, include_extras=True)


def forms_of(hint: Any) -> tuple[str, ...]:
    """Return the forms of the values of a type, as messages call them."""
    if hint is NoneType:
        return (NULL,)
    if get_origin(hint) is Annotated:
        return tuple(hint.__metadata__)
    if get_origin(hint) is Literal:
        return tuple(map(str, get_args(hint)))  # the values themselves
    return tuple(form for each in get_args(hint) for form in forms_of(each))
