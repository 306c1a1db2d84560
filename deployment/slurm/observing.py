"""Jobs that others have submitted to Slurm: those of `squeue --json`, and those of a file that `sacct` has written."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from deployment.adapter import TaskState
from deployment.history import ObservedJob, expected_time
from deployment.reading import Entry, ProtocolError, quote
from deployment.slurm.parsing import ALL_GPUS, LONGEST_LIST, gpu_count, gpus_in, plain_number, read_jobs, whole_number
from envs.types import LATEST_SUBMISSION, ClusterSpec, NodeId

NEEDED = ("JobID", "Submit", "Start", "End", "AllocTRES")
ASKED_BY = {  # fields of what a job asks for, and by which others it is multiplied
    "tres_per_job": (),
    "tres_per_node": ("node_count",),
    "tres_per_task": ("tasks",),
    "tres_per_socket": ("sockets_per_node", "node_count"),
}
NO_TIME = ("Unknown", "None", "")
OPTED_IN = "murmuration"  # a word of the comment of jobs whose owners let an adviser change their place in the queue
MARKS = re.compile(r"[\s,;]+")  # between words of a comment
LONGEST_COMMENT = 100_000  # characters
LONGEST_NAME = 1024  # characters of a job's name that Slurm accepts


def observe_queue(text: str, names: Sequence[str], left_out: dict[str, str]) -> list[ObservedJob]:
    """Read what `squeue --json` prints: all jobs with GPUs, also those that have ended as long as Slurm lists them.

    Args:
        text: the output.
        names: of the nodes, in the order of the setup.
        left_out: takes why a damaged job was left out, by its id; see `read_jobs`.

    Raises:
        ProtocolError: it has another form.
    """
    nodes = {name: node for node, name in enumerate(names)}

    def read(job: Entry, number: int, state: TaskState) -> ObservedJob | None:
        held = _held(job, nodes) if state == "running" else None
        gpus = sum(held.values()) if held else _asked(job)
        if not gpus:
            return None
        start = plain_number(job.field("start_time"), LATEST_SUBMISSION) if held else math.nan
        end = math.nan
        if state == "ended":
            start, end = (plain_number(job.field(key), LATEST_SUBMISSION) for key in ("start_time", "end_time"))
            if not end:
                return None
            start = start if 0 < start < end else math.nan  # else it was cancelled while it waited
        eligible = job.optional("eligible_time")
        since = 0.0 if eligible is None else plain_number(eligible, LATEST_SUBMISSION)
        priority, nice = job.optional("priority"), job.optional("nice")
        comment = job.optional("comment")
        limit = job.optional("time_limit")
        user, account, name, partition = (
            "" if (entry := job.optional(key)) is None else entry.text(LONGEST_NAME)
            for key in ("user_name", "account", "name", "partition")
        )
        return ObservedJob(
            str(number),
            max(plain_number(job.field("submit_time"), LATEST_SUBMISSION), since),
            gpus,
            expected_time(60.0 * plain_number(limit) if limit is not None else math.inf),
            start,
            held,
            user,
            account or user,
            name,
            end,
            eligible=(eligible is None or since > 0) and (priority is None or plain_number(priority) > 0),
            opted_in=comment is not None and OPTED_IN in MARKS.split(comment.text(LONGEST_COMMENT)),
            nice=0 if nice is None else _signed(nice),
            priority=0.0 if priority is None else plain_number(priority),
            partition=partition,
            max_nodes=whole_number(job.field("node_count")) if job.optional("tres_per_node") else 0,
        )

    return read_jobs(text, "squeue --json", read, left_out)


def _signed(entry: Entry) -> int:
    """Return a number that Slurm 22.05 prints without its sign."""
    found = (entry.field("number") if isinstance(entry.value, dict) else entry).whole(-(2**31), 2**32 - 1)
    return found - 2**32 if found >= 2**31 else found


def _held(job: Entry, nodes: dict[str, NodeId]) -> dict[NodeId, int] | None:
    """GPUs by node of a running job; None where it is not said which it holds."""
    resources, details = job.optional("job_resources"), job.optional("gres_detail")
    if resources is None or details is None:
        return None
    listed = [each.field("nodename").text() for each in resources.field("allocated_nodes").items()]
    counts = [gpus_in(each) for each in details.items()]
    held = {name: count[1] for name, count in zip(listed, counts, strict=False) if count is not None}
    if held and not nodes.keys() & held:
        raise ProtocolError(f"{job.place}: holds GPUs on {quote(', '.join(held))}; nodes of the setup are watched")
    return {nodes[name]: count for name, count in held.items() if name in nodes} or None


def _asked(job: Entry) -> int:
    """GPUs that a waiting job asks for: as Slurm counts them where it accounts for GPUs, else as the user has asked."""
    total = job.optional("tres_req_str")
    if total is not None and (counted := ALL_GPUS.search(total.text(LONGEST_LIST))):
        return gpu_count(counted.group(1), total)
    for name, factors in ASKED_BY.items():
        entry = job.optional(name)
        found = gpus_in(entry) if entry is not None else None
        if found is not None:
            return found[1] * math.prod(whole_number(job.field(factor)) for factor in factors)
    return 0


def observe_recording(
    path: Path, cluster: ClusterSpec, left_out: dict[str, str]
) -> Iterator[tuple[float, list[ObservedJob]]]:
    """Yield what `squeue` would have shown whenever a job of an accounting file was submitted, began or ended.

    The file does not say on which nodes a job ran: each gets the first GPUs that are free when it begins. A job that
    was requeued has a row for each time (`sacct --duplicates`); of several that count, the one that runs is shown.

    Args:
        path: the output of `sacct --allusers --allocations --parsable2` with the columns `NEEDED`.
        cluster: the nodes.
        left_out: takes why a damaged row was left out, by the name of its line.

    Raises:
        ProtocolError: no row can be read, or a column is missing; names the file, the line and the field.
    """
    rows = _rows(path, left_out)
    times = sorted({time for _, *row in rows for time in row if not math.isnan(time)})
    waiting = sorted(
        enumerate(rows), key=lambda each: (each[1][1], each[0]), reverse=True
    )  # the next to be submitted is last
    present: dict[int, _Row] = {}  # by number of the row
    placed: dict[int, dict[NodeId, int]] = {}
    for now in times:
        while waiting and waiting[-1][1][1] <= now:
            number, row = waiting.pop()
            present[number] = row
        present = {number: row for number, row in present.items() if not row[3] <= now}
        free = cluster.node_gpus.copy()
        for number in present:
            for node, count in placed.get(number, {}).items():
                free[node] -= count
        shown: dict[str, ObservedJob] = {}
        for number, (job, _, start, _) in present.items():
            if start <= now and number not in placed and (found := _first_fit(free.tolist(), job.num_gpus)):
                placed[number] = found
                for node, count in found.items():
                    free[node] -= count
            gpus = placed.get(number)
            if gpus or job.name not in shown:
                shown[job.name] = replace(job, start_time=start if start <= now else math.nan, gpus=gpus)
        yield now, list(shown.values())


def _first_fit(free: Sequence[int], want: int) -> dict[NodeId, int]:
    found: dict[NodeId, int] = {}
    for node, count in enumerate(free):
        take = min(int(count), want - sum(found.values()))
        if take > 0:
            found[node] = take
    return found if sum(found.values()) == want else {}


_Row = tuple[ObservedJob, float, float, float]  # with the times of submission, begin and end


def _rows(path: Path, left_out: dict[str, str]) -> list[_Row]:
    """Return each job with its times, in the order of the file."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:  # names may have other separators
            lines = [line.rstrip("\r\n") for line in file]
    except OSError as error:
        raise ProtocolError(f"{path}: cannot be read ({error.strerror}); name a file that sacct has written") from None
    head = lines[0].split("|") if lines else []
    if missing := [name for name in NEEDED if name not in head]:
        raise ProtocolError(f"{path}: has no column {', '.join(missing)}; call sacct with --format={','.join(NEEDED)}")
    rows, damaged = [], dict[str, str]()
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        try:
            row = _row(head, line.split("|"), f"{path}: line {number}")
        except ProtocolError as error:
            damaged[f"line {number}"] = str(error)
            continue
        if row is not None:
            rows.append(row)
    if damaged and not rows:
        raise ProtocolError(next(iter(damaged.values())))
    left_out.update(damaged)
    return rows


def _row(head: Sequence[str], row: Sequence[str], place: str) -> _Row | None:
    """Return what a row says; None if its job has no GPUs or was not submitted, or if it is a step of a job."""
    if len(row) != len(head):
        raise ProtocolError(f"{place}: has {len(row)} fields; it must have {len(head)}, as the first line")
    values = {name: Entry(value, f"{place}: {name}") for name, value in zip(head, row, strict=True)}
    if "." in (name := values["JobID"].text(LONGEST_NAME)) or (gpus := gpus_in(values["AllocTRES"])) is None:
        return None
    submit, start, end = (_time(values[key]) for key in ("Submit", "Start", "End"))
    if math.isnan(submit):
        return None
    user, account, job_name = (
        values[key].text(LONGEST_NAME) if key in values else "" for key in ("User", "Account", "JobName")
    )
    run = end - start
    expected = expected_time(run if run == run else math.inf)
    job = ObservedJob(
        name, submit, gpus[1], expected, run_time=run, user=user, tenant=account or user, job_name=job_name
    )
    return job, submit, start, end


def _time(entry: Entry) -> float:
    """Return a time in seconds since 1970; NaN where it has not come."""
    if entry.value in NO_TIME:
        return math.nan
    try:
        found = datetime.fromisoformat(entry.text()).timestamp()
    except (ValueError, OverflowError, OSError):
        found = math.nan
    if not 0.0 <= found <= LATEST_SUBMISSION:
        raise entry.refuse("a time like 2024-03-04T08:00:00")
    return found
