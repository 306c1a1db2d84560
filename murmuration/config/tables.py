"""Choices of a config group that stand together in one file, where each needs only a few lines.

An entry of `conf/<group>/choices.yml` is what a file of its own would hold: comments that describe it, and its
content, indented below its name. Hydra reads no `.yml`; `murmuration.config.choices` registers the entries.
"""

import re
from pathlib import Path
from textwrap import dedent

TABLE = "choices.yml"
ENTRY = re.compile(r"((?:^#.*\n)*)^([\w-]+):\n((?:^ .*\n)+)", re.MULTILINE)


def split_table(text: str) -> dict[str, str]:
    """Split the text of a table into the YAML of each choice, by name."""
    return {name: comments + dedent(content) for comments, name, content in ENTRY.findall(text)}


def read_table(group: Path) -> dict[str, str]:
    """Return the YAML of each choice in the table of a group's folder, by name; none without a table."""
    return split_table((group / TABLE).read_text(encoding="utf-8")) if (group / TABLE).is_file() else {}


def read_choices(group: Path) -> dict[str, str]:
    """Return the YAML of each choice of a group's folder by name, sorted: entries of its table, and files."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in group.glob("*.yaml")}
    return dict(sorted({**read_table(group), **files}.items()))
