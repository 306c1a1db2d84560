"""Files that are written as a whole, and their hashes."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MOST_OF_NAME = 60  # characters: in any alphabet less than the 255 bytes that file systems allow
PART = ".part"  # part of the name of a file or folder that is not complete yet


def file_part(name: str) -> str:
    """Return a name, such as a scheduler's, as part of the name of a file: a slash would be a folder."""
    return re.sub(r"[/\\\0-\x1f]", "_", name)[:MOST_OF_NAME]


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the path at which to write a file, which has the same ending; afterwards the file gets its own name.

    A crash leaves the old file, and so does an error, after which the unfinished one is deleted.

    Raises:
        OSError: the operating system refuses, for example because the disk is full; it names the file.
    """
    part = path.with_name(f"{path.stem}{PART}{path.suffix}")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        with suppress(OSError):  # as where the folder cannot be written at all
            part.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text file as a whole; see `whole_file`."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def write_frame(path: Path, frame: "pd.DataFrame") -> None:
    """Write a data frame as CSV, without its index and as a whole; see `whole_file`."""
    write_whole(path, frame.to_csv(index=False))


def write_figure(path: Path, figure: "Figure", dpi: int) -> None:
    """Write a plot as a PNG file, as a whole; see `whole_file`.

    `savefig` lays out and draws a figure once more, to measure it first. Compressing it little saves time.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    with whole_file(path) as part:
        FigureCanvasAgg(figure).print_png(part, pil_kwargs={"compress_level": 1})  # type: ignore[no-untyped-call]
