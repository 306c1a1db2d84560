"""What can be chosen, told by the first comment of its YAML, or by the docstring of what it builds."""

import inspect
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from hydra.utils import get_object

from launch.names import CONF, ChoiceError, choices, near

GROUPS = ("scheduler", "workload", "cluster", "scenario", "performance", "agent", "env", "trainer", "experiment")


def described(wanted: Sequence[str] = ()) -> list[tuple[str, list[tuple[str, str]]]]:
    """Groups with what there is in each, as (name, one line); all of `GROUPS` that have something if none is wanted.

    Raises:
        ChoiceError: there is no such group.
    """
    known = [group for group in GROUPS if choices(group)]
    for group in wanted:
        if group not in known:
            raise ChoiceError(f"group {group!r}: no such group{near(group, known)}; there are: {', '.join(known)}")
    names = list(wanted) or known
    return [(group, [(name, one_line(CONF / group / f"{name}.yaml")) for name in choices(group)]) for group in names]


def one_line(path: Path) -> str:
    """The first sentence of a config's opening comment, else the first line of the docstring of its `_target_`."""
    text = path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("# @package")]
    comment = " ".join(line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines))
    if comment:
        return re.split(r"(?<=[a-z\d)])\. ", comment)[0].rstrip(".:") + "."
    if target := re.search(r"^_target_:\s*(\S+)", text, re.MULTILINE):
        return (inspect.getdoc(get_object(target.group(1))) or "").partition("\n")[0]
    return ""
