"""Compiled functions on disk, each in a file that is named after all that its code depends on.

A copy of the sources, another clone, an installed wheel and a container image therefore share what one of them has
compiled, and nothing there is ever out of date. The files are pickles with machine code: only a folder of the user's
own is used.
"""

import os
import pickle
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import sigutils
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from envs.simulation.compiled.kernel_key import UnknownError, find_functions, find_key, has_changed, is_inlined
from envs.types import MurmurationError

VARIABLE = "MURMURATION_CACHE"  # the environment variable that names the folder
SUFFIX = ".kernel"
UNUSED_SECONDS, MOST_BYTES = 30 * 24 * 3600.0, 2**31  # what the folder keeps; one version of all takes a twelfth
_dumps: Any = dumps  # untyped
_normalize: Any = sigutils.normalize_signature
_NoCache: Any = NullCache
_changed: set[Any] = set()  # functions of this process that were compiled with other globals than their keys name


@cache
def find_kernel_folder() -> Path | None:
    """Return the folder for compiled functions, which it creates for the user alone; None if there is none.

    It is the one that `MURMURATION_CACHE` names. Otherwise the user's cache, or where that cannot be written or others
    can write it, one among the temporary files.

    Raises:
        MurmurationError: `MURMURATION_CACHE` names a folder that cannot be used.
    """
    named = os.environ.get(VARIABLE)
    if named:
        problem = _find_problem(Path(named))
        if problem:
            raise MurmurationError(f"{VARIABLE}={named}: {problem}; name a folder that you alone can write")
        return Path(named).absolute()
    places = []
    with suppress(RuntimeError):  # no home
        home = os.environ.get("XDG_CACHE_HOME", "")
        places.append((Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "murmuration" / "kernels")
    with suppress(OSError):  # no temporary folder
        places.append(Path(tempfile.gettempdir()) / f"murmuration-kernels-{os.getuid()}")
    return next((place for place in places if not _find_problem(place)), None)


def _find_problem(folder: Path) -> str:
    """Make a folder, and return why what lies in it cannot be trusted; empty if it can.

    Root may own it, as in a container image, where it may also be read-only.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        owners = {found.st_uid, folder.lstat().st_uid}
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if not owners <= {os.getuid(), 0}:
        return "it belongs to another user, and compiled code is run"
    return "other users may write it, and compiled code is run" if found.st_mode & 0o022 else ""


class KernelCache(_NoCache):  # type: ignore[misc]  # a class without types
    """The compiled versions of one function; takes the place of numba's cache.

    Args:
        compiled: numba's dispatcher.
    """

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for arguments of given types, or None if it has to be compiled."""
        target_context.refresh()
        path = self._find_path(sig, target_context.codegen())
        if path is None:
            return None
        try:
            data = path.read_bytes()
            payload = pickle.loads(data)
        except (OSError, EOFError, pickle.UnpicklingError):  # absent, or damaged
            return None
        with suppress(OSError):
            os.utime(path)
        found: Any = CompileResult._rebuild(target_context, *payload)  # type: ignore[no-untyped-call]
        # Classes of a script that is run are pickled with the code, and then are others than the script's own.
        return found if found.signature.args == tuple(_normalize(sig)[0]) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code, if the folder can be written.

        Not if a global has changed after its function's key was found: neither this function nor any that calls it,
        which then has code in it that its own key does not name.
        """
        path = self._find_path(sig, data.codegen)
        if path is None or data.library.has_dynamic_globals:
            return
        functions = find_functions(self._compiled)
        read = [self._compiled, *filter(is_inlined, functions)]
        _changed.update(filter(has_changed, read))
        if not _changed.isdisjoint(functions):
            return
        _remove_unused(path.parent)
        with suppress(OSError), tempfile.NamedTemporaryFile(dir=path.parent, suffix=SUFFIX, delete=False) as file:
            try:
                file.write(_dumps(data._reduce()))
                file.close()
                os.replace(file.name, path)  # another process sees all of it or nothing
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise

    def _find_path(self, sig: Any, codegen: Any) -> Path | None:
        folder = find_kernel_folder()
        if folder is None:
            return None
        try:
            key = find_key(self._compiled, sig, codegen.magic_tuple())
        except UnknownError:
            return None
        return folder / f"{self._compiled.__name__}-{key[:40]}{SUFFIX}"


@cache
def _remove_unused(folder: Path) -> None:
    """Remove code that was not used for long, then what was used least recently as long as there is too much.

    Once in a process, when it first saves code.
    """
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError):
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
    size, oldest = sum(each[1] for each in found), time.time() - UNUSED_SECONDS
    for used, bytes_, path in sorted(found):
        if used < oldest or size > MOST_BYTES:
            with suppress(OSError):
                path.unlink()
            size -= bytes_
