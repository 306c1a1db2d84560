"""Objects built from their descriptions: options are checked against signatures before anything is built."""

import dataclasses
import inspect
import logging
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Union

from hydra.utils import get_object, instantiate

from envs.types import did_you_mean
from murmuration.config.errors import ChoiceError

TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}

QUOTES = """; text that reads as a number needs quotes, as in "name='7e2'" or "names=['7e2']\""""

logging.getLogger("hydra.utils").setLevel(logging.CRITICAL)  # it logs what it raises, which would be a second line


@dataclass(frozen=True)
class Component:
    """One object of a run, described but not built: a class, its options, and where they were chosen."""

    key: str  # of the configuration, such as "cluster", for messages
    values: Mapping[str, Any]  # plain data: `_target_` names the class, the rest are its options


def build_object(component: Component, wanted: type | types.UnionType | None = None, /, **given: object) -> Any:
    """Call the component's `_target_` with its options and with the given objects, which are passed on unchanged.

    Hydra's `instantiate` alone would turn dataclasses among the given objects into configs.

    Args:
        component: names what is called.
        wanted: the class or protocol of the result, or several; None for any.
        given: further arguments.

    Raises:
        ChoiceError: here or in a nested component, a class cannot be imported, its signature does not have an option
            or lacks one, or a value has another type; or what is called returns nothing of the wanted class.
    """
    key, values = component.key, component.values
    if "_target_" not in values:
        raise ChoiceError(f"{key}: has no _target_; choose a file of conf/{key} or name a class to build")
    classes = () if wanted is None else typing.get_args(wanted) or (wanted,)
    if classes and not any(builds(component, each) for each in classes):
        names = " or ".join(each.__name__ for each in classes)
        raise ChoiceError(f"{key}._target_ is {values['_target_']}; it must build a {names}")
    check_options(component, given)
    check_missing(component, given)
    made = instantiate(dict(values), _convert_="all", _partial_=True)
    assert isinstance(made, partial)
    return made(**given)


def check_options(component: Component, given: Mapping[str, object]) -> None:
    """Check that every `_target_` of the component and within it exists and takes the options beside it.

    Raises:
        ChoiceError: names the option, its value, what is allowed and the most similar name.
    """
    for child in _parts_of(component):
        check_options(child, {})
    key, values = component.key, component.values
    if "_target_" not in values:
        return
    target = str(values["_target_"])
    built = import_target(key, target)
    taken = inspect.signature(built).parameters
    for name, value in values.items():
        if str(name).startswith("_") and name not in ("_target_", "_partial_"):
            raise ChoiceError(f"{key}.{name} is {value!r}: a key of Hydra's own; {target} takes: {', '.join(taken)}")
    hints = typing.get_type_hints(inspect.getattr_static(built, "__init__") if isinstance(built, type) else built)
    for name in [str(name) for name in (*values, *given) if not str(name).startswith("_")]:
        if name not in taken and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
            allowed, hint = ", ".join(taken) or "nothing", did_you_mean(name, taken, lead=", ")
            raise ChoiceError(f"{key}.{name}: {target} takes no {name}{hint}; it takes: {allowed}")
        if name in values and name in hints and not matches_type(values[name], hints[name]):
            wanted = describe_type(hints[name])
            quotes = QUOTES if TYPE_NAMES[str] in wanted and _holds_number(values[name]) else ""
            raise ChoiceError(f"{key}.{name} is {values[name]!r}; it must be {wanted}{quotes}")


def check_missing(component: Component, given: Mapping[str, object]) -> None:
    """Check that the signature of every `_target_` of the component and within it gets all arguments it requires.

    Args:
        component: the result of `check_options` is that its targets can be imported.
        given: arguments besides the options of the outermost one.

    Raises:
        ChoiceError: names the first one that is missing.
    """
    for child in _parts_of(component):
        check_missing(child, {})
    key, values = component.key, component.values
    if "_target_" not in values or values.get("_partial_"):
        return
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    taken = inspect.signature(import_target(key, str(values["_target_"]))).parameters
    for name, parameter in taken.items():
        if parameter.default is parameter.empty and parameter.kind not in optional and name not in {*values, *given}:
            raise ChoiceError(f"{key}: missing a required argument: {name!r}; set it as {key}.<name>=<value>")


def without_defaults(component: Component) -> dict[str, Any]:
    """Return the options of a component, and of its parts, without those that equal the defaults of signatures.

    Raises:
        ChoiceError: a class cannot be imported.
    """
    target = component.values.get("_target_")
    taken = inspect.signature(import_target(component.key, str(target))).parameters if target else {}
    kept: dict[str, Any] = {}
    for name, value in component.values.items():
        default = taken[name].default if name in taken else inspect.Parameter.empty
        if value != (list(default) if isinstance(default, tuple) else default):
            kept[name] = without_defaults(Component(component.key, value)) if isinstance(value, Mapping) else value
    return kept


def _parts_of(component: Component) -> Iterator[Component]:
    """Yield what is described directly within a component, also in its lists."""
    for name, value in component.values.items():
        key = f"{component.key}.{name}"
        if isinstance(value, Mapping):
            yield Component(key, value)
        elif isinstance(value, list):
            yield from (Component(f"{key}[{i}]", each) for i, each in enumerate(value) if isinstance(each, Mapping))


def import_target(key: str, target: str) -> Callable[..., Any]:
    """The class or function that the `_target_` at a key names.

    Raises:
        ChoiceError: it cannot be imported, or is neither class nor function.
    """
    try:
        found: Any = get_object(target)
    except Exception as error:  # a module may raise anything while it is imported
        raise ChoiceError(f"{key}._target_: cannot import {target}{explain_import(target, error)}") from error
    if not callable(found):
        raise ChoiceError(f"{key}._target_: {target} is a {type(found).__name__}; name a class or function in it")
    return typing.cast(Callable[..., Any], found)


def explain_import(target: str, error: Exception) -> str:
    """Explain a failed import: the module lacks the name, or Python cannot find or run the module."""
    module, _, name = target.rpartition(".")
    if module in sys.modules:
        names = [str(each) for each in getattr(sys.modules[module], "__all__", vars(sys.modules[module]))]
        return f": {module} has no {name}{did_you_mean(name, names, lead=', ')}"
    cause = error.__cause__ or error
    reason = " ".join(f"{type(cause).__name__}: {cause}".split())
    return f" ({reason}); check the spelling and PYTHONPATH"


def matches_type(value: object, hint: Any) -> bool:
    """Whether a plain value matches a type hint: plain types, collections of them, and classes to build.

    Hints of other forms match every value.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return any(matches_type(value, part) for part in inner)
    if origin is Literal:
        return value in inner
    if isinstance(value, Mapping) and "_target_" in value:
        return hint not in TYPE_NAMES and builds(Component("", value), hint)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(matches_type(each, inner[1]) for each in value.values())
    if origin is tuple and Ellipsis not in inner:
        fits = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == len(inner)
        return fits and all(matches_type(*pair) for pair in zip(value, inner, strict=True))  # type: ignore[call-overload]
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence | list | tuple):
        fits = isinstance(value, Sequence) and not isinstance(value, str)
        return fits and all(matches_type(each, inner[0]) for each in value)  # type: ignore[attr-defined]
    if hint not in TYPE_NAMES:
        return not (dataclasses.is_dataclass(hint) or _is_protocol(hint))
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def builds(component: Component, hint: Any) -> bool:
    """Whether what a component's `_target_` returns can be of the hinted class; True where that is not known."""
    built = import_target(component.key, str(component.values["_target_"]))
    made = built if isinstance(built, type) else typing.get_type_hints(built).get("return")
    hint = typing.get_origin(hint) or hint  # of a collection, such as Mapping[str, int], the class
    if not isinstance(made, type) or not isinstance(hint, type):
        return True
    if _is_protocol(hint):
        return all(
            hasattr(made, name) for name in vars(hint) if callable(vars(hint)[name]) and not name.startswith("_")
        )
    return issubclass(made, hint)


def _is_protocol(hint: Any) -> bool:
    return bool(getattr(hint, "_is_protocol", False))  # `typing.is_protocol` is new in Python 3.13


def _holds_number(value: object) -> bool:
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return any(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in entries)


def describe_type(hint: Any) -> str:
    """A type hint in plain English."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(part) for part in typing.get_args(hint))
    if origin is Literal:
        return " or ".join(str(part) for part in typing.get_args(hint))
    if origin in (Sequence, list):
        return f"a list, of which each entry is {describe_type(typing.get_args(hint)[0])}"
    if origin is not None:
        return str(hint).replace("collections.abc.", "")
    return TYPE_NAMES.get(hint, f"a {hint.__name__}, as <name>._target_" if isinstance(hint, type) else str(hint))
