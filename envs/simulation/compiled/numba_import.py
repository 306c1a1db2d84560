"""Import numba without SciPy's linear algebra, and without garbage collection; this takes most of a later start.

Numba imports SciPy's linear algebra only to learn whether it is installed, which takes as long as all of numba. It is a
requirement here. A function that uses it (`np.dot` in compiled code) still imports it when it first runs.
"""

import gc
import sys
from types import ModuleType

LINEAR_ALGEBRA = "scipy.linalg.cython_blas"


def import_registries() -> None:
    """Import numba's registries of NumPy functions, which numba does itself when the first kernel compiles or loads."""
    absent = LINEAR_ALGEBRA not in sys.modules
    stand_in = sys.modules.setdefault(LINEAR_ALGEBRA, ModuleType(LINEAR_ALGEBRA))
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        if absent and sys.modules.get(LINEAR_ALGEBRA) is stand_in:
            del sys.modules[LINEAR_ALGEBRA]


def _import_numba() -> None:
    """Import numba, and freeze (never collect) its objects, which are many and all stay alive."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        import numba  # noqa: F401
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


_import_numba()
