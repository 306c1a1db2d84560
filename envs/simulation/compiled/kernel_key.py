"""Keys of compiled functions: equal keys mean equal machine code, in whichever folder the sources are.

Numba compiles a function together with all functions that it calls, and compiles in the values of the globals that they
read. The key covers their bytecode, options, defaults and globals, the types of the arguments, the compiler, the
versions below it, and the processor. It covers neither comments, docstrings nor line numbers, so that an edit compiles
again only what it can change.
"""

import dis
import sys
from collections.abc import Callable
from enum import Enum
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import sigutils, types

from envs.simulation.compiled import linked_code

LIBRARIES = frozenset(("builtins", "cmath", "llvmlite", "math", "numba", "numpy", "operator", "typing"))
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_OPTIONS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE", "USING_SVML")
_normalize: Callable[..., Any] = sigutils.normalize_signature
_types: dict[int, tuple[Any, str]] = {}  # by identity, as numba has one object per type; kept alive with its text
_texts: dict[Any, tuple[str, tuple[Any, ...]]] = {}  # of each function, with the functions that it calls


class UnknownError(Exception):
    """A function depends on an object that a key cannot describe, so its code is not kept."""


def find_key(compiled: Any, signature: Any, processor: tuple[str, ...]) -> str:
    """Return the key of a compiled function for arguments of given types: 64 hexadecimal digits.

    Args:
        compiled: numba's dispatcher.
        signature: the types of the arguments, as numba gives them to its caches.
        processor: what numba compiles for: system, name and features of the processor.

    Raises:
        UnknownError: the function depends on something that the key cannot describe.
    """
    given, result = _normalize(signature)
    of_types = [_type_text(each) for each in (*given, result)]
    texts = find_functions(compiled)
    of_functions = texts.pop(compiled), *sorted(texts.values())
    lines = [_compiler_text(), repr(processor), *of_functions, *of_types]
    return sha256("\n".join(lines).encode()).hexdigest()


def has_changed(compiled: Any) -> bool:
    """Whether a function reads a global that had another value when its key was found, as a test may replace one."""
    return compiled in _texts and _texts[compiled] != _read(compiled)


def is_inlined(compiled: Any) -> bool:
    """Whether a function is copied into its callers, and so compiled with them alone."""
    return bool(getattr(compiled, "targetoptions", {}).get("inline") == "always")


def find_functions(compiled: Any) -> dict[Any, str]:
    """The texts of a function and of all that it calls, itself first.

    Raises:
        UnknownError: see `find_key`.
    """
    texts: dict[Any, str] = {}
    waiting = [compiled]
    while waiting:
        function = waiting.pop()
        if function not in texts:
            if function not in _texts:
                _texts[function] = _read(function)
            texts[function], called = _texts[function]
            waiting.extend(called)
    return texts


def _read(compiled: Any) -> tuple[str, tuple[Any, ...]]:
    """The text of one function, and the functions that its globals name."""
    function = getattr(compiled, "py_func", None) or getattr(compiled, "_defn", compiled)
    if function.__closure__ or "<" in function.__qualname__:
        raise UnknownError(
            f"{function.__qualname__}: numba tells functions that are made in functions apart by a counter"
        )
    called: list[Any] = []
    names: set[str] = set()
    code = _code_text(function.__code__, function.__doc__, names, called)
    about = [
        _name(function),
        repr(sorted(getattr(compiled, "targetoptions", {}).items())),
        _text(
            (function.__defaults__, function.__kwdefaults__ and tuple(function.__kwdefaults__.items())), names, called
        ),
        code,
        *(f"{name} = {_text(value, names, called)}" for name, value in _items(function.__globals__, names)),
    ]
    return "\n".join(about), tuple(called)


def _code_text(code: CodeType, docstring: str | None, names: set[str], called: list[Any]) -> str:
    """The text of bytecode, whose names are added to `names`."""
    names.update(code.co_names)
    constants = [
        _code_text(value, None, names, called) if isinstance(value, CodeType) else _text(value, names, called)
        for value in code.co_consts
    ]
    loaded = {index for operation, index in zip(*[iter(code.co_code)] * 2, strict=True) if operation in dis.hasconst}
    if docstring is not None and code.co_consts[:1] == (docstring,) and 0 not in loaded:
        constants[0] = ""
    sizes = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    words = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return f"{code.co_code.hex()} {code.co_exceptiontable.hex()} {sizes} {words} {constants}"


def _items(values: dict[str, Any], names: set[str]) -> list[tuple[str, Any]]:
    return [(name, values[name]) for name in sorted(names & values.keys())]


def _text(value: Any, names: set[str], called: list[Any]) -> str:
    """The text of a value that compiled code may contain. Functions are added to `called`.

    Attributes of modules count if a name in the bytecode is theirs.
    """
    if isinstance(value, Enum):
        return f"{_class_text(type(value), names, called)} {value.name}"
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.hasobject:
            raise UnknownError(repr(value))
        return f"{value.dtype!r} {value.shape} {_type_text(numba.typeof(value))} {value.tobytes().hex()}"  # type: ignore[no-untyped-call]
    if isinstance(value, _PLAIN):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, tuple | frozenset):
        inner = [_text(each, names, called) for each in value]
        about = _class_text(type(value), names, called)
        return f"{about} {inner if isinstance(value, tuple) else sorted(inner)}"
    if isinstance(value, np.dtype):
        return repr(value)
    if isinstance(value, types.Type):
        return _type_text(value)
    if isinstance(value, ModuleType):
        inner = (
            []
            if _of_library(value.__name__)
            else [_text(each, names, called) for _, each in _items(vars(value), names)]
        )
        return f"{value.__name__} {inner}"
    if isinstance(value, type):
        return _class_text(value, names, called)
    return _callable_text(value, called)


def _callable_text(value: Any, called: list[Any]) -> str:
    """The name of a function. Its own text is part of the key, unless that has its library's version or its file."""
    module = getattr(value, "__module__", None) or type(value).__module__
    is_function = hasattr(value, "py_func") or hasattr(value, "_defn") or isinstance(value, FunctionType)
    if not _of_library(module) and (module not in _compiler_files() or hasattr(value, "py_func")):
        if not is_function:
            raise UnknownError(f"{type(value).__name__} of {module}")
        called.append(value)
    return _name(value)


def _class_text(class_: Any, names: set[str], called: list[Any]) -> str:
    """The name of a class; of a named tuple its fields, of an enumeration its members."""
    if issubclass(class_, Enum):
        members = [(name, _text(each.value, names, called)) for name, each in class_.__members__.items()]
        return f"{_name(class_)} {members}"
    if issubclass(class_, tuple) and hasattr(class_, "_fields"):
        defaults = [_text(each, names, called) for each in class_._field_defaults.items()]
        return f"{_name(class_)} {class_._fields} {defaults}"
    if not _of_library(class_.__module__) and not issubclass(class_, BaseException):
        raise UnknownError(_name(class_))
    return _name(class_)


def _type_text(given: Any) -> str:
    """The text of one of numba's types, with the fields of named tuples in it, which their names leave out."""
    if id(given) not in _types:
        if isinstance(given, types.Dispatcher | types.Literal | types.Omitted):
            raise UnknownError(str(given))
        inner: list[str] = []
        for each in getattr(given, "__dict__", {}).values():
            of_type = isinstance(each, type) and issubclass(each, tuple | Enum)
            if of_type:
                inner.append(_class_text(each, set(), []))
            elif isinstance(each, types.Type):
                inner.append(_type_text(each))
            elif isinstance(each, tuple):
                inner.extend(_type_text(part) for part in each if isinstance(part, types.Type))
        _types[id(given)] = given, f"{type(given).__name__} {given} {inner}"
    return _types[id(given)][1]


def _name(value: Any) -> str:
    module = getattr(value, "__module__", None) or type(value).__module__
    return f"{module}.{getattr(value, '__qualname__', None) or value.__name__}"


def _of_library(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES


@cache
def _compiler_files() -> dict[str, Path]:
    """The files of the project's part of the compiler, by module."""
    modules = "envs.simulation.compiled.jit", linked_code.__name__, __name__
    return {name: Path(__file__).with_name(f"{name.rpartition('.')[2]}.py") for name in modules}


@cache
def _compiler_text() -> str:
    """The text of all that compiles: versions, options, and the project's part of it."""
    versions = sys.implementation.name, sys.version_info[:3], numba.__version__, llvmlite.__version__, np.__version__
    options = [(name, str(getattr(numba.config, name))) for name in _OPTIONS]
    files = [(name, sha256(path.read_bytes()).hexdigest()) for name, path in _compiler_files().items()]
    return repr((versions, options, files))
