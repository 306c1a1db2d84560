"""The door for trace files: what they are is recognised, and damage, devices and bombs give one line."""

import bz2
import gzip
import io
import itertools
import lzma
import os
import re
import tarfile
import zipfile

import pytest

from envs.types import TraceError
from envs.workloads.readers import CsvTrace, GavelTrace, PhillyRawTrace, PhillyTrace, SwfTrace
from envs.workloads.readers import files as door
from envs.workloads.readers.files import read_lines, read_text

TEXT = "a,b\n" + "".join(f"{i},é{i}\n" for i in range(3000))
READERS = [
    CsvTrace({name: name for name in ("submit_time", "duration", "num_gpus")}),
    *(GavelTrace(), SwfTrace(), PhillyTrace(), PhillyRawTrace()),
]
HEADERS = {"csv": "submit_time,duration,num_gpus\n", "philly": "timestamp,duration,num_gpus,cluster\n"}
every_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


def refused(path, reader=None):
    """The line with which a file is refused."""
    with pytest.raises(TraceError) as error:
        "".join(read_lines(path)) if reader is None else reader.read(path)
    said = str(error.value)
    assert said.startswith(f"{path}: ")
    assert said.isprintable()
    return said


def tar(content):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo("jobs.csv")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def zipped(content):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("jobs.csv", content)
    return made.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_text_is_read_whatever_its_name_says(tmp_path, pack):
    for encoding, name in itertools.product(
        ("utf-8", "utf-8-sig", "utf-16", "utf-32"), ("jobs.csv", "jobs.csv.gz", "jobs.csv.GZ", "jobs")
    ):
        path = tmp_path / name
        path.write_bytes(pack(TEXT.encode(encoding)))
        assert "".join(read_lines(path)) == TEXT, (encoding, name)
        assert read_text(path) == TEXT, (encoding, name)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (zipped(b"a,b\n1,2\n"), "is a zip archive or an Excel workbook; unpack it"),
        (gzip.compress(zipped(b"a")), "is gzip of a zip archive"),
        (gzip.compress(tar(b"a,b\n")), "is gzip of a tar archive; unpack it and give the file with the jobs"),
        (tar(b"a,b\n"), "is a tar archive"),
        (gzip.compress(gzip.compress(b"a,b\n")), "is gzip of a file compressed by gzip; unpack it once"),
        (b"\x28\xb5\x2f\xfdxx", "is compressed by zstd"),
        (b"PAR1xxxx", "is a Parquet file, which only readers of tables read; export it as text"),
        (b"\n<!DOCTYPE HTML>\n<html>", "is a web page; download the file itself"),
        (b"version https://git-lfs.github.com/spec/v1\noid 1\n", "is a pointer of Git LFS"),
        ("a,b\n1,2\n3,é\n".encode("latin-1"), "row 3 has the byte 0xe9, .* Latin-1 or Windows-1252: convert it"),
        ("a,b\n1,2\n".encode("utf-16-le"), "row 1 has the byte 0x00, .* UTF-16 without a byte-order mark"),
        (b"\xff\xfea\x00\x00\xd8", "begins like UTF-16 and is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "file",  # compressed files hold the time
)
@pytest.mark.parametrize("read", [read_lines, read_text])
def test_what_is_not_read_is_named(tmp_path, content, said, read):
    path = tmp_path / "jobs.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=rf"jobs\.csv: .*{said}") as error:
        "".join(read(path))
    assert str(error.value).isprintable()
    assert "download the file again" not in str(error.value)


@every_reader
@pytest.mark.parametrize(
    ("pack", "how"),
    [(gzip.compress, "cut"), (bz2.compress, "cut"), (lzma.compress, "changed")],
)
def test_damaged_compression_is_named_with_the_remedy(tmp_path, reader, pack, how):
    rows = "".join(f"{i},{i * i},{i**3}\n" for i in range(4_000))
    content = bytearray(pack((HEADERS.get(reader.name, "") + rows).encode()))
    middle = len(content) // 2
    content[middle : middle + 8] = bytes(255 - each for each in content[middle : middle + 8])
    path = tmp_path / "trace"
    path.write_bytes(content[:middle] if how == "cut" else content)
    said = refused(path, reader)
    assert "compression is damaged" in said
    assert said.endswith("download the file again")


@every_reader
def test_pipes_devices_and_folders_are_never_read(tmp_path, reader):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", tmp_path):
        assert "give a regular file" in refused(type(tmp_path)(path), reader)


def test_a_file_that_is_not_there_or_not_ours(tmp_path, monkeypatch):
    assert "cannot be opened (No such file or directory)" in refused(tmp_path / "absent")
    assert "cannot be opened (File name too long)" in refused(tmp_path / ("x" * 300))


@every_reader
@pytest.mark.parametrize("text", ["0", "1\n", ",", "[],"])
def test_a_bomb_is_refused_within_the_limits(tmp_path, monkeypatch, reader, text):
    """A small file that decompresses to much: to one line or many, to short values, to lists of JSON."""
    monkeypatch.setenv(door.LIMIT_VARIABLE, "1")
    path = tmp_path / "bomb.gz"
    start = "[" if reader.name == "philly_raw" else HEADERS.get(reader.name, "")
    path.write_bytes(gzip.compress((start + text * (2_000_000 // len(text))).encode()))
    assert re.search(r"more than 1(,000,000| million) characters", refused(path, reader))


@pytest.mark.parametrize("reader", READERS[:3], ids=lambda reader: reader.name)
def test_short_values_are_limited_by_their_number(tmp_path, monkeypatch, reader):
    """900,000 characters are within the limit, 450,000 values are not."""
    monkeypatch.setenv(door.LIMIT_VARIABLE, "1")
    path = tmp_path / "many"
    row = {"csv": ",", "gavel": "\t", "swf": " "}[reader.name].join("1" * 50) + "\n"
    path.write_text(HEADERS.get(reader.name, "") + row * 9_000)
    assert "or 100,000 values" in refused(path, reader)


def test_values_of_json_are_limited_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setenv(door.LIMIT_VARIABLE, "1")
    path = tmp_path / "log"
    path.write_text("[" + "[]," * 90_000 + "[]]")
    assert "has more than 100,000 values" in refused(path, PhillyRawTrace())


@pytest.mark.parametrize("value", ["0", "-1", "many", "1e3", "9" * 400])
def test_the_limit_must_be_a_number(tmp_path, monkeypatch, value):
    path = tmp_path / "jobs.csv"
    path.write_text("a\n")
    monkeypatch.setenv(door.LIMIT_VARIABLE, value)
    with pytest.raises(TraceError, match=r"\$MURMURATION_MAX_TRACE_MB is .*; it must be a whole number from 1 to"):
        read_text(path)
