"""Folders of runs as the file system gives or refuses them."""

from collections.abc import Iterator, Sized
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from launch.names import ChoiceError


def own_folder(runs: Path, now: datetime) -> Path:
    """Make a folder named after the time; of several runs within one second, the later ones get a number.

    Raises:
        ChoiceError: the system refuses.
    """
    stamp = f"{now:%Y-%m-%d_%H-%M-%S}"
    folder, number = runs / stamp, 1
    while True:
        try:
            folder.mkdir(parents=True)  # fails if it exists: two processes never get the same one
        except OSError as error:
            if not folder.exists():
                raise refusal(error) from error
            number += 1
            folder = runs / f"{stamp}_{number}"
        else:
            return folder


@contextmanager
def writable(begun: Sized) -> Iterator[None]:
    """Tell what the system refuses before the task has begun, since until then nothing but its folder is written.

    Raises:
        ChoiceError: names the folder.
    """
    try:
        yield
    except OSError as error:
        if begun or error.errno is None:  # Hydra calls some of its own errors so
            raise
        raise refusal(error) from error


def refusal(error: OSError) -> ChoiceError:
    """What to say when the system refuses to make a run's folder, or to write into it."""
    where, why = error.filename or "the run's folder", error.strerror or type(error).__name__
    return ChoiceError(f"{where}: cannot be made or written ({why}); choose a folder with hydra.run.dir=<folder>")
