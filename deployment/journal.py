"""The write-ahead log of a bridge: every action before and after it, one JSON object on one line."""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deployment.reading import ProtocolError, parse_json

INTENDED, CARRIED_OUT, REFUSED, SHADOWED = "intended", "carried out", "refused", "shadowed"
DECIDED, POSTPONED, MEASURED = "decided", "postponed", "measured"


class Journal:
    """Lines about actions, which are on the disk before an action begins. One process at a time can have it.

    Args:
        path: of the file; lines of an earlier bridge stay and count, and an unfinished last line is cut off.

    Raises:
        ProtocolError: a line is damaged, or another process writes to the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ProtocolError(
                f"{path}: another process writes to it; end that one, or choose another folder"
            ) from None
        whole = path.read_bytes().rpartition(b"\n")[0]
        os.truncate(path, len(whole) + 1 if whole else 0)
        self.earlier = list(read_journal(path))
        self.counts = Counter(f"{line['action']} {line['phase']}" for line in self.earlier)

    def write(self, phase: str, action: str, **about: Any) -> None:
        """Write one line."""
        self.counts[f"{action} {phase}"] += 1
        self._file.write(json.dumps({"phase": phase, "action": action, **about}).encode() + b"\n")
        if phase == INTENDED:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a journal; nothing where there is none.

    Raises:
        ProtocolError: a line is damaged; names the file and the line.
    """
    if not path.exists():
        return
    whole = path.read_bytes().rpartition(b"\n")[0]  # a bridge that is killed may leave half a line
    for number, line in enumerate(whole.splitlines(), 1):
        entry = parse_json(line, f"{path}: line {number}")
        value = entry.value
        if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in ("phase", "action")):
            raise ProtocolError(f"{entry.place}: is no entry of a journal; move the file away to begin anew")
        yield value
