"""The recording of a real Slurm beside `scheduler=slurm`: what is reached, and what the recorded seconds allow."""

from pathlib import Path
from typing import Any, cast

import pytest

from baselines.slurm import Slurm
from envs.types import MurmurationError
from experiments.slurm_recording import FORMS, compare_recording, read_recording, scheduler_of

RECORDED = Path(__file__).parent / "slurm_22_05"


def test_waits_are_those_of_the_recording_and_the_order_is_as_like_it_as_episodes_are_to_each_other(tmp_path):
    recording = read_recording(RECORDED, "2026-11-30T15:25:24")
    assert recording.waits.mean() == pytest.approx(79.7, abs=0.01)
    found = compare_recording(recording, scheduler_of(recording, tmp_path, **FORMS), 6)
    assert abs(found.wait_ratio.mean() - 1.0) < 0.05
    assert found.in_order.mean() > 0.935
    assert found.in_order.mean() > found.among_themselves - 0.04
    assert found.inside(3.0) > 0.6
    assert len(found.jobs) == 200


def test_all_users_of_the_recording_have_a_rank(tmp_path):
    """Its priorities are in sixths: root is a user too."""
    scheduler = scheduler_of(read_recording(RECORDED, "2026-11-30T15:25:24"), tmp_path)
    users = [each.user for each in scheduler.in_force.associations if each.user]
    assert users == ["root", "mail", "news", "daemon", "games", "man"]


@pytest.mark.parametrize("name", ["ends", "cores"])
def test_an_unknown_form_is_refused(name):
    with pytest.raises(MurmurationError, match=rf"scheduler.{name} is 'all'; it must be one of "):
        Slurm(**cast(dict[str, Any], {name: "all"}))
