"""A short fuzz of the protocol server; `scripts/soak.py` plays the long one."""

import pytest

from deployment.mirror import Mirror
from envs.types import Placement
from murmuration.config.errors import RunFailedError
from murmuration.soak.fuzzing import protocol
from murmuration.soak.fuzzing.protocol import fuzz_protocol


def test_changed_messages_are_refused_in_one_line_and_no_order_is_illegal():
    count = fuzz_protocol(500, 0)
    assert count.inputs == 500
    assert count.changed > 150
    assert 0.8 < count.refused / count.changed < 1


class Greedy:
    """A scheduler that gives every job 1,000 GPUs of the first node."""

    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        found = view.allocation()
        found.changes.update({int(job): Placement({0: 1000}) for job in view.queued})
        return found


def test_the_fuzz_sees_an_illegal_order_and_a_fault_on_an_honest_message(monkeypatch):
    monkeypatch.setattr(protocol, "SCHEDULERS", {"greedy": Greedy})
    with pytest.raises(RunFailedError, match="an honest message was refused: the scheduler Greedy failed"):
        fuzz_protocol(50, 0)
    monkeypatch.setattr(Mirror, "check", lambda mirror, decision: None)
    with pytest.raises(RunFailedError, match="an illegal order: job 0 gets 1000 GPUs"):
        fuzz_protocol(50, 0)


def test_the_fuzz_sees_an_error_that_is_no_refusal(monkeypatch):
    monkeypatch.setattr(Mirror, "observe", lambda mirror, state: state.jobs[1024])
    with pytest.raises(RunFailedError, match="protocol: input 0: IndexError"):
        fuzz_protocol(50, 0)
