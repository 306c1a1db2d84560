"""Progress of training on a terminal: a bar and the most important figures."""

from collections.abc import Mapping

from rich.progress import BarColumn, Progress, TaskID, TimeElapsedColumn, TimeRemainingColumn

from envs.evaluation.compiling import CompilingColumn
from envs.pictures.texts import TaskText, TextConsole, wide_console

FIGURE_FORMATS = {
    "train/mean_jct": "training {:,.0f} s",
    "imitation/agreement": "agreement {:.0%}",
    "validated": "mean JCT {:,.0f} s",
    "ratio": "validated {:.3f} of the best baselines",
    "unfinished": "{:.3g} jobs unfinished",
    "gain": "gain over the market {:+.1%}",
    "gain_error": "+-{:.1%}",
}


class ProgressListener:
    """`agents.training.TrainingListener` on a terminal: one bar per phase, with its latest figures."""

    def __init__(self, console: TextConsole | None = None) -> None:
        self.console = console or wide_console()
        columns = (TaskText("{task.description:10s}"), BarColumn(bar_width=24), TaskText("{task.fields[figures]}"))
        times = (TimeElapsedColumn(), TimeRemainingColumn(), CompilingColumn())
        self._bar = Progress(*columns, *times, console=self.console)
        self._task: TaskID | None = None
        self._name = ""

    def part(self, name: str) -> "ProgressListener":
        """Return a listener for a part of the work, such as a training seed, with its own bar and its name in notes."""
        found = ProgressListener(self.console)
        found._bar, found._name = self._bar, f"{name}: "
        return found

    def __enter__(self) -> "ProgressListener":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def phase(self, name: str, total: int) -> None:
        """Fill the last bar and begin a new one, in a part in its place."""
        self._finish()
        if self._name and self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(self._name + name, total=total, figures="")

    def step(self, done: int, figures: Mapping[str, float]) -> None:
        """Advance the bar and show the latest figures."""
        assert self._task is not None
        texts = [
            form.format(figures[name])
            for name, form in FIGURE_FORMATS.items()
            if figures.get(name, float("nan")) == figures.get(name)
        ]
        if "validated" in figures and "baseline" in figures:
            texts.append(f"({figures['validated'] / figures['baseline'] - 1:+.1%} to the best baseline)")
        self._bar.update(self._task, completed=done, total=figures.get("total"), figures="  ".join(texts))

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self.console.print(self._name + text)

    def end(self) -> None:
        """Remove the bar of a part that has ended."""
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None

    def _finish(self) -> None:
        if self._task is not None:
            task = self._bar.tasks[self._bar.task_ids.index(self._task)]
            self._bar.update(self._task, completed=task.total)
