"""Options that only a signature knows: `workload.path=...` although the YAML says nothing of a path."""

import re
from collections.abc import Sequence
from functools import cache

from launch.names import CONF


def parted(arguments: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """A command line as flags, overrides, flags: Hydra reads only overrides that stand together."""
    words = list(arguments)
    first = next((i for i, word in enumerate(words) if "=" in word and not word.startswith("-")), len(words))
    last = next((i for i in range(first, len(words)) if words[i].startswith("-")), len(words))
    return words[:first], words[first:last], words[last:]


def with_options(typed: Sequence[str]) -> list[str]:
    """The command line with `++` before every option of something that a `_target_` builds.

    Defaults live in the signature and YAML only overrides them, so a config need not have the key that the user sets.
    A key that the signature does not have is still an error, when it is built.
    """
    own = {found.group(1) for option in typed if (found := re.match(r"\+(\w+)\._target_=", option))}
    return [f"++{option}" if group_of(option) in own or is_built(group_of(option)) else option for option in typed]


def group_of(option: str) -> str:
    """The group of `group.key=value`; nothing for a choice of the group and for Hydra's own forms."""
    found = re.match(r"(\w+)\.[^=]*=", option)
    return found.group(1) if found else ""


@cache
def is_built(group: str) -> bool:
    """Whether everything of a config group is built by a `_target_` of its own, which refuses unknown keys."""
    if group == "schedulers":
        return True
    files = list((CONF / group).glob("*.yaml")) if group else []
    return bool(files) and all(re.search(r"^_target_:", path.read_text(), re.MULTILINE) for path in files)
