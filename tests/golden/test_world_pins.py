"""A change of what the world plays raises its version: small worlds play what they did when it was last raised."""

import json
from typing import Any

import pytest

from envs.simulation import WORLD_VERSION, EventKind
from tests.golden.world_pins import COMMAND, PINS, World, describe_run, find_defaults, find_pins, worlds

ADVICE = f"the world plays differently: raise WORLD_VERSION, the versions of the tasks, and pin anew with `{COMMAND}`"
PINNED: dict[str, Any] = json.loads(PINS.read_text(encoding="utf-8"))


def test_the_pins_are_of_the_present_version() -> None:
    assert PINNED["world_version"] == WORLD_VERSION, f"WORLD_VERSION was raised: pin anew with `{COMMAND}`"


def test_the_world_plays_what_it_played_when_its_version_was_raised() -> None:
    played = find_pins()["played"]
    for name, pins in PINNED["played"].items():
        same = played[name]["inputs"] == pins["inputs"]
        advice = ADVICE if same else f"the inputs of the pinned world have changed: pin anew with `{COMMAND} --again`"
        assert played[name] == pins, f"{name}: {advice}"
    assert played.keys() == PINNED["played"].keys()


def test_defaults_that_hashes_leave_out_are_those_that_were_pinned() -> None:
    found = find_defaults()
    for name, options in PINNED["defaults"].items():
        for option, default in options.items():
            now = found.get(name, {}).get(option, "none")
            assert now == default, f"{name}: the default of {option} was {default} and is {now} now: {ADVICE}"
    assert found == PINNED["defaults"], f"there are new options: pin them with `{COMMAND}`"


def test_the_worlds_use_every_rule() -> None:
    every, slices = worlds()["every rule"], worlds()["slices"]
    logs = [run.log for world in (every, worlds()["limits"], worlds()["holds"]) for run in world.play().values()]
    assert {number for log in logs for number in log.events["kind"].tolist()} == set(EventKind)
    assert any(log.plans for log in logs)
    assert any(log.events["batch_size"].any() for log in logs)
    assert (slices.play()["pairs"].log.events["beside"] >= 0).any()


@pytest.mark.parametrize("change", ["time", "cpus"])
def test_a_difference_in_the_sixth_digit_is_seen_and_rounding_is_not(change: str) -> None:
    world: World = worlds()["every rule"]
    result = world.play()["fifo"]
    before = describe_run(result)
    column = result.log.events["time"] if change == "time" else result.log.shares["cpus"]
    column *= 1 + 1e-15
    assert describe_run(result) == before
    column *= 1 + 1e-5
    assert describe_run(result) != before
