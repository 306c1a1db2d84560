"""The adapter to Slurm: recorded output of its commands, and a real Slurm on this machine where it is installed."""

import json
import math
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from deployment.adapter import ActionRefusedError, TaskNote, TaskStatus
from deployment.jobs import DONE, RUNNING, STOPPED, GoOnOrder, read_report, write_order
from deployment.slurm.adapter import SlurmAdapter
from deployment.slurm.parsing import read_claims, read_nodes, read_tasks
from deployment.slurm.rest import SlurmRestAdapter, find_adapter
from envs.types import MurmurationError
from tests.unit.deployment.test_jobs import ROOT, wait_for

RECORDED = Path(__file__).parent / "recorded"
OWNER = "root.0f-0"


def test_recorded_nodes_are_read():
    nodes = read_nodes((RECORDED / "sinfo_22_05.json").read_text())
    assert [(node.name, node.gpu_type, node.num_gpus, node.cpu_cores, node.memory, node.up) for node in nodes] == [
        (f"n{i}", "gpu", 4, 64.0, 20.0, True) for i in range(3)
    ]


def test_recorded_tasks_are_read_and_parts_of_an_uneven_gang_are_one_task():
    tasks = read_tasks((RECORDED / "squeue_22_05.json").read_text(), "root")
    assert tasks == [
        TaskStatus("1", TaskNote(OWNER, 0, 1, {"n0": 2}), "ended"),
        TaskStatus("2", TaskNote(OWNER, 0, 2, {"n0": 4, "n1": 1, "n2": 1}), "running"),
    ]


def test_newer_forms_of_numbers_and_states_are_read():
    number = {"set": True, "infinite": False, "number": 7}
    job = {
        "job_id": number,
        "comment": "murmuration/root.0f-0/1/1/n0=2",
        "user_name": "root",
        "job_state": ["RUNNING", "COMPLETING"],
        "het_job_id": {**number, "number": 0},
    }
    other = {"job_id": 8, "comment": "", "job_state": "RUNNING"}
    assert read_tasks(json.dumps({"jobs": [job, other]}), "root") == [
        TaskStatus("7", TaskNote(OWNER, 1, 1, {"n0": 2}), "ended")
    ]
    alone = job | {"job_state": "RUNNING", "batch_host": "n0"}
    gang = alone | {"het_job_id": 7, "job_id": 7}
    assert [task.first_node for task in read_tasks(json.dumps({"jobs": [alone]}), "root")] == ["n0"]
    assert [task.first_node for task in read_tasks(json.dumps({"jobs": [gang]}), "root")] == [""]  # Slurm would refuse
    node = {
        "name": "a10",
        "gres": "gpu:a100:4(S:0-1),gpu:t4:2",
        "state": ["IDLE", "DRAIN"],
        "cpus": number,
        "real_memory": 1000,
    }
    other = node | {"name": "a9", "state": ["MIXED"]}
    plain = node | {"name": "b", "gres": "craynetwork:4"}
    found = read_nodes(json.dumps({"nodes": [node, other, plain]}))
    assert [(each.name, each.gpu_type, each.num_gpus, each.up) for each in found] == [
        ("a9", "a100", 6, True),
        ("a10", "a100", 6, False),
    ]


def test_a_note_that_another_user_has_written_is_no_task_of_ours():
    """Anyone may give a job any comment; a bridge that runs as root would stop it."""
    job = {"job_id": 7, "comment": f"murmuration/{OWNER}/0/1/n0=2", "job_state": "RUNNING", "user_name": "root"}
    forged = [job | {"job_id": 8, "user_name": name} for name in ("mallory", "", None)]
    forged += [job | {"job_id": 9, "comment": "murmuration/mallory.0f-0/0/1/n0=2", "user_name": "mallory"}]
    assert [task.name for task in read_tasks(json.dumps({"jobs": [*forged, job]}), "root")] == ["7"]
    claims = [each | {"comment": "murmuration-bridge/root.0f", "job_state": "PENDING"} for each in (forged[0], job)]
    found = read_claims(json.dumps({"jobs": [*claims, claims[0] | {"job_id": 1, "job_state": "CANCELLED"}]}))
    assert [(each.name, each.user) for each in found] == [("7", "root"), ("8", "mallory")]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"jobs": 3}', '{"jobs": [{"comment": "murmuration/root.0f-0/0/1/n0=1"}]}', "\x1b[2J"]
)
def test_damaged_output_is_refused_in_one_line(text):
    with pytest.raises(MurmurationError, match="squeue --json") as raised:
        read_tasks(text, "root")
    assert str(raised.value).isprintable()


OWN = {"job_id": 7, "comment": f"murmuration/{OWNER}/1/1/n0=2", "job_state": "RUNNING", "user_name": "root"}
OWN |= {"het_job_id": 0, "batch_host": "n0"}


@pytest.mark.parametrize(
    "damage",
    [
        {"comment": 3},
        {"comment": f"murmuration/{OWNER}/{'1' * 5000}/1/n0=1"},
        {"job_id": None},
        {"job_state": [7]},
        {"het_job_id": 7, "job_state": "COMPLETED"},  # it is no part of our task
        {"het_job_id": math.inf},
        {"batch_host": "x" * 2000},
    ],
)
@pytest.mark.filterwarnings("ignore:squeue --json")
def test_a_damaged_job_hides_no_task_of_a_bridge(damage):
    other = OWN | {"job_id": 6, "comment": f"murmuration/{OWNER}/9/1/n0=1"} | damage
    for jobs in ([OWN, other], [other, OWN]):
        own = TaskStatus("7", TaskNote(OWNER, 1, 1, {"n0": 2}), "running", "n0")
        assert own in read_tasks(json.dumps({"jobs": jobs}), "root")


def test_a_task_that_is_left_out_is_named():
    with pytest.warns(UserWarning, match=r"squeue --json: job 7.het_job_id is nan; .*left out"):
        assert read_tasks(json.dumps({"jobs": [OWN | {"het_job_id": math.nan}]}), "root") == []


def test_a_damaged_node_is_not_taken_for_one_that_is_down():
    node = {"name": "n0", "gres": "gpu:4", "state": "idle", "cpus": 8, "real_memory": 1000}
    assert read_nodes(json.dumps({"nodes": [node | {"temperature": math.inf, "free_memory": 10**4299}]}))
    for damage in ({"gres": "gpu:" + "9" * 4301}, {"cpus": math.nan}):
        with pytest.raises(MurmurationError, match=r"nodes\[1\]"):
            read_nodes(json.dumps({"nodes": [node, node | damage]}))


def test_an_empty_list_beside_an_error_is_no_empty_queue():
    """`squeue --json` prints it, with status 0, while slurmctld is down."""
    text = json.dumps(
        {"errors": [{"error": "Unable to contact slurm controller", "errno": 1007}], "jobs": [], "nodes": []}
    )
    for read in (lambda text: read_tasks(text, "root"), read_claims, read_nodes):
        with pytest.raises(MurmurationError, match="Slurm reports .*Unable to contact"):
            read(text)


def test_a_command_that_is_missing_or_fails_is_a_refusal(monkeypatch, tmp_path):
    with pytest.raises(ActionRefusedError, match="sinfo: not found"):
        SlurmAdapter({"PATH": str(tmp_path)}).nodes()
    script = tmp_path / "squeue"
    script.write_text("#!/bin/sh\nprintf 'no\\033[2J slurmctld' >&2; exit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ActionRefusedError, match="squeue: no") as raised:
        SlurmAdapter().tasks()
    assert str(raised.value).isprintable()
    script.write_text("#!/bin/sh\nprintf 'caf\\351' >&2; exit 1\n")
    with pytest.raises(ActionRefusedError, match="squeue: caf\ufffd"):
        SlurmAdapter().tasks()
    (tmp_path / "answer").write_bytes(json.dumps({"jobs": [OWN | {"name": "@"}]}).encode().replace(b"@", b"caf\xe9"))
    script.write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    assert [task.name for task in SlurmAdapter().tasks()] == ["7"]
    script.chmod(0o644)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ActionRefusedError, match="squeue: cannot be run"):
        SlurmAdapter().tasks()


def test_a_signal_to_a_task_that_ends_at_that_instant_is_no_refusal_but_a_crash_of_scancel_is(monkeypatch, tmp_path):
    """Slurm prints no error about a job that has ended between scancel's look and its signal, and fails."""
    task = TaskStatus("4", TaskNote(OWNER, 0, 1, {"n0": 1}), "running")
    script = tmp_path / "scancel"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    SlurmAdapter().stop(task)
    script.write_text("#!/bin/sh\nkill -SEGV $$\n")
    with pytest.raises(ActionRefusedError, match="scancel: ended by signal 11"):
        SlurmAdapter().stop(task)


def sleeper(folder, segment, work):
    return [
        "env",
        f"PYTHONPATH={ROOT}",
        sys.executable,
        "-S",
        "-m",
        "deployment.sleeper",
        str(folder),
        str(segment),
        str(work),
        "1.0",
        "0.0",
    ]


def reported(folder, segment, state):
    return wait_for(lambda: (found := read_report(folder)) and found.segment == segment and found.state == state)


class Daemon:
    """A stand-in for slurmrestd: it answers each path with a status and a body, and keeps the requests."""

    def __init__(self, answers):
        outer = self
        self.answers = answers
        self.requests: list[tuple[str, str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append((self.command, self.path, dict(self.headers)))
                status, body = outer.answers.get(self.path, (404, "not defined\033[2J"))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body.encode())

            def do_DELETE(self):
                self.do_GET()

            def log_message(self, *_):
                pass

        self.listener = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.listener.server_port}"

    def __enter__(self):
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown()
        self.listener.server_close()


OFFERED = {"/openapi/v3": (200, json.dumps({"paths": {f"/slurm/v0.0.{i}/jobs": {} for i in (9, 38, 36)}}))}


def test_the_rest_daemon_is_asked_in_its_newest_version_with_the_token_of_the_user():
    path = "/slurm/v0.0.38"
    answers = OFFERED | {
        f"{path}/nodes": (200, (RECORDED / "sinfo_22_05.json").read_text()),
        f"{path}/jobs": (200, (RECORDED / "squeue_22_05.json").read_text()),
        f"{path}/job/2?signal=TERM": (200, "{}"),
        f"{path}/job/1": (200, "{}"),
    }
    with Daemon(answers) as daemon:
        adapter = SlurmRestAdapter(daemon.address, {"SLURM_JWT": "secret", "SLURM_USER_NAME": "root"})
        assert list(adapter.nodes()) == read_nodes(answers[f"{path}/nodes"][1])
        ended, running = adapter.tasks()
        adapter.stop(running)
        adapter.stop(ended, kill=True)
    assert [each[:2] for each in daemon.requests[-2:]] == [
        ("DELETE", f"{path}/job/2?signal=TERM"),
        ("DELETE", f"{path}/job/1"),
    ]
    headers = daemon.requests[-1][2]
    assert (headers["X-SLURM-USER-NAME"], headers["X-SLURM-USER-TOKEN"]) == ("root", "secret")


def test_errors_of_the_rest_daemon_are_refusals_in_one_line():
    error = json.dumps({"errors": [{"description": "unable to kill: Access denied", "error_number": 2002}]})
    gone = json.dumps({"errors": [{"description": "Invalid job id specified", "error_number": 2017}]})
    answers = OFFERED | {"/slurm/v0.0.38/job/1": (500, error), "/slurm/v0.0.38/job/2": (500, gone)}
    task = TaskStatus("1", TaskNote(OWNER, 0, 1, {"n0": 1}), "running")
    with Daemon(answers) as daemon:
        adapter = SlurmRestAdapter(daemon.address)
        with pytest.raises(ActionRefusedError, match="500 unable to kill: Access denied"):
            adapter.stop(task, kill=True)
        adapter.stop(TaskStatus("2", task.note, "running"), kill=True)  # it has ended long since
        with pytest.raises(ActionRefusedError, match="404 not defined") as raised:
            adapter.nodes()
        assert str(raised.value).isprintable()
        answers["/slurm/v0.0.38/jobs"] = (200, '{"errors": [{"error": "no controller"}], "jobs": []}')
        with pytest.raises(ActionRefusedError, match=f"{daemon.address}: Slurm reports .*no controller"):
            adapter.tasks()
    with pytest.raises(ActionRefusedError, match="no answer"):
        adapter.tasks()
    with Daemon({"/openapi/v3": (200, "{}")}) as other, pytest.raises(ActionRefusedError, match="is it slurmrestd"):
        SlurmRestAdapter(other.address)


@pytest.mark.parametrize(
    "address",
    ["unix:", "http:///slurm", "ftp://host:6820", "host:6820", "\033[2J", "http://[", "https://a:b", "http://a@b"],
)
def test_an_address_of_another_form_is_refused(address):
    with pytest.raises(MurmurationError, match="must be unix:<file>, https://<host>:<port> or http://") as raised:
        find_adapter(address)
    assert str(raised.value).isprintable()


def test_a_job_moves_and_grows_on_a_real_slurm_and_survives_its_restart(testbed, tmp_path):
    adapter = SlurmAdapter(testbed.environment)
    assert [(node.name, node.num_gpus, node.up) for node in adapter.nodes()] == [(f"n{i}", 4, True) for i in range(3)]
    first = TaskNote(OWNER, 0, 1, {"n0": 2})
    adapter.start(first, sleeper(tmp_path, 1, 1e6), tmp_path)
    reported(tmp_path, 1, RUNNING)
    (task,) = adapter.tasks()
    assert (task.note, task.state) == (first, "running")
    adapter.stop(task)
    second = TaskNote(OWNER, 0, 2, {"n0": 4, "n1": 1, "n2": 1})
    adapter.start(second, sleeper(tmp_path, 2, 3.0), tmp_path)  # an uneven gang
    reported(tmp_path, 2, DONE)
    adapter.stop(task)  # it has ended long since: no error
    adapter.stop(task, kill=True)
    with pytest.raises(ActionRefusedError, match="sbatch: .*Invalid node name"):
        adapter.start(TaskNote(OWNER, 1, 1, {"n9": 1}), ["true"], tmp_path)

    other = tmp_path / "other"
    other.mkdir()
    adapter.start(TaskNote(OWNER, 2, 1, {"n2": 4}), sleeper(other, 1, 1e6), other)
    reported(other, 1, RUNNING)
    testbed.end_daemon("slurmctld")
    with pytest.raises(ActionRefusedError):
        SlurmAdapter(testbed.environment, patience=2.0).tasks()
    testbed.start_control()
    again = wait_for(lambda: [each for each in adapter.tasks() if each.note.job == 2 and each.state == "running"])

    def asked_to_stop():  # right after the restart an order may be lost: the bridge repeats it, too
        adapter.stop(again[0])
        return (found := read_report(other)) is not None and found.state == STOPPED

    wait_for(asked_to_stop)

    testbed.end_daemon("n1", crash=True)
    testbed.start_node(1)
    testbed.wait_for_nodes()


def test_a_running_job_releases_a_node_on_a_real_slurm_and_another_one_gets_it(testbed, tmp_path):
    adapter = SlurmAdapter(testbed.environment)
    first = TaskNote(OWNER, 4, 1, {"n0": 4, "n1": 4})
    adapter.start(first, sleeper(tmp_path, 1, 1e6), tmp_path)
    reported(tmp_path, 1, RUNNING)
    (task,) = (each for each in adapter.tasks() if each.note.job == 4)
    assert task.first_node == "n0"
    with pytest.raises(ActionRefusedError, match="scontrol: "):
        adapter.release(task, TaskNote(OWNER, 4, 2, {"n9": 4}))
    write_order(tmp_path, GoOnOrder(2, sleeper(tmp_path, 2, 1e6), released=False))
    reported(tmp_path, 1, STOPPED)
    second = TaskNote(OWNER, 4, 2, {"n0": 4})
    adapter.release(task, second)
    write_order(tmp_path, GoOnOrder(2, sleeper(tmp_path, 2, 1e6), released=True))
    reported(tmp_path, 2, RUNNING)
    other = tmp_path / "other"
    other.mkdir()
    adapter.start(TaskNote(OWNER, 5, 1, {"n1": 4}), sleeper(other, 1, 2.0), other)
    reported(other, 1, DONE)
    (task,) = (each for each in adapter.tasks() if each.note.job == 4)
    assert (task.note, task.state) == (second, "running")
    adapter.stop(task)
    reported(tmp_path, 2, STOPPED)


def test_the_rest_daemon_of_a_real_slurm_shows_and_stops_what_sbatch_has_started(testbed, tmp_path):
    if not testbed.rest:
        pytest.skip("no slurmrestd; install it: apt-get install -y slurmrestd")
    adapter, plain = find_adapter(testbed.rest, testbed.environment), find_adapter("", testbed.environment)
    assert isinstance(adapter, SlurmRestAdapter)
    assert not isinstance(plain, SlurmRestAdapter)
    note = TaskNote(OWNER, 7, 1, {"n0": 4, "n1": 1})
    adapter.start(note, sleeper(tmp_path, 1, 1e6), tmp_path)
    reported(tmp_path, 1, RUNNING)
    (task,) = (each for each in adapter.tasks() if each.note.job == 7)
    assert (task.note, task.state) == (note, "running")
    assert list(adapter.nodes()) == list(plain.nodes())
    assert [each for each in plain.tasks() if each.note.job == 7] == [task]
    adapter.stop(task)
    reported(tmp_path, 1, STOPPED)
    adapter.stop(task)
    adapter.stop(task, kill=True)
