"""A last place for compiled code, where numba finds none: read-only sources and no usable home, as in containers."""

import os
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching

from envs.types import MurmurationError

CACHE_VARIABLE = "NUMBA_CACHE_DIR"  # numba's own environment variable


@cache
def find_temporary_cache() -> Path:
    """Return the user's own folder for compiled code among the temporary ones, and say on stderr that it is used.

    It has the same name at the next start, so that nothing is compiled again. Numba runs what it finds there, so a
    folder that another user owns or may write is not used. Processes that this one starts use it, too.

    Raises:
        MurmurationError: no folder can be written.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"murmuration-numba-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            folder = Path(tempfile.mkdtemp(prefix="murmuration-numba-"))
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise MurmurationError(
            f"compiled code: no folder can be written ({reason}); set {CACHE_VARIABLE}=<folder> to one that can"
        ) from error
    sys.stderr.write(f"note: compiled code is kept in {folder}; {CACHE_VARIABLE}=<folder> chooses another place\n")
    os.environ[CACHE_VARIABLE] = str(folder)
    return folder


class TemporaryCacheLocator(caching.InTreeCacheLocator):
    """Numba's place for compiled code where neither the folder of the source nor the user's home can be written.

    Containers often have neither. Numba would refuse to compile.
    """

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        inner: str = self.get_suitable_cache_subpath(py_file)  # type: ignore[no-untyped-call]
        self._cache_path = str(find_temporary_cache() / inner)


def add_temporary_cache() -> None:
    """Add the temporary folder to the places that numba tries, as the last one."""
    caching.CacheImpl._locator_classes.append(TemporaryCacheLocator)
