"""Decorators that compile kernels: once, cached on disk, without checks for division by zero, releasing the GIL.

There are six. `leaf`: a small function, inlined into its callers. `part`: a larger function that only kernels call.
`kernel`: a function that Python calls. These three use existing arrays and cannot allocate, so that numba counts no
references (its `_nrt` option is undocumented, hence the pinned version). `jit`: a function that allocates. `shared`: a
long one with several callers, which take it as an argument; `shared_kernel`: the same if it cannot allocate.

The first start after an installation waits for all kernels, so nothing is compiled twice: a literal argument makes no
separate version, and only kernels get a wrapper through which Python calls them.
"""

import gc
import time
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

from envs.simulation.compiled.numba_import import import_registries  # before numba

# isort: split
import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.core.event import Listener, register
from numba.extending import intrinsic

from envs.simulation.compiled.kernel_cache import KernelCache
from envs.simulation.compiled.linked_code import linked_only

P = ParamSpec("P")
R = TypeVar("R")

Records = Any  # one record, or an array of them: numba knows the fields, mypy does not

LINE = 64  # bytes of a cache line
COMPILES = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]

_arguments: dict[tuple[Any, tuple[Any, ...]], Any] = {}  # by function and types, see `as_argument`


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function on its first call; `NUMBA_DISABLE_JIT=1` leaves it plain Python."""
    return _compiled(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `jit`, but copied into its callers before they are compiled.

    LLVM optimises all that a function calls once more with each caller. For a long function with one caller, a copy
    therefore saves the time to compile it alone.
    """
    return _compiled(function, inline="always")


def shared(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `jit`; other compiled functions can take it as an argument, see `as_argument`.

    A function that is called by name is compiled once more with each of its callers, this one is not.
    """
    return _compiled(function, no_cfunc_wrapper=False)


def shared_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `shared`, for a function that allocates nothing."""
    return _compiled(function, _nrt=False, no_cfunc_wrapper=False)


def as_argument(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Callable[P, R]:
    """Return a shared function as an argument for compiled functions, which call it by its address.

    Args:
        function: a `shared` function or a `shared_kernel`.
        *args: arguments of the types that it will be called with; they are not read.
        **kwargs: none; compiled functions take no such arguments.
    """
    if not COMPILES:
        return function
    assert not kwargs
    compiled: Any = function
    given = tuple(_widened(numba.typeof(arg)) for arg in args)  # type: ignore[no-untyped-call]
    key = compiled, given
    if key not in _arguments:
        compiled.compile(given)
        _arguments[key] = types.CompileResultWAP(compiled.overloads[given])
    return cast(Callable[P, R], _arguments[key])


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `jit`, for a function that allocates nothing."""
    return _compiled(function, _nrt=False)


class RepeatedKernel(Generic[R]):
    """A kernel that is called again and again with arguments of the same types.

    Numba looks up the types of all arrays of all arguments at every call, which takes a tenth of a millisecond for the
    arrays of a batch. Here they are looked up when the first argument is another object than before. All others must
    have the types that they had then.

    Args:
        function: a `kernel`.
    """

    def __init__(self, function: Callable[..., R]) -> None:
        self._function, self._entry = function, function
        self._first: object = None

    def __call__(self, first: object, *others: object) -> R:
        """Call the kernel."""
        if first is not self._first and COMPILES:
            compiled: Any = self._function
            given = tuple(_widened(numba.typeof(arg)) for arg in (first, *others))  # type: ignore[no-untyped-call]
            compiled.compile(given)
            self._first, self._entry = first, compiled.overloads[given].entry_point
        return self._entry(first, *others)


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `kernel`, for callers that are kernels. Python may call it too (tests do) and compiles it again."""
    return _inner(function)


def leaf(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `part`, inlined into every caller."""
    return _inner(function, forceinline=True)


def _inner(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    compiled: Any = _compiled(function, _nrt=False, no_cpython_wrapper=True, **options)
    config: Any = numba.config
    if not config.DISABLE_JIT:
        njit: Any = numba.njit
        alone = njit(error_model="numpy", _nrt=False)(function)
        alone._cache = _Cache(alone)
        compiled._insert = lambda *_: None  # no wrapper for Python; the next line makes one when Python calls
        compiled._compile_for_args = lambda *_: alone
        compiled.compile = _linked(compiled.compile)
    return cast(Callable[P, R], compiled)


def _linked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that compiles or loads, without machine code."""

    def compile_or_load(*args: P.args, **kwargs: P.kwargs) -> R:
        with linked_only():
            return function(*args, **kwargs)

    return compile_or_load


def _compiled(function: Callable[P, R], **options: bool | str) -> Callable[P, R]:
    njit: Any = numba.njit  # its type stubs do not know all options
    defaults: dict[str, bool | str] = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
    compiled = njit(**(defaults | options))(function)
    if COMPILES:
        compiled._cache = _Cache(compiled)
        template_of = compiled.get_call_template
        compiled.get_call_template = lambda args, kws: template_of(
            [_widened(arg) for arg in args], {name: _widened(arg) for name, arg in kws.items()}
        )
    return cast(Callable[P, R], compiled)


def _widened(given: Any) -> Any:
    """The type of an argument that a kernel is compiled for: no literal, and no integer of fewer than 64 bits."""
    unliteral: Any = types.unliteral  # untyped
    plain = unliteral(given)
    return types.int64 if isinstance(plain, types.Integer) else plain


def _at_rest(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function without garbage collection: the first kernel loads numba's large registries."""
    _collection.on_start(None)
    try:
        return function(*args, **kwargs)
    finally:
        _collection.on_end(None)


class _Cache(KernelCache):
    """Compiled versions on disk, which are loaded without garbage collection."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for arguments of given types, or None if it has to be compiled."""
        return _at_rest(super().load_overload, sig, target_context)


class _Collection(Listener):
    """Disable the garbage collector while kernels compile or load, since that makes many objects that all stay alive.

    This saves a sixth of the compile time and a fifth of a later start. Objects that exist after the first kernel are
    frozen (never collected), as they hardly ever become garbage: this saves a tenth of a start when the process ends.
    """

    def __init__(self) -> None:
        self.depth = 0  # nesting of kernels that are being compiled or loaded
        self.resting = False
        self.frozen = False
        self.seconds = 0.0  # CPU time of this process in which kernels were compiled or loaded
        self._began = 0.0

    def on_start(self, event: Any) -> None:
        """Count a kernel that begins to compile or load; disable the collector."""
        if self.depth == 0:
            self._began = time.process_time()
        self.depth += 1
        if gc.isenabled():
            self.resting = True
            gc.disable()
        if not self.frozen:
            import_registries()

    def on_end(self, event: Any) -> None:
        """Count a kernel that is ready; after the last one, enable the collector again."""
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.process_time() - self._began
        if self.depth == 0 and not self.frozen:
            self.frozen = True
            gc.freeze()
        if self.depth == 0 and self.resting:
            self.resting = False
            gc.enable()


_collection = _Collection()
register("numba:compile", _collection)  # type: ignore[no-untyped-call]


def working_seconds() -> float:
    """Return the CPU time of this process without that in which kernels were compiled or loaded, in seconds.

    A first run would count it as the time of a scheduler's decisions.
    """
    return time.process_time() - _collection.seconds


class _FirstCompilation(Listener):
    def __init__(self) -> None:
        self.tell: Callable[[], None] = lambda: None
        self._told = False

    def on_start(self, event: Any) -> None:
        """Call `tell`, once: a kernel is being compiled that is not in the cache."""
        if not self._told:
            self._told = True  # a listener that unregisters itself here would hide the event from the next one
            self.tell()

    def on_end(self, event: Any) -> None:
        """Do nothing."""


_first_compilation = _FirstCompilation()
register("numba:compile", _first_compilation)  # type: ignore[no-untyped-call]


def on_first_compilation(tell: Callable[[], None]) -> None:
    """Call `tell` once, before the first kernel that is not cached compiles: after an installation or a change.

    Of several calls the last counts, and none after that kernel.
    """
    _first_compilation.tell = tell


def _emit_prefetch(typing_context: Any, array: Any, index: Any, line: Any) -> Any:
    """The type and code of `_prefetch`, which is the processor's instruction."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        """Compute the address, which may lie outside the array, and pass it to LLVM."""
        records, place, offset = context.make_array(array)(context, builder, args[0]), args[1], args[2]
        size = context.get_abi_sizeof(context.get_data_type(array.dtype))
        address = builder.add(
            builder.ptrtoint(records.data, place.type), builder.mul(place, ir.Constant(place.type, size))
        )
        address = builder.add(address, builder.mul(offset, ir.Constant(offset.type, LINE)))
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], form)
        read, most_local, data = (ir.Constant(number, flag) for flag in (0, 3, 1))
        builder.call(function, [builder.inttoptr(address, pointer), read, most_local, data])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


_prefetch: Any = intrinsic(_emit_prefetch)


@leaf
def prefetch(records: Records, index: int, line: int) -> None:
    """Begin to load one cache line of a record that will soon be read. An index out of range does no harm.

    A large cluster's state exceeds the caches, and an event waits for memory longer than it computes.
    """
    if COMPILES:
        _prefetch(records, index, line)
