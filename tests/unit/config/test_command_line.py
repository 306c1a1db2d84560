"""From the words of the user to the arguments of Hydra: schedulers by name, options that only a signature has."""

import shlex

import pytest
from hydra.errors import ConfigCompositionException, OverrideParseException

from envs.types import did_you_mean
from murmuration.config.arguments import (
    NAMED_SCHEDULERS,
    choose_schedulers,
    compose_options,
    force_options,
    hydra_arguments,
    parse_overrides,
    select_schedulers,
    split_words,
)
from murmuration.config.building import describe_type, matches_type
from murmuration.config.choices import CONF, list_choices
from murmuration.config.errors import ChoiceError, explain_error, quote_value
from murmuration.config.tables import read_choices

BUILT = {"schedulers", "workload"}


def chosen(*typed, default="all"):
    """Names of the schedulers that a command line chooses."""
    return [word.rpartition("=")[2] for word in choose_schedulers(typed, default) if word.startswith("+scheduler@")]


def test_all_means_every_file_there_is_except_for_those_that_must_be_named():
    names = {*read_choices(CONF / "scheduler")}
    packed = {name for name in names if name.endswith("_packed")}
    assert set(NAMED_SCHEDULERS) == {"oracle", "learned_planner", "tiresias_pollux", *packed}
    assert set(NAMED_SCHEDULERS) <= names
    assert chosen("scheduler=all") == sorted(names - set(NAMED_SCHEDULERS))
    assert chosen() == chosen("scheduler=all")


def test_the_fast_schedulers_are_some_of_all():
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
        ("scheduler=[all]", [name for name in list_choices("scheduler") if name not in NAMED_SCHEDULERS]),
        ("scheduler=[oracle,fifo]", ["oracle", "fifo"]),
        ("scheduler=learned_planner", ["learned_planner"]),
        ("scheduler=[]", []),
    ],
)
def test_one_several_or_none(typed, names):
    assert chosen(typed) == names


def test_the_last_choice_counts():
    assert chosen("scheduler=srtf", "scheduler=fifo") == ["fifo"]
    assert chosen(default="fifo") == ["fifo"]


def test_schedulers_may_refuse_under_all_only():
    assert "++optional=true" in choose_schedulers(["scheduler=all"], "fifo")
    assert choose_schedulers(["scheduler=fifo"], "all") == ["+scheduler@schedulers.fifo=fifo"]


def test_an_option_goes_to_the_only_scheduler():
    words = choose_schedulers(["scheduler=fifo", "scheduler.backfill=skip", "seed=3"], "all")
    assert words == ["+scheduler@schedulers.fifo=fifo", "schedulers.fifo.backfill=skip", "seed=3"]


def test_an_option_for_several_says_how_to_name_one():
    with pytest.raises(ChoiceError, match=r"2 schedulers are chosen; say which, as in schedulers\.fifo\.backfill=skip"):
        choose_schedulers(["scheduler=[fifo,srtf]", "scheduler.backfill=skip"], "all")


@pytest.mark.parametrize("names", [["fofo"], ["fifo", "fofo"], ["[fifo"]])
def test_an_unknown_scheduler_names_the_nearest_and_all(names):
    with pytest.raises(ChoiceError, match=r"no such scheduler, did you mean fifo\?; there are: all, .*fifo") as raised:
        select_schedulers(names)
    assert "\n" not in str(raised.value)


def test_a_list_without_its_end_is_no_override():
    with pytest.raises(OverrideParseException) as raised:
        choose_schedulers(["scheduler=[fifo"], "all")
    assert explain_error(raised.value) == (
        "'scheduler=[fifo' is no override; write key=value, in quotes if the shell could read it otherwise"
    )


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/tmp/my traces (1)/a=b.csv",
            "/tmp/a=b.csv",
            "/tmp/[1].csv",
            "/tmp/{a}.csv",
            "/tmp/é/日本.csv",
            "/tmp/it's.csv",
        ),
        *('/tmp/a"b.csv', "/tmp/#1;&.csv", "/tmp/a,b.csv", "/tmp/a`b!?<>|.csv", "my traces/=.csv"),
    ],
)
def test_a_path_that_needs_quotes_is_refused_with_an_option_that_works(path):
    word = f"workload.path={path}"
    try:
        assert parse_overrides([word])[0].is_sweep_override()
        said = quote_value("workload.path", path)  # as for a sweep without --multirun
    except OverrideParseException as error:
        said = (explain_error(error) or "").partition("need quotes; write ")[2]
    (quoted,) = shlex.split(said)
    assert parse_overrides([quoted])[0].value() == path


def test_a_comma_without_multirun_says_how_to_write_a_text_or_a_list():
    with pytest.raises(ConfigCompositionException) as raised:
        compose_options("compare", ["task=none", "workload.path=/tmp/a,b.csv"], "[]")
    assert explain_error(raised.value) == (
        "workload.path=/tmp/a,b.csv: commas separate the values of --multirun; for a text write "
        "'workload.path=\"/tmp/a,b.csv\"', for a list workload.path=[<value>,<value>]"
    )


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("workload.path=~/a.csv", "/home/me/a.csv"),
        ('checkpoint="~/my runs/a"', "/home/me/my runs/a"),
        ("++results='~/a=b'", "/home/me/a=b"),
        ("hydra.run.dir=~", "/home/me"),
    ],
)
def test_the_home_directory_is_put_in_for_a_tilde(monkeypatch, word, value):
    monkeypatch.setenv("HOME", "/home/me")
    _, (typed,), _ = split_words([word])
    assert parse_overrides([typed])[0].value() == value


@pytest.mark.parametrize("word", ["~workload", "workload.path=a~b", "name='~nobody-there/x'", "a=~nobody-there"])
def test_other_tildes_stay_as_they_are(word):
    assert split_words([word])[1] == [word]


def test_options_of_built_objects_need_not_be_in_the_yaml():
    assert force_options(["workload.path=x", "schedulers.fifo.backfill=skip"], BUILT) == [
        "++workload.path=x",
        "++schedulers.fifo.backfill=skip",
    ]


@pytest.mark.parametrize(
    "word", ["workload=philly", "seed=3", "hydra.run.dir=x", "+own._target_=a.B", "++seed=1", "~seed", "nobody.knows=1"]
)
def test_everything_else_stays_as_it_is(word):
    assert force_options([word], BUILT) == [word]


def test_a_script_forces_the_options_of_its_own_groups():
    for config, forced in (("train", "++trainer.iterations=3"), ("compare", "trainer.iterations=3")):
        arguments, _ = hydra_arguments(["trainer.iterations=3", "scheduler=[]"], config, "all")
        assert arguments == [forced]


@pytest.mark.parametrize(
    ("line", "flags", "overrides", "config_dir"),
    [
        ("", [], [], None),
        ("--help", ["--help"], [], None),
        ("-m seed=0,1 split=test", ["-m"], ["seed=0,1", "split=test"], None),
        ("seed=1 --cfg job", ["--cfg", "job"], ["seed=1"], None),
        ("seed=1 -m load=2 ~split", ["-m"], ["seed=1", "load=2", "~split"], None),
        ("--config-dir mine seed=1 rubbish -i", ["--config-dir", "mine", "-i"], ["seed=1", "rubbish"], "mine"),
        ("seed=1 -cd=mine", ["-cd=mine"], ["seed=1"], "mine"),
    ],
)
def test_flags_and_overrides_may_be_mixed(line, flags, overrides, config_dir):
    assert split_words(line.split()) == (flags, overrides, config_dir)


def test_a_scheduler_of_the_users_own_takes_options_too():
    typed = ["+own._target_=a.B", "own.depth=3"]
    assert force_options(typed, BUILT) == ["+own._target_=a.B", "++own.depth=3"]
    assert force_options(["own.depth=3"], BUILT) == ["own.depth=3"]


def test_a_similar_name_is_offered_and_no_other():
    assert did_you_mean("philli", ["philly", "muri"], lead=", ") == ", did you mean philly?"
    assert did_you_mean("xyz", ["philly", "muri"]) == ""


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
def test_values_are_checked_against_plain_types(value, hint, suits):
    assert matches_type(value, hint) is suits


def test_types_are_described_in_plain_english():
    from typing import Literal

    assert describe_type(float | None) == "a number or null"
    assert describe_type(Literal["none", "easy"]) == "none or easy"
    assert matches_type("easy", Literal["none", "easy"])
    assert not matches_type("hard", Literal["none", "easy"])
