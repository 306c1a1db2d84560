"""Tables in the pages are what the comparison beside them prints."""

import re
import sys
import types

import pytest

from murmuration.config.describe import compose_comparison
from murmuration.reports.table import all_columns
from murmuration.runs.comparing import play_comparison
from tests.architecture.test_commands import commands

# A command of its own block, and the table that follows it before the next command.
SHOWN = re.compile(
    r"^```bash\n(?P<command>[^\n]*scripts/compare\.py[^\n]*)\n```\n(?:(?!^```bash).)*?^```\n"
    r"(?P<table>scheduler  .*?)^```",
    re.DOTALL | re.MULTILINE,
)
SCHEDULER = re.compile(r"^```python\n(class ShortestFirst.*?)^```", re.DOTALL | re.MULTILINE)


def rows_of(table):
    """The cells of each row of a table as text, the heading first; empty lines and what is not a row left out."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines() if line.strip()]
    return [cells for cells in lines if len(cells) == len(lines[0])]


def test_tables_of_the_tutorial_are_what_its_comparisons_print(repository, monkeypatch):
    """The tutorial's own scheduler is the file that it tells the reader to save."""
    page = (repository / "docs" / "tutorial.md").read_text(encoding="utf-8")
    own = types.ModuleType("my_scheduler")
    (code,) = SCHEDULER.findall(page)
    exec(code, own.__dict__)
    monkeypatch.setitem(sys.modules, "my_scheduler", own)
    found = list(SHOWN.finditer(page))
    assert len(found) == 2
    for shown in found:
        ((_, words),) = commands(shown["command"])
        comparison, _, _ = play_comparison(compose_comparison(words), None, quiet=True)
        head, *rows = rows_of(shown["table"])
        cells = {column.head: column.cells for column in all_columns(comparison)}
        assert rows == [list(row) for row in zip(*(cells[name] for name in head), strict=True)], words


@pytest.mark.parametrize(("text", "count"), [("a   b\nc   1\n\nrun: x\n", 2), ("a   b\n", 1)])
def test_rows_are_read_from_a_table(text, count):
    assert len(rows_of(text)) == count
