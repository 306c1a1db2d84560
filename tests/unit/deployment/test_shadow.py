"""Shadow mode: recorded and present jobs of others are shown to a scheduler, and nothing is touched."""

import csv
import json
import math
import subprocess
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from baselines import Fifo, Srtf, Tiresias
from deployment.history import ObservedJob
from deployment.journal import Journal, read_journal
from deployment.played import RoundFailedError
from deployment.shadow import Shadow
from deployment.slurm.adapter import SlurmAdapter
from deployment.slurm.observing import NEEDED, observe_queue, observe_recording
from envs.simulation import Information, PooledHistory, Scenario, Setup
from envs.types import ClusterSpec, JobFacts, MurmurationError, NodeSpec
from tests.conformance.worlds import Curved
from tests.unit.deployment.test_jobs import wait_for

CLUSTER = ClusterSpec(tuple(NodeSpec("new", 8) for _ in range(8)))
SETUP = Setup(CLUSTER, Curved())
RECORDING = Path(__file__).parent / "recorded" / "sacct.txt"


def watching(path, scheduler=Fifo, setup=SETUP):
    journal = Journal(path)
    return Shadow(scheduler(), setup, "any", journal), journal


def look(shadow, *seen):
    """Return the last change of each job that a look has led to."""
    return {change.job.seen.name: str(change) for change in shadow.look(*seen)}


def test_a_recording_is_shown_event_by_event_and_never_holds_more_gpus_than_there_are():
    looks = list(observe_recording(RECORDING, CLUSTER, {}))
    names = {job.name for _, jobs in looks for job in jobs}
    assert len(names) == 40  # no steps, and not the job without GPUs
    assert [time for time, _ in looks] == sorted(time for time, _ in looks)
    for _, jobs in looks:
        held = np.zeros(8, np.int64)
        for job in jobs:
            assert sum((job.gpus or {}).values()) in (0, job.num_gpus)
            for node, count in (job.gpus or {}).items():
                held[node] += count
        assert (held <= 8).all()
    assert looks[-1][1] == []


def test_a_scheduler_in_the_shadow_of_a_recording_writes_what_it_would_do(tmp_path):
    shadow, journal = watching(tmp_path / "journal.jsonl", Tiresias)
    changes = [shadow.look(now, jobs) for now, jobs in observe_recording(RECORDING, CLUSTER, {})]
    journal.close()
    lines = list(read_journal(tmp_path / "journal.jsonl"))
    assert sum(line["phase"] == "shadowed" for line in lines) == sum(map(len, changes)) > 10
    assert len({line["job"] for line in lines if line["phase"] == "observed"}) == 40
    assert shadow.num_rounds > 40


class Remembering(PooledHistory):
    """Keeps what it was asked last."""

    def predict(self, asked, ended):
        self.asked, self.ended = asked, ended
        return super().predict(asked, ended)


def test_where_work_is_predicted_the_predictor_sees_users_names_and_run_times_of_the_recording(tmp_path):
    predictor = Remembering()
    predictor.train([JobFacts(*(np.array([each]) for each in (0.0, 1, "any", "", "", "", 600.0)))])
    setup = Setup(CLUSTER, Curved(), Scenario(information=Information("predicted")), predictor=predictor)
    shadow, journal = watching(tmp_path / "journal.jsonl", Srtf, setup)
    ran = set()
    for now, jobs in observe_recording(RECORDING, CLUSTER, {}):
        shadow.look(now, jobs)
        ran |= {job.name for job in jobs if job.gpus}
    journal.close()
    rows = {row["Submit"]: row for row in csv.DictReader(RECORDING.open(), delimiter="|") if row["User"]}
    ended = predictor.ended
    assert len(ended.submit) > 30
    assert len(ran) > 20
    first = min(map(datetime.fromisoformat, rows))
    for submit, user, name, tenant, run_time in zip(
        ended.submit, ended.user, ended.name, ended.tenant, ended.run_time, strict=True
    ):
        row = rows[(first + timedelta(seconds=round(float(submit)))).isoformat()]
        times = [datetime.fromisoformat(row[key]) for key in ("Start", "End")]
        assert (user, name, tenant) == (row["User"], row["JobName"], row["Account"])
        if row["JobID"] in ran:  # the others found no room on the nodes of the setup
            assert run_time == pytest.approx((times[1] - times[0]).total_seconds(), abs=1.0)


def test_a_look_without_news_asks_nobody_and_a_clock_that_is_set_back_does_no_harm(tmp_path):
    shadow, _ = watching(tmp_path / "j")
    waiting = ObservedJob("a", 1e9, 2, 600.0)
    assert look(shadow, 1e9 + 5, [waiting]) == {"a": "start 2 GPUs on node 0"}
    assert look(shadow, 1e9 + 9, [waiting]) == {}
    assert shadow.num_rounds == 1
    other = ObservedJob("b", 1e9 - 50, 1, 600.0)
    assert set(look(shadow, 1e9 - 7000, [waiting, other])) == {"b"}
    assert shadow.num_rounds == 2


def test_a_job_that_runs_at_the_first_look_runs_in_the_shadow_too_and_has_no_wait(tmp_path):
    shadow, _ = watching(tmp_path / "j")
    assert look(shadow, 1e9 + 5, [ObservedJob("a", 1e9, 2, 600.0, 1e9 + 1, {3: 2})]) == {}
    assert shadow.num_running == 1
    assert shadow.waits() == []


def watch_two(shadow, seconds):
    """Really, "a" (64 GPUs) runs from 0 to 100 and "b" (64 GPUs, submitted at 10) from 100 until `seconds` later."""
    a, b = ObservedJob("a", 1e9, 64, 600.0), ObservedJob("b", 1e9 + 10, 64, 60.0)
    runs = dict.fromkeys(range(8), 8)
    looks = [
        (0, [a]),
        (10, [replace(a, start_time=1e9, gpus=runs), b]),
        (105, [replace(a, start_time=1e9, end_time=1e9 + 100), replace(b, start_time=1e9 + 100, gpus=runs)]),
        (200, [replace(b, start_time=1e9 + 100, end_time=1e9 + 100 + seconds)]),
    ]
    return [(now, shadow.look(1e9 + now, jobs)) for now, jobs in looks]


@pytest.mark.parametrize(("scheduler", "simulated"), [(Fifo, (0.0, 100.0)), (Srtf, (0.0, 10.0))])
def test_jobs_begin_once_and_run_in_the_shadow_as_long_as_they_really_ran(tmp_path, scheduler, simulated):
    """SRTF stops a, which may take 600 s, for b, which may take 60 s; b begins when it comes."""
    shadow, journal = watching(tmp_path / "j", scheduler)
    watch_two(shadow, 5.0)
    waits = {each.job: each for each in shadow.waits()}
    assert [waits[name].simulated_start - 1e9 for name in "ab"] == list(simulated)
    assert [waits[name].real_start - 1e9 for name in "ab"] == [0.0, 100.0]
    assert waits["b"].waits == (90.0, simulated[1] - 10.0)
    assert [line["job"] for line in read_journal(tmp_path / "j") if line["action"] == "start"] == ["a", "b"]
    assert journal.counts["resume shadowed"] == journal.counts["stop shadowed"] == (scheduler is Srtf)


def test_what_was_assumed_too_long_is_played_again_once_it_is_known(tmp_path):
    """b, which may take 60 s, begins at 100 when a has ended, and c when b has: at 120, that took 5 s."""
    shadow, _ = watching(tmp_path / "j", Srtf, replace(SETUP, scenario=Scenario(preemption="never")))
    whole = dict.fromkeys(range(8), 8)
    a, b, c = (
        ObservedJob(name, 1e9 + now, 64, limit) for name, now, limit in (("a", 0, 20.0), ("b", 1, 60.0), ("c", 2, 99.0))
    )
    shadow.look(1e9 + 2, [replace(a, start_time=1e9, gpus=whole), b, c])
    shadow.look(1e9 + 90, [replace(a, start_time=1e9, gpus=whole), b, c])
    assert np.isnan([each.simulated_start for each in shadow.waits()]).all()  # a has outlived its limit, and runs on
    ended = [replace(a, start_time=1e9, end_time=1e9 + 100)]
    ended += [replace(each, start_time=1e9 + start, end_time=1e9 + start + 5) for each, start in ((b, 100), (c, 105))]
    shadow.look(1e9 + 120, ended)
    assert [each.simulated_start - 1e9 for each in shadow.waits()] == [100.0, 105.0]


@pytest.mark.parametrize("preemption", ["never", "allowed"])
def test_a_job_that_asked_for_one_node_is_not_divided(tmp_path, preemption):
    """Each node has a job with 1 GPU; 8 GPUs on one node are free once one of them has ended."""
    shadow, _ = watching(tmp_path / "j", Fifo, replace(SETUP, scenario=Scenario(preemption=preemption)))
    runs = [ObservedJob(str(i), 1e9, 1, 600.0 + i, 1e9, {i: 1}) for i in range(8)]
    one = ObservedJob("8", 1e9 + 1, 8, 600.0, max_nodes=1)
    assert look(shadow, 1e9 + 5, [*runs, one]) == {}
    assert look(shadow, 1e9 + 50, [*runs[1:], one]) == {"8": "start 8 GPUs on node 0"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "has no column JobID"),
        ("JobID|Submit|Start|End\n", "has no column AllocTRES; call sacct"),
        ("|".join(NEEDED) + "\n1|2\n", "line 2: has 2 fields; it must have 5"),
        ("|".join(NEEDED) + "\n1|x\x1b[2J|Unknown|Unknown|gres/gpu=1\n", r"line 2: Submit is 'x\\x1b"),
    ],
)
def test_a_damaged_recording_is_named_with_line_and_field(tmp_path, text, wanted):
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    with pytest.raises(MurmurationError, match=wanted) as raised:
        list(observe_recording(path, CLUSTER, {}))
    assert str(raised.value).isprintable()
    with pytest.raises(MurmurationError, match="cannot be read"):
        list(observe_recording(tmp_path / "absent", CLUSTER, {}))


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ({"tres_per_node": "gres:gpu", "node_count": 2}, 2),  # --gres=gpu
        ({"tres_per_node": "gres:gpu:2", "node_count": 2}, 4),
        ({"tres_per_node": "gres/gpu:a100:4", "node_count": 2}, 8),
        ({"tres_per_node": "gres:gpu:1g.5gb", "node_count": 3}, 3),
        ({"tres_per_job": "gres:gpu:V100:2", "node_count": 1}, 2),
        ({"tres_per_task": "gres:gpu:2", "tasks": 3, "node_count": 1}, 6),  # --gpus-per-task
        ({"tres_per_socket": "gres:gpu:1", "sockets_per_node": 2, "node_count": 2}, 4),
        ({"tres_per_task": "gres:gpu:2", "tasks": 1, "tres_req_str": "cpu=4,gres/gpu=8,gres/gpu:a100=8,node=2"}, 8),
        ({"tres_per_node": "gres:craynetwork:1,gres:gpu:2", "node_count": 2}, 4),
        ({"tres_per_node": "gres:craynetwork:1", "node_count": 1}, None),
        ({"tres_req_str": "cpu=1,mem=20000M,node=1,billing=1"}, None),
    ],
)
def test_a_waiting_job_asks_for_gpus_in_any_way_that_slurm_has(asked, gpus):
    """The fields are those that Slurm 22.05 shows; where it does not account for GPUs it does not add them up."""
    job = {"job_id": 3, "job_state": "PENDING", "submit_time": 1000, "time_limit": 10, **asked}
    found = observe_queue(json.dumps({"jobs": [job]}), ["n0"], {})
    assert [each.num_gpus for each in found] == ([gpus] if gpus else [])
    assert all(each.max_nodes == (job["node_count"] if "tres_per_node" in asked else 0) for each in found)


WAITING = {"job_id": 3, "job_state": "PENDING", "submit_time": 1000, "tres_per_node": "gres:gpu:1", "node_count": 1}
NODE = {"job_resources": {"allocated_nodes": [{"nodename": "n9"}]}, "gres_detail": ["gpu:1(IDX:0)"]}


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"tres_per_node": "gres:gpu:" + "9" * 4300}, "job 4.tres_per_node is 'gres:gpu:999"),
        ({"tres_req_str": "gres/gpu=" + "9" * 4301}, "job 4.tres_req_str is"),
        ({"node_count": None}, "job 4.node_count is None; it must be a whole number"),
        ({"submit_time": math.inf}, "job 4.submit_time is nan; it must be a number"),
        ({"submit_time": -1}, "job 4.submit_time is -1"),
        ({"submit_time": 10**4299}, "job 4.submit_time is"),
        ({"time_limit": "x"}, "job 4.time_limit is 'x'"),
        ({"name": "x" * 1025}, "job 4.name is 'xxx"),
        ({"job_state": 7}, "jobs[1].job_state is 7"),
        ({"job_id": 0.5}, "jobs[1].job_id is 0.5"),
        ({"job_state": "RUNNING", **NODE}, "job 4: holds GPUs on 'n9'; nodes of the setup are watched"),
    ],
)
def test_a_damaged_job_of_a_queue_is_left_out_and_named_and_the_others_are_read(damage, why):
    jobs = [WAITING, WAITING | {"job_id": 4} | damage, WAITING | {"job_id": 5, "name": "x" * 1024}]
    left_out: dict[str, str] = {}
    assert [job.name for job in observe_queue(json.dumps({"jobs": jobs}), ["n0"], left_out)] == ["3", "5"]
    (said,) = left_out.values()
    assert why in said
    assert len(said) < 200


def test_a_queue_of_which_no_job_can_be_identified_is_not_slurms():
    with pytest.raises(MurmurationError, match=r"jobs\[0\]: has no job_id"):
        observe_queue('{"jobs": [{}, {"job_id": 3}]}', ["n0"], {})
    assert observe_queue(json.dumps({"jobs": [WAITING | {"submit_time": -1}]}), ["n0"], {}) == []  # this one can


def test_damaged_rows_of_a_recording_are_left_out_and_rows_of_one_job_are_shown_one_after_the_other(tmp_path):
    path, left_out = tmp_path / "jobs.txt", dict[str, str]()
    rows = (
        "1|2024-03-04T08:00:00|2024-03-04T08:01:00|2024-03-04T08:02:00|gres/gpu=8|x",
        "1|2024-03-04T08:00:00|2024-03-04T08:05:00|2024-03-04T08:06:00|gres/gpu=8|x",  # sacct --duplicates
        "1|2024-03-04T08:06:00|2024-03-04T08:07:00|Unknown|gres/gpu=8|x",
        "2|2024-03-04T08:00:00|Unknown|2024-03-04T08:01:00|gres/gpu=8|a|b",
        "3|0001-01-01T00:00:00|Unknown|Unknown|gres/gpu=8|x",
        "4|2024-03-04T08:00:00|Unknown|Unknown|gres/gpu=" + "9" * 4301 + "|x",
        "5|2024-03-04T08:00:00|Unknown|Unknown|gres/gpu=8|" + "x" * 140_000,
        "6|2024-03-04T08:00:00|Unknown|Unknown|gres/gpu=8|\u2028caf\udce9",
    )
    content = "|".join((*NEEDED, "JobName")) + "\n" + "\n".join(rows)
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    looks = list(observe_recording(path, CLUSTER, left_out))
    shown = [[(job.name, bool(job.gpus)) for job in jobs if job.name == "1"] for _, jobs in looks]
    assert shown == [[("1", runs)] for runs in (False, True, False, True, False, True)]
    assert all("6" in [job.name for job in jobs] for _, jobs in looks)
    assert list(left_out) == [f"line {number}" for number in (5, 6, 7, 8)]
    shadow, _ = watching(tmp_path / "j")
    for now, jobs in looks:
        shadow.look(now, jobs)
    assert [each.job for each in shadow.waits()] == ["1", "6", "1", "1"]


class Failing(Fifo):
    """Fails while it is told to."""

    fails = False

    def schedule(self, view):
        if self.fails:
            raise KeyError("x")
        return super().schedule(view)


def test_a_scheduler_that_fails_in_one_round_is_asked_again_with_the_next_look(tmp_path, monkeypatch):
    shadow, _ = watching(tmp_path / "j", Failing)
    first, second = ObservedJob("a", 1e9, 2, 600.0), ObservedJob("b", 1e9 + 6, 2, 600.0)
    assert set(look(shadow, 1e9 + 5, [first])) == {"a"}
    monkeypatch.setattr(Failing, "fails", True)
    for _ in range(2):
        with pytest.raises(RoundFailedError, match="the scheduler failed .KeyError: 'x'"):
            shadow.look(1e9 + 6, [first, second])
    monkeypatch.setattr(Failing, "fails", False)
    assert look(shadow, 1e9 + 7, [first, second]) == {"b": "start 2 GPUs on node 0"}
    assert [each.simulated_start - 1e9 for each in shadow.waits()] == [5.0, 6.0]


def test_a_job_may_come_back_be_listed_twice_run_on_a_drained_node_or_hold_gpus_that_cannot_be(tmp_path):
    shadow, journal = watching(tmp_path / "j")
    waits, runs = ObservedJob("a", 1e9, 2, 600.0), ObservedJob("b", 1e9, 2, 600.0, 1e9 + 1, {3: 2})
    assert set(look(shadow, 1e9 + 5, [waits, waits, runs])) == {"a"}
    assert look(shadow, 1e9 + 6, [runs]) == {}
    assert shadow.num_running == 1  # a was cancelled, also in the shadow
    assert set(look(shadow, 1e9 + 7, [waits, runs])) == {"a"}  # it is back
    assert look(shadow, 1e9 + 8, [waits, runs], frozenset({3})) == {}  # b runs to its end
    too_many = [replace(runs, name=name, gpus={3: count}) for name, count in (("c", 7), ("d", 9))]
    assert look(shadow, 1e9 + 9, [waits, runs, *too_many, replace(waits, name="e", num_gpus=10**9)]) == {}
    assert list(shadow.history.left_out) == ["c", "d", "e"]
    assert journal.counts["job observed"] == 3


def test_nothing_starts_on_a_node_that_is_drained_nor_before_its_job_may_start(tmp_path):
    shadow, _ = watching(tmp_path / "j")
    held = ObservedJob("a", 1e9, 64, 600.0, eligible=False)
    later = ObservedJob("b", 1e9 + 70, 64, 600.0)
    assert shadow.look(1e9 + 5, [held, later]) == []
    assert shadow.look(1e9 + 70, [replace(held, eligible=True), later], frozenset({3})) == []
    assert look(shadow, 1e9 + 80, [replace(held, eligible=True), later]).keys() == {"a"}
    assert [each.submitted - 1e9 for each in shadow.waits()] == [70.0, 70.0]


def test_a_model_that_runs_nowhere_is_refused_at_once(tmp_path):
    class Nowhere(Curved):
        def throughput(self, model, configuration):
            return 0.0

    with pytest.raises(MurmurationError, match="model=any: does not run on"):
        watching(tmp_path / "j", setup=Setup(CLUSTER, Nowhere()))


def test_jobs_of_others_on_a_real_slurm_are_shown(testbed, tmp_path):
    adapter = SlurmAdapter(testbed.environment)
    words = ["sbatch", "--parsable", "--output=/dev/null", "--time=30", "--wrap=sleep 1000"]
    for size in (
        ["--nodes=2", "--gres=gpu:4"],
        ["--nodes=1", "--gres=gpu:2"],
        ["--nodes=2", "--gres=gpu:3"],
        ["--nodes=1"],
    ):
        subprocess.run([*words, *size], env=testbed.environment, check=True, capture_output=True, cwd=tmp_path)
    names = [node.name for node in adapter.nodes()]

    def running():
        found = observe_queue(adapter.queue(), names, {})
        return found if sum(each.gpus is not None for each in found) == 2 else None

    jobs = sorted(wait_for(running), key=lambda each: int(each.name))
    assert [(each.num_gpus, each.gpus and sum(each.gpus.values()), each.expected) for each in jobs] == [
        (8, 8, 1800.0),
        (2, 2, 1800.0),
        (6, None, 1800.0),
    ]
    nodes = ClusterSpec(tuple(NodeSpec("new", 4) for _ in range(3)))
    shadow, _ = watching(tmp_path / "j", setup=Setup(nodes, Curved()))
    assert shadow.look(jobs[0].submit_time + 10.0, jobs) == []  # FIFO keeps both, and the third has no room
