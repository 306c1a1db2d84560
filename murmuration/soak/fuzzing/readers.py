"""Changed inputs for what the bridge and shadow mode read: answers of Slurm, recordings, notes, journals."""

import json
import random
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from baselines import Fifo
from deployment.adapter import TaskNote, read_note
from deployment.journal import Journal, read_journal
from deployment.shadow import Shadow
from deployment.slurm.observing import NEEDED, observe_queue, observe_recording
from deployment.slurm.parsing import read_nodes, read_tasks
from deployment.slurm.rest import find_adapter
from envs.performance import default_model
from envs.simulation import Setup
from envs.types import ClusterSpec, NodeSpec
from murmuration.soak.fuzzing.changes import spoil_bytes
from murmuration.soak.fuzzing.count import FuzzCount
from murmuration.soak.fuzzing.daemon import Daemon

NODES = ("n0", "n1", "n2")
CLUSTER = ClusterSpec(tuple(NodeSpec("V100", 4) for _ in NODES), name="fuzzed")
TIME = 1_700_000_000
# What JSON of Python does not write: numbers of too many digits, half a surrogate pair, brackets without end.
RAW = {"@digits": "9" * 5000, "@half": '"\\ud800"', "@infinite": "-Infinity", "@deep": "[" * 5000 + "]" * 5000}
USER = "ada"
OWNER = f"{USER}.0f-0"
TEXTS: tuple[str, ...] = ("", "x", "x" * 1024, "y" * 200_000, "caf\udce9", "\udcff\udcfe", "\x1b[2J", "a\nb|c", "[/x]")
TEXTS += ("\u2028\u202e", "gpu:" + "9" * 4300, "gres:gpu:99999999999", "gpu:1K", "gpu:-1", "gpu:0", "gpu:²", "(" * 2000)
TEXTS += (",gpu" * 400, "cpu=1,gres/gpu=" + "7" * 5000, "RUNNING", "murmuration/ada.0f-0/99/1/n0=1")
TEXTS += ("murmuration/ada.0f-0/" + "1" * 5000 + "/1/n0=1", "murmuration-bridge/ada.0f", "n0", "n9", "0001-01-01")
TEXTS += ("murmuration/ada.0f-0/-1/1/n0=x", "1970-01-01T00:00:00", "9999-12-31T23:59:59", "Unknown")
VALUES: tuple[Any, ...] = (*TEXTS, *RAW, None, True, [], {}, [None], [[]], -1, 0, 0.5, 1.5, 7, 1e308, 2**32 - 2, 2**64)
VALUES += (float("nan"), float("inf"), {"number": -1}, {"number": 3, "infinite": True}, {"number": float("inf")})
VALUES += (["RUNNING"], ["gpu:" + "9" * 5000], ["RUNNING", 3], {"allocated_nodes": 3}, {"allocated_nodes": [{}]})

Entries = list[dict[str, Any]]


def fuzz_readers(inputs: int, seed: int) -> FuzzCount:
    """Read inputs of which most are changed, and check that what was not changed is read all the same.

    Args:
        inputs: number of inputs.
        seed: from which they are drawn.

    Raises:
        RunFailedError: an input ended in another error than a refusal in one line, or hid an honest job.
    """
    count = FuzzCount("readers of the bridge")
    with TemporaryDirectory() as name, Daemon(Path(name) / "socket") as daemon, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fuzz = Fuzz(Path(name), daemon)
        for number in range(inputs):
            read, changed = fuzz.draw(random.Random(f"{seed} {number}"), number)
            count.check(number, read, changed=changed)
    return count


class Fuzz:
    """Draws inputs, each with the function that reads and checks it.

    Args:
        folder: of the files that are read.
        daemon: answers in place of slurmrestd.
    """

    def __init__(self, folder: Path, daemon: Daemon) -> None:
        self._folder, self._daemon = folder, daemon
        self._readers = (self._tasks, self._queue, self._nodes, self._recording, self._note, self._lines, self._rest)
        self._shadow: Shadow | None = None

    def draw(self, rng: random.Random, number: int) -> tuple[Callable[[], object], bool]:
        """Return what reads an input, and whether it was changed; the number chooses what reads it."""
        self._rng, self._intact = rng, rng.random() < 0.05
        return self._readers[number % len(self._readers)](), not self._intact

    def _tasks(self) -> Callable[[], object]:
        entries = _queue(self._rng)
        text, same = self._change(entries, "jobs")
        honest = read_tasks(print_answer({"jobs": [entries[i] for i in same]}), USER)
        parts = {entries[i]["het_job_id"] for i in range(len(entries)) if i not in same} - {0}
        honest = [task for task in honest if int(task.name) not in parts]
        return lambda: _check(honest, read_tasks(text, USER))

    def _queue(self) -> Callable[[], object]:
        entries = _queue(self._rng)
        text, same = self._change(entries, "jobs")
        honest = observe_queue(print_answer({"jobs": [entries[i] for i in same]}), NODES, {})
        now = TIME + self._rng.random() * 1e5

        def read() -> None:
            found = observe_queue(text, NODES, {})
            _check(honest, found)
            self._watching().look(now, found)

        return read

    def _watching(self) -> Shadow:
        """Return a shadow; one that has seen many jobs is slow, so that it is replaced now and then."""
        if self._shadow is None or self._shadow.num_rounds > 50:
            journal = Journal(self._folder / "shadow.jsonl")
            self._shadow = Shadow(Fifo(), Setup(CLUSTER, default_model()), "resnet50", journal)
        return self._shadow

    def _nodes(self) -> Callable[[], object]:
        entries = _nodes()
        text, same = self._change(entries, "nodes")
        honest = read_nodes(print_answer({"nodes": [entries[i] for i in same]}))
        return lambda: _check(honest, read_nodes(text))

    def _recording(self) -> Callable[[], object]:
        rows = [_row(self._rng, number) for number in range(1, 7)]
        same = self._untouched(len(rows))
        for i in set(range(len(rows))) - same:
            rows[i][self._rng.randrange(len(rows[i]))] = str(self._rng.choice(TEXTS))
            if self._rng.random() < 0.2:
                rows[i] = rows[self._rng.randrange(len(rows))]
        path = self._folder / "sacct.txt"
        lines = ["|".join((*NEEDED, "JobName")), *("|".join(row) for row in rows)]
        path.write_bytes(self._spoil("\n".join(lines).encode("utf-8", "surrogateescape"), same))
        honest = {rows[i][0] for i in same}

        def read() -> None:
            _check(honest, {job.name for _, jobs in observe_recording(path, CLUSTER, {}) for job in jobs})

        return read

    def _note(self) -> Callable[[], object]:
        note = TaskNote(OWNER, self._rng.randrange(99), 1, {"n0": 2, "n1": 1})
        if self._intact:
            return lambda: _check([note], [read_note(note.write(), USER)])
        text = note.write().replace(self._rng.choice("/=,01"), self._rng.choice(TEXTS), 1)
        return lambda: read_note(text, USER)

    def _lines(self) -> Callable[[], object]:
        path = self._folder / "journal.jsonl"
        path.unlink(missing_ok=True)
        journal = Journal(path)
        for job in range(3):
            journal.write("intended", "start", job=job, segment=1, gpus={"n0": 1}, time=TIME + 0.5, now=1.0)
        journal.close()
        honest = list(read_journal(path))
        same = self._untouched(len(honest))
        path.write_bytes(self._spoil(path.read_bytes(), same))
        if self._intact:
            return lambda: _check(honest, list(read_journal(path)))
        return lambda: list(read_journal(path))

    def _rest(self) -> Callable[[], object]:
        version = "9" * 5000 if not self._intact and self._rng.random() < 0.1 else "38"
        offered, jobs = json.dumps({"paths": {f"/slurm/v0.0.{version}/jobs": {}}}), _queue(self._rng)
        text, _ = self._change(jobs, "jobs")
        answers = [_http(offered), _http(text)]
        if not self._intact and self._rng.random() < 0.7:
            which = self._rng.randrange(2)
            answers[which] = self._spoil(answers[which], set())
        self._daemon.first, self._daemon.then = answers
        return lambda: find_adapter(self._daemon.address, {}).tasks()

    def _untouched(self, count: int) -> set[int]:
        """Draw which of so many entries stay as they are."""
        some = {i for i in range(count) if self._intact or self._rng.random() < 0.6}
        return some if self._intact or len(some) < count else some - {0}

    def _change(self, entries: Entries, name: str) -> tuple[str, set[int]]:
        """Return an answer with changed entries, as the adapter reads it, and the places of those that are the same."""
        same, changed = self._untouched(len(entries)), list[Any](entries)
        for i in set(range(len(entries))) - same:
            changed[i] = self._changed_entry(entries, i)
        text = print_answer({"errors": [], name: changed})
        if RAW["@deep"] in text:
            same.clear()
        printed = self._spoil(text.encode("utf-8", "surrogateescape"), same)
        return printed.decode(errors="replace"), same

    def _changed_entry(self, entries: Entries, i: int) -> Any:
        if self._rng.random() < 0.05:
            return self._rng.choice(VALUES)
        entry, other = dict(entries[i]), entries[self._rng.randrange(len(entries))]
        fields = self._rng.sample(sorted(entry), self._rng.randint(1, 3))
        for place, field in enumerate(fields):
            entry[field] = self._rng.choice(VALUES)
            if self._rng.random() < 0.2:
                del entry[field]
            elif not place and self._rng.random() < 0.2:  # of one field at most: with two it would be the other job
                entry[field] = other.get(field)
        return entry

    def _spoil(self, content: bytes, same: set[int]) -> bytes:
        """Change some bytes of every tenth input that may be changed; then nothing is the same for certain."""
        if self._intact or (self._rng.random() < 0.9 and same):
            return content
        same.clear()
        return spoil_bytes(content, self._rng)


def _check(honest: Sequence[Any] | set[Any], found: Sequence[Any] | set[Any]) -> None:
    if hidden := [each for each in honest if each not in found]:
        raise AssertionError(f"not read beside damaged ones: {hidden[0]}")


def print_answer(answer: dict[str, Any]) -> str:
    """Return an answer of Slurm as JSON, with what JSON of Python does not write."""
    text = json.dumps(answer, ensure_ascii=False)
    for mark, raw in RAW.items():
        text = text.replace(f'"{mark}"', raw)
    return text


def _http(body: str) -> bytes:
    content = body.encode("utf-8", "surrogateescape")
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content) + content


def _queue(rng: random.Random) -> Entries:
    """Jobs of a bridge, one of two parts, and of others, in the forms of old and new versions of Slurm."""
    found: Entries = []
    for number in range(1, rng.randint(4, 8)):
        job = {"job_id": number, "name": f"train{number}", "user_name": USER, "account": "lab", "comment": ""}
        job |= {"job_state": "PENDING", "het_job_id": 0, "submit_time": TIME + number, "start_time": 0, "node_count": 1}
        job |= {"time_limit": {"set": True, "infinite": False, "number": 60}, "tasks": 1, "batch_host": ""}
        job |= {"tres_per_job": "", "tres_per_node": "gres:gpu:1", "tres_per_task": "", "tres_req_str": "cpu=1,node=1"}
        if rng.random() < 0.4:
            node = rng.choice(NODES)
            held = {"job_resources": {"allocated_nodes": [{"nodename": node}]}, "gres_detail": ["gpu:1(IDX:0)"]}
            job |= {"job_state": ["RUNNING"], "start_time": TIME + 60, "batch_host": node, **held}
        if rng.random() < 0.5:
            job["comment"] = TaskNote(OWNER, number, 1, {"n0": 1}).write()
        found.append(job)
    first, second = (found[i] for i in rng.sample(range(len(found)), 2))
    for part in (first, second):
        part |= {"het_job_id": 100, "comment": TaskNote(OWNER, 50, 2, {"n0": 1, "n1": 2}).write()}
    return found


def _nodes() -> Entries:
    found: Entries = [{"name": name, "gres": "gpu:V100:4(S:0-1)", "state": "idle", "cpus": 64} for name in NODES]
    found[2] |= {"state": ["IDLE", "DRAIN"], "comment": ""}
    return [each | {"real_memory": {"set": True, "number": 20000}, "state_flags": []} for each in found]


def _row(rng: random.Random, number: int) -> list[str]:
    times = [f"2024-03-04T{hour:02}:00:00" for hour in sorted(rng.sample(range(24), 3))]
    return [str(number), *times, "billing=1,cpu=1,gres/gpu=2,node=1", "train"]
