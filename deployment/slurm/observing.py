"""Jobs that others have submitted to Slurm: those of `squeue --json`, and those of a file that `sacct` has written."""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from deployment.reading import Entry, ProtocolError, quote
from deployment.shadow import ObservedJob, expected_time
from deployment.slurm.parsing import ALL_GPUS, gpus_in, job_state, listed_in, plain_number
from envs.types import ClusterSpec, NodeId

NEEDED = ("JobID", "Submit", "Start", "End", "AllocTRES")
ASKED_BY = {  # fields of what a job asks for, and by which others it is multiplied
    "tres_per_job": (),
    "tres_per_node": ("node_count",),
    "tres_per_task": ("tasks",),
    "tres_per_socket": ("sockets_per_node", "node_count"),
}
NO_TIME = ("Unknown", "None", "")


def observe_queue(text: str, names: Sequence[str]) -> list[ObservedJob]:
    """Read what `squeue --json` prints: all jobs with GPUs that wait or run.

    Args:
        text: the output.
        names: of the nodes, in the order of the setup.

    Raises:
        ProtocolError: it has another form.
    """
    found = []
    for job in listed_in(text, "squeue --json", "jobs"):
        state = job_state(job.field("job_state"))
        held = _held(job, {name: i for i, name in enumerate(names)}) if state == "running" else None
        gpus = sum(held.values()) if held else _asked(job)
        if state == "ended" or not gpus:
            continue
        limit = job.optional("time_limit")
        user, account, name = (
            "" if (entry := job.optional(key)) is None else entry.text() for key in ("user_name", "account", "name")
        )
        found.append(
            ObservedJob(
                f"{plain_number(job.field('job_id')):.0f}",
                plain_number(job.field("submit_time")),
                gpus,
                expected_time(60.0 * plain_number(limit) if limit is not None else math.inf),
                plain_number(job.field("start_time")) if held else math.nan,
                held,
                user,
                account or user,
                name,
            )
        )
    return found


def _held(job: Entry, nodes: dict[str, NodeId]) -> dict[NodeId, int] | None:
    """GPUs by node of a running job; None where it holds none on these nodes."""
    resources, details = job.optional("job_resources"), job.optional("gres_detail")
    if resources is None or details is None:
        return None
    listed = [each.field("nodename").text() for each in resources.field("allocated_nodes").items()]
    counts = [gpus_in(each.text(10_000)) for each in details.items()]
    pairs = zip(listed, counts, strict=False)
    return {nodes[name]: count[1] for name, count in pairs if count is not None and name in nodes} or None


def _asked(job: Entry) -> int:
    """GPUs that a waiting job asks for: as Slurm counts them where it accounts for GPUs, else as the user has asked."""
    total = job.optional("tres_req_str")
    if total is not None and (counted := ALL_GPUS.search(total.text(10_000))):
        return int(counted.group(1))
    for name, factors in ASKED_BY.items():
        entry = job.optional(name)
        found = gpus_in(entry.text(10_000).removeprefix("gres:").replace("gres/", "")) if entry is not None else None
        if found is not None:
            return found[1] * math.prod(int(plain_number(job.field(factor))) for factor in factors)
    return 0


def observe_recording(path: Path, cluster: ClusterSpec) -> Iterator[tuple[float, list[ObservedJob]]]:
    """Yield what `squeue` would have shown whenever a job of an accounting file was submitted, began or ended.

    The file does not say on which nodes a job ran: each gets the first GPUs that are free when it begins.

    Args:
        path: the output of `sacct --allusers --allocations --parsable2` with the columns `NEEDED`.
        cluster: the nodes.

    Raises:
        ProtocolError: a row is damaged; names the file, the line and the field.
    """
    jobs = list(_rows(path))
    times = sorted({time for _, *row in jobs for time in row if not math.isnan(time)})
    placed: dict[str, dict[NodeId, int]] = {}
    for now in times:
        present = [(job, start) for job, submit, start, end in jobs if submit <= now and not end <= now]
        free = cluster.node_gpus.copy()
        for job, _ in present:
            for node, count in placed.get(job.name, {}).items():
                free[node] -= count
        shown = []
        for job, start in present:
            if start <= now and job.name not in placed and (found := _first_fit(free.tolist(), job.num_gpus)):
                placed[job.name] = found
                for node, count in found.items():
                    free[node] -= count
            gpus = placed.get(job.name)
            shown.append(replace(job, start_time=start if gpus else math.nan, gpus=gpus))
        yield now, shown


def _first_fit(free: Sequence[int], want: int) -> dict[NodeId, int]:
    found: dict[NodeId, int] = {}
    for node, count in enumerate(free):
        take = min(int(count), want - sum(found.values()))
        if take > 0:
            found[node] = take
    return found if sum(found.values()) == want else {}


def _rows(path: Path) -> Iterator[tuple[ObservedJob, float, float, float]]:
    """Yield each job with its times of submission, begin and end."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = list(csv.reader(file, delimiter="|", quoting=csv.QUOTE_NONE))
    except OSError as error:
        raise ProtocolError(f"{path}: cannot be read ({error.strerror}); name a file that sacct has written") from None
    head = rows[0] if rows else []
    if missing := [name for name in NEEDED if name not in head]:
        raise ProtocolError(f"{path}: has no column {', '.join(missing)}; call sacct with --format={','.join(NEEDED)}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(head):
            raise ProtocolError(
                f"{path}: line {number}: has {len(row)} fields; it must have {len(head)}, as the first line"
            )
        values = dict(zip(head, row, strict=True))
        gpus = gpus_in(values["AllocTRES"].replace("gres/", "").replace("=", ":"))
        if "." in values["JobID"] or gpus is None:
            continue
        times = [_time(values[name], f"{path}: line {number}: {name}") for name in ("Submit", "Start", "End")]
        if math.isnan(times[0]):
            continue
        run = times[2] - times[1]
        job = ObservedJob(values["JobID"], times[0], gpus[1], expected_time(run if run == run else math.inf))
        user, account, name = (values.get(key, "") for key in ("User", "Account", "JobName"))
        yield replace(job, user=user, tenant=account or user, job_name=name), times[0], times[1], times[2]


def _time(text: str, place: str) -> float:
    if text in NO_TIME:
        return math.nan
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise ProtocolError(f"{place} is {quote(text)}; it must be a time like 2024-03-04T08:00:00") from None
