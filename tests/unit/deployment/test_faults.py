"""Faults on a real Slurm: its daemons crash, and the bridge is replaced in the middle; no job is lost or runs twice."""

import sys
from collections import Counter

import numpy as np
import pytest

from baselines import Srtf
from deployment.adapter import ActionRefusedError, ClusterTakenError, TaskNote
from deployment.bridge import JOURNAL, Bridge, BridgeRules
from deployment.clock import SteadyClock
from deployment.deciding import LocalScheduler
from deployment.journal import read_journal
from deployment.mirror import Mirror
from deployment.slurm.adapter import SlurmAdapter
from envs.simulation import Setup
from envs.types import ClusterSpec, JobSpec, NodeSpec
from murmuration.runs.deploying import claim_cluster
from tests.conformance.worlds import Curved
from tests.unit.deployment.test_jobs import ROOT, wait_for

SCALE = 20.0
SETUP = Setup(ClusterSpec(tuple(NodeSpec("new", 4) for _ in range(3))), Curved())
OWNER = "root.0f-0"
JOBS = [JobSpec(i, 10.0 * i, size, 40.0 * size, "any") for i, size in enumerate((4, 2, 6, 4, 1, 3, 8, 2))]
RULES = BridgeRules(shadow=False, scale=SCALE, grace=5.0, actions_per_minute=1000, interval=0.2, retry=1.0)


def sleeper(run):
    words = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-S", "-m", "deployment.sleeper", run.folder, run.segment]
    return [*map(str, words), str(run.spec.work), str(SCALE * run.placement.num_gpus**0.8), "0.0"]


def begin(adapter, folder, clock, owner=OWNER, jobs=JOBS):
    bridge = Bridge(adapter, owner, SETUP, jobs, sleeper, folder, RULES, clock)
    return bridge, LocalScheduler(Srtf(), Mirror(SETUP, ["any"]), np.random.default_rng(0))


def test_no_job_is_lost_or_runs_twice_whatever_crashes(testbed, tmp_path):
    adapter = SlurmAdapter(testbed.environment, patience=10.0)
    bridge, scheduler = begin(adapter, tmp_path, SteadyClock(SCALE))
    unanswered: Counter[str] = Counter()

    def play(until):
        """Step until something has happened; a look that Slurm does not answer is repeated."""

        def step():
            try:
                bridge.step(scheduler)
            except ActionRefusedError:
                unanswered["looks"] += 1
            return until()

        wait_for(step)

    play(lambda: bridge.journal.counts["start carried out"] >= 2)
    testbed.end_daemon("slurmctld", crash=True)
    play(lambda: unanswered["looks"] > 0)
    testbed.start_control()
    play(lambda: bridge.journal.counts["start carried out"] >= 3)
    testbed.end_daemon("n0", crash=True)
    bridge.journal.close()
    bridge, scheduler = begin(adapter, tmp_path, SteadyClock(SCALE, bridge.clock.began))  # the first one was killed
    testbed.start_node(0)
    play(lambda: bridge.finished)

    phases = Counter((line["action"], line["phase"]) for line in read_journal(tmp_path / JOURNAL))
    orders = [
        line for line in read_journal(tmp_path / JOURNAL) if line["phase"] in ("intended", "carried out", "refused")
    ]
    starts = [(line["job"], line["segment"]) for line in orders if line["action"] == "start"]
    carried = Counter(starts)
    assert {job for job, _ in carried} == set(range(len(JOBS)))
    assert max(carried.values()) <= 2  # intended, and carried out or refused
    assert all(run.progress.work_done == run.spec.work for run in bridge.runs)
    print(dict(phases), dict(unanswered))


def test_a_second_bridge_is_refused_until_the_first_has_left(testbed, tmp_path):
    adapter = SlurmAdapter(testbed.environment)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with claim_cluster(adapter, folders[0]) as owner:
        with pytest.raises(ClusterTakenError, match=rf"the bridge {owner} has claimed .* scancel \d+$"):
            claim_cluster(adapter, folders[1]).__enter__()
        with claim_cluster(adapter, folders[0]) as again:  # it was killed, and is continued
            assert again == owner
        place = tmp_path / "job"
        place.mkdir()
        adapter.claim(owner)
        note = TaskNote(f"{owner}-0", 0, 1, {"n0": 1})
        adapter.start(note, ["sleep", "1000"], place)
    with pytest.raises(ClusterTakenError):  # interrupted: its task goes on
        claim_cluster(adapter, folders[1]).__enter__()
    with claim_cluster(adapter, folders[0]):
        (task,) = (each for each in adapter.tasks() if each.note == note)
        adapter.stop(task, kill=True)
        wait_for(lambda: all(each.state == "ended" for each in adapter.tasks() if each.note == note))
    with claim_cluster(adapter, folders[1]):
        pass


def test_bridges_that_miss_each_others_claims_leave_each_others_tasks_alone(testbed, tmp_path):
    """So do two that a manager of two users shows to each other: each stops and counts its own tasks only."""
    adapter = SlurmAdapter(testbed.environment)
    plays = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        plays.append(begin(adapter, tmp_path / name, SteadyClock(SCALE), f"root.{name}-0", JOBS[:4]))

    def step():
        for bridge, scheduler in plays:
            bridge.step(scheduler)
        return all(bridge.finished for bridge, _ in plays)

    wait_for(step)
    for bridge, _ in plays:
        assert all(run.progress.work_done == run.spec.work for run in bridge.runs)
        assert bridge.journal.counts["lose carried out"] == 0
        assert not any(name.startswith(("stop again", "kill", "give up")) for name in bridge.journal.counts)
