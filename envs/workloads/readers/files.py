"""The door for trace files: each is recognised by its first bytes, decompressed, decoded and read within limits."""

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from envs.types import TraceError

LIMIT_VARIABLE = "MURMURATION_MAX_TRACE_MB"  # sets another limit than DEFAULT_MEGABYTES
DEFAULT_MEGABYTES = 256  # million characters of a trace file, decompressed
CHARACTERS_PER_VALUE = (
    10  # at least, on average, of a value and of a line; fewer need more time and memory than the text
)
LONGEST_LINE = 1_000_000  # characters

_Stream = io.BufferedReader | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile
# First bytes of what is read, with the way to decompress it.
_COMPRESSED: dict[bytes, tuple[str, Callable[[io.BufferedReader], _Stream]]] = {
    b"\x1f\x8b": ("gzip", lambda raw: gzip.GzipFile(fileobj=raw)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMAFile),
}
# First bytes of what is not read, and what to do with it.
_UNREAD = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; unpack it, or export the table as CSV",
    b"PK\x05\x06": "an empty zip archive; give a file with jobs",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; unpack it with unzstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it",
    b"PAR1": "a Parquet file, which only readers of tables read; export it as text",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"\x89HDF": "an HDF5 file; export the table as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; export the table as CSV",
    b"version https://git-lfs": "a pointer of Git LFS; get the file itself with  git lfs pull",
}
_WEB_PAGE = re.compile(rb"\s*<(!doctype html|html)", re.IGNORECASE)
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_NO_UTF8 = re.compile("[\udc80-\udcff]")  # what the decoder makes of bytes that are not UTF-8


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file with their line ends; a byte-order mark is skipped.

    Files that gzip, bzip2 or xz compressed are decompressed, whatever their names are. UTF-16 with a mark is decoded.

    Raises:
        TraceError: the file is no regular file, is not text, is damaged, or exceeds a limit.
    """
    left = most_characters()
    with _open(path) as file:
        for row, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), ""), start=1):
            left -= max(len(line), CHARACTERS_PER_VALUE)
            if left < 0:
                raise too_large(path)
            if len(line) > LONGEST_LINE:
                raise TraceError(
                    f"{path}: row {row} has more than {LONGEST_LINE:,} characters; give a file with one job per line"
                )
            if not line.isascii() or "\0" in line:
                _check_text(path, line, row)
            yield line


def read_text(path: Path) -> str:
    """Return the whole text of a file; see `read_lines`.

    Raises:
        TraceError: the file is no regular file, is not text, is damaged, or exceeds a limit.
    """
    most = most_characters()
    with _open(path) as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise too_large(path)
    _check_text(path, text, 1)
    return text


def limit_values(path: Path, rows: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """Yield rows of (line number, cells) up to the limit on their values.

    Raises:
        TraceError: there are more values.
    """
    left = most_characters() // CHARACTERS_PER_VALUE
    for row, cells in rows:
        left -= len(cells)
        if left < 0:
            raise too_large(path)
        yield row, cells


def most_characters() -> int:
    """Return the most characters of a trace file, decompressed: $MURMURATION_MAX_TRACE_MB million, or the default.

    Raises:
        TraceError: the variable is no whole number from 1 to 1,000,000.
    """
    text = os.environ.get(LIMIT_VARIABLE) or str(DEFAULT_MEGABYTES)
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= 1_000_000:
        raise TraceError(f"${LIMIT_VARIABLE} is {text[:40]!r}; it must be a whole number from 1 to 1,000,000")
    return int(text) * 1_000_000


@contextmanager
def _open(path: Path) -> Iterator[io.TextIOWrapper]:
    """Open a file as text; errors of the file become one line."""
    how = encoding = ""
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode):
            found = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device, which may have no end"
            raise TraceError(f"{path}: is {found}; give a regular file")
        with path.open("rb") as raw:
            how, opener = next((each for mark, each in _COMPRESSED.items() if _head(raw).startswith(mark)), ("", None))
            with opener(raw) if opener else raw as stream:
                head = _head(stream)
                _refuse_other(path, head, how)
                encoding = next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8-sig")
                errors = "surrogateescape" if encoding == "utf-8-sig" else "strict"
                yield io.TextIOWrapper(stream, encoding=encoding, errors=errors, newline="")
    except UnicodeError as error:
        raise TraceError(
            f"{path}: cannot be read as text: it begins like {encoding.upper()} and is damaged; save it as UTF-8"
        ) from error
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        if how and getattr(error, "errno", None) is None:
            raise TraceError(
                f"{path}: cannot be read as text: its {how} compression is damaged ({reason}); download the file again"
            ) from error
        raise TraceError(f"{path}: cannot be opened ({reason}); give a file that you can read") from error


def _head(stream: _Stream) -> bytes:
    """Return the first bytes of a stream that is at its beginning."""
    head = stream.read(512)
    stream.seek(0)
    return head


def _refuse_other(path: Path, head: bytes, how: str) -> None:
    """Refuse what is no text by its first bytes; `how` is the compression that was undone."""
    within = f"{how} of " if how else ""
    found = next((what for mark, what in _UNREAD.items() if head.startswith(mark)), "")
    if how and (twice := next((name for mark, (name, _) in _COMPRESSED.items() if head.startswith(mark)), "")):
        found = f"a file compressed by {twice}; unpack it once"
    if head[257:262] == b"ustar":
        found = "a tar archive; unpack it and give the file with the jobs"
    if _WEB_PAGE.match(head):
        found = "a web page; download the file itself, such as the raw file of a repository"
    if found:
        raise TraceError(f"{path}: is {within}{found}")


def _check_text(path: Path, text: str, row: int) -> None:
    """Assert that a text that begins in a row of the file has no byte that is not UTF-8, and no zero byte.

    Raises:
        TraceError: names the row of the first such byte, and the likely encoding.
    """
    wrong = _NO_UTF8.search(text)
    if wrong is None and "\0" not in text:
        return
    at = wrong.start() if wrong else text.index("\0")
    byte = ord(text[at]) & 0xFF
    remedy = (
        "the file may be in Latin-1 or Windows-1252: convert it, as with  iconv -f WINDOWS-1252 -t UTF-8"
        if byte
        else "the file is no text, or UTF-16 without a byte-order mark: save it as UTF-8"
    )
    row += text.count("\n", 0, at)
    raise TraceError(
        f"{path}: cannot be read as text: row {row} has the byte 0x{byte:02x}, which is not UTF-8 text; {remedy}"
    )


def too_large(path: Path) -> TraceError:
    """Return the error about a file that exceeds the limit on characters."""
    most = most_characters()
    return TraceError(
        f"{path}: has more than {most // 1_000_000:,} million characters, or {most // CHARACTERS_PER_VALUE:,} values, "
        f"once it is decompressed; cut it into parts, or set ${LIMIT_VARIABLE} if there is memory for more"
    )
