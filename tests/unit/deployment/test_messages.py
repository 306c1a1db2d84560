"""Messages of the protocol: what is written is read again, and what strangers send is refused in one line."""

import json
import math
import socket
import threading
from typing import Any

import numpy as np
import pytest

from baselines import Fifo
from deployment.messages import (
    Beginning,
    read_beginning,
    read_decision,
    read_message,
    read_round,
    state_of,
    write_beginning,
    write_decision,
    write_round,
)
from deployment.reading import ProtocolError
from deployment.service import Session, serve_one
from deployment.sockets import Connection
from deployment.state import ClusterState, Decision, JobState
from envs.simulation import Setup
from envs.types import ClusterSpec, ExecutionPlan, JobSpec, MurmurationError, NodeSpec, Placement
from tests.conformance.worlds import Curved

CLUSTER = ClusterSpec((NodeSpec("new", 4), NodeSpec("old", 2, rack=3)), "two nodes")
PLAN = ExecutionPlan(data=2, tensor=2, offload=True)
STATE = ClusterState(
    12.5,
    (
        JobSpec(
            0,
            1.0,
            2,
            math.nan,
            "any",
            max_gpus=4,
            plan=PLAN,
            tenant="a",
            name="\x1b[2Jname",
            qos="high",
            nice=-9.0,
            priority=-1.0,
        ),
    ),
    {7: 3.25},
    frozenset({1}),
    (
        JobState(
            0, Placement({0: 3}, {0: 1.5}, {0: 20.0}, PLAN, 64), 2.0, 1 / 3, (0.1, 0.2), 1e-300, 13.0, 13.0, 2.0, 1
        ),
        JobState(1, work_done=20.5),
    ),
    {7: 300.0},
    "job 3: needs 3 GPUs",
)


def test_what_is_written_is_read_again():
    begun = Beginning(CLUSTER, ("any", "b"), ("a",), 8, state_of(np.random.default_rng(5)))
    now, ((name, data),) = read_message(write_beginning(begun), "")
    assert (now, name, read_beginning(data)) == (0.0, "SIMULATION_BEGINS", begun)
    assert begun.rng.integers(1000) == np.random.default_rng(5).integers(1000)
    found = read_round(*read_message(write_round(STATE), ""))
    assert math.isnan(found.submitted[0].work)
    assert repr(found) == repr(STATE)  # NaN differs from itself
    decision = Decision({0: Placement({1: 2}, plan=PLAN), 3: None}, 99.5)
    assert read_decision(read_message(write_decision(1.0, decision), "")[1]) == decision


def message(*events, **other):
    listed = [{"timestamp": 0, "type": name, "data": data} for name, data in events]
    return json.dumps({"version": 1, "now": 0, "events": listed} | other).encode() + b"\n"


BEGIN = message(("SIMULATION_BEGINS", {"nodes": [{"gpu_type": "new", "num_gpus": 4}]}))
JOB: dict[str, Any] = {"job_id": 0, "job": {"submit_time": 0, "num_gpus": 2, "work": 5, "model": "any"}}


def call(*jobs, **other):
    return ("REQUESTED_CALL", {"jobs": list(jobs)} | other)


HOSTILE = [
    (b"\xff\xfe\n", "is no JSON"),
    (b"[" * 100_000 + b"\n", "is no JSON"),
    (b"{}\n", "has no version; add it"),
    (message(version=2), "version is 2; it must be 1"),
    (message(now="1"), "now is '1'; it must be a number from 0"),
    (b'{"version": 1, "now": NaN, "events": []}\n', "NaN is no number in JSON; send null"),
    (message(now=-1), "now is -1; it must be a number from 0 to 1e.10"),
    (message(now=10**400), "it must be a number from 0"),
    (message(events={}), "events is {}; it must be a list"),
    (message(extra=1), "has the field 'extra'"),
    (message(), "last event must be REQUESTED_CALL"),
    (message(("JOB_SUBMITED", JOB), call()), "event type 'JOB_SUBMITED'; types are"),
    (message(("JOB_SUBMITTED", JOB | {"job_id": 3}), call()), "the next job to be submitted has the id 0"),
    (message(("JOB_SUBMITTED", {"job_id": True, "job": {}}), call()), "job_id is True; it must be a whole number"),
    (message(("JOB_SUBMITTED", JOB), call()), "job 0: has no state at t = 0 s"),
    (message(("JOB_SUBMITTED", JOB), call({"job_id": 5})), "job 5: was not submitted|job 0: has no state"),
    (
        message(("JOB_SUBMITTED", JOB), call({"job_id": 0, "placement": {"gpus": {"0": 9}}})),
        "job 0: holds 9 GPUs on node 0 at t = 0 s, which has 4",
    ),
    (
        message(("JOB_SUBMITTED", JOB), call({"job_id": 0, "placement": {"gpus": {"-1": 1}}})),
        "fields are numbers from 0",
    ),
    (message(("JOB_SUBMITTED", JOB), call({"job_id": 0, "placement": {"gpus": {}}})), "at least one GPU"),
    (message(("JOB_SUBMITTED", JOB), call({"job_id": 0}, down=[4])), "node 4 does not exist"),
    (message(("JOB_COMPLETED", {"job_id": 0}), call()), "job 0: was not submitted"),
    (message(call()), "a round without jobs"),
    (
        message(("JOB_SUBMITTED", {"job_id": 0, "job": JOB["job"] | {"model": "\x1b[31m" * 300}}), call({"job_id": 0})),
        r"model is '\\x1b\[31m.*it must be a text of at most 1000 characters",
    ),
    (
        message(("JOB_SUBMITTED", {"job_id": 0, "job": JOB["job"] | {"num_gpus": 1e9}}), call()),
        "num_gpus is 1000000000.0",
    ),
    (
        message(("JOB_SUBMITTED", {"job_id": 0, "job": JOB["job"] | {"min_gpus": 3}}), call()),
        "1 <= min_gpus <= num_gpus",
    ),
]


def session():
    found = Session(Fifo(), Setup(CLUSTER, Curved()))
    found.answer(BEGIN)
    return found


@pytest.mark.parametrize(("line", "wanted"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_damaged_or_hostile_message_is_refused_in_one_line(line, wanted):
    with pytest.raises(MurmurationError, match=wanted) as raised:
        session().answer(line)
    assert str(raised.value).isprintable()


def test_every_value_of_a_good_message_may_be_damaged():
    """Replace each value in turn; the answer is an allocation or a refusal, never another error."""
    good = message(
        ("JOB_SUBMITTED", JOB),
        call({"job_id": 0, "placement": {"gpus": {"0": 2}}, "likely_work": [1.0], "throughput": 2.0}, down=[]),
    )

    def damaged(value, bad):
        yield bad
        if isinstance(value, dict):
            for name, each in value.items():
                yield from ({**value, name: other} for other in damaged(each, bad))
                yield {key: kept for key, kept in value.items() if key != name}
        elif isinstance(value, list):
            for i, each in enumerate(value):
                yield from ([*value[:i], other, *value[i + 1 :]] for other in damaged(each, bad))

    damages: tuple[Any, ...] = (None, -1, 1e308, "", "\x00", [], {}, True, 2**70)
    refused = []
    for document in (document for bad in damages for document in damaged(json.loads(good), bad)):
        try:
            read_decision(read_message(session().answer(json.dumps(document).encode() + b"\n"), "")[1])
        except MurmurationError as error:
            refused.append(str(error))
    assert len(refused) > 150
    assert all(each.isprintable() for each in refused)


def test_time_does_not_go_back():
    found = session()
    found.answer(message(("JOB_SUBMITTED", JOB), call({"job_id": 0}), now=5))
    with pytest.raises(ProtocolError, match="now is 4, before 5; time does not go back"):
        found.answer(message(call({"job_id": 0}), now=4))


def test_a_cluster_that_leaves_within_a_message_is_noticed():
    ours, theirs = socket.socketpair()
    said = []
    thread = threading.Thread(
        target=lambda: said.append(serve_one(Session(Fifo(), Setup(CLUSTER, Curved())), Connection(ours)))
    )
    thread.start()
    theirs.sendall(b'{"version"')
    theirs.close()
    thread.join()
    assert "the last line has no end" in said[0]


def test_a_wrong_answer_is_refused():
    events = [("EXECUTE_JOB", {"job_id": 0, "placement": {"gpus": {"0": 1}}}), ("STOP_JOB", {"job_id": 0})]
    with pytest.raises(ProtocolError, match="names job 0 twice"):
        read_decision(read_message(message(*events), "answer 1")[1])
    with pytest.raises(ProtocolError, match="the scheduler refuses: no"):
        read_decision(read_message(message(("ERROR", {"message": "no"})), "answer 1")[1])
