"""Any value as plain ones, for JSON."""

import dataclasses
import math
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Convert nested values to JSON's types: NumPy values to Python's, NaN and infinities to None.

    Data classes become their fields. An object of any other class, such as a user's own restart cost, becomes its
    `repr`, or its class's name if it has no `repr` of its own.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return name_object(value)


def name_object(value: object) -> str:
    """Return an object's own `repr`; for a class, a function and an object without one, the name with its module.

    The names are the same in every run, unlike the address in the `repr` that every object has.
    """
    if not isinstance(value, type | FunctionType) and type(value).__repr__ is not object.__repr__:
        return repr(value)
    named = value if isinstance(value, type | FunctionType) else type(value)
    return f"{named.__module__}.{named.__qualname__}"
