"""What a config may say is what signatures take: options are held against them before anything is built."""

import inspect
import typing
from collections.abc import Mapping
from functools import partial
from typing import Any

from omegaconf import DictConfig

from launch.imports import imported
from launch.names import ChoiceError, near
from launch.types import fits, spelled


def check_options(node: DictConfig, given: Mapping[str, object]) -> None:
    """Assert that every `_target_` here and below exists and takes the options beside it.

    Raises:
        ChoiceError: names the option, its value, what is allowed and the nearest.
    """
    for child in node.values():
        if isinstance(child, DictConfig):
            check_options(child, {})
    if "_target_" not in node:
        return
    key, target = str(node._get_full_key(None)), str(node["_target_"])
    built = imported(key, target)
    taken = inspect.signature(built).parameters
    hints = typing.get_type_hints(inspect.getattr_static(built, "__init__") if isinstance(built, type) else built)
    for name in [str(name) for name in (*node, *given) if not str(name).startswith("_")]:
        if name not in taken and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
            allowed = ", ".join(taken) or "nothing"
            raise ChoiceError(f"{key}.{name}: {target} takes no {name}{near(name, taken)}; it takes: {allowed}")
        if name in node and name in hints and not fits(node[name], hints[name]):
            raise ChoiceError(f"{key}.{name} is {node[name]!r}; it must be {spelled(hints[name])}")


def check_missing(key: str, made: "partial[Any]", given: Mapping[str, object]) -> None:
    """Assert that with its options and what is given a signature has all that it needs."""
    try:
        inspect.signature(made.func).bind(*made.args, **made.keywords, **given)
    except TypeError as refusal:
        raise ChoiceError(f"{key}: {refusal}; set it as {key}.<name>=<value>") from refusal
