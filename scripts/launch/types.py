"""Whether a value out of a config is of the type that a signature asks for; only plain types are judged."""

import types
import typing
from typing import Any, Literal, Union

PLAIN = (bool, int, float, str, type(None))
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}


def fits(value: object, hint: Any) -> bool:
    """Whether a value suits a type hint; what is no plain type, nor a choice among plain ones, suits everything."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in typing.get_args(hint))
    if origin is Literal:
        return value in typing.get_args(hint)
    if hint not in PLAIN:
        return True
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def spelled(hint: Any) -> str:
    """A type hint in a user's words."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(spelled(part) for part in typing.get_args(hint))
    if origin is Literal:
        return " or ".join(str(part) for part in typing.get_args(hint))
    return WORDS.get(hint, str(hint))
