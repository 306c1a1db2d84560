"""Reservations as scontrol prints them."""

from datetime import datetime

import pytest

from baselines.slurm.reservations import read_reservations
from envs.types import MurmurationError

LINE = (
    "ReservationName=root_1 StartTime=2026-03-01T12:00:00 EndTime=2026-03-01T14:00:00 Duration=02:00:00 "
    "Nodes=n[0-1],login NodeCnt=3 CoreCnt=6 Features=(null) Flags=MAINT,SPEC_NODES Users=root State=INACTIVE"
)


def test_lines_of_scontrol_become_numbers_of_nodes_and_seconds(tmp_path):
    """Of a second one, no node has GPUs."""
    path = tmp_path / "reservations.txt"
    path.write_text(f"{LINE}\n\n{LINE.replace('root_1', 'login').replace('n[0-1],', '')}\n")
    found = read_reservations(path, ["n1", "n0", "n2"], datetime(2026, 3, 1))
    assert found == {"root_1": {"nodes": [1, 0], "start": 43200.0, "end": 50400.0}}


@pytest.mark.parametrize(
    "line", ["ReservationName=a Nodes=n0", LINE.replace("2026-03-01T14", "later"), "No reservations in the system"]
)
def test_a_line_without_name_nodes_or_times_is_named(tmp_path, line):
    path = tmp_path / "reservations.txt"
    path.write_text(line)
    with pytest.raises(MurmurationError, match=r"reservations.txt:1: .*make the file with  scontrol"):
        read_reservations(path, ["n0"], datetime(2026, 3, 1))
