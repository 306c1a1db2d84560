"""Find what a subclass, a mixin or an instance overrides of a class that has compiled code for its methods.

Compiled code stands for the methods of one class. It does not call the methods of a subclass, so it may take their
place only where nothing of that class is overridden.
"""

import dis
from collections.abc import Iterator
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any, NamedTuple

# Methods that make, copy, compare or show objects take no part in a decision.
MAKING = {"__new__", "__init__", "__post_init__", "__init_subclass__", "__class_getitem__", "__subclasshook__"}
COPYING = {"__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__", "__replace__"}
SHOWING = {"__repr__", "__str__", "__eq__", "__hash__"}
BOOKKEEPING = {"_abc_impl", "_is_protocol", "_is_runtime_protocol", "__annotate__"}  # Python's own, by class
IGNORED = frozenset(MAKING | COPYING | SHOWING | BOOKKEEPING)
ACCESS = frozenset({"__getattribute__", "__getattr__", "__setattr__", "__delattr__"})  # these change every attribute
_ABSENT = object()


def find_definer(thing: object, method: str) -> type | None:
    """Return the class that defines the method which an object inherits; None if no class of it does."""
    return next((each for each in type(thing).__mro__ if method in vars(each)), None)


def find_override(thing: object, owner: type, *methods: str) -> str:
    """Return a name that means something else for an object than for `owner`, one of its classes; "" for none.

    Compared are the names that `owner` and its bases define, and those that their code mentions, such as attributes
    that `__init__` sets. A name that is new has no effect on the code of `owner`.

    Args:
        thing: an object of the class or of a subclass.
        owner: the class whose code is to be used.
        methods: further names to compare, which `owner` may leave to other classes.
    """
    names = _names_of(owner)
    actual = type(thing)
    for each in actual.__mro__:
        if each not in owner.__mro__:
            for name in vars(each):
                known = name in names.mentioned or name in methods
                if known and _look_up(actual, name) is not _look_up(owner, name):
                    return name
    for name in getattr(thing, "__dict__", {}):
        value = _look_up(actual, name) if name in names.defined else _ABSENT
        if value is _ABSENT or isinstance(value, cached_property):
            continue
        if hasattr(value, "__get__") or name not in names.stored:
            return str(name)
    return ""


class _Names(NamedTuple):
    """The names of a class: what it and its bases define, that and all that their code mentions, and what it sets."""

    defined: frozenset[str]
    mentioned: frozenset[str]
    stored: frozenset[str]


@lru_cache(maxsize=256)
def _names_of(owner: type) -> _Names:
    values = [(name, value) for each in owner.__mro__[:-1] for name, value in vars(each).items()]  # without `object`
    codes = [code for _, value in values for code in _codes_of(value)]
    defined = {name for name, value in values if not _is_special(name) or callable(value)} - IGNORED
    mentioned = {name for code in codes for name in code.co_names if not _is_special(name)}
    stored = {str(one.argval) for code in codes for one in dis.get_instructions(code) if one.opname == "STORE_ATTR"}
    return _Names(frozenset(defined), frozenset(defined | mentioned | ACCESS), frozenset(stored))


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _codes_of(value: Any) -> Iterator[CodeType]:
    """Yield the code of a function, method or property, and the code within it."""
    if isinstance(value, CodeType):
        yield value
        for each in value.co_consts:
            if isinstance(each, CodeType):
                yield from _codes_of(each)
        return
    for name in ("__code__", "__func__", "__wrapped__", "fget", "fset", "fdel", "func"):
        inner = getattr(value, name, None) if not isinstance(value, type) else None
        if inner is not None:
            yield from _codes_of(inner)


def _look_up(actual: type, name: str) -> object:
    """Return what a class has for a name, without calling descriptors."""
    return next((vars(each)[name] for each in actual.__mro__ if name in vars(each)), _ABSENT)
