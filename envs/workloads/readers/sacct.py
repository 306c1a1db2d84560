"""The forms in which `sacct` prints jobs, as one table: with bars, comma-separated, and JSON."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np

from envs.types import TraceError
from envs.workloads.readers.files import CHARACTERS_PER_VALUE, most_characters, read_lines, read_text
from envs.workloads.readers.slurm_json import UNLIMITED, clock_of, instant_of, number_of, text_of
from envs.workloads.readers.squeue import queued_jobs
from envs.workloads.readers.table import TraceTable, rows_of

IDS = ("JobID", "JobIDRaw")  # one of them is needed
NEEDED = ("State", "Submit", "Elapsed", "AllocTRES")
COMMAND = (
    "sacct --allusers --allocations --duplicates --parsable2 --starttime=2024-01-01 --endtime=2024-02-01 --format="
    "JobID,JobName,User,Account,Partition,QOS,Priority,Submit,Eligible,Start,End,Elapsed,Timelimit,State,NNodes,NodeList,"
    "AllocTRES,SubmitLine > jobs.txt"
)
# States of man sacct, JOB STATE CODES. The records of jobs in the others still change, or another record replaces them.
ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    "TIMEOUT",
)
NOT_ENDED = ("PENDING", "REQUEUED", "RESIZING", "REVOKED", "RUNNING", "SUSPENDED")
FREE = ("JobName", "SubmitLine", "Comment", "WorkDir", "Reason", "Extra")  # columns in which users write what they like
MOST_BARS = 100  # in the texts of one row
_SUBMIT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*|Unknown|None|", re.ASCII)
_ELAPSED = re.compile(r"(?:\d{1,5}-)?(?:\d{1,5}:)?\d{1,2}:\d{1,2}(?:\.\d{1,9})?", re.ASCII)
_JSON_TIMES = {"Submit": "submission", "Eligible": "eligible", "Start": "start", "End": "end"}
_JSON_TEXTS = {"JobName": "name", "User": "user", "Account": "account", "Partition": "partition", "QOS": "qos"}
_JSON_TEXTS |= {"SubmitLine": "submit_line", "Dependency": "dependency", "NodeList": "nodes"}


def read_sacct(path: Path, *, strict: bool = False) -> TraceTable:
    """Read what `sacct` has printed, with --parsable2, --parsable or --json, or exported as comma-separated values.

    What `squeue --json` prints is read too: its jobs have a column `Queued`.

    Args:
        path: the file.
        strict: whether a bad row is an error.

    Raises:
        TraceError: it has another form, or lacks a column; the message has the command that prints what is needed.
    """
    first = next((line for line in read_lines(path) if line.strip()), "")
    if first.lstrip()[:1] in ("{", "["):
        return _from_json(path, strict)
    delimiter = "|" if "|" in first else ","
    rows = rows_of(path, delimiter, quoted=delimiter == ",")
    _, header = next(rows, (0, []))
    names = [name.strip() for name in header]
    _check_header(path, first, names)
    body = list(rows)
    if not body:
        raise TraceError(f"{path}: has a header but no rows; choose other dates: {COMMAND}")
    if delimiter == "|":
        body = [(row, _rejoin(cells, names)) for row, cells in body]
    elif all(len(cells) > len(names) for _, cells in body):
        raise TraceError(f"{path}: its rows have more fields than its header, as commas stand within fields; {_make()}")
    columns = {name: [cells[at] if at < len(cells) else "" for _, cells in body] for at, name in enumerate(names)}
    table = TraceTable("slurm", path, columns, [row for row, _ in body], strict=strict)
    wrong = np.array([len(cells) != len(names) for _, cells in body])
    table.reject(wrong, _id_column(names), f"must be in a row of {len(names)} fields")
    return _with_id(table)


def _make() -> str:
    return f"make the file with  {COMMAND}"


def _check_header(path: Path, first: str, names: Sequence[str]) -> None:
    """Assert that the first line names the columns of a form that can be split, each once."""
    lacking = [name for name in NEEDED if name not in names]
    if not lacking and any(name in names for name in IDS):
        if twice := next((name for at, name in enumerate(names) if name and name in names[:at]), None):
            raise TraceError(f"{path}: row 1: two columns are named {twice[:40]!r}; {_make()}")
        return
    lacking = lacking or ["JobID"]
    if "|" not in first and any(name in first for name in (*IDS, "State")):
        why = f"is no table that can be split without doubt, or has no column {lacking[0]!r}"
    elif not any(name in names for name in (*IDS, *NEEDED)):
        why = "does not begin with the names of sacct's columns (leave out --noheader)"
    else:
        why = f"has no column {lacking[0]!r}; it has {', '.join(names)[:120]}"
    raise TraceError(f"{path}: {why}; {_make()}")


def _id_column(names: Sequence[str]) -> str:
    return next(name for name in IDS if name in names)


def _with_id(table: TraceTable) -> TraceTable:
    """Return the table with the column JobID."""
    table.columns.setdefault("JobID", table.columns[_id_column(list(table.columns))])
    return table


def _rejoin(cells: list[str], names: Sequence[str]) -> list[str]:
    """Return a row in which one or two texts of a user had bars; the row itself where that cannot be told."""
    more = len(cells) - len(names)
    if not 0 < more <= MOST_BARS:
        return cells
    free = sorted(names.index(column) for column in FREE if column in names)
    for first, second in [*((at, at) for at in free), *combinations(free, 2)]:
        for bars in range(more) if first < second else (0,):  # of the first text; the second has the others
            head = [*cells[:first], "|".join(cells[first : first + bars + 1]), *cells[first + bars + 1 :]]
            last = second + more - bars
            joined = [*head[:second], "|".join(head[second : last + 1]), *head[last + 1 :]]
            if _is_plausible(dict(zip(names, joined, strict=True))):
                return joined
    return cells


def _is_plausible(row: Mapping[str, str]) -> bool:
    state = (row["State"].split() or [""])[0].rstrip("+")
    times = _SUBMIT.fullmatch(row["Submit"].strip()) and _ELAPSED.fullmatch(row["Elapsed"].strip())
    return bool(state in (*ENDED, *NOT_ENDED) and times)


def _from_json(path: Path, strict: bool) -> TraceTable:
    """Read the output of `sacct --json`; the number of a row is that of the entry, from 1."""
    text = read_text(path)
    most = most_characters() // CHARACTERS_PER_VALUE
    if sum(map(text.count, ",[{")) > most:
        raise TraceError(f"{path}: has more than {most:,} values; cut it into parts")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise TraceError(f"{path}: is not the JSON of sacct ({reason}); {_make()}") from error
    entries = answer.get("jobs") if isinstance(answer, dict) else answer
    if not isinstance(entries, list) or not entries:
        raise TraceError(f"{path}: has no list of jobs, as sacct --json prints it; {_make()}")
    found = (row for entry in entries for row in (_facts(entry) if isinstance(entry, dict) else [{}]))
    rows = list(islice(found, most // CHARACTERS_PER_VALUE + 1))
    if len(rows) > most // CHARACTERS_PER_VALUE:
        raise TraceError(f"{path}: has more than {len(rows) - 1:,} jobs, with the tasks of arrays; cut it into parts")
    names = list(dict.fromkeys(name for row in rows for name in row)) or [*IDS, *NEEDED]
    columns = {name: [row.get(name, "") for row in rows] for name in dict.fromkeys((*names, "JobID", *NEEDED))}
    table = TraceTable("slurm", path, columns, range(1, len(rows) + 1), strict=strict)
    table.reject(np.array([not row for row in rows]), "JobID", "must be in an object of sacct's JSON")
    return table


def _facts(entry: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the columns of a job, as sacct prints them without --json; of squeue's, those of each task of an array."""
    return queued_jobs(entry) if "submit_time" in entry else iter([dict(_accounted(entry))])


def _accounted(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for column, key in _JSON_TEXTS.items():
        if key in entry:
            yield column, text_of(entry[key])
    array, time, state = (_inner(entry, key) for key in ("array", "time", "state"))
    of_array, task = number_of(array.get("job_id")), number_of(array.get("task_id"))
    yield "JobID", f"{of_array}_{task}" if of_array not in ("", "0") and task else number_of(entry.get("job_id"))
    running = _inner(_inner(_inner(array, "limits"), "max"), "running").get("tasks")
    yield "ArrayLimit", number_of(running)
    current = state.get("current", entry.get("job_state"))
    yield "State", text_of(current[0] if isinstance(current, list) and current else current)
    for column, key in _JSON_TIMES.items():
        yield column, instant_of(number_of(time.get(key)))
    yield "Elapsed", clock_of(number_of(time.get("elapsed")), 1)
    yield "Timelimit", clock_of(number_of(time.get("limit")), 60)
    yield "Priority", number_of(entry.get("priority")).replace(UNLIMITED, "")
    yield "NNodes", number_of(entry.get("allocation_nodes"))
    held = _inner(entry, "tres").get("allocated")
    yield "AllocTRES", ",".join(map(_tres, held if isinstance(held, list) else ()))


def _inner(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = entry.get(key)
    return found if isinstance(found, dict) else {}


def _tres(held: Any) -> str:
    if not isinstance(held, dict):
        return ""
    name = "/".join(filter(None, (text_of(held.get("type")), text_of(held.get("name")))))
    return f"{name}={number_of(held.get('count'))}"
