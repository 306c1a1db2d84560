"""Dependencies of jobs on others: triples of a job, the one on which it depends, and the ends that meet them."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.types import BoolArray, FloatArray, JobId, MurmurationError
from envs.types.dependency import MET_BY, NOT_OK, OK, SINGLETON, parse_dependency

Dependencies = Sequence[tuple[JobId, JobId, int]]  # job, the earlier one on which it depends, and OK, NOT_OK or both
ANY = OK | NOT_OK


def find_dependencies(
    texts: Sequence[str], ids: Sequence[str], owners: Sequence[tuple[str, str]], refuse: Callable[[int, str], None]
) -> tuple[tuple[JobId, JobId, int], ...]:
    """Return the dependencies of jobs that are sorted by submission.

    Args:
        texts: of each job, see `parse_dependency`.
        ids: of each job, as texts name it. `7` stands for all tasks `7_...` of an array too.
        owners: the user and the name of each job; singletons wait for those before them with the same.
        refuse: called with a job's place and a reason where a text names an unknown or a later job.

    Raises:
        MurmurationError: a text has another form.
    """
    if not any(texts):
        return ()
    rows = rows_by_id(ids)
    found: dict[tuple[JobId, JobId, int], None] = {}
    before: dict[tuple[str, str], list[JobId]] = defaultdict(list)
    for job, (text, owner) in enumerate(zip(texts, owners, strict=True)):
        parts = parse_dependency(text)
        for word, name in parts:
            if word == SINGLETON:
                found |= dict.fromkeys((job, on, ANY) for on in before[owner])
                continue
            if not rows.get(name) or rows[name][-1] >= job:
                why = "is none of the jobs" if not rows.get(name) else "is not submitted before it"
                refuse(job, f"depends on job {name[:40]!r}, which {why}")
                continue
            found |= dict.fromkeys((job, on, MET_BY[word]) for on in rows[name])
        if parts == [(SINGLETON, "")]:
            before[owner] = []  # it ends after all of these
        before[owner].append(job)
    return tuple(found)


def rows_by_id(ids: Sequence[str]) -> Mapping[str, list[int]]:
    """Return the places of jobs by their ids, and those of all tasks of an array by the id of the array."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(ids):
        rows[name].append(row)
        if "_" in name:
            rows[name.partition("_")[0]].append(row)
    return rows


def write_dependency(dependencies: Sequence[tuple[JobId, int]]) -> str:
    """Return the text that `parse_dependency` reads, of one job: the jobs on which it depends, and which ends do."""
    names = {word: name for name, word in MET_BY.items()}
    return ",".join(f"{names[word]}:{on}" for on, word in dependencies)


def renumber(dependencies: Dependencies, places: Mapping[JobId, JobId]) -> tuple[tuple[JobId, JobId, int], ...]:
    """Return the dependencies among some of the jobs, by their new places; one on a job that is left out is met."""
    return tuple((places[job], places[on], word) for job, on, word in dependencies if job in places and on in places)


def known_dependencies(
    texts: npt.NDArray[Any], ids: npt.NDArray[Any], submit: FloatArray, kept: BoolArray
) -> tuple[npt.NDArray[np.object_], list[str]]:
    """Return the dependencies of a trace's rows, without what the world does not have or does not know.

    Args:
        texts: object[num_rows], see `parse_dependency`.
        ids: object[num_rows], of the rows' jobs.
        submit: float64[num_rows], submissions.
        kept: bool[num_rows], the rows that become jobs.

    Returns:
        object[num_rows], texts; and of each row why its text was changed, empty if it was not.
    """
    found = np.full(len(texts), "", dtype=object)
    problems = [""] * len(texts)
    rows = rows_by_id([name if sound else "" for name, sound in zip(ids, kept, strict=True)])
    for row, text in enumerate(texts):
        try:
            parts = parse_dependency(text) if text else []
        except MurmurationError as error:
            problems[row] = str(error)
            continue
        lost = [name for word, name in parts if word != SINGLETON and not _all_before(rows.get(name, ()), row, submit)]
        if lost:
            problems[row] = f"job {lost[0][:40]!r} is not submitted before it, or is none of the jobs"
        left = [f"{word}:{name}".rstrip(":") for word, name in parts if name not in lost]
        found[row] = ",".join(left)
    return found, problems


def _all_before(rows: Sequence[int], row: int, submit: FloatArray) -> bool:
    return bool(rows) and all((submit[each], each) < (submit[row], row) for each in rows)
