"""Shadow mode on a cluster that changes between looks."""

import json
from types import SimpleNamespace

import pytest

from deployment.adapter import NodeStatus
from deployment.bridge import JOURNAL
from deployment.journal import read_journal
from launch.arguments import compose_options
from launch.choices import open_configs
from launch.describe import describe_shadow
from launch.watching import watch_cluster

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
    """A cluster manager whose queue is another one at each look; at the end the user presses Ctrl-C."""

    def __init__(self, *looks):
        self._looks = list(looks)

    def nodes(self):
        return [NodeStatus(f"n{i}", "V100", 8, 24.0, 500.0, True) for i in range(8)]

    def queue(self):
        if not self._looks:
            raise KeyboardInterrupt
        return json.dumps({"jobs": self._looks.pop(0)})


@pytest.fixture
def said(monkeypatch, tmp_path, capsys):
    """Return what is said about a queue, line by line without times."""

    def of(*looks, options=()):
        monkeypatch.setattr("launch.watching.find_adapter", lambda _: Queue(*looks))
        monkeypatch.setattr(
            "launch.watching.time",
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
        return capsys.readouterr().out.splitlines(), end

    return of


def test_every_change_of_the_cluster_is_answered_also_where_nothing_is_to_change(said, tmp_path):
    lines, end = said([RUNNING], [RUNNING], [RUNNING, WAITING])
    assert lines == [
        "watching 8 nodes with 64 GPUs; Ctrl-C ends",
        "now  nothing to change; jobs that run: 1, that wait: 0",
        "now  job 8: start 8 GPUs on node 1",
    ]
    assert end is not None
    assert end.startswith("2 rounds, 1 changes (1 start shadowed): ")
    assert [line["phase"] for line in read_journal(tmp_path / JOURNAL)] == ["observed", "observed", "shadowed"]


def test_looks_can_be_counted(said):
    lines, end = said([RUNNING], [RUNNING, WAITING], options=["looks=2"])
    assert end is None
    assert lines[-1].startswith("2 rounds, 1 changes (1 start shadowed): ")
