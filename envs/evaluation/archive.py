"""The file that keeps the records of one task: a zip archive with one member for each scheduler.

A member has the scheduler's name and the suffix `.jsonl`, and is packed with bzip2, so `unzip -p <archive> fifo.jsonl`
prints a record. Equal records give equal bytes: members are sorted, and their times are fixed. Processes may write into
one archive at the same time: each one locks it, reads the other members, and replaces the file by a complete one.
"""

import bz2
import copy
import fcntl
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envs.evaluation.files import whole_file
from envs.evaluation.record_schema import RecordError, show
from envs.types import MurmurationError

ARCHIVE_SUFFIX = ".zip"
MEMBER_SUFFIX = ".jsonl"
LARGEST = 1 << 26  # bytes of an archive, and of a record's text; one of 100,000 jobs has less than 1 MB
BEGINNING = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can state
READABLE_BY_ALL = 0o644 << 16  # permissions, as a zip archive states them
DAMAGE = (OSError, EOFError, ValueError, RuntimeError, struct.error, zipfile.BadZipFile)  # what reading a file raises


def list_recorded(archive: Path) -> list[str]:
    """Return the schedulers that have a record in an archive, sorted; none if there is no such file.

    Raises:
        MurmurationError: it is damaged, or has members that are no records.
    """
    if not archive.exists():
        return []
    try:
        with _open(archive) as file:
            return sorted(_members(file))
    except RecordError as error:
        raise MurmurationError(f"{archive}: {error}; restore it, or delete it and record the task again") from error


def read_member(archive: Path, scheduler: str) -> str:
    """Return the text of a scheduler's record.

    Raises:
        RecordError: there is none, it cannot be read, or it is too large.
    """
    with _open(archive) as file:
        members = _members(file)
        if scheduler not in members:
            raise RecordError(f"is no record: {archive.name} has none of this name")
        return _unpack(file, members[scheduler])


def write_member(archive: Path, scheduler: str, text: str) -> None:
    """Add a scheduler's record to an archive, or replace it; the other members stay as they are.

    Raises:
        MurmurationError: the archive or another of its members is damaged.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with _locked(archive):
        texts = {**_read_others(archive, scheduler), scheduler: text}
        with whole_file(archive) as part, zipfile.ZipFile(part, "w") as file:
            for name in sorted(texts):
                member = zipfile.ZipInfo(f"{name}{MEMBER_SUFFIX}", BEGINNING)
                member.create_system, member.external_attr = 3, READABLE_BY_ALL  # as on Unix, wherever it is written
                file.writestr(member, texts[name].encode(), zipfile.ZIP_BZIP2, compresslevel=9)


def check_archive(archive: Path) -> None:
    """Read every member of an archive, so that a damaged one is found before a scheduler is played for hours.

    Raises:
        MurmurationError: the archive or a member is damaged.
    """
    _read_others(archive, "")


def _read_others(archive: Path, scheduler: str) -> dict[str, str]:
    found = {}
    for name in list_recorded(archive):
        if name == scheduler:
            continue
        try:
            found[name] = read_member(archive, name)
        except RecordError as error:
            advice = "restore the file, or delete it and record the task again"
            raise MurmurationError(f"{archive}: {name} {error}; {advice}") from error
    return found


def _is_there(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path, from which another process may delete it at any time."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def _locked(archive: Path) -> Iterator[None]:
    """Wait until no other process writes the archive. The file of the lock is deleted afterwards."""
    path = archive.with_name(f".{archive.name}.lock")
    while True:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # A process that waited may hold the lock of a file that the one before it has deleted.
            if not _is_there(file.fileno(), path):
                continue
            try:
                yield
            finally:
                path.unlink()
            return


@contextmanager
def _open(archive: Path) -> Iterator[zipfile.ZipFile]:
    try:
        if archive.stat().st_size > LARGEST:
            raise RecordError(f"is no archive of records: it has more than {LARGEST >> 20} MB")
        with zipfile.ZipFile(archive) as file:
            yield file
    except RecordError:  # is a ValueError, too
        raise
    except DAMAGE as error:
        raise RecordError(f"is no archive of records ({type(error).__name__} while it was read)") from error


def _members(file: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members by scheduler.

    Raises:
        RecordError: a member is no record, or two have the same name.
    """
    found: dict[str, zipfile.ZipInfo] = {}
    for member in file.infolist():
        name = member.filename.removesuffix(MEMBER_SUFFIX)
        if name == member.filename or not name.isprintable() or "/" in name or not name:
            raise RecordError(f"is no archive of records: it has a member {show(member.filename)}")
        if name in found:
            raise RecordError(f"is no archive of records: it has two members {show(member.filename)}")
        found[name] = member
    return found


def _unpack(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    """Return the text of a member.

    Raises:
        RecordError: it is damaged, packed in another way, or too large.
    """
    if member.compress_type != zipfile.ZIP_BZIP2:
        raise RecordError("is no record: it is not packed with bzip2")
    # `zipfile` sets no limit to what bzip2 unpacks, which may be a million times its size: read the packed bytes only.
    packed = copy.copy(member)
    packed.compress_type, packed.file_size, packed.CRC = zipfile.ZIP_STORED, member.compress_size, None  # type: ignore
    try:
        content = bz2.BZ2Decompressor().decompress(file.read(packed), LARGEST + 1)
        text = content.decode("utf-8")
    except DAMAGE as error:
        raise RecordError(f"is no record ({type(error).__name__} while it was read)") from error
    if len(content) > LARGEST:
        raise RecordError(f"is no record: it has more than {LARGEST >> 20} MB")
    if zlib.crc32(content) != member.CRC:
        raise RecordError("is no record: its bytes are not those of its checksum")
    return text
