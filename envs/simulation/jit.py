"""How kernels are compiled: once, cached on disk, without checks for division by zero, releasing the GIL.

Four kinds. `leaf`: small, woven into its callers. `part`: larger, called by kernels alone. `kernel`: what Python calls.
These work on arrays that exist and cannot make new ones, which spares them counting references (numba's `_nrt` option,
undocumented, hence the pinned version). `jit`: for functions that allocate.

The first start after an installation waits for all of them, so nothing is compiled twice: a literal argument makes no
version of its own, and only kernels have the code by which Python would call them.
"""

import gc
import inspect
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import types
from numba.core.event import Listener, register, unregister

P = ParamSpec("P")
R = TypeVar("R")

_stamps: dict[str, str] = {}  # of files with kernels, see `_stamp`


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function on its first call; `NUMBA_DISABLE_JIT=1` leaves it plain Python."""
    return _compiled(function)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `jit`, for functions that allocate nothing."""
    return _compiled(function, _nrt=False)


def part(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, for kernels to call. Python may call it all the same (tests do); it is then compiled once more."""
    return _inner(function)


def leaf(function: Callable[P, R]) -> Callable[P, R]:
    """As `part`, woven into every caller."""
    return _inner(function, forceinline=True)


def _inner(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    compiled: Any = _compiled(function, _nrt=False, no_cpython_wrapper=True, **options)
    config: Any = numba.config
    if not config.DISABLE_JIT:
        njit: Any = numba.njit
        alone = njit(error_model="numpy", _nrt=False)(function)
        compiled._insert = lambda *_: None  # no entry point for Python, which then asks for one here
        compiled._compile_for_args = lambda *_: alone
    return cast(Callable[P, R], compiled)


def _compiled(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    njit: Any = numba.njit  # its type stubs do not know all options
    compiled = njit(cache=True, error_model="numpy", nogil=True, no_cfunc_wrapper=True, **options)(function)
    _outdate_with_sources(compiled, function)
    if hasattr(compiled, "get_call_template"):  # not where compilation is switched off
        template_of = compiled.get_call_template
        unliteral: Any = types.unliteral  # untyped
        compiled.get_call_template = lambda args, kws: template_of(
            [unliteral(arg) for arg in args], {name: unliteral(arg) for name, arg in kws.items()}
        )
    return cast(Callable[P, R], compiled)


def _outdate_with_sources(compiled: Any, function: Callable[..., Any]) -> None:
    """Let a kernel's cache expire when a file that it may call into changes, or a constant that it may have built in.

    Numba looks at the kernel's own file only, so callers in other files would go on with the old callee compiled into
    them. What else a process has imported makes no difference.
    """
    cache = getattr(compiled, "_cache", None)
    cache_file = getattr(cache, "_cache_file", None)
    if cache is not None and cache_file is not None:
        cache_file._source_stamp = _stamp(function)
        load = cache_file._load_index
        cache_file._load_index = lambda: _or_nothing(load)
        load_overload = cache.load_overload
        cache.load_overload = lambda *about: _at_rest(load_overload, *about)


def _stamp(function: Callable[..., Any]) -> str:
    """What a kernel's file and all files whose kernels it may call were like when they were imported.

    Time of writing, size, and the constants that are known above the first kernel, imported ones included.
    """
    path = inspect.getfile(function)
    if path not in _stamps:
        stat = Path(path).stat()
        parts = {f"{path} {stat.st_mtime} {stat.st_size}"}
        for name, value in function.__globals__.items():
            if isinstance(value, (int, float, str)) and not name.startswith("__"):
                parts.add(f"{name} = {value!r}")
            elif isinstance(value, ModuleType):
                parts.add(_stamps.get(getattr(value, "__file__", None) or "", ""))
            elif hasattr(value, "py_func"):
                parts.add(_stamps.get(inspect.getfile(value.py_func), ""))
        _stamps[path] = sha256("\n".join(sorted(parts)).encode()).hexdigest()
    return _stamps[path]


def _at_rest(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function without collection; with the first kernel come numba's many registries."""
    _collection.on_start(None)
    try:
        return function(*args, **kwargs)
    finally:
        _collection.on_end(None)


def _or_nothing(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """A cache's index; empty if it is an older version's, which knows classes that are gone."""
    try:
        return load()
    except (AttributeError, ImportError):
        return {}


class _Collection(Listener):
    """Collection of cycles, resting while kernels are compiled or loaded, which makes many objects that all stay.

    That is a sixth of the time of compiling and a fifth of a later start. What is there after the first kernel is
    never looked at again, as it will hardly ever be garbage: it would cost a tenth of a start when the process ends.
    """

    def __init__(self) -> None:
        self.depth = 0  # kernels that are being compiled or loaded, one for another
        self.resting = False
        self.frozen = False

    def on_start(self, event: Any) -> None:
        """One more."""
        self.depth += 1
        if gc.isenabled():
            self.resting = True
            gc.disable()

    def on_end(self, event: Any) -> None:
        """One less; after the last, collection goes on."""
        self.depth -= 1
        if self.depth == 0 and not self.frozen:
            self.frozen = True
            gc.freeze()
        if self.depth == 0 and self.resting:
            self.resting = False
            gc.enable()


_collection = _Collection()
register("numba:compile", _collection)  # type: ignore[no-untyped-call]


class _FirstCompilation(Listener):
    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell

    def on_start(self, event: Any) -> None:
        """Something is compiled that is not in the cache."""
        unregister("numba:compile", self)  # type: ignore[no-untyped-call]
        self.tell()

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


def on_first_compilation(tell: Callable[[], None]) -> None:
    """Call `tell` once, when kernels have to be compiled: on the first start after an installation or a change."""
    register("numba:compile", _FirstCompilation(tell))  # type: ignore[no-untyped-call]
