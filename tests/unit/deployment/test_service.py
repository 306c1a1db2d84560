"""A server outlives everything that a cluster sends and a scheduler does, and answers several clusters at a time."""

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from baselines import Afs, Fifo, Gavel, Optimus, Sia, Srtf, Starling, Tiresias
from deployment.messages import read_decision, read_message, write_round
from deployment.service import Service, ServiceRules, Session
from deployment.sockets import Connection, listen, open_connection
from deployment.state import ClusterState, JobState
from envs.scheduling import Scheduler
from envs.simulation import Information, Scenario, Setup
from envs.types import Allocation, ClusterSpec, JobSpec, MurmurationError, NodeSpec, Placement
from tests.conformance.worlds import Curved
from tests.unit.deployment.test_messages import BEGIN, JOB, call, message

ROUND = message(("JOB_SUBMITTED", JOB), call({"job_id": 0}))
OBSERVED = Scenario(batch_sizes="usual", information=Information("none", throughput="observed"))


def session(scheduler: Scheduler, scenario: Scenario | None = None) -> Session:
    found = Session(scheduler, Setup(ClusterSpec((NodeSpec("new", 1),)), Curved(), scenario or Scenario()))
    found.answer(BEGIN)
    return found


def submission(**changed: Any) -> Any:
    return message(("JOB_SUBMITTED", {"job_id": 0, "job": JOB["job"] | changed}), call({"job_id": 0}))


@pytest.mark.parametrize("scheduler", [Afs, Fifo, Gavel, Optimus, Sia, Srtf, Starling, Tiresias])
def test_a_job_larger_than_the_cluster_is_refused_whichever_scheduler_is_asked(scheduler):
    with pytest.raises(MurmurationError, match="job 0: needs 9 GPUs, and cluster cluster has 4, so it can never run"):
        session(scheduler()).answer(submission(num_gpus=9))


def test_a_job_that_runs_on_no_node_is_refused_as_in_the_simulator():
    found = Session(Fifo(), Setup(ClusterSpec((NodeSpec("new", 1),)), Curved(), Scenario()))
    found.answer(message(("SIMULATION_BEGINS", {"nodes": [{"gpu_type": "small", "num_gpus": 4}]})))
    with pytest.raises(MurmurationError, match=r"job 0 \(large\) runs on none of small with 2 to 2 GPUs"):
        found.answer(submission(model="large"))


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ({"placement": {"gpus": {"0": 1024}}}, "job 0: holds 1024 GPUs on node 0 at t = 0 s, which has 4"),
        ({"placement": {"gpus": {"7": 2}}}, "node 7 does not exist; nodes are 0 to 0"),
        ({"placement": {"gpus": {"0": 3}}}, "job 0: holds 3 GPUs at t = 0 s; its range is 2 to 2"),
        ({"remaining_work": 1e31}, r"it must be a number from 0 to 1e\+30"),
    ],
)
@pytest.mark.parametrize("scenario", [Scenario(), OBSERVED], ids=["exact", "observed"])
def test_numbers_of_a_state_are_checked_against_the_cluster(state, wanted, scenario):
    line = message(("JOB_SUBMITTED", JOB), call({"job_id": 0, "throughput": 2.0} | state))
    with pytest.raises(MurmurationError, match=wanted):
        session(Fifo(), scenario).answer(line)


@pytest.mark.parametrize("reported", [5e-324, 1e30])
def test_a_throughput_that_cannot_be_is_not_believed(reported):
    found = session(Fifo(), OBSERVED)
    runs = {"job_id": 0, "placement": {"gpus": {"0": 2}}, "throughput": reported}
    read_decision(read_message(found.answer(message(("JOB_SUBMITTED", JOB), call(runs))), "")[1])
    assert found._mirror is not None
    assert found._mirror._view is not None
    beliefs = found._mirror._view._engine_side.beliefs
    assert beliefs is not None
    assert beliefs.num_samples.sum() == 0


def test_a_job_with_two_states_and_a_cluster_beyond_all_memory_are_refused():
    with pytest.raises(MurmurationError, match="job 0: has several states at t = 0 s; send one"):
        session(Fifo()).answer(message(("JOB_SUBMITTED", JOB), call({"job_id": 0}, {"job_id": 0})))
    large = [{"gpu_type": "new", "num_gpus": 1024}, *[{"gpu_type": "new", "num_gpus": 1}] * 2000]
    with pytest.raises(MurmurationError, match="2,001 nodes of 1 GPU types have room for 2,049,024 GPUs"):
        session(Fifo())._begin([("SIMULATION_BEGINS", read_message(begin(large), "")[1][0][1])])
    many = Session(Fifo(), Setup(ClusterSpec((NodeSpec("new", 1),)), Curved(), Scenario()))
    many.answer(begin(large[:1], models=list(map(str, range(10_000)))))
    with pytest.raises(MurmurationError, match="10001 models on 1 GPU types with up to 1024 GPUs are too many"):
        many.answer(ROUND)


def begin(nodes: list[dict[str, Any]], **other: Any) -> Any:
    return message(("SIMULATION_BEGINS", {"nodes": nodes} | other))


class Faulty:
    """A scheduler that does as it is told."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        self.act = act

    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        return self.act(view)


def stop(view: Any) -> Any:
    raise SystemExit("over")


def place(**other: Any) -> Callable[[Any], Allocation]:
    def act(view: Any) -> Allocation:
        found: Allocation = view.allocation()
        found.changes[other.get("job", 0)] = Placement({0: other.get("gpus", 2)})
        found.next_decision = other.get("later", 1.0)
        return found

    return act


FAULTS = [
    (lambda view: None, "AttributeError"),
    (lambda view: 1 / 0, "ZeroDivisionError: division by zero"),
    (stop, "SystemExit: over"),
    (place(gpus=9), "job 0: asks for 9 GPUs on node 0, where 4 are free"),
    (place(gpus=1), "job 0: is given 1 GPUs; its range is 2 to 2"),
    (place(job=5), "job 5 is not in the system"),
    (place(later=-1.0), "next decision at t = -1 s, which is not after"),
]


@pytest.mark.parametrize(("act", "wanted"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_of_the_scheduler_is_one_line_that_names_it(act, wanted):
    with pytest.raises(MurmurationError, match=f"the scheduler Faulty failed at now = 0: .*{wanted}") as raised:
        session(Faulty(act)).answer(ROUND)
    assert str(raised.value).isprintable()


@pytest.fixture
def serving(tmp_path):
    """Starts a service in a thread; returns a way to connect, the lines that it tells, and the thread."""

    def start(scheduler: Scheduler, **rules: Any) -> tuple[Callable[[], Connection], list[str], threading.Thread]:
        address, said = f"unix:{tmp_path / 's'}", list[str]()
        setup = Setup(ClusterSpec((NodeSpec("new", 1),)), Curved(), Scenario())
        listener = listen(address)
        service = Service(listener, lambda: Session(scheduler, setup), ServiceRules(**rules), said.append)

        def serve() -> None:
            with listener:
                service.serve()

        thread = threading.Thread(target=serve)
        thread.start()
        return lambda: open_connection(address), said, thread

    return start


def ask(connection: Connection, *lines: bytes) -> str:
    """Send lines; return the type of the last answer's first event, or its error."""
    for line in lines:
        connection.send(line)
        events = json.loads(connection.receive())["events"]
    data = events[0]["data"] if events else {}
    return str(data.get("message", events[0]["type"] if events else ""))


def test_an_idle_cluster_stops_no_other_one_and_one_too_many_is_refused(serving):
    connect, said, thread = serving(Fifo(), clusters=3, clients=2)
    idle, busy = connect(), connect()
    assert ask(busy, BEGIN, ROUND) == "EXECUTE_JOB"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("deployment.service.FREED_WITHIN", 0.01)
        over = connect()
        assert (
            "2 clusters are answered already; come again later"
            in json.loads(over.receive())["events"][0]["data"]["message"]
        )
        assert over.receive() == b""
    busy.close()
    third = connect()  # in the place that became free
    assert ask(third, BEGIN, ROUND) == "EXECUTE_JOB"
    third.close()
    idle.close()
    thread.join()
    assert sorted(line[:20] for line in said) == ["a cluster left after"] * 3 + ["a cluster was refuse"]


@pytest.mark.parametrize("drip", [False, True])
def test_a_cluster_that_sends_no_whole_message_is_told_so_and_left(serving, drip):
    connect, said, thread = serving(Fifo(), clusters=1, patience=0.3)
    slow = connect()
    slow._socket.settimeout(0.05)
    line = b""
    while not line.endswith(b"\n"):
        try:
            if drip:
                slow._socket.send(b" ")
            line += slow._socket.recv(10_000)
        except TimeoutError:
            continue
    assert b"no whole line within 0.3 s" in line
    thread.join()
    assert "no whole line within 0.3 s" in said[0]


@pytest.mark.parametrize("act", [stop, lambda view: 1 / 0, place(gpus=9)])
def test_a_fault_of_the_scheduler_ends_one_session_and_not_the_service(serving, act):
    connect, said, thread = serving(Faulty(lambda view: act(view) if view.time == 0 else view.allocation()), clusters=2)
    healthy, hit = connect(), connect()
    later = ClusterState(5.0, (JobSpec(0, 1.0, 2, 9.0, "any"),), jobs=(JobState(0),))
    assert ask(healthy, BEGIN) == ask(hit, BEGIN) == ""
    assert "the scheduler Faulty failed" in ask(hit, ROUND)
    assert hit.receive() == b""
    assert ask(healthy, write_round(later)) == ""
    healthy.close()
    thread.join()
    assert len(said) == 2


def test_an_interrupt_ends_the_service_and_its_answers(tmp_path):
    ours, theirs = socket.socketpair()
    accepted = iter([(ours, None)])

    class Interrupted:
        def accept(self):
            if (found := next(accepted, None)) is None:
                raise KeyboardInterrupt
            return found

    setup = Setup(ClusterSpec((NodeSpec("new", 1),)), Curved())
    service = Service(Interrupted(), lambda: Session(Fifo(), setup), ServiceRules(), str)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        service.serve()
    assert theirs.recv(1) == b""
    theirs.close()


@pytest.mark.parametrize(
    "rules", [{"clusters": 0}, {"clients": None}, {"clients": 2.5}, {"patience": "x"}, {"patience": -1}]
)
def test_rules_that_cannot_be_are_refused(rules):
    with pytest.raises(MurmurationError, match=f"{next(iter(rules))}=.*: must be a .*above 0"):
        ServiceRules(**rules)
