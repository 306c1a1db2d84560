"""Jobs of `squeue --json`, in the forms of Slurm 22.05 and of 23.11 and later, as rows of `sacct`."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from envs.workloads.readers.slurm_json import clock_of, instant_of, number_of, text_of

QUEUED = "Queued"  # the column that tells these rows from those of sacct
TEXTS = {"JobName": "name", "User": "user_name", "Account": "account", "Partition": "partition", "QOS": "qos"}
TEXTS |= {"Dependency": "dependency", "Reason": "state_reason"}
ASKED = {  # where GPUs are not accounted for: fields of what a job asks for, and by which others it is multiplied
    "tres_per_job": (),
    "tres_per_node": ("node_count",),
    "tres_per_task": ("tasks",),
    "tres_per_socket": ("sockets_per_node", "node_count"),
}
MOST_TASKS = 100_000  # of one array
_GPUS = re.compile(r"gpu(?:[:/]([A-Za-z][^:=,(]*))?(?:[:=](\d{1,9}))?(?=[,(]|$)", re.ASCII)
_TASKS = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


def queued_jobs(entry: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a job, or each task of an array that waits, as columns that `sacct` prints."""
    row = {column: text_of(entry.get(key)) for column, key in TEXTS.items()}
    state = entry.get("job_state")
    row["State"] = text_of(state[0] if isinstance(state, list) and state else state)
    row["Submit"], row["Eligible"] = (instant_of(number_of(entry.get(key))) for key in ("submit_time", "eligible_time"))
    row["Start"], row["NodeList"] = instant_of(number_of(entry.get("start_time"))), text_of(entry.get("nodes"))
    row["Elapsed"] = row["Timelimit"] = clock_of(number_of(entry.get("time_limit")), 60)
    row["Priority"] = number_of(entry.get("priority"))
    row["NNodes"] = number_of(entry.get("node_count"))
    row["AllocTRES"] = text_of(entry.get("tres_alloc_str")) or text_of(entry.get("tres_req_str"))
    if "gres/gpu" not in row["AllocTRES"]:
        row["AllocTRES"] = _asked(entry)
    row["ArrayLimit"] = number_of(entry.get("array_max_tasks"))
    row[QUEUED] = "1"
    array, task = number_of(entry.get("array_job_id")), number_of(entry.get("array_task_id"))
    if array in ("", "0"):
        yield row | {"JobID": number_of(entry.get("job_id"))}
        return
    for number in [task] if task else _tasks(text_of(entry.get("array_task_string"))):
        yield row | {"JobID": f"{array}_{number}"}


def _asked(entry: Mapping[str, Any]) -> str:
    """Return the GPUs that a job asks for, as `AllocTRES` has them."""
    for name, factors in ASKED.items():
        if found := _GPUS.search(text_of(entry.get(name)).replace("gres:", "").replace("gres/", "")):
            counts = [number_of(entry.get(factor)) for factor in factors]
            times = math.prod(int(count) for count in counts if re.fullmatch(r"\d{1,9}", count, re.ASCII))
            gpu_type = f":{found[1]}" if found[1] else ""
            return f"gres/gpu{gpu_type}={int(found[2] or 1) * times}"
    return ""


def _tasks(text: str) -> list[str]:
    """Return the numbers of tasks that a text such as 1,4-8:2%3 names; one unknown task where it cannot be read."""
    numbers: list[int] = []
    for part in text.partition("%")[0].split(","):
        found = _TASKS.fullmatch(part)
        if found is None or len(numbers) > MOST_TASKS:
            return [""]
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        numbers += range(first, min(last, first + MOST_TASKS * max(step, 1)) + 1, max(step, 1))
    return [str(number) for number in numbers[:MOST_TASKS]]
