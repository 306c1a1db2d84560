"""Values that the keys of a configuration can hold: their forms, and how messages call these.

Typed options, the user's own YAML files and recalled configurations all pass through here before a run is described, so
that the code behind may rely on the types.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from murmuration.config.errors import ChoiceError
from murmuration.config.plain import KEY, is_unsafe, shorten

REQUIRED = ("cluster", "performance", "scenario", "workload")
OPTIONAL = ("agent", "env", "estimator", "market", "predictor", "task", "trainer")  # groups that a run may be without
GREATEST_SEED = 2**32 - 1  # that NumPy's older generators take, which Ray seeds


def _is_whole(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _is_list_of(form: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(form(each) for each in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


SEED, COUNT = f"a whole number from 0 to {GREATEST_SEED}", "a whole number of at least 1"
NATURAL = "a whole number of at least 0"
NULL, SWITCH, NUMBER, TEXT = "null", "true or false", "a number", "a text"
TEXTS, NUMBERS, COUNTS = "a list of texts", "a list of numbers", "a list of whole numbers, none negative"
GROUPS = "groups of options by name, each set as <key>.<name>.<option>=<value>"
LISTS, OPTIONS = "a list of lists of options", "a group of options, each set as <group>.<option>=<value>"
# The forms of values, as messages call them.
FORMS: Mapping[str, Callable[[Any], bool]] = {
    NULL: lambda value: value is None,
    SWITCH: lambda value: isinstance(value, bool),
    SEED: lambda value: _is_whole(value, 0, GREATEST_SEED),
    COUNT: lambda value: _is_whole(value, 1),
    NATURAL: lambda value: _is_whole(value, 0),
    NUMBER: _is_number,
    TEXT: _is_text,
    TEXTS: _is_list_of(_is_text),
    NUMBERS: _is_list_of(_is_number),
    COUNTS: _is_list_of(lambda value: _is_whole(value, 0)),
    LISTS: _is_list_of(_is_list_of(_is_text)),
    OPTIONS: lambda value: isinstance(value, Mapping),
    GROUPS: lambda value: isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in value.values()),
}
# Forms by key, besides the groups above; other top-level keys name schedulers of the user's own.
ALLOWED: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("seed", "episode", "rollouts"), (SEED,)),
    **dict.fromkeys(
        ("seeds", "episodes", "processes", "jobs", "validation_workloads", "clusters", "looks", "kills"), (COUNT, NULL)
    ),
    **dict.fromkeys(("fuzz", "patience"), (NUMBER, NULL)),
    **dict.fromkeys(
        (
            *("frames", "fps", "workloads", "population", "trainer.save_every", "actions_per_minute", "probes"),
            *("training_episodes", "steps", "hidden", "clients"),
        ),
        (COUNT,),
    ),
    **dict.fromkeys(("trainer.iterations", "trainer.picture_every", "generations"), (NATURAL,)),
    **dict.fromkeys(("minutes", "growth", "scale", "shorten", "interval", "grace"), (NUMBER,)),
    **dict.fromkeys(
        (
            "checkpoint",
            "reference",
            "start",
            "run",
            "resume",
            "film",
            "load_definition",
            "testbed",
            "rest",
            "continued",
            "recording",
            "model",
        ),
        (TEXT,),
    ),
    **dict.fromkeys(("suite", "paper", "data", "zero", "one", "passed", "tuning.reference", "address"), (TEXT,)),
    **dict.fromkeys(("split", "results", "table", "ray.address"), (TEXT, NULL)),
    **dict.fromkeys(("act", "again", "evaluate", "optional", "record"), (SWITCH,)),
    **dict.fromkeys(("tasks", "trust", "loggers", "estimators", "predictors", "tuning.options"), (TEXTS,)),
    **dict.fromkeys(("ray", "tuning", "tuning.scheduler"), (OPTIONS,)),
    **dict.fromkeys(("suites", "tables", "tuning.parameters"), (GROUPS,)),
    "sampled": (SWITCH, NULL),
    "recorded": (SWITCH, TEXT, TEXTS),
    "parts": (TEXT, TEXTS),
    "loads": (NUMBER, NUMBERS),
    "measured": (COUNTS,),
    "worlds": (LISTS,),
}


def check_values(values: Mapping[str, Any], where: str = "", known: Collection[str] = ALLOWED) -> None:
    """Check that the keys of a configuration hold what they can.

    Args:
        values: by top-level key, as plain values. References are passed over: they are checked when they are resolved.
        where: begins messages: the file that they were read from, with a colon and a space.
        known: the keys that the script reads; any other one may name a class, a scheduler of the user's own.

    Raises:
        ChoiceError: names the key, its value, and what is allowed.
    """
    for key, value in values.items():
        if key in known or not (isinstance(value, Mapping) and "_target_" in value):
            check_value(str(key), value, where)
    for key in (key for key in ALLOWED if "." in key):
        group, _, option = key.partition(".")
        if isinstance(node := values.get(group), Mapping) and option in node:
            check_value(key, node[option], where)


def check_value(key: str, value: Any, where: str = "") -> None:
    """Check what one key of a configuration holds; see `check_values`.

    Raises:
        ChoiceError: names the key, its value, and what is allowed.
    """
    if isinstance(value, str) and is_unsafe(value):
        return
    names_class = isinstance(value, Mapping) and "_target_" in value
    if key in REQUIRED and not names_class:
        raise ChoiceError(f"{where}{key} is {shorten(value)}; it must name a class to build as {key}._target_")
    if key in OPTIONAL and value not in (None, {}) and not names_class:
        raise ChoiceError(f"{where}{key} is {shorten(value)}; it must name a class as {key}._target_, or be null")
    if key == "schedulers":
        nodes = value if isinstance(value, Mapping) else {"": None}
        # Of a new run, `describe_schedulers` says more about a scheduler without a class.
        if not all(isinstance(node, Mapping) and ("_target_" in node or not where) for node in nodes.values()):
            raise ChoiceError(f"{where}schedulers is {shorten(value)}; each of them must name a class as _target_")
        if wrong := [name for name in nodes if not KEY.fullmatch(str(name))]:  # files of the report are named after it
            raise ChoiceError(
                f"{where}{shorten(wrong[0])} is no name of a scheduler; give it one of letters and digits"
            )
    if key in ALLOWED and not any(FORMS[name](value) for name in ALLOWED[key]):
        raise ChoiceError(f"{where}{key} is {shorten(value)}; it must be {' or '.join(ALLOWED[key])}")
