"""Files that are written as a whole, and their hashes."""

import hashlib
from pathlib import Path

PART = ".part"  # end of the name of a file or folder that is not complete yet


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a text file; it is replaced as a whole, so that a crash leaves the old one."""
    part = path.with_name(path.name + PART)
    part.write_text(text, encoding="utf-8")
    part.replace(path)
