"""TensorBoard output: a line for the policy and one for each baseline that matters, pictures, settings as text.

The first chart has the measure that chooses checkpoints, of the policy beside the best baselines:
`0_overview/validation_mean_jct_hours`, or `0_overview/validation_gain_percent` of policies that bid.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from agents.loggers.protocol import flatten
from agents.tags import GAIN, HEADLINE, POLICY, RATIO_TAG

FOLDER = "tensorboard"
HEADINGS = {
    HEADLINE: "validation: mean JCT (h) of policy, best baselines and lower bound",
    GAIN: "validation: gain in mean JCT over the market alone (%) of policy and best baselines",
    RATIO_TAG: "validation: mean JCT of policy and baselines, relative to the best baseline of each world",
}
OTHER_GOAL = "validation: cost (h) of policy and baselines"


def layout_of(metric: str) -> dict[str, dict[str, list[Any]]]:
    """Return the layout of the page "Custom Scalars": charts by category, each with the tags that it shows.

    Args:
        metric: the first chart: `GAIN`, or the tag of a `Goal`.
    """
    overview: dict[str, list[Any]] = {HEADINGS.get(metric, OTHER_GOAL): ["Multiline", [metric]]}
    if metric == GAIN:
        return {
            "Overview": overview
            | {
                "validation: gain in mean JCT by task (fraction)": ["Multiline", ["validation/.*/jct$"]],
                "validation: gain in makespan by task (fraction)": ["Multiline", ["validation/.*/makespan$"]],
            }
        }
    return {
        "Overview": overview
        | {
            "mean JCT of training episodes (s)": ["Multiline", ["train/mean_jct"]],
            "validation: cost by task (s)": ["Multiline", ["validation/.*/cost$"]],
        },
        "Learning": {
            "entropy": ["Multiline", ["learner/entropy"]],
            "KL divergence": ["Multiline", ["learner/kl"]],
            "variance that the critic explains": ["Multiline", ["learner/explained"]],
            "losses": ["Multiline", ["learner/policy_loss", "learner/value_loss"]],
        },
    }


class TensorBoardWriter:
    """Writes one folder per line under `tensorboard` of a run. Without room for curves, a run goes on without them.

    Tags of scalars: `0_overview/*`, `train/*` of sampled episodes, `learner/*`, `throughput/*`, `imitation/*` (a line
    of its own, whose steps are samples), and `validation/*`, which the baselines have as well.

    Args:
        folder: of the run; `tensorboard` in it is made when the first point is written.
        note: receives one line if the operating system does not let the curves be written.
    """

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        self.folder, self._note = folder / FOLDER, note
        self._writers: dict[str, SummaryWriter] = {}
        self._first_step: int | None = None
        self._broken = False

    def continue_after(self, step: int) -> None:
        """Continue the curves of a resumed run: points after this step, written before a crash, are no longer shown."""
        self._first_step = step + 1

    def write(self, scalars: Mapping[str, float], step: int, line: str = POLICY) -> None:
        """Add points to the curves of one line; omit values that are not finite."""
        with self._going_on_without():
            for tag, value in scalars.items():
                if value == value and abs(value) != float("inf") and not self._broken:
                    self._writer(line).add_scalar(tag, value, step)

    def draw_level(self, scalars: Mapping[str, float], last: int, line: str) -> None:
        """Draw horizontal lines from step 0 to the last step; earlier levels of the line are forgotten."""
        with self._going_on_without():
            if line not in self._writers and not self._broken:
                self._writers[line] = open_writer(self.folder / line, 0)
        for step in dict.fromkeys((0, last)):
            self.write(scalars, step, line)

    def describe(self, texts: Mapping[str, str], settings: Mapping[str, Any], metric: str = HEADLINE) -> None:
        """Write texts (Markdown), the layout of the custom scalars, and the settings as hyperparameters.

        Args:
            texts: by title.
            settings: nested; plain values enter as hyperparameters, with dots in their names.
            metric: the tag that the table of hyperparameters shows.
        """
        with self._going_on_without():
            if self._broken:
                return
            writer = self._writer(POLICY)
            for title, text in texts.items():
                writer.add_text(title, text, 0)
            writer.add_custom_scalars(layout_of(metric))
            events = writer.file_writer
            assert events is not None, "open until it is closed"
            for summary in hparams(flatten(settings), {metric: 0.0}):
                events.add_summary(summary)

    def show(self, pictures: Mapping[str, Figure | npt.NDArray[np.uint8]], step: int) -> None:
        """Write pictures of the policy by tag: figures, or uint8[height, width, 3]."""
        with self._going_on_without():
            for tag, picture in pictures.items():
                if self._broken:
                    return
                if isinstance(picture, Figure):
                    self._writer(POLICY).add_figure(f"pictures/{tag}", picture, step, close=False)
                else:
                    self._writer(POLICY).add_image(f"pictures/{tag}", picture, step, dataformats="HWC")

    def flush(self) -> None:
        """Write all buffered points to disk."""
        for writer in self._writers.values():
            with self._going_on_without():
                writer.flush()

    def close(self) -> None:
        """Write the buffered points and close the files."""
        for writer in self._writers.values():
            with self._going_on_without():
                writer.close()
        self._writers.clear()

    def _writer(self, line: str) -> SummaryWriter:
        if line not in self._writers:
            self._writers[line] = open_writer(self.folder / line, self._first_step)
        return self._writers[line]

    @contextmanager
    def _going_on_without(self) -> Iterator[None]:
        """Give up the curves at the first error of the operating system."""
        try:
            yield
        except OSError as error:
            if not self._broken:
                self._broken = True
                self._note(f"{self.folder}: no curves from here on, as they cannot be written ({error.strerror})")


def open_writer(folder: Path, purge_step: int | None) -> SummaryWriter:
    """Open a writer whose thread prints no trace on a full disk: the next call to the writer raises the same error.

    TensorBoard reads the files of a line in the order of their names, which begin with the second in which they were
    opened. So no two are opened in the same second.
    """
    while any(folder.glob(f"events.out.tfevents.{int(time.time()):010d}.*")):
        time.sleep(0.05)
    before = threading.excepthook
    if getattr(before, "func", None) is not pass_over_full_disks:
        threading.excepthook = partial(pass_over_full_disks, before)
    return SummaryWriter(str(folder), purge_step=purge_step)


def pass_over_full_disks(before: Callable[[threading.ExceptHookArgs], Any], args: threading.ExceptHookArgs) -> None:
    """Handle an uncaught error of a thread as before, unless TensorBoard's thread could not write."""
    ours = type(args.thread).__module__.partition(".")[0] == "tensorboard"
    if not (ours and isinstance(args.exc_value, OSError)):
        before(args)


def as_code(text: str) -> str:
    """Return Markdown that shows a text as it is."""
    return "\n".join(f"    {line}" for line in text.splitlines())
