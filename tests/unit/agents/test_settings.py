"""Settings of training: what makes no sense is refused by name, in one line; no two parts of runs share a seed."""

import itertools

import pytest

from agents.seeding import Phase, derive_seed
from agents.training import TrainingSettings
from envs.types import MurmurationError
from tests.unit.agents.worlds import QUICK_PPO


@pytest.mark.parametrize(
    "wrong", [{"iterations": -1}, {"validate_every": 0}, {"num_validation": 0}, {"num_threads": 0}, {"save_every": 0}]
)
def test_training_settings_that_make_no_sense(wrong):
    with pytest.raises(MurmurationError, match=next(iter(wrong))):
        TrainingSettings(QUICK_PPO, **wrong)


def test_a_teacher_needs_settings_of_imitation():
    with pytest.raises(MurmurationError, match=r"trainer.imitation is not set; choose trainer=imitation"):
        TrainingSettings(QUICK_PPO, teacher="best")


def test_no_two_places_of_runs_have_one_seed():
    """Consecutive seeds, phases, iterations and workers; all within RLlib's 32 bits with workers added."""
    places = list(itertools.product(range(4), Phase, range(4), range(4)))
    seeds = [derive_seed(*place) for place in places]
    assert len(set(seeds)) == len(places)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds == [derive_seed(*place) for place in places]
