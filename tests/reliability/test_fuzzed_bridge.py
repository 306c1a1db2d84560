"""Changed decisions and job reports: none is an illegal order, none is read beyond its range, none ends the bridge."""

import pytest

from deployment.jobs import PROGRESS
from deployment.mirror import Mirror
from murmuration.config.errors import RunFailedError
from murmuration.soak.fuzzing import bridge
from murmuration.soak.fuzzing.bridge import fuzz_decisions, fuzz_reports


def test_changed_decisions_are_carried_out_or_refused_as_a_whole():
    count = fuzz_decisions(60, seed=64)
    assert count.inputs == 60
    assert 15 < count.changed < 45
    assert 10 < count.refused <= count.changed


def test_an_unchecked_decision_is_found(monkeypatch):
    monkeypatch.setattr(Mirror, "check", lambda *_: None)
    with pytest.raises(RunFailedError, match="decisions: (input|world)"):
        fuzz_decisions(60, seed=64)


def test_changed_reports_are_read_within_their_ranges_or_refused(monkeypatch):
    count = fuzz_reports(200, seed=64)
    assert (count.inputs, count.changed > 170, 100 < count.refused <= count.changed) == (200, True, True)
    monkeypatch.setattr(bridge, "load_report", lambda folder: (folder / PROGRESS).read_text())
    with pytest.raises(RunFailedError, match="job reports: input"):
        fuzz_reports(200, seed=64)
