"""The folder of compiled functions: whose it is, what is kept there, and what happens without one."""

import errno
import os
import stat
import tempfile
from pathlib import Path

import pytest

from envs.simulation.compiled import kernel_cache
from envs.simulation.compiled.jit import COMPILES, jit
from envs.simulation.compiled.kernel_cache import find_kernel_folder
from envs.types import MurmurationError

pytestmark = pytest.mark.skipif(not COMPILES, reason="nothing is compiled")


def double(x: int) -> int:
    """Return twice a number."""
    return 2 * x


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home and a temporary folder of this test."""
    for name in ("MURMURATION_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    find_kernel_folder.cache_clear()
    kernel_cache._remove_unused.cache_clear()
    yield tmp_path / "home"
    find_kernel_folder.cache_clear()


def kept(folder):
    """The files of a folder."""
    return sorted(folder.glob("*.kernel"))


def test_code_is_kept_for_the_user_alone_and_a_damaged_file_is_compiled_again(home):
    folder = home / ".cache" / "murmuration" / "kernels"
    assert jit(double)(4) == 8
    (file,) = kept(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    content = file.read_bytes()
    for damaged in (b"", content[:100]):
        file.write_bytes(damaged)
        assert jit(double)(4) == 8
        assert len(file.read_bytes()) > 1000


def test_code_for_other_types_is_not_used_even_under_an_equal_key(home, monkeypatch):
    monkeypatch.setattr(kernel_cache, "find_key", lambda *_: "0" * 64)
    assert jit(double)(4) == 8
    assert jit(double)(4.5) == 9.0  # type: ignore[arg-type]


def test_code_that_was_not_used_for_long_is_removed(home, monkeypatch):
    folder = home / ".cache" / "murmuration" / "kernels"
    folder.mkdir(parents=True)
    now = 1_700_000_000.0
    monkeypatch.setattr("time.time", lambda: now)
    monkeypatch.setattr(kernel_cache, "MOST_BYTES", 25)
    for name, days in (("old", 31), ("first", 3), ("second", 2), ("third", 1)):
        file = folder / f"{name}.kernel"
        file.write_bytes(b"0123456789")
        os.utime(file, (now - days * 24 * 3600,) * 2)
    jit(double)(4)
    assert [file.stem.partition("-")[0] for file in kept(folder)] == ["double", "second", "third"]


def _let_others_write(folder, monkeypatch):
    folder.chmod(0o777)


def _give_away(folder, monkeypatch):
    if os.getuid() == 0:
        os.chown(folder, 1, 1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)


def _link_from_another_user(folder, monkeypatch):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))
    if os.getuid() == 0:
        os.chown(folder, 1, 1, follow_symlinks=False)
    else:
        _give_away(folder, monkeypatch)


@pytest.mark.parametrize("spoil", [_let_others_write, _give_away, _link_from_another_user])
def test_a_folder_that_another_user_may_write_is_not_used(home, monkeypatch, spoil):
    folder = home / ".cache" / "murmuration" / "kernels"
    folder.mkdir(parents=True)
    spoil(folder, monkeypatch)
    assert find_kernel_folder() == home.parent / f"murmuration-kernels-{os.getuid()}"
    monkeypatch.setenv("MURMURATION_CACHE", str(folder))
    find_kernel_folder.cache_clear()
    with pytest.raises(MurmurationError, match=r"MURMURATION_CACHE=.*; name a folder that you alone can write$"):
        jit(double)(4)


def test_without_a_folder_kernels_are_compiled_in_each_process(home, monkeypatch):
    def refuse(self: Path, **_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert find_kernel_folder() is None
    assert jit(double)(4) == 8


def test_a_full_disk_keeps_nothing(home, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    assert jit(double)(4) == 8
    assert kept(home / ".cache" / "murmuration" / "kernels") == []
