"""The JSON of Slurm's commands as plain values: `squeue --json` and `sinfo --json`, from Slurm 22.05 on."""

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from deployment.adapter import ClusterClaim, NodeStatus, TaskNote, TaskState, TaskStatus, read_claim, read_note
from deployment.reading import MOST_DIGITS, Entry, ProtocolError, parse_json, quote
from envs.types import as_line

Read = TypeVar("Read")
MOST_NUMBER = 10**15  # of any number that Slurm shows
MOST_GPUS = 10**9
LONGEST_LIST = 2_000  # characters of generic resources
GRES = re.compile(r"^gpu(?::(?!\d+(?:\(|$))(?P<type>[^:(]+))?(?::(?P<count>\d+))?(?:\(|$)")  # no count: one
PREFIX = re.compile(r"(?:(?<=,)|^)gres[:/]")
ALL_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)(?:,|$)")
DOWN = {
    "DOWN",
    "DRAIN",
    "FAIL",
    "INVAL",
    "FUTURE",
    "POWER_DOWN",
    "POWERED_DOWN",
    "NOT_RESPONDING",
    "MAINTENANCE",
    "ERROR",
}
PENDING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SUSPENDED", "STOPPED"}
RUNNING = {"RUNNING"}


def read_nodes(text: str, source: str = "sinfo --json") -> list[NodeStatus]:
    """Read what `sinfo --json` prints: all nodes with GPUs, by name.

    A node that cannot be read is not left out: a bridge would take it for down and start its jobs elsewhere.

    Args:
        text: what it has printed.
        source: begins messages.

    Raises:
        ProtocolError: it has another form.
    """
    found = []
    for node in listed_in(text, source, "nodes"):
        gres = gpus_in(node.field("gres"))
        if gres is None:
            continue
        states = {node.field("state").text().upper()} if isinstance(node.value.get("state"), str) else set()
        for name in ("state", "state_flags"):
            listed = node.optional(name)
            if listed is not None and isinstance(listed.value, list):
                states |= {each.text().upper() for each in listed.items()}
        found.append(
            NodeStatus(
                node.field("name").text(),
                gres[0],
                gres[1],
                plain_number(node.field("cpus")),
                plain_number(node.field("real_memory")) / 1000.0,
                not states & DOWN,
            )
        )
    return sorted(found, key=lambda each: _natural(each.name))


def read_tasks(text: str, user: str, source: str = "squeue --json") -> list[TaskStatus]:
    """Read what `squeue --json` prints: the tasks that bridges of a user have started, with their parts put together.

    A job that cannot be read is left out with a warning.

    Args:
        text: what it has printed.
        user: anyone may write any note on a task of theirs, so that only those of this user count.
        source: begins messages.

    Raises:
        ProtocolError: it has another form.
    """
    parts: dict[tuple[int, str], list[tuple[TaskNote, TaskState, str]]] = defaultdict(list)
    left_out: dict[str, str] = {}

    def read(job: Entry, number: int, state: TaskState) -> None:
        comment = job.optional("comment")
        if comment is None or _submitter(job) != user:
            return
        note = read_note(comment.text(100_000), user)
        if note is None:
            return
        together = job.optional("het_job_id")
        first = whole_number(together) if together is not None else 0
        script_node = job.optional("batch_host")
        kept = script_node.text() if script_node is not None and not first else ""  # Slurm resizes no heterogeneous job
        parts[first or number, note.write()].append((note, state, kept))  # a damaged job is no part of another task

    read_jobs(text, source, read, left_out)
    for why in left_out.values():
        warnings.warn(f"{as_line(why)}; this job is left out", stacklevel=2)
    found = []
    for (number, _), each in sorted(parts.items()):
        states = {part[1] for part in each}
        state: TaskState = "ended" if "ended" in states else "pending" if "pending" in states else "running"
        found.append(TaskStatus(str(number), each[0][0], state, each[0][2] if state == "running" else ""))
    return found


def read_jobs(
    text: str, source: str, read: Callable[[Entry, int, TaskState], Read | None], left_out: dict[str, str]
) -> list[Read]:
    """Read the jobs of `squeue --json` one by one; one that is damaged is left out, and the others are read.

    Args:
        text: what it has printed.
        source: begins messages.
        read: reads a job, of which the id and the state are known; None if it is of no interest.
        left_out: takes why a job was left out, by its id, or by its place in the list where the id is damaged.

    Raises:
        ProtocolError: it has another form: of no job can the id and the state be read.
    """
    found, damaged, known = [], dict[str, str](), 0
    for job in listed_in(text, source, "jobs"):
        name = job.place
        try:
            number = whole_number(job.field("job_id"))
            name = str(number)
            state = job_state(job.field("job_state"))
            known += 1
            each = read(Entry(job.value, f"{source}: job {number}"), number, state)
        except ProtocolError as error:
            damaged.setdefault(name, str(error))
            continue
        if each is not None:
            found.append(each)
    if damaged and not known:
        raise ProtocolError(next(iter(damaged.values())))
    for name, why in damaged.items():
        left_out.setdefault(name, why)
    return found


def read_claims(text: str, source: str = "squeue --json") -> list[ClusterClaim]:
    """Read what `squeue --json` prints: the claims of all users' bridges, the oldest first.

    Args:
        text: what it has printed.
        source: begins messages.

    Raises:
        ProtocolError: it has another form.
    """
    found: dict[int, ClusterClaim] = {}

    def read(job: Entry, number: int, state: TaskState) -> None:
        comment = job.optional("comment")
        claim = None if comment is None else read_claim(str(number), comment.text(100_000), _submitter(job))
        if claim is not None and state != "ended":
            found[number] = claim

    read_jobs(text, source, read, {})
    return [claim for _, claim in sorted(found.items())]


def _submitter(job: Entry) -> str:
    """Return the user who has submitted a job; empty where Slurm does not know its name."""
    user = job.optional("user_name")
    return "" if user is None else user.text()


def listed_in(text: str, command: str, field: str) -> Iterator[Entry]:
    """Return what a command lists. Where Slurm does not answer, it prints an empty list beside the error.

    Raises:
        ProtocolError: it has another form, or reports an error.
    """
    content = parse_json(text, command, tolerant=True)
    errors = content.optional("errors")
    for error in errors.items() if errors is not None else ():
        raise ProtocolError(f"{command}: Slurm reports {quote(error.value)}; the list beside it does not count")
    return content.field(field).items()


def job_state(entry: Entry) -> TaskState:
    """Return the state of a job; one that still cleans up has ended."""
    states = {entry.text().upper()} if isinstance(entry.value, str) else {each.text().upper() for each in entry.items()}
    if states & PENDING:
        return "pending"
    return "running" if states & RUNNING and "COMPLETING" not in states else "ended"


def plain_number(entry: Entry, most: float = MOST_NUMBER) -> float:
    """Return a number; newer versions of Slurm write an object with `number` in it."""
    return (entry.field("number") if isinstance(entry.value, dict) else entry).number(most=most)


def whole_number(entry: Entry) -> int:
    """Return a whole number, in either form."""
    return (entry.field("number") if isinstance(entry.value, dict) else entry).whole(0, MOST_NUMBER)


def gpus_in(entry: Entry) -> tuple[str, int] | None:
    """Return GPU type and count of generic resources, in any form that Slurm has for them; None without GPUs.

    Raises:
        ProtocolError: it is no text, or has a number that cannot be one of GPUs.
    """
    gres = PREFIX.sub("", entry.text(LONGEST_LIST)).replace("=", ":")
    found: Iterator[re.Match[str]] = (match for part in _split(gres) if (match := GRES.match(part)))
    counts = [(match["type"] or "gpu", gpu_count(match["count"] or "1", entry)) for match in found]
    whole = [count for name, count in counts if name == "gpu"]  # beside it, a type may be named once more
    total = sum(whole) or sum(count for _, count in counts)
    return (next((name for name, _ in counts if name != "gpu"), "gpu"), total) if total else None


def gpu_count(digits: str, entry: Entry) -> int:
    """Return a number of GPUs that was found in an entry.

    Raises:
        ProtocolError: it is above `MOST_GPUS`.
    """
    if len(digits) > MOST_DIGITS or int(digits) > MOST_GPUS:
        raise entry.refuse(f"at most {MOST_GPUS:,} GPUs")
    return int(digits)


def _split(gres: str) -> Sequence[str]:
    return re.split(r",(?![^(]*\))", gres)


def _natural(name: str) -> tuple[tuple[str, int], ...]:
    return tuple((text, int(number or -1)) for text, number in re.findall(r"(\D*)(\d*)", name))
