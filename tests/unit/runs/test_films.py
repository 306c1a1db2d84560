"""Films from a config: mistakes are named before anything is played."""

from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from envs.scheduling import Scheduler
from murmuration.config.building import Component
from murmuration.config.describe import describe_film
from murmuration.config.errors import ChoiceError
from murmuration.runs.films import find_actor


def test_another_ending_is_refused_before_the_episode_is_played():
    with pytest.raises(ChoiceError, match=r"film=a.avi: the name of a film must end with \.gif or \.mp4"):
        describe_film(OmegaConf.create({"film": "a.avi"}))


def test_a_film_shows_one_scheduler():
    def actor_of(*names: str) -> Scheduler:
        schedulers = {name: Component(name, {"_target_": "baselines.Srtf"}) for name in names}
        run: Any = SimpleNamespace(checkpoint="", schedulers=schedulers)
        return find_actor(run)

    with pytest.raises(ChoiceError, match=r"2 schedulers are chosen \(a, b\); choose one"):
        actor_of("a", "b")
    with pytest.raises(ChoiceError, match="0 schedulers are chosen"):
        actor_of()
    assert type(actor_of("a")).__name__ == "Srtf"
