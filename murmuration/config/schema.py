"""What follows from the declarations of settings: keys, defaults, forms of values, and the text of `--help`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from murmuration.config.commands import BELOW, COMMANDS
from murmuration.config.declare import IN_YAML, OptionGroup, forms_of, settings_in


@dataclass(frozen=True)
class ConfigGroup:
    """A folder of `conf/`, of whose files one is chosen by name.

    Attributes:
        name: of the folder, and of the key.
        required: a run cannot be without it.
        alone: it is a key of its own, whose value names a class; others set keys of other groups.
        setup: part of the setup that a checkpoint brings along.
        of_scenario: chosen as +name@scenario.name=.
    """

    name: str
    required: bool = False
    alone: bool = True
    setup: bool = False
    of_scenario: bool = False


GROUPS = (
    ConfigGroup("task", setup=True),
    ConfigGroup("scheduler", alone=False),
    ConfigGroup("workload", required=True, setup=True),
    ConfigGroup("cluster", required=True, setup=True),
    ConfigGroup("network", alone=False),
    ConfigGroup("scenario", required=True, setup=True),
    ConfigGroup("performance", required=True, setup=True),
    ConfigGroup("estimator", setup=True),
    ConfigGroup("predictor", setup=True),
    ConfigGroup("world", setup=True),
    ConfigGroup("queueing"),
    *(ConfigGroup(name) for name in ("agent", "env", "trainer", "market")),
    ConfigGroup("experiment", alone=False),
    *(ConfigGroup(name, alone=False, of_scenario=True) for name in ("contention", "failures", "reconfiguration")),
)
REQUIRED = tuple(group.name for group in GROUPS if group.required)
OPTIONAL = tuple(group.name for group in GROUPS if group.alone and not group.required)  # a run may be without them


def keys_of(command: str) -> dict[str, Any]:
    """The keys of a command with their defaults, without those that stand in YAML."""
    found = {}
    for class_ in COMMANDS[command]:
        for key, _, about in settings_in(class_):
            if "part" in about:
                found[key] = {name: each["default"] for name, _, each in settings_in(about["part"])}
            elif about["default"] is not IN_YAML:
                found[key] = about["default"]
    return found


@cache
def forms_by_key() -> Mapping[str, tuple[str, ...]]:
    """The forms of the values of every key of all commands; keys below others have a dot."""
    found: dict[str, dict[str, None]] = {}
    classes = [("", class_) for command in COMMANDS.values() for class_ in command]
    for prefix, class_ in [*classes, *((f"{key}.", below) for key, below in BELOW.items())]:
        for key, hint, about in settings_in(class_):
            found.setdefault(f"{prefix}{key}", {}).update(dict.fromkeys(forms_of(hint)))
            for name, inner, _ in settings_in(about["part"]) if "part" in about else ():
                found.setdefault(f"{key}.{name}", {}).update(dict.fromkeys(forms_of(inner)))
    found["tuning"] = dict.fromkeys(forms_of(OptionGroup))
    return MappingProxyType({key: tuple(forms) for key, forms in found.items() if key != "schedulers"})


def keys_typed_here() -> frozenset[str]:
    """The keys that a run which is repeated or resumed does not bring along."""
    return frozenset(
        key
        for command in COMMANDS.values()
        for class_ in command
        for key, _, about in settings_in(class_)
        if about["here"]
    )


def keys_changed_by_resume() -> tuple[str, ...]:
    """The keys that may change when a training run is resumed, sorted; keys below others have a dot."""
    classes = [*(("", class_) for class_ in COMMANDS["train"]), *((f"{key}.", below) for key, below in BELOW.items())]
    return tuple(
        sorted(f"{prefix}{key}" for prefix, each in classes for key, _, about in settings_in(each) if about["resumed"])
    )


def describe_keys(command: str) -> str:
    """The keys of a command in YAML with their defaults and what they are, for `--help`."""
    lines = []
    for class_ in COMMANDS[command]:
        for key, _, about in settings_in(class_):
            if "part" in about:
                lines += [f"{key}:", *(_line(f"  {name}", each) for name, _, each in settings_in(about["part"]))]
            elif about["default"] is not IN_YAML:
                lines.append(_line(key, about))
    return "\n".join(lines)


def _line(key: str, about: Mapping[str, Any]) -> str:
    default = about["default"]
    if isinstance(default, list):
        text = f"[{', '.join(map(str, default))}]"
    else:
        text = default if isinstance(default, str) and default else json.dumps(default)
    return f"{key}: {text}" + (f"  # {about['about']}" if about["about"] else "")
