"""Names to choose from, and what to say to a name that is none of them."""

import difflib
from collections.abc import Iterable
from pathlib import Path

from envs.types import MurmurationError

CONF = Path(__file__).resolve().parents[2] / "conf"


class ChoiceError(MurmurationError):
    """A name that is none of those to choose from."""


def choices(group: str) -> list[str]:
    """Names of the YAML files of a config group."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def near(name: str, names: Iterable[str]) -> str:
    """The likeliest intended name as a half sentence, or nothing."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f", did you mean {found[0]}?" if found else ""
