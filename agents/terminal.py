"""Training as a person watches it: a progress bar with the figures that matter."""

from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from envs.evaluation.table import wide_console

SHOWN = {
    "train/return": "return {:,.0f}",
    "imitation_agreement": "agreement {:.0%}",
    "validated": "mean JCT {:,.0f} s",
    "unfinished": "{:.3g} jobs unfinished",
}


class ProgressListener:
    """`agents.training.Listener` on a terminal: one bar a phase, its latest figures beside it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or wide_console()
        columns = (TextColumn("{task.description:10s}"), BarColumn(bar_width=24), TextColumn("{task.fields[figures]}"))
        self._bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=self.console)
        self._task: TaskID | None = None

    def __enter__(self) -> "ProgressListener":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def phase(self, name: str, total: int) -> None:
        """Begin a new bar; the last one is full."""
        self._finish()
        self._task = self._bar.add_task(name, total=total, figures="")

    def step(self, done: int, figures: Mapping[str, float]) -> None:
        """Move the bar and show the latest figures."""
        assert self._task is not None
        texts = [
            form.format(figures[name])
            for name, form in SHOWN.items()
            if figures.get(name, float("nan")) == figures.get(name)
        ]
        if "validated" in figures and "baseline" in figures:
            texts.append(f"({figures['validated'] / figures['baseline'] - 1:+.1%} to the best baseline)")
        self._bar.update(self._task, completed=done, total=figures.get("total"), figures="  ".join(texts))

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self.console.print(text, highlight=False)

    def _finish(self) -> None:
        if self._task is not None:
            task = self._bar.tasks[self._task]
            self._bar.update(self._task, completed=task.total)
