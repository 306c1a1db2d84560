"""The number of functions compiled so far, beside a progress bar: a first start takes a minute or two."""

from typing import Any

from numba.core.event import Listener, register
from rich.progress import ProgressColumn, Task
from rich.table import Column
from rich.text import Text


class _Compilations(Listener):
    """Counts functions that are compiled, not those that are read from the cache."""

    def __init__(self) -> None:
        self.depth = 0  # functions being compiled, each a callee of the one before
        self.functions = 0

    def on_start(self, event: Any) -> None:
        """Begin a function."""
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """Count the function."""
        self.depth -= 1
        self.functions += 1


_compilations = _Compilations()
register("numba:compile", _compilations)  # type: ignore[no-untyped-call]


class CompilingColumn(ProgressColumn):
    """A column of `rich.progress.Progress`: while functions are compiled, the number of those that are ready."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        """Return the column's text, empty while nothing is being compiled."""
        return Text(f"compiling: {_compilations.functions} functions" if _compilations.depth else "", style="dim")
