"""Jobs without the names of people, accounts, scripts and nodes, and without their dates."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from envs.types import TraceError, did_you_mean
from envs.types.dependency import SINGLETON, parse_dependency

if TYPE_CHECKING:
    import pandas as pd

REPLACED = ("user", "tenant", "name", "nodes", "id")  # columns of texts that are always replaced
KEPT = ("queue", "pool", "qos", "features")  # kept, since clusters and policies know them by name, unless asked for
SECRET_BYTES = 32
MOST_NODES = 100_000  # of one list
_LISTED = re.compile(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)*")  # a part of n[1-2],m3
_RANGED = re.compile(r"([^\[\]]*)\[([0-9,\-]+)\]([^\[\]]*)")


def anonymise_jobs(table: "pd.DataFrame", secret: bytes, also: Sequence[str] = ()) -> "pd.DataFrame":
    """Replace texts by tokens, one for each text, and move dates by whole weeks; everything else stays.

    Whoever lacks the secret cannot tell which text a token stands for; so it is drawn anew and not kept. Weekdays and
    hours stay, and so do durations, sizes, limits and the order of submissions: who knows some of these of a job can
    still recognise it.

    Args:
        table: jobs in the columns of murmuration-jobs-1.
        secret: the key of the tokens, `SECRET_BYTES` random bytes.
        also: further columns to replace, of `KEPT`.

    Raises:
        TraceError: there is no such column to replace.
    """
    for column in also:
        if column not in KEPT:
            hint = did_you_mean(column, KEPT)
            raise TraceError(
                f"also: {column[:40]!r} cannot be replaced; it must be one or more of {', '.join(KEPT)}{hint}"
            )
    made = table.copy()
    for column in (*REPLACED, *also):
        if column in made:
            sort = "queue" if column == "pool" else column  # of Slurm both are the partition
            made[column] = [_token(secret, sort, text) for text in made[column]]
    if "dependency" in made:
        made["dependency"] = [_dependency(secret, text) for text in made["dependency"]]
    if "zero_time" in made:
        zero, weeks = (
            datetime.fromisoformat(str(made["zero_time"].iloc[0])),
            1 + int(_hash(secret, "w", "")[1:], 16) % 500,
        )
        made["zero_time"] = (zero + timedelta(weeks=weeks if zero.year < 1990 else -weeks)).isoformat()
    return made


def _token(secret: bytes, sort: str, text: str) -> str:
    """Return the token of a text; lists of queues and features stay lists, and tasks stay those of their array."""
    if sort == "nodes":
        return ",".join(_hash(secret, sort, node) for node in expand_nodes(text))
    if sort == "id":
        array, line, task = text.partition("_")
        return f"{_hash(secret, sort, array)}{line}{_task(secret, task)}" if text else ""
    if sort in ("queue", "features"):
        return re.sub(r"[^,+;& ]+", lambda found: _hash(secret, sort, found[0]), text)
    return _hash(secret, sort, text) if text else ""


def _task(secret: bytes, task: str) -> str:
    return task if re.fullmatch("[0-9]*", task) else _hash(secret, "id", task)


def _hash(secret: bytes, sort: str, text: str) -> str:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6, key=secret, person=sort.encode()[:16])
    return f"{sort[0]}{digest.hexdigest()}"


def _dependency(secret: bytes, text: str) -> str:
    parts = parse_dependency(text) if text else []
    return ",".join(word if word == SINGLETON else f"{word}:{_token(secret, 'id', name)}" for word, name in parts)


def expand_nodes(text: str) -> list[str]:
    """Return the nodes of a list as Slurm writes it, such as n[1-2,07],m3; a part of another form stays whole."""
    nodes: list[str] = []
    for part in _LISTED.findall(text):
        found = _RANGED.fullmatch(part)
        numbers = [] if found is None else [each.partition("-") for each in found[2].split(",")]
        if found is None or not all(first.isdigit() and (last.isdigit() or not line) for first, line, last in numbers):
            nodes.append(part)
            continue
        for first, _, last in numbers:
            upto = min(int(last or first), int(first) + MOST_NODES)
            nodes += [f"{found[1]}{n:0{len(first)}}{found[3]}" for n in range(int(first), upto + 1)]
    return nodes[:MOST_NODES]
