"""Shadow mode: recorded and present jobs of others are shown to a scheduler, and nothing is touched."""

import csv
import json
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from baselines import Fifo, Srtf, Tiresias
from deployment.journal import Journal, read_journal
from deployment.shadow import ObservedJob, Shadow
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
    changes = [found for now, jobs in observe_recording(RECORDING, CLUSTER, {}) if (found := shadow.look(now, jobs))]
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
    assert shadow.look(1e9 + 5, [waiting]) == {"a": "start 2 GPUs on node 0"}
    assert shadow.look(1e9 + 9, [waiting]) == {}
    other = ObservedJob("b", 1e9 - 50, 1, 600.0)
    assert set(shadow.look(1e9 - 7000, [waiting, other])) == {"a", "b"}
    assert shadow.num_rounds == 2


def test_a_job_that_runs_where_the_scheduler_wants_it_is_no_change(tmp_path):
    shadow, _ = watching(tmp_path / "j")
    assert shadow.look(1e9 + 5, [ObservedJob("a", 1e9, 2, 600.0, 1e9 + 1, {3: 2})]) == {}


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
        ({"tres_per_node": "gres:craynetwork:1", "node_count": 1}, None),
        ({"tres_req_str": "cpu=1,mem=20000M,node=1,billing=1"}, None),
    ],
)
def test_a_waiting_job_asks_for_gpus_in_any_way_that_slurm_has(asked, gpus):
    """The fields are those that Slurm 22.05 shows; where it does not account for GPUs it does not add them up."""
    job = {"job_id": 3, "job_state": "PENDING", "submit_time": 1000, "time_limit": 10, **asked}
    assert [each.num_gpus for each in observe_queue(json.dumps({"jobs": [job]}), ["n0"], {})] == (
        [gpus] if gpus else []
    )


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
    assert shadow.look(jobs[0].submit_time + 10.0, jobs) == {}  # FIFO keeps both, and the third has no room
