"""Advice from the command: what is said, and that values are set back at the end, by signals and by the next start."""

import json
from types import SimpleNamespace

import pytest

from deployment.adapter import ActionRefusedError, NodeStatus
from envs.types import MurmurationError
from murmuration.config.arguments import compose_options
from murmuration.config.choices import open_configs
from murmuration.config.describe import describe_advice
from murmuration.config.errors import ChoiceError, RunFailedError
from murmuration.runs.advising import advise_cluster

BUSY = {
    "job_id": 7,
    "job_state": "RUNNING",
    "submit_time": 1000,
    "start_time": 1010,
    "time_limit": 60,
    "job_resources": {"allocated_nodes": [{"nodename": f"n{i}"} for i in range(8)]},
    "gres_detail": ["gpu:8(IDX:0-7)"] * 8,
}


def waits(number, minutes, nice=None, comment="murmuration"):
    return {
        "job_id": number,
        "job_state": "PENDING",
        "submit_time": 1000 + number,
        "time_limit": minutes,
        "tres_req_str": "node=8,gres/gpu=64",
        "comment": comment,
        "nice": nice,
        "priority": 1000 - number,
        "user_name": "me",
    }


class Slurm:
    """A Slurm in memory, with an end of the watch after some looks: Ctrl-C, or a kill after some changes."""

    user = "me"

    def __init__(self, *jobs, looks=2, changes=99):
        self.jobs, self.looks, self.changes = {job["job_id"]: dict(job) for job in jobs}, looks, changes
        self.claims, self.refuse, self.num_nodes = [], "", 8

    def nodes(self):
        return [NodeStatus(f"n{i}", "V100", 8, 24.0, 500.0, True) for i in range(self.num_nodes)]

    def queue(self):
        self.looks -= 1
        if self.looks == -1:
            raise KeyboardInterrupt
        return json.dumps({"jobs": list(self.jobs.values())})

    def tasks(self):
        return []

    def claim(self, owner):
        self.claims.append(owner)

    def leave(self, owner):
        self.claims.remove(owner)

    def set_nice(self, job, value):
        if self.refuse:
            raise ActionRefusedError(self.refuse)
        each = self.jobs[int(job)]
        each["priority"] += (each["nice"] or 0) - value
        each["nice"] = value
        self.changes -= 1
        if self.changes == -1:
            raise SystemExit  # nothing after it is carried out

    @property
    def nice(self):
        return {number: job["nice"] or 0 for number, job in self.jobs.items() if job["job_state"] == "PENDING"}


@pytest.fixture
def advise(monkeypatch, tmp_path, capsys):
    """Return what is said with a Slurm and options, line by line without times, and how it ended."""
    clock = SimpleNamespace(
        sleep=lambda _: None, time=lambda: 2000.0, monotonic=lambda: 0.0, strftime=lambda *_: "now", localtime=str
    )
    for module in ("watching", "advising"):
        monkeypatch.setattr(f"murmuration.runs.{module}.time", clock)

    def of(slurm, *options):
        monkeypatch.setattr("murmuration.runs.advising.find_adapter", lambda _: slurm)
        with open_configs():
            words = ["scheduler=srtf", f"state={tmp_path / 'state'}", *options]
            run = describe_advice(compose_options("advise", words, "starling"))
        end = None
        try:
            advise_cluster(run, tmp_path)
        except (KeyboardInterrupt, SystemExit, MurmurationError, RunFailedError) as error:
            end = error
        return [line.removeprefix("now  ") for line in capsys.readouterr().out.splitlines()], end

    return of


def test_advice_is_only_shown_unless_act_is_true(advise):
    slurm = Slurm(BUSY, waits(8, 600), waits(9, 60))
    lines, _ = advise(slurm)
    assert lines[:3] == [
        "advising 8 nodes with 64 GPUs; Ctrl-C ends",
        "job 9: nice 0 -> -1 (not set: act=false)",
        "job 8: nice 0 -> 1 (not set: act=false)",
    ]
    assert lines[3].startswith("1 orders asked for; 2 nice shadowed: ")
    assert slurm.nice == {8: 0, 9: 0}
    assert not slurm.claims


def test_values_are_set_and_set_back_by_an_interrupt_and_the_claim_is_given_up(advise):
    slurm = Slurm(BUSY, waits(8, 600, nice=5), waits(9, 60), waits(10, 30, comment="none"), looks=3)
    lines, end = advise(slurm, "act=true")
    assert isinstance(end, KeyboardInterrupt)
    assert lines[1:5] == [
        "job 9: nice 0 -> -1",
        "job 8: nice 5 -> 6",
        "job 9: nice -1 is set back to 0",
        "job 8: nice 6 is set back to 5",
    ]
    assert slurm.nice == {8: 5, 9: 0, 10: 0}
    assert not slurm.claims


def test_values_that_slurm_prints_without_sign_are_read(advise):
    slurm = Slurm(BUSY, waits(8, 600, nice=2**32 - 7), waits(9, 60, nice={"set": True, "number": -3}), looks=3)
    slurm.jobs[9]["nice"] = -3
    lines, _ = advise(slurm, "act=true")
    assert lines[1:3] == ["job 9: nice -3 -> -4", "job 8: nice -7 -> -6"]


@pytest.mark.parametrize("options", [["restore=true"], ["act=true", "looks=1"]])
def test_the_next_start_sets_back_what_a_killed_one_has_left(advise, monkeypatch, options):
    killed = Slurm(BUSY, waits(8, 600), waits(9, 60), looks=3, changes=0)
    with monkeypatch.context() as patched:
        patched.setattr("murmuration.runs.advising.restore_values", lambda *_: None)
        _, end = advise(killed, "act=true")
    assert isinstance(end, SystemExit)
    assert killed.nice == {8: 0, 9: -1}
    again = Slurm(*killed.jobs.values(), looks=9)
    lines, end = advise(again, *options)
    assert end is None
    assert lines[0] == "job 9: nice -1 is set back to 0"
    assert lines.count("job 9: nice 0 -> -1") == ("act=true" in options)  # it is advised on again
    assert again.nice == {8: 0, 9: 0}


def test_values_that_cannot_be_set_back_are_named(advise, monkeypatch):
    slurm = Slurm(BUSY, waits(8, 600), waits(9, 60), looks=99, changes=0)

    def refuse(job, value):
        slurm.jobs[int(job)]["nice"] = value or slurm.jobs[int(job)]["nice"]
        raise ActionRefusedError("scontrol: no answer within 20 s")

    monkeypatch.setattr(slurm, "set_nice", refuse)
    lines, end = advise(slurm, "act=true", "looks=1")
    assert isinstance(end, RunFailedError)
    assert "nice of the jobs 8, 9 is not set back" in str(end)
    assert lines.count("job 9: nice -1 is not set back to 0: scontrol: no answer within 20 s") == 1


def test_other_nodes_and_an_interval_of_zero_end_it_at_once(advise):
    slurm = Slurm(BUSY)
    slurm.num_nodes = 7
    assert "the cluster has 7 nodes with GPUs, slurm has 8" in str(advise(slurm)[1])
    with pytest.raises(ChoiceError, match="interval=0: must be above 0 seconds"):
        advise(slurm, "interval=0")
