"""Shadow mode on a cluster that changes between looks."""

import json
from types import SimpleNamespace

import pytest

from deployment.adapter import ActionRefusedError, NodeStatus
from deployment.bridge import JOURNAL
from deployment.journal import read_journal
from envs.types import MurmurationError
from murmuration.config.arguments import compose_options
from murmuration.config.choices import open_configs
from murmuration.config.describe import describe_shadow
from murmuration.config.errors import RunFailedError
from murmuration.runs.watching import watch_cluster

RUNNING = {
    "job_id": 7,
    "job_state": "RUNNING",
    "submit_time": 1000,
    "start_time": 1010,
    "time_limit": 60,
    "job_resources": {"allocated_nodes": [{"nodename": "n0"}]},
    "gres_detail": ["gpu:8(IDX:0-7)"],
}
WAITING = {
    "job_id": 8,
    "job_state": "PENDING",
    "submit_time": 1020,
    "time_limit": 60,
    "tres_req_str": "node=1,gres/gpu=8",
}


class Queue:
    """A cluster manager whose queue is another one at each look, or an error; at the end the user presses Ctrl-C."""

    def __init__(self, *looks, nodes):
        self._looks, self._nodes = list(looks), nodes

    def nodes(self):
        number = self._nodes.pop(0) if self._nodes else 8
        return [NodeStatus(f"n{i}", "V100", 8, 24.0, 500.0, True) for i in range(number)]

    def queue(self):
        if not self._looks:
            raise KeyboardInterrupt
        look = self._looks.pop(0)
        if isinstance(look, str):
            raise ActionRefusedError(look)
        return json.dumps({"jobs": look})


@pytest.fixture
def said(monkeypatch, tmp_path, capsys):
    """Return what is said about a queue, line by line without times."""

    def of(*looks, options=(), nodes=()):
        monkeypatch.setattr("murmuration.runs.watching.find_adapter", lambda _: Queue(*looks, nodes=list(nodes)))
        monkeypatch.setattr(
            "murmuration.runs.watching.time",
            SimpleNamespace(
                sleep=lambda _: None, time=lambda: 2000.0, strftime=lambda *_: "now", localtime=lambda _: None
            ),
        )
        with open_configs():
            run = describe_shadow(compose_options("shadow", ["scheduler=fifo", *options], "fifo"))
        end = None
        try:
            watch_cluster(run, tmp_path)
        except KeyboardInterrupt as interrupt:
            (end,) = interrupt.args
        lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]  # without the table
        return lines, end

    return of


def test_every_change_of_the_cluster_is_answered_also_where_nothing_is_to_change(said, tmp_path):
    lines, end = said([RUNNING], [RUNNING], [RUNNING, WAITING])
    assert lines == [
        "watching 8 nodes with 64 GPUs; Ctrl-C ends",
        "now  nothing to change; jobs that run: 1 (1 in the shadow), that wait: 0",
        "now  job 8: start 8 GPUs on node 1",
    ]
    assert end is not None
    assert end.startswith("2 rounds, 1 changes (1 start shadowed): ")
    assert [line["phase"] for line in read_journal(tmp_path / JOURNAL)] == ["observed", "observed", "shadowed"]


def test_looks_can_be_counted(said):
    lines, end = said([RUNNING], [RUNNING, WAITING], options=["looks=2"])
    assert end is None
    assert lines[-1].startswith("2 rounds, 1 changes (1 start shadowed): ")


def test_a_look_that_fails_is_said_when_it_begins_and_ends_and_the_next_ones_go_on(said, tmp_path):
    lines, end = said("no slurmctld", "none", [RUNNING], "again\033[2J", [RUNNING, WAITING], nodes=(8,))
    assert lines[1:] == [
        "now  look failed: no slurmctld; it is tried again",
        "now  look works again; failed: 2",
        "now  nothing to change; jobs that run: 1 (1 in the shadow), that wait: 0",
        "now  look failed: again\\x1b[2J; it is tried again",
        "now  look works again; failed: 1",
        "now  job 8: start 8 GPUs on node 1",
    ]
    assert "2 rounds, 1 changes (1 start shadowed), 3 looks failed: " in end
    found = [
        (line["phase"], line.get("failed")) for line in read_journal(tmp_path / JOURNAL) if line["action"] == "look"
    ]
    assert found == [("refused", None), ("carried out", 2), ("refused", None), ("carried out", 1)]


def test_nodes_and_damaged_jobs_that_come_and_go_are_said_once(said, tmp_path):
    damaged = {**WAITING, "job_id": 9, "submit_time": -1}
    lines, end = said([RUNNING, damaged], [RUNNING, damaged], [RUNNING], [RUNNING, damaged], nodes=(8, 8, 7, 9))
    assert lines[1] == "now  squeue --json: job 9.submit_time is -1; it must be a number from 0 to 1e+10; left out"
    assert [line.removeprefix("now  ") for line in lines[2:] if "nothing" not in line] == [
        "node n7: is not shown any more",
        "node n7: is shown",
        "node n8: is shown",
        "node n8: is not shown any more",
    ]
    assert "1 jobs left out: " in end
    assert [line["job"] for line in read_journal(tmp_path / JOURNAL) if line["action"] == "read"] == ["9"]


def test_other_nodes_than_the_setup_end_a_shadow_at_once(said):
    with pytest.raises(MurmurationError, match="the cluster has 7 nodes with GPUs, slurm has 8"):
        said([RUNNING], nodes=(7,))


def test_rounds_that_fail_are_counted_and_a_shadow_in_which_all_fail_has_failed(said, monkeypatch):
    monkeypatch.setattr("murmuration.runs.watching.find_actor", lambda _: Broken())
    lines, end = said([RUNNING], [RUNNING])
    assert lines[1:] == ["now  round failed: the scheduler failed (KeyError: 3); it is tried again"]
    assert end.startswith("0 rounds, 0 changes (none), 2 rounds failed: ")
    with pytest.raises(RunFailedError, match="all 2 rounds failed"):
        said([RUNNING], [RUNNING], options=["looks=2"])


class Broken:
    """A scheduler that always fails."""

    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        raise KeyError(3)
