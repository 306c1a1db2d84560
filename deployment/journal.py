"""The write-ahead log of a bridge: every action before and after it, one JSON object on one line."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deployment.reading import ProtocolError, parse_json

INTENDED, CARRIED_OUT, REFUSED, SHADOWED = "intended", "carried out", "refused", "shadowed"


class Journal:
    """Lines about actions, which are on the disk before an action begins.

    Args:
        path: of the file; lines of an earlier bridge stay, and an unfinished last line is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        if path.exists():
            whole = path.read_bytes().rpartition(b"\n")[0]
            os.truncate(path, len(whole) + 1 if whole else 0)
        self._file = path.open("ab", buffering=0)

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
        if not isinstance(entry.value, dict) or "phase" not in entry.value:
            raise ProtocolError(f"{entry.place}: is no entry of a journal; move the file away to begin anew")
        yield entry.value
