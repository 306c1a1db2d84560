"""Changed output of `sacct`, which ends in jobs, or in an error of one line."""

import csv
import io
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from envs.cluster import build_cluster
from envs.performance import IdealModel
from envs.workloads import TraceSource
from envs.workloads.readers import SlurmTrace
from murmuration.soak.fuzzing.changes import change_value, spoil_bytes
from murmuration.soak.fuzzing.count import FuzzCount
from murmuration.soak.fuzzing.readers import TEXTS, VALUES, print_answer

CLUSTER = build_cluster("fuzzed", [{"gpu_type": "V100", "num_nodes": 4, "num_gpus": 8}])
FORMS = ("bars", "commas", "json", "queue")
STATES = ("COMPLETED", "COMPLETED", "TIMEOUT", "FAILED", "CANCELLED by 7", "REQUEUED", "PENDING", "NODE_FAIL")
LIMITS = ("02:00:00", "1-00:00:00", "UNLIMITED", "Partition_Limit", "")
FIELDS = ("-1", "9" * 400, "nan", "inf", "1e400", "00:00:00", "99999-99:99:99", "Unknown", "None", "|", '"', ",")
LINES = ("sbatch x.sh", "sbatch -a 1-9%2 x.sh", "sbatch --dependency=afterok:1 x.sh | tee log", "sbatch -d singleton")
LIMITS_IN_JSON = ({"set": True, "infinite": False, "number": 60}, {"set": True, "infinite": True}, 90)


def fuzz_sacct(inputs: int, seed: int) -> FuzzCount:
    """Read files of `sacct` of which most are changed, up to the jobs of a workload.

    Args:
        inputs: number of files.
        seed: from which they are drawn.

    Raises:
        RunFailedError: a file ended in another error than a refusal in one line, or an honest one was refused.
    """
    count = FuzzCount("sacct")
    with TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(inputs):
            rng = random.Random(f"{seed} {number}")
            intact = rng.random() < 0.05
            path = Path(name) / "jobs.txt"
            path.write_bytes(_draw(rng, FORMS[number % len(FORMS)], intact))
            refused = count.refused
            count.check(number, _read(path, rng), changed=not intact)
            if intact and count.refused > refused:
                count.check(number, _refuse)
    return count


def _refuse() -> None:
    raise AssertionError("an honest file was refused")


def _read(path: Path, rng: random.Random) -> Callable[[], object]:
    strict, limits = rng.random() < 0.1, {"": 3600.0} if rng.random() < 0.3 else {}
    zone = "Europe/Berlin" if rng.random() < 0.3 else None
    reader = SlurmTrace(default_limits=limits, timezone=zone)
    source = TraceSource(
        CLUSTER,
        IdealModel(),
        reader,
        path=str(path),
        strict=strict,
        evaluate_on="all",
        limits="trace",
        holds="trace",
        elastic=1.0,
    )
    return lambda: [job.time_limit for workload in source.evaluation() for job in workload]


def _draw(rng: random.Random, form: str, intact: bool) -> bytes:
    """Return a file of a form, changed unless it is to be intact."""
    entries = [_job(rng, number) for number in range(1, rng.randint(3, 9))]
    rows = [_row(rng, entry) for entry in entries]
    changes = 0 if intact else rng.randint(1, 4)
    names = list(rows[0])
    for _ in range(changes):
        draw, at = rng.random(), rng.randrange(len(rows))
        column = rng.choice(names)
        if draw < 0.15 and len(names) > 1:
            names.remove(column)
        elif draw < 0.3:
            rows.insert(rng.randrange(len(rows) + 1), dict(rows[at]))
        elif draw < 0.4:
            names.insert(rng.randrange(len(names) + 1), column)
        else:
            rows[at][column] = rng.choice((*FIELDS, *TEXTS, rng.choice(rows)[rng.choice(list(rows[0]))]))
    if form in ("json", "queue"):
        entries = [_queued(rng, entry) for entry in entries] if form == "queue" else entries
        for _ in range(changes):
            entries = change_value(rng, entries, VALUES)
        content = print_answer({"jobs": entries}).encode("utf-8", "surrogateescape")
    else:
        content = _print(form, [names, *([row[name] for name in names] for row in rows)])
    return spoil_bytes(content, rng) if changes and rng.random() < 0.2 else content


def _print(form: str, rows: list[list[str]]) -> bytes:
    if form == "bars":
        return "".join("|".join(row) + "\n" for row in rows).encode("utf-8", "surrogateescape")
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "surrogateescape")


def _job(rng: random.Random, number: int) -> dict[str, Any]:
    """A job as `sacct --json` prints it."""
    submit = 1_709_539_200 + rng.randrange(10**6)
    limit = rng.choice(LIMITS_IN_JSON)
    return {
        "job_id": number,
        "name": rng.choice(("train", "a|b", "x y", 'say "hi"')),
        "user": "ada",
        "account": "lab",
        "partition": rng.choice(("gpu", "debug")),
        "qos": "normal",
        "priority": {"set": True, "infinite": False, "number": rng.randrange(10**6)},
        "submit_line": rng.choice(LINES),
        "allocation_nodes": 1,
        "nodes": "n[1-2]",
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}},
        "time": {"submission": submit, "eligible": submit, "elapsed": rng.randrange(1, 10**5), "limit": limit}
        | {"start": submit + rng.randrange(10**4), "end": {"set": True, "infinite": False, "number": submit + 10**5}},
        "state": {"current": [rng.choice(STATES) if number > 1 else "COMPLETED"]},
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": rng.choice((1, 2, 8))}]},
    }


def _queued(rng: random.Random, entry: dict[str, Any]) -> dict[str, Any]:
    """The same job as `squeue --json` prints it, waiting or running."""
    first, kept = entry["job_id"] == 1, ("job_id", "name", "account", "partition", "qos", "priority")
    waits = not first and rng.random() < 0.5
    return {name: entry[name] for name in kept} | {
        "job_state": ["PENDING"] if waits else "RUNNING",
        "user_name": entry["user"],
        "submit_time": entry["time"]["submission"],
        "eligible_time": {"set": True, "infinite": False, "number": entry["time"]["eligible"]},
        "time_limit": 60 if first else entry["time"]["limit"],
        "start_time": {"set": True, "infinite": False, "number": entry["time"]["start"]},
        "dependency": rng.choice(("", "singleton(unfulfilled)", "afterok:1(unfulfilled)")) if waits else "",
        "array_job_id": 7 if waits else 0,
        "array_task_string": rng.choice(("1-3%1", "2,4-9:2")) if waits else "",
        "tres_req_str": "cpu=8,gres/gpu=2" if rng.random() < 0.7 or first else "",
        "tres_per_node": "gres:gpu:a100:2",
        "node_count": {"set": True, "infinite": False, "number": 2},
    }


def _row(rng: random.Random, entry: dict[str, Any]) -> dict[str, str]:
    """The same job as a row of `sacct --parsable2`."""
    hour = rng.randrange(24)
    return {
        "JobID": str(entry["job_id"]) if rng.random() < 0.9 else f"7_{entry['job_id']}",
        "JobName": entry["name"],
        "User": entry["user"],
        "Partition": entry["partition"],
        "QOS": entry["qos"],
        "Priority": str(entry["priority"]["number"]),
        "Submit": f"2024-03-04T{hour:02}:00:00",
        "Eligible": f"2024-03-04T{hour:02}:30:00",
        "Start": rng.choice((f"2024-03-04T{hour:02}:40:00", "Unknown", "None")),
        "End": f"2024-03-05T{hour:02}:00:00",
        "NodeList": rng.choice(("n[1-2]", "None assigned")),
        "Elapsed": f"{rng.randrange(24):02}:00:07",
        "Timelimit": rng.choice(LIMITS),
        "State": entry["state"]["current"][0],
        "NNodes": "1",
        "AllocTRES": f"billing=8,gres/gpu={entry['tres']['allocated'][0]['count']},node=1",
        "SubmitLine": entry["submit_line"],
    }
