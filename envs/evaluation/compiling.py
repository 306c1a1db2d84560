"""A line on functions that are being compiled, and their number beside a progress bar."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numba.core.event import Listener, register
from rich.progress import ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from envs.simulation.compiled.jit import on_first_compilation

MOST_NAMED = 4
HOW_LONG = "once, about a minute of CPU time each; murmuration compile does it for everything in advance"


class _Compilations(Listener):
    """Counts functions that are compiled, not those that are read from the cache."""

    def __init__(self) -> None:
        self.depth = 0  # functions being compiled, each a callee of the one before
        self.functions = 0
        self.seconds, self._began = 0.0, 0.0

    def on_start(self, event: Any) -> None:
        """Begin a function."""
        if not self.depth:
            self._began = time.perf_counter()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """Count the function."""
        self.depth -= 1
        self.functions += 1
        if not self.depth:
            self.seconds += time.perf_counter() - self._began


_compilations = _Compilations()
register("numba:compile", _compilations)  # type: ignore[no-untyped-call]


@contextmanager
def telling_compilations(names: Sequence[str], tell: Callable[[str], None]) -> Iterator[None]:
    """Say what is compiled before the first function of this process is, and at the end how long it took.

    Nothing is said where all code is kept.

    Args:
        names: of the schedulers that are played.
        tell: receives each line.
    """
    own, before = _compilations, (_compilations.functions, _compilations.seconds)
    played = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} schedulers"
    on_first_compilation(lambda: tell(f"compiling what {played} {'need' if len(names) > 1 else 'needs'}: {HOW_LONG}"))
    try:
        yield
    finally:
        if count := own.functions - before[0]:
            tell(f"compiled {count} functions in {own.seconds - before[1]:.0f} s; they are kept")


class CompilingColumn(ProgressColumn):
    """A column of `rich.progress.Progress`: while functions are compiled, the number of those that are ready."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        """Return the column's text, empty while nothing is being compiled."""
        return Text(f"compiling: {_compilations.functions} functions" if _compilations.depth else "", style="dim")
