"""The resumable states of a training run: complete or absent, the last few kept, damage found before anything is read.

A state is a folder. It is written under another name, forced to disk, and renamed, so that a kill, a full disk or a
power failure leaves the states before it. A manifest with a SHA-256 of every file shows later damage.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError

from envs.evaluation.files import PART, file_hash, write_whole
from envs.types import CheckpointError

_State = TypeVar("_State")
BEST = Path("checkpoints") / "best"
MANIFEST = "manifest.json"
KEPT = 3  # states: the last one, and two to go back to


class SavedStates:
    """The saved states of one run, in subfolders named after the iteration.

    Args:
        folder: receives the subfolders; it is made with the first one.
        keep: number of states that are kept, at least 1.
    """

    def __init__(self, folder: Path, keep: int = KEPT) -> None:
        self.folder, self.keep = folder, keep

    def paths(self) -> list[Path]:
        """Return the folders of all states, the newest first, damaged ones too."""
        found = [path for path in self.folder.glob("iteration_*") if path.is_dir() and path.suffix != PART]
        return sorted(found, reverse=True)

    def save(self, iteration: int, write: Callable[[Path], None]) -> None:
        """Save a state, then remove the oldest ones.

        Args:
            iteration: number of the state; an earlier one of this number is replaced.
            write: writes the state's files into the folder that it is given.

        Raises:
            CheckpointError: the operating system refuses, for example because the disk is full. Earlier states are
                unharmed.
        """
        path = self.folder / f"iteration_{iteration:07d}"
        part = path.with_name(path.name + PART)
        shutil.rmtree(part, ignore_errors=True)
        try:
            with refusing_writes(path):
                part.mkdir(parents=True)
                write(part)
                write_manifest(part)
                if path.exists():
                    shutil.rmtree(path)
                part.rename(path)
                _force_to_disk(self.folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        for old in self.paths()[self.keep :]:
            shutil.rmtree(old, ignore_errors=True)

    def intact(self, note: Callable[[str], None], summary: Path) -> Path | None:
        """Return the newest undamaged state; None if nothing was ever saved.

        Args:
            note: receives a line about each damaged state that is passed over.
            summary: a file that a run writes after its first state.

        Raises:
            CheckpointError: all states are damaged, or there is none although the summary exists.
        """
        found = ""
        for path, damage in self._examined():
            if not damage:
                return path
            found = f"{path} is damaged ({damage})"
            note(f"{found}; the state before it is used")
        if found:
            raise CheckpointError(f"{found}, and there is no other state; start a new run")
        if summary.exists():
            raise CheckpointError(
                f"{self.folder}: holds no saved state, though there is {summary.name}; it was removed, or the run is "
                "of an earlier version: start a new run"
            )
        return None

    def _examined(self) -> Iterator[tuple[Path, str]]:
        for path in self.paths():
            yield path, damage_of(path)


@contextmanager
def refusing_writes(path: Path) -> Iterator[None]:
    """Explain in one line that the operating system does not let a run write its files.

    Raises:
        CheckpointError: names the file or folder and the reason.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise CheckpointError(
            f"{path}: cannot be written ({why}); what was saved before is unharmed: make room or allow writing, and "
            "resume the run"
        ) from error


def read_state(path: Path, make: Callable[..., _State]) -> _State:
    """Read the progress of a run: a JSON object with the fields of a data class.

    Raises:
        CheckpointError: the file is missing, is no JSON, or has other fields.
    """
    try:
        return make(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path} is not a training state ({reason}); start a new run") from error


def best_on_disk(best: int, path: Path, note: Callable[[str], None]) -> int:
    """Return the iteration of a run's best checkpoint, or -1 if there is none or it has been removed.

    Args:
        best: the iteration as the run's state has it.
        path: the folder of the checkpoint.
        note: receives a line if the checkpoint has been removed.
    """
    if best < 0 or (path / "policy.json").is_file():
        return best
    note(f"{path} is missing; the best of the next validations takes its place")
    return -1


def write_manifest(folder: Path) -> None:
    """Write the SHA-256 of every file below a folder into its manifest, and force all files to disk."""
    hashes = {name: file_hash(folder / name) for name in _files(folder)}
    write_whole(folder / MANIFEST, json.dumps(hashes, indent=2) + "\n")
    for name in [*hashes, MANIFEST]:
        _force_to_disk(folder / name)
    _force_to_disk(folder)


def damage_of(folder: Path) -> str:
    """Say in a few words how the files of a folder differ from its manifest; empty if they do not."""
    try:
        hashes = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(hashes, dict):
            return f"{MANIFEST} is no manifest"
        if not hashes or (unlisted := {*_files(folder)} - {*hashes, MANIFEST}):
            return f"{MANIFEST} lacks {', '.join(sorted(unlisted)) if hashes else 'all files'}"
        for name, expected in hashes.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            if file_hash(folder / name) != expected:
                return f"{name} has changed"
    except (OSError, ValueError, RecursionError) as error:
        return f"{MANIFEST} cannot be read: {' '.join(str(error).split())}"
    return ""


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _force_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
