"""Compiled code where neither the source's folder nor a home can be written, as in containers."""

import errno
import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest
from numba.core import caching

from envs.simulation.jit import jit
from envs.simulation.kernel_cache import TemporaryCacheLocator, find_temporary_cache
from envs.types import MurmurationError


@pytest.fixture
def container(tmp_path, monkeypatch):
    """Numba's own places cannot be written; the temporary folder is of this test."""

    def refuse(self):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("InTreeCacheLocator", "UserWideCacheLocator"):
        monkeypatch.setattr(getattr(caching, name), "ensure_cache_path", refuse)
    monkeypatch.setattr(TemporaryCacheLocator, "ensure_cache_path", caching._CacheLocator.ensure_cache_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    find_temporary_cache.cache_clear()
    yield tmp_path
    find_temporary_cache.cache_clear()


def double(x: int) -> int:
    """Return twice a number."""
    return 2 * x


def test_kernels_are_kept_in_a_private_temporary_folder_and_one_line_says_so(container, capsys):
    assert jit(double)(4) == 8
    assert jit(double)(4) == 8
    (folder,) = container.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.rglob("*.nbc"))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"note: compiled code is kept in {folder}; NUMBA_CACHE_DIR=<folder>")
    assert os.environ["NUMBA_CACHE_DIR"] == str(folder), "processes that are started use the same"
    find_temporary_cache.cache_clear()
    assert find_temporary_cache() == folder, "the next start compiles nothing again"


def test_a_folder_that_others_may_write_is_not_used(container):
    planted = container / f"murmuration-numba-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    assert find_temporary_cache() != planted
    assert find_temporary_cache().parent == container


def test_no_folder_at_all_is_one_line(container, monkeypatch):
    def refuse(self: Path, **_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(MurmurationError, match=r"no folder can be written \(Read-only file system\); set "):
        jit(double)
