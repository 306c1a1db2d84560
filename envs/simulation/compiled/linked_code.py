"""Code of functions that only compiled functions call: kept as LLVM's intermediate code, without machine code.

Numba optimises each function together with all that it calls, and makes machine code of it. For a function at depth `n`
below a kernel, this happens `n` times more, and nobody runs the results. `linked_only` leaves this out: LLVM optimises
such functions once in each kernel. A first start takes a third less time.

It uses numba's classes of code libraries, which are undocumented (hence the pinned version).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba.core.codegen
import numba.core.compiler_lock
import numba.core.registry

_JitLibrary: Any = numba.core.codegen.JITCodeLibrary
_lock: Any = numba.core.compiler_lock.global_compiler_lock


class _NoEnvironments:
    """Numba's code generator, but it sets no function's environment, which lies in machine code."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing."""


class LinkedLibrary(_JitLibrary):  # type: ignore[misc]  # a class without types
    """The code of a function, to be linked into its callers; it has no address."""

    @property
    def codegen(self) -> Any:
        """The code generator, without environments."""
        return _NoEnvironments(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, which means that there is no machine code."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Return the intermediate code for the cache."""
        return (self.name, "bitcode", self._get_module_for_linking().as_bitcode())

    def _optimize_functions(self, ll_module: Any) -> None:
        """Run LLVM's passes on the functions that the module defines; numba does so on those that it only declares."""
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                manager, builder = self._codegen._function_pass_manager()
                manager.run(function, builder)

    def _optimize_final_module(self) -> None:
        """Leave it to the callers."""

    def _finalize_final_module(self) -> None:
        """Make no machine code."""
        self._finalized = True


@contextmanager
def linked_only() -> Iterator[None]:
    """Compile or load functions as code to be linked into their callers."""
    codegen: Any = numba.core.registry.cpu_target.target_context.codegen()
    with _lock:
        before = codegen._library_class
        codegen._library_class = LinkedLibrary
        try:
            yield
        finally:
            codegen._library_class = before
