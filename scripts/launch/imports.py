"""From a dotted name to what it names, as Hydra finds it, without its log."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from launch.names import ChoiceError


def imported(key: str, target: str) -> Callable[..., Any]:
    """The class or function of the `_target_` at a config's key.

    Raises:
        ChoiceError: it cannot be imported, or is neither class nor function.
    """
    first, *rest = target.split(".")
    try:
        found: Any = import_module(first)
        path = first
        for name in rest:
            path = f"{path}.{name}"
            found = getattr(found, name) if hasattr(found, name) else import_module(path)
    except Exception as error:  # whatever the module does while it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ChoiceError(f"{key}._target_: cannot import {target} ({reason}); mind spelling and PYTHONPATH") from error
    if not callable(found):
        raise ChoiceError(f"{key}._target_: {target} is a {type(found).__name__}; name a class or function in it")
    return found  # type: ignore[no-any-return]  # callable, as just seen
