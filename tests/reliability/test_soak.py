"""A short soak: random worlds with all faults on, back to back; the long one is `scripts/soak.py`."""

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from envs.evaluation.audit import Audit
from envs.simulation import run_episode
from envs.types import ImpossibleResultError
from murmuration.config.errors import ChoiceError, RunFailedError
from murmuration.soak import worlds as soaking
from murmuration.soak.worlds import (
    Tally,
    TamperedSimulator,
    check_flat,
    draw_world,
    end_if_hanging,
    kill_a_writer,
    long_episode,
    memory,
    play_world,
    worlds_until,
)
from tests.unit.scripts.test_training_scripts import run_here


def test_worlds_are_played_and_checked_until_the_time_is_up(capsys):
    play_world(draw_world(100))  # it compiles, which may take longer than all others
    tally = worlds_until(minutes=0.03, seed=100)
    assert tally.cpu_seconds >= 1.8
    assert tally.worlds >= 3
    assert min(tally.outages, tally.preemptions, tally.events, tally.placements, tally.refused) > 0
    assert tally.kills == -(-tally.worlds // 10)
    assert tally.finished == tally.jobs
    assert f"{tally.worlds:,} worlds" in str(tally)
    assert "nothing lost" in str(tally)
    assert "MB" in capsys.readouterr().out
    check_flat(tally, growth=200.0)


def test_placements_name_batch_sizes_plans_cores_and_memory_in_every_second_world():
    """The audit asks the performance model for each of them anew; world 15 has pairs too."""
    tally = play_world(draw_world(15))
    assert min(tally.batches, tally.plans, tally.amounts, tally.pairs) > 0
    assert tally.finished == tally.jobs
    plain = play_world(draw_world(4))
    assert (plain.batches, plain.plans, plain.amounts) == (0, 0, 0)


def test_a_job_that_loses_its_partner_in_the_round_of_its_own_change_is_updated_once():
    """World 300000 did not end: the job was twice in the list of those to update, which then had no end."""
    tally = play_world(draw_world(300_000))
    assert tally.pairs > 0
    assert tally.hidden == 1
    assert tally.finished == tally.jobs


def test_a_soak_that_is_interrupted_keeps_its_counts(tmp_path, monkeypatch):
    worlds = iter([play_world])

    def play(world, *others):
        for play_once in worlds:
            return play_once(world, *others)
        raise KeyboardInterrupt

    monkeypatch.setattr(soaking, "play_world", play)
    done = run_here(tmp_path, "soak", "minutes=1", "seed=100", "hydra.run.dir=run")
    assert done.returncode == 130
    assert "nothing lost" in done.stdout
    assert done.stderr.strip() == "interrupted; the counts so far are in run/soak.json"
    assert json.loads((tmp_path / "run" / "soak.json").read_text())["worlds"] == 1


def test_a_world_that_does_not_end_is_named_and_ends_the_soak():
    code = "import time; from murmuration.soak.worlds import *\nwith end_if_hanging('world 7', 0.1): time.sleep(1000)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(soaking.__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == "no end within 0.1 s: world 7\n"
    with end_if_hanging("world 7", 1e-9 + threading.TIMEOUT_MAX / 2):
        pass


def test_a_world_follows_from_its_seed():
    first, again = (play_world(draw_world(3)) for _ in range(2))
    assert (first.events, first.rounds, first.outages) == (again.events, again.rounds, again.outages)
    assert len(draw_world(3, num_jobs=50).workload) == 50


def test_a_result_that_cannot_be_ends_a_soak(monkeypatch):
    monkeypatch.setattr(Audit, "_ask", lambda *_: 1e-3)  # as if all jobs had run much faster than they can
    with pytest.raises(ImpossibleResultError, match="world 4 on .* finished with work for"):
        play_world(draw_world(4))


def test_an_impossible_allocation_that_is_accepted_ends_a_soak(monkeypatch):
    monkeypatch.setattr(TamperedSimulator, "_impossible", lambda self: self.view.allocation(keep_running=True))
    with pytest.raises(RunFailedError, match="an impossible allocation was accepted"):
        play_world(draw_world(4))


def test_a_file_of_which_a_part_is_left_ends_a_soak(tmp_path, monkeypatch):
    kill_a_writer(tmp_path / "whole", np.random.default_rng(0))
    monkeypatch.setattr(soaking, "WRITER", soaking.WRITER.replace('f"{number}', 'f"{number}\\n'))
    with pytest.raises(RunFailedError, match="left a part of the file, 200000 lines"):
        kill_a_writer(tmp_path / "part", np.random.default_rng(0))


def test_impossible_allocations_change_nothing():
    """A world in which a fifth of the rounds begin with one leaves the same log as without."""
    world = draw_world(5)
    runs = []
    for share in (0.0, 0.2):
        simulator = TamperedSimulator(share, np.random.default_rng(0), world.workload, world.setup, world.seed)
        runs.append(run_episode(draw_world(5).scheduler, simulator))
    assert simulator.refused > 10
    assert runs[0].log == runs[1].log


def test_memory_that_grows_is_an_error():
    assert memory() > 10.0
    tally = Tally(worlds=9, memory_before=100.0, memory_after=350.0)
    with pytest.raises(RunFailedError, match=r"memory has grown by 250 MB over 9 worlds.*; at most 100 are allowed"):
        check_flat(tally, growth=100.0)
    check_flat(tally, growth=300.0)
    check_flat(replace(tally, memory_known=200.0), growth=100.0)  # the arrays of a long episode are no leak


def test_a_long_episode_follows_a_short_one_and_its_arrays_are_counted():
    tally = long_episode(400, seed=3)
    assert (tally.worlds, tally.jobs) == (2, 500)
    assert min(tally.preemptions, tally.refused, tally.memory_before) > 0
    assert 0.1 < tally.memory_known < 20.0
    assert "are the arrays of the long one" in str(tally)
    check_flat(tally, growth=100.0)


@pytest.mark.parametrize("jobs", ["abc", 0, -5, 1e6, True])
def test_a_number_of_jobs_that_is_none_is_refused(jobs):
    with pytest.raises(ChoiceError, match="jobs is .*; it must be a whole number of at least 1"):
        long_episode(jobs, seed=0)


@pytest.mark.parametrize("minutes", ["abc", None, 0.0, -1, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(minutes):
    """NaN once ended at once, with nothing lost."""
    with pytest.raises(ChoiceError, match="minutes is .*; it must be a positive number"):
        worlds_until(minutes, seed=0)
