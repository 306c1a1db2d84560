"""Texts on a terminal and in a plot, where names from files are texts, never mark-up or mathematics."""

from typing import IO, Any

from rich.console import Console
from rich.progress import ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from envs.types import as_line

PAGE_WIDTH = 160  # characters, if the output is not a terminal


class TextConsole(Console):
    """A console that prints texts as they are, in tables too: `[/x]` is no mark-up, and control characters are escaped.

    Args:
        file: the output; None for standard output.
        width: in characters; None for that of the terminal.
        quiet: print nothing.
        terminal: whether the output takes escape sequences; None to find out.
    """

    def __init__(
        self,
        file: IO[str] | None = None,
        *,
        width: int | None = None,
        quiet: bool = False,
        terminal: bool | None = None,
    ) -> None:
        super().__init__(
            file=file, width=width, quiet=quiet, force_terminal=terminal, markup=False, emoji=False, highlight=False
        )

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text without control characters other than line breaks; rich calls it for every text that it prints.

        Args:
            text: one or several lines.
            options: those of rich.
        """
        return super().render_str("\n".join(map(as_line, text.split("\n"))), **options)


class TaskText(ProgressColumn):
    """A column of `rich.progress.Progress` with a text about its task, such as "{task.description}"."""

    def __init__(self, form: str) -> None:
        super().__init__(Column(no_wrap=True))
        self.form = form

    def render(self, task: Task) -> Text:
        """Return the column's text."""
        return Text(as_line(self.form.format(task=task)))


def wide_console(*, quiet: bool = False) -> TextConsole:
    """Return a console for standard output, or for nothing; `PAGE_WIDTH` wide if it is not a terminal."""
    console = TextConsole(quiet=quiet)
    return console if console.is_terminal else TextConsole(width=PAGE_WIDTH, quiet=quiet)


def plot_text(text: str) -> str:
    """Return a text for a plot: Matplotlib reads what is between two dollar signs as mathematics, or refuses it."""
    return as_line(text).replace("$", r"\$")
