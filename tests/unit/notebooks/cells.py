"""Notebooks, executed cell by cell in one namespace, with the outputs that Jupyter would show."""

import ast
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

IMAGE = "image/png"


@dataclass
class CodeCell:
    """A code cell of a notebook: its source, what the file holds as its output, and what it gave when it was run.

    Attributes:
        source: the code.
        kept: the committed outputs, as in the notebook's JSON.
        printed: what the code printed.
        value: the value of the last line, if it is an expression.
    """

    source: str
    kept: list[dict[str, Any]]
    printed: str = field(default="", init=False)
    value: Any = field(default=None, init=False)

    def run(self, names: dict[str, Any]) -> None:
        """Execute the code in a namespace."""
        tree = ast.parse(self.source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with redirect_stdout(StringIO()) as stream:
            exec(compile(tree, "<cell>", "exec"), names)
            if isinstance(last, ast.Expr):
                self.value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        self.printed = stream.getvalue()

    @property
    def kept_text(self) -> list[str]:
        """What the file says that the cell prints and shows, without pictures."""
        printed = ["".join(output["text"]) for output in self.kept if output["output_type"] == "stream"]
        shown = [output["data"] for output in self.kept if output["output_type"] == "execute_result"]
        return ["".join(printed), *("".join(data["text/plain"]) for data in shown if IMAGE not in data)]

    @property
    def found_text(self) -> list[str]:
        """What the cell printed and showed when it was run, without pictures."""
        pictured = hasattr(self.value, "_repr_png_")
        return [self.printed, *([] if self.value is None or pictured else [repr(self.value)])]


def code_cells(notebook: Path) -> Iterator[CodeCell]:
    """The code cells of a notebook, not yet run."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield CodeCell("".join(cell["source"]), cell["outputs"])
