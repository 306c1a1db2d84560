"""A bridge against a cluster manager in memory, one step after the other."""

import numpy as np

from baselines import Srtf
from deployment.adapter import ActionRefusedError, NodeStatus, TaskStatus
from deployment.bridge import Bridge, BridgeRules
from deployment.clock import SteadyClock
from deployment.deciding import DecisionMaker, LocalScheduler
from deployment.jobs import DONE, RUNNING, STOPPED, JobReport, read_order, read_report, write_progress
from deployment.mirror import Mirror
from envs.simulation import Setup
from envs.types import ClusterSpec, JobSpec, NodeSpec
from tests.conformance.worlds import Curved

CLUSTER = ClusterSpec(tuple(NodeSpec("new", 4) for _ in range(3)))
SETUP = Setup(CLUSTER, Curved())
OWNER = "me.0f-0"


class Time:
    """A clock that moves when the test says so, and a clock on the wall that may jump."""

    def __init__(self):
        self.steady, self.jump = 100.0, 0.0

    def clock(self, began=None):
        return SteadyClock(1.0, began, wall=lambda: 1e9 + self.steady + self.jump, steady=lambda: self.steady)


class MemoryCluster:
    """A cluster manager in memory: tasks run at once, and process two samples a second per GPU."""

    user = "me"

    def claim(self, owner):
        pass

    def leave(self, owner):
        pass

    def __init__(self, time):
        self.time, self.running, self.started = time, {}, []
        self.down, self.hidden, self.earlier = set(), set(), []
        self.refuse, self.silent, self.strict, self.refuse_release = 0, 0, True, 0

    def _now(self):
        return 1e9 + self.time.steady

    def nodes(self):
        return [
            NodeStatus(f"n{i}", "new", 4, 32.0, 256.0, i not in self.down) for i in range(3) if i not in self.hidden
        ]

    def tasks(self):
        if self.silent:
            self.silent -= 1
            raise ActionRefusedError("squeue: no answer")
        self.work()
        running = [TaskStatus(name, note, "running", min(note.gpus)) for name, (note, *_) in self.running.items()]
        return self.earlier + running

    def work(self):
        """Let tasks report, and end those whose nodes are down or whose work is done."""
        for name, (note, folder, work, began, first) in list(self.running.items()):
            if self.down & {int(node[1:]) for node in note.gpus}:
                del self.running[name]
                continue
            if began is None:  # it has stopped, and waits until nodes are released
                order = read_order(folder, note.segment - 1)
                last = read_report(folder)
                if last is None or order is None or (order.segment, order.released) != (note.segment, True):
                    continue
                began, first = self._now(), last.work_done
                self.running[name] = note, folder, work, began, first
            throughput = 2.0 * sum(note.gpus.values())
            done = first + throughput * (self._now() - began)
            state = DONE if done >= work else RUNNING
            at = began + (work - first) / throughput if state == DONE else self._now()
            write_progress(folder, JobReport(note.segment, state, min(done, work), throughput, began, began, at))
            if state == DONE:
                del self.running[name]
            elif read_order(folder, note.segment):
                write_progress(folder, JobReport(**{**vars(read_report(folder)), "state": STOPPED}))
                self.running[name] = note, folder, work, None, done

    def release(self, task, note):
        if self.refuse_release:
            self.refuse_release -= 1
            raise ActionRefusedError("scontrol: error: no")
        held, *others = self.running[task.name]
        assert note.gpus.items() < held.gpus.items()
        assert task.first_node in note.gpus
        self.running[task.name] = note, *others

    def start(self, note, command, folder):
        if self.refuse:
            self.refuse -= 1
            raise ActionRefusedError("sbatch: error: no")
        held = dict.fromkeys(note.gpus, 0)
        for other, *_ in self.running.values():
            for node in held:
                held[node] += other.gpus.get(node, 0)
        assert not self.strict or all(held[node] + count <= 4 for node, count in note.gpus.items()), (
            "more GPUs than there are"
        )
        assert not self.strict or note.job not in [other.job for other, *_ in self.running.values()], (
            "a job was started twice"
        )
        report = read_report(folder)
        name = str(len(self.started))
        self.started.append(note)
        self.running[name] = note, folder, float(command[0]), self._now(), report.work_done if report else 0.0
        return name

    def stop(self, task, *, kill=False):
        self.work()
        if task.name in self.running:
            _, folder, *_ = self.running.pop(task.name)
            write_progress(folder, JobReport(**{**vars(read_report(folder)), "state": STOPPED}))


def jobs(count=8):
    rng = np.random.default_rng(3)
    return [
        JobSpec(i, float(i * 3), int(rng.integers(1, 7)), float(rng.integers(50, 400)), "any", max_gpus=8)
        for i in range(count)
    ]


class Play:
    """A bridge, its cluster and its time, one step after the other."""

    def __init__(self, folder, scheduler=Srtf, specs=None, rules=None):
        self.time = Time()
        self.cluster = MemoryCluster(self.time)
        folder.mkdir(exist_ok=True)
        self.folder, self.scheduler, self.specs = folder, scheduler, specs or jobs()
        self.rules = BridgeRules(
            **{"shadow": False, "actions_per_minute": 1000, "interval": 1.0, "retry": 2.0} | (rules or {})
        )
        self.begin(None)

    def begin(self, began):
        clock = self.time.clock(began)
        self.bridge = Bridge(
            self.cluster, OWNER, SETUP, self.specs, lambda run: [str(run.spec.work)], self.folder, self.rules, clock
        )
        self.asked: DecisionMaker = LocalScheduler(self.scheduler(), Mirror(SETUP, ["any"]), np.random.default_rng(0))

    def go(self, steps, event=lambda step: None):
        for step in range(steps):
            event(step)
            try:
                self.bridge.step(self.asked)
            except ActionRefusedError as error:
                self.bridge.journal.write("refused", "look", why=str(error))
            self.time.steady += 1.0
            if self.bridge.finished:
                return
        return

    def check(self):
        """Every job is done once, and no segment was started twice."""
        assert self.bridge.finished
        segments = [(note.job, note.segment) for note in self.cluster.started]
        assert len(set(segments)) == len(segments)
        assert {note.job for note in self.cluster.started} == set(range(len(self.specs)))
        assert not self.cluster.running
        return self.bridge
