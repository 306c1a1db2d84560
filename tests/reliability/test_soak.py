"""A short soak: random worlds with all faults on, back to back; the long one is `scripts/soak.py`."""

import pytest

from envs.evaluation.audit import Audit
from envs.types import ImpossibleResultError
from launch.errors import RunFailedError
from launch.soaking import Tally, check_flat, draw_world, memory, play_world, worlds_until


def test_worlds_are_played_and_checked_until_the_time_is_up(capsys):
    tally = worlds_until(minutes=0.05, seed=100)
    assert tally.cpu_seconds >= 3.0
    assert tally.worlds >= 3
    assert min(tally.outages, tally.preemptions, tally.events, tally.placements) > 0
    assert tally.finished == tally.jobs
    assert f"{tally.worlds:,} worlds" in str(tally)
    assert "nothing lost" in str(tally)
    assert "MB" in capsys.readouterr().out
    check_flat(tally, growth=200.0)


def test_a_world_follows_from_its_seed():
    first, again = (play_world(draw_world(3)) for _ in range(2))
    assert (first.events, first.rounds, first.outages) == (again.events, again.rounds, again.outages)
    assert len(draw_world(3, num_jobs=50).workload) == 50


def test_a_result_that_cannot_be_ends_a_soak(monkeypatch):
    monkeypatch.setattr(Audit, "_ask", lambda *_: 1e-3)  # as if all jobs had run much faster than they can
    with pytest.raises(ImpossibleResultError, match="world 4 on .* finished with work for"):
        play_world(draw_world(4))


def test_memory_that_grows_is_an_error():
    assert memory() > 10.0
    tally = Tally(worlds=9, memory_before=100.0, memory_after=350.0)
    with pytest.raises(RunFailedError, match="memory has grown by 250 MB over 9 worlds; at most 100 are allowed"):
        check_flat(tally, growth=100.0)
    check_flat(tally, growth=300.0)
