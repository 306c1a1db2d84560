"""The JSON of Slurm's commands as plain values: `squeue --json` and `sinfo --json`, from Slurm 22.05 on."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from deployment.adapter import Claim, NodeStatus, TaskNote, TaskState, TaskStatus, read_claim, read_note
from deployment.reading import Entry, ProtocolError, parse_json, quote

GRES = re.compile(r"^gpu(?::(?!\d+(?:\(|$))(?P<type>[^:(]+))?(?::(?P<count>\d+))?(?:\(|$)")  # no count: one
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

    Args:
        text: what it has printed.
        source: begins messages.

    Raises:
        ProtocolError: it has another form.
    """
    found = []
    for node in listed_in(text, source, "nodes"):
        gres = gpus_in(node.field("gres").text(10_000))
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

    Args:
        text: what it has printed.
        user: anyone may write any note on a task of theirs, so that only those of this user count.
        source: begins messages.

    Raises:
        ProtocolError: it has another form.
    """
    parts: dict[int, list[tuple[TaskNote, TaskState, str]]] = defaultdict(list)
    for job in listed_in(text, source, "jobs"):
        comment = job.optional("comment")
        note = read_note(comment.text(100_000), user) if comment is not None else None
        if note is None or _submitter(job) != user:
            continue
        together = job.optional("het_job_id")
        first = int(plain_number(together)) if together is not None else 0
        script_node = job.optional("batch_host")
        kept = script_node.text() if script_node is not None and not first else ""  # Slurm resizes no heterogeneous job
        parts[first or int(plain_number(job.field("job_id")))].append((note, job_state(job.field("job_state")), kept))
    found = []
    for name, each in sorted(parts.items()):
        states = {part[1] for part in each}
        state: TaskState = "ended" if "ended" in states else "pending" if "pending" in states else "running"
        found.append(TaskStatus(str(name), each[0][0], state, each[0][2] if state == "running" else ""))
    return found


def read_claims(text: str, source: str = "squeue --json") -> list[Claim]:
    """Read what `squeue --json` prints: the claims of all users' bridges, the oldest first.

    Args:
        text: what it has printed.
        source: begins messages.

    Raises:
        ProtocolError: it has another form.
    """
    found = {}
    for job in listed_in(text, source, "jobs"):
        comment = job.optional("comment")
        number = int(plain_number(job.field("job_id")))
        claim = read_claim(str(number), comment.text(100_000), _submitter(job)) if comment is not None else None
        if claim is not None and job_state(job.field("job_state")) != "ended":
            found[number] = claim
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
    content = parse_json(text, command)
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


def plain_number(entry: Entry) -> float:
    """Return a number; newer versions of Slurm write an object with `number` in it."""
    if isinstance(entry.value, dict):
        return entry.field("number").number()
    return entry.number()


def gpus_in(gres: str) -> tuple[str, int] | None:
    """Return GPU type and count of generic resources; None without GPUs."""
    found: Iterator[re.Match[str]] = (match for part in _split(gres) if (match := GRES.match(part)))
    counts: list[tuple[str, int]] = [(match["type"] or "gpu", int(match["count"] or 1)) for match in found]
    whole = [count for name, count in counts if name == "gpu"]  # beside it, a type may be named once more
    total = sum(whole) or sum(count for _, count in counts)
    return (next((name for name, _ in counts if name != "gpu"), "gpu"), total) if total else None


def _split(gres: str) -> Sequence[str]:
    return re.split(r",(?![^(]*\))", gres)


def _natural(name: str) -> tuple[tuple[str, int], ...]:
    return tuple((text, int(number or -1)) for text, number in re.findall(r"(\D*)(\d*)", name))
