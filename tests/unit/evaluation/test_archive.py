"""Archives of records: what is written is read, whoever else writes, and hostile files are refused in one line."""

import multiprocessing
import shutil
import struct
import subprocess
import zipfile

import pytest

from envs.evaluation.archive import LARGEST, check_archive, list_recorded, read_member, write_member
from envs.evaluation.record_schema import RecordError
from envs.types import MurmurationError

PROCESSES, RECORDS_EACH = 2, 8


@pytest.fixture
def archive(tmp_path):
    """Where an archive of two records is."""
    path = tmp_path / "records" / "toy-v1.zip"
    write_member(path, "srtf", "2\n")
    write_member(path, "fifo", "1\n")
    return path


def test_records_are_added_replaced_and_read_one_by_one(archive):
    assert list_recorded(archive) == ["fifo", "srtf"]
    assert (read_member(archive, "fifo"), read_member(archive, "srtf")) == ("1\n", "2\n")
    write_member(archive, "fifo", "é\n")
    assert (read_member(archive, "fifo"), read_member(archive, "srtf")) == ("é\n", "2\n")
    with pytest.raises(RecordError, match="toy-v1.zip has none of this name"):
        read_member(archive, "las")
    assert list_recorded(archive.with_name("none.zip")) == []


def test_equal_records_give_equal_bytes_in_any_order_and_nothing_else_stays(archive):
    other = archive.with_name("other.zip")
    write_member(other, "fifo", "former\n")
    write_member(other, "srtf", "2\n")
    write_member(other, "fifo", "1\n")
    assert archive.read_bytes() == other.read_bytes()
    assert sorted(path.name for path in archive.parent.iterdir()) == ["other.zip", "toy-v1.zip"]


@pytest.mark.skipif(shutil.which("unzip") is None, reason="needs unzip")
def test_unzip_shows_a_record(archive):
    done = subprocess.run(["unzip", "-p", str(archive), "fifo.jsonl"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n")


def write_several(path, number):
    for record in range(RECORDS_EACH):
        write_member(path, f"s{number}_{record}", f"{number} {record}\n")


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "toy-v1.zip"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_several, args=(path, number)) for number in range(PROCESSES)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * PROCESSES
    assert len(list_recorded(path)) == PROCESSES * RECORDS_EACH
    assert read_member(path, "s1_7") == "1 7\n"
    assert [each.name for each in tmp_path.iterdir()] == ["toy-v1.zip"]


def test_a_failed_write_keeps_the_archive_and_releases_the_lock(archive, monkeypatch):
    before = archive.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "writestr", lambda *arguments, **options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_member(archive, "las", "3\n")
    assert archive.read_bytes() == before
    write_member(archive, "las", "3\n")
    assert list_recorded(archive) == ["fifo", "las", "srtf"]


def test_a_damaged_record_is_named_before_and_while_others_are_written_and_can_be_replaced(archive):
    content = bytearray(archive.read_bytes())
    content[content.index(b"BZh") + 12] ^= 1  # within the first member
    archive.write_bytes(bytes(content))
    for call in (lambda: check_archive(archive), lambda: write_member(archive, "las", "3\n")):
        with pytest.raises(MurmurationError, match=r"toy-v1.zip: fifo is no record .*; restore the file, or delete it"):
            call()
    assert read_member(archive, "srtf") == "2\n"
    write_member(archive, "fifo", "1\n")
    check_archive(archive)


def packed(path, members, method=zipfile.ZIP_BZIP2):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members:
            file.writestr(name, content)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([("fifo.jsonl", "1"), ("fifo.jsonl", "2")], "two members 'fifo.jsonl'"),
        ([("../fifo.jsonl", "1")], "a member '../fifo.jsonl'"),
        ([("fifo.txt", "1")], "a member 'fifo.txt'"),
        ([(".jsonl", "1")], "a member '.jsonl'"),
        ([("\x1b[2J.jsonl", "1")], r"a member '\\x1b\[2J.jsonl'"),
        ([("a" * 5000, "1")], "a member 'aaa"),
    ],
)
def test_archives_of_other_members_are_refused_in_one_line(tmp_path, members, said):
    path = tmp_path / "toy-v1.zip"
    packed(path, members)
    with pytest.raises(MurmurationError, match=said) as error:
        list_recorded(path)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_records_that_are_packed_in_another_way_are_refused(tmp_path, method):
    path = tmp_path / "toy-v1.zip"
    packed(path, [("fifo.jsonl", "1")], method)
    with pytest.raises(RecordError, match="is not packed with bzip2"):
        read_member(path, "fifo")


def test_a_small_file_that_unpacks_to_more_than_the_limit_is_refused_whatever_size_it_states(tmp_path):
    path = tmp_path / "toy-v1.zip"
    packed(path, [("fifo.jsonl", b" " * (2 * LARGEST))])
    assert path.stat().st_size < 1000
    with pytest.raises(RecordError, match="has more than 64 MB"):
        read_member(path, "fifo")
    size = struct.pack("<L", 2 * LARGEST)
    path.write_bytes(path.read_bytes().replace(size, struct.pack("<L", 10)))
    with pytest.raises(RecordError, match="has more than 64 MB"):
        read_member(path, "fifo")


def test_a_large_archive_is_refused_unread(tmp_path):
    path = tmp_path / "toy-v1.zip"
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(MurmurationError, match="has more than 64 MB"):
        list_recorded(path)
