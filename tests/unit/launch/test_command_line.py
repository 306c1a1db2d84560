"""What the user types, and what Hydra reads: schedulers by name, options that only a signature knows."""

import pytest

from launch.choices import selected, with_schedulers
from launch.names import CONF, ChoiceError, choices, near
from launch.options import parted, with_options
from launch.types import fits, spelled


def chosen(*typed, default="all"):
    """Names of the schedulers that a command line chooses."""
    return [word.rpartition("=")[2] for word in with_schedulers(typed, default) if word.startswith("+scheduler@")]


def test_all_means_every_file_there_is():
    assert chosen("scheduler=all") == sorted(path.stem for path in (CONF / "scheduler").glob("*.yaml"))
    assert chosen() == chosen("scheduler=all")


def test_the_fast_ones_are_there_and_few():
    fast = chosen("scheduler=fast")
    assert {"fifo", "srtf", "optimus", "starling", "random"} <= set(fast) < set(chosen("scheduler=all"))
    assert "fifo" in chosen()


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("scheduler=srtf", ["srtf"]),
        ("scheduler=[fifo,srtf]", ["fifo", "srtf"]),
        ("scheduler=[ srtf , fifo ]", ["srtf", "fifo"]),
        ("scheduler=srtf,fifo,srtf", ["srtf", "fifo"]),
        ("scheduler=[all]", choices("scheduler")),
        ("scheduler=[]", []),
    ],
)
def test_one_several_or_none(typed, names):
    assert chosen(typed) == names


def test_the_last_choice_counts():
    assert chosen("scheduler=srtf", "scheduler=fifo") == ["fifo"]
    assert chosen(default="fifo") == ["fifo"]


def test_only_all_lets_schedulers_refuse():
    assert "++optional=true" in with_schedulers(["scheduler=all"], "fifo")
    assert with_schedulers(["scheduler=fifo"], "all") == ["+scheduler@schedulers.fifo=fifo"]


def test_an_option_goes_to_the_only_scheduler():
    words = with_schedulers(["scheduler=fifo", "scheduler.backfill=skip", "seed=3"], "all")
    assert words == ["+scheduler@schedulers.fifo=fifo", "schedulers.fifo.backfill=skip", "seed=3"]


def test_an_option_for_several_says_how_to_name_one():
    with pytest.raises(ChoiceError, match=r"2 schedulers are chosen; say which, as in schedulers\.fifo\.backfill=skip"):
        with_schedulers(["scheduler=[fifo,srtf]", "scheduler.backfill=skip"], "all")


@pytest.mark.parametrize("value", ["fofo", "[fifo,fofo]", "[fifo"])
def test_an_unknown_scheduler_names_the_nearest_and_all(value):
    with pytest.raises(ChoiceError, match=r"no such scheduler, did you mean fifo\?; there are: all, .*fifo") as raised:
        selected(value)
    assert "\n" not in str(raised.value)


def test_options_of_what_is_built_need_not_be_in_the_yaml():
    assert with_options(["workload.path=x", "schedulers.fifo.backfill=skip"]) == [
        "++workload.path=x",
        "++schedulers.fifo.backfill=skip",
    ]


@pytest.mark.parametrize(
    "word", ["workload=philly", "seed=3", "hydra.run.dir=x", "+own._target_=a.B", "++seed=1", "~seed", "nobody.knows=1"]
)
def test_everything_else_stays_as_it_is(word):
    assert with_options([word]) == [word]


@pytest.mark.parametrize(
    ("line", "before", "overrides", "after"),
    [
        ("", [], [], []),
        ("--help", ["--help"], [], []),
        ("-m seed=0,1 split=test", ["-m"], ["seed=0,1", "split=test"], []),
        ("seed=1 --cfg job", [], ["seed=1"], ["--cfg", "job"]),
        ("--config-dir mine seed=1 rubbish -i", ["--config-dir", "mine"], ["seed=1", "rubbish"], ["-i"]),
    ],
)
def test_overrides_stay_together(line, before, overrides, after):
    assert parted(line.split()) == (before, overrides, after)


def test_the_users_own_scheduler_takes_options_too():
    assert with_options(["+own._target_=a.B", "own.depth=3"]) == ["+own._target_=a.B", "++own.depth=3"]
    assert with_options(["own.depth=3"]) == ["own.depth=3"]


def test_the_nearest_name_is_offered_only_if_it_is_near():
    assert near("philli", ["philly", "muri"]) == ", did you mean philly?"
    assert near("xyz", ["philly", "muri"]) == ""


@pytest.mark.parametrize(
    ("value", "hint", "suits"),
    [
        (3, int, True),
        (3.5, int, False),
        (3, float, True),
        (True, int, False),
        (True, bool, True),
        ("x", float, False),
        (None, float | None, True),
        ("x", float | None, False),
        (None, float, False),
        ([1, 2], tuple[int, ...], True),  # no plain type: the constructor judges
        (3, "int", True),
    ],
)
def test_values_are_held_against_plain_types(value, hint, suits):
    assert fits(value, hint) is suits


def test_types_are_spelled_in_words():
    from typing import Literal

    assert spelled(float | None) == "a number or null"
    assert spelled(Literal["none", "easy"]) == "none or easy"
    assert fits("easy", Literal["none", "easy"])
    assert not fits("hard", Literal["none", "easy"])
