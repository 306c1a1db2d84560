"""The play of a trace on a cluster, here one in memory without latencies: the simulator's schedule comes out."""

from copy import deepcopy

import numpy as np
import pytest

from baselines import Srtf, Starling
from baselines.parts.group_history import GroupHistory
from deployment.adapter import ActionRefusedError, NodeStatus, TaskStatus
from deployment.bridge import JOURNAL, Bridge, BridgeRules
from deployment.clock import SteadyClock
from deployment.deciding import LocalScheduler
from deployment.jobs import DONE, RUNNING, STOPPED, JobReport, read_report, write_progress
from deployment.journal import read_journal
from deployment.mirror import Mirror
from envs.performance import default_model
from envs.simulation import Information, Scenario, Setup, Simulator, run_episode, train_predictor
from envs.types import ClusterSpec, NodeSpec
from envs.workloads import Habits, SyntheticSource
from murmuration.runs.deploying import sleeping

SCALE = 100.0  # simulated seconds in one of the bridge's
LATE = 0.001  # of the bridge's seconds from an event to the look
CLUSTER = ClusterSpec(tuple(NodeSpec("V100", 4, 24, 500) for _ in range(3)), "three nodes")
SETUP = Setup(CLUSTER, default_model(), Scenario(restart_delay=20.0, batch_sizes="chosen"))
PREDICTED = Setup(
    CLUSTER,
    default_model(),
    Scenario(restart_delay=20.0, batch_sizes="usual", information=Information("predicted")),
    predictor=GroupHistory(),
)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)


class IdealCluster:
    """A cluster manager without latencies, whose tasks are sleepers in steps of its own time."""

    user = "me"

    def claim(self, owner):
        pass

    def leave(self, owner):
        pass

    def __init__(self):
        self.time, self.tasks_of, self.started = 1e9, {}, 0

    def nodes(self):
        return [NodeStatus(f"n{i}", "V100", node.num_gpus, 24.0, 500.0, True) for i, node in enumerate(CLUSTER.nodes)]

    def tasks(self):
        for name in list(self.tasks_of):
            self.report(name)
        return [TaskStatus(name, note, "running") for name, (note, *_) in self.tasks_of.items()]

    def next_finish(self):
        return min(
            (ready + (work - first) / throughput for *_, work, throughput, ready, first in self.tasks_of.values()),
            default=np.inf,
        )

    def report(self, name, state=RUNNING):
        note, folder, work, throughput, ready, first = self.tasks_of[name]
        done, finish = first + throughput * max(self.time - ready, 0.0), ready + (work - first) / throughput
        if self.time >= finish:
            done, state = work, DONE
        at = min(self.time, finish)
        write_progress(folder, JobReport(note.segment, state, done, throughput, ready, ready, at))
        if state != RUNNING:
            del self.tasks_of[name]

    def start(self, note, command, folder):
        work, throughput, delay = map(float, command[-3:])
        before = read_report(folder)
        self.started += 1
        first = before.work_done if before else 0.0
        self.tasks_of[str(self.started)] = note, folder, work, throughput, self.time + delay, first
        return str(self.started)

    def release(self, task, note):
        raise ActionRefusedError("no task here has a first_node")

    def stop(self, task, *, kill=False):
        if task.name in self.tasks_of:
            self.report(task.name, STOPPED)


@pytest.mark.parametrize(
    ("scheduler", "setup"), [(Srtf, SETUP), (Starling, SETUP), (Srtf, PREDICTED), (Starling, PREDICTED)]
)
def test_without_latencies_a_bridge_plays_the_schedule_of_the_simulator(scheduler, setup, tmp_path):
    """With the first setup Starling also chooses batch sizes, which sleepers must follow.

    With the second one work is hidden, and the mirror must predict what the simulator does. With some other seeds two
    predictions are so close that the milliseconds by which the bridge is late decide which job goes first.
    """
    source = SyntheticSource(
        CLUSTER, setup.performance, num_jobs=25, load=1.2, max_gpus=8, seed=5, habits=Habits(users=3)
    )
    train_predictor(setup, source)
    workload = source.episode(np.random.default_rng(3), "validation")
    actor, cluster = scheduler(), IdealCluster()
    simulated = run_episode(deepcopy(actor), Simulator(workload, setup, 0))
    began = cluster.time
    clock = SteadyClock(SCALE, None, wall=lambda: cluster.time, steady=lambda: cluster.time - began)
    known = setup is SETUP
    rules = BridgeRules(False, SCALE, actions_per_minute=10**6, interval=LATE, retry=LATE, knows_work=known)
    bridge = Bridge(cluster, "me.0f-0", setup, list(workload), sleeping(setup, SCALE), tmp_path, rules, clock)
    mirror = Mirror(setup, workload.models, workload.tenants, int(workload.jobs["max_gpus"].max()))
    asked = LocalScheduler(actor, mirror, Simulator(workload, setup, 0).rng)
    while not bridge.finished:
        bridge.step(asked)
        submits = [began + run.spec.submit_time / SCALE for run in bridge.runs[bridge.submitted :][:1]]
        cluster.time = min(cluster.next_finish(), *submits, cluster.time + 100.0) + LATE
    played = [run.finish_time - run.spec.submit_time for run in bridge.runs]
    expected = simulated.records["finish_time"] - simulated.records["submit_time"]
    assert played == pytest.approx(expected, abs=30.0, rel=0.02)
    assert cluster.started == len(workload) + simulated.records["num_restarts"].sum()
    named = {line["placement"].get("batch_size") for line in read_journal(tmp_path / JOURNAL) if "placement" in line}
    assert (len(named) > 1) is (scheduler is Starling and known)
