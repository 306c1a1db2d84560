"""TensorBoard output: a line for the policy and one for each baseline that matters, pictures, settings as text.

The first chart has the measure that chooses checkpoints, of the policy beside the best baselines:
`0_overview/validation_mean_jct_hours`, or `0_overview/validation_gain_percent` of policies that bid.
"""

import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from agents.loggers.protocol import flatten, is_finite
from agents.tags import (
    AXES,
    GAIN,
    HEADLINE,
    IMITATION,
    LENGTH,
    OVERVIEW,
    POLICY,
    PROGRESS,
    RATIO_TAG,
    RETURN,
)

FOLDER = "tensorboard"
FIRST_LEARNT = "throughput/cpu_seconds"  # every iteration of every method has it
HEADINGS = {
    HEADLINE: "validation: mean JCT (h) of policy, best baselines and lower bound",
    GAIN: "validation: gain in mean JCT over the market alone (%) of policy and best baselines",
    RATIO_TAG: "validation: mean JCT relative to the best baseline of each world, of policy and baselines",
}
OTHER_GOAL = "validation: cost (h) of policy and baselines"


# Charts of the page "Custom Scalars" by category, each with patterns of the tags that it shows.
CHARTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Overview": {
        "{metric} over environment steps": ["1_over_env_steps/validation.*"],
        "{metric} over CPU seconds of training": ["1_over_cpu_seconds/validation.*"],
        "{metric} over seconds of training": ["1_over_wall_seconds/validation.*"],
        "return of training episodes over environment steps": ["1_over_env_steps/return"],
    },
    "Episodes": {
        "return of training episodes": [RETURN],
        "environment steps of a training episode": [LENGTH],
        "mean JCT of training episodes (s)": ["train/mean_jct"],
        "validation: cost by task (s)": ["validation/.*/cost$"],
        "validation: makespan by task (s; of bids, the gain as a fraction)": ["validation/.*/makespan$"],
        "validation: gain in mean JCT by task (fraction)": ["validation/.*/jct$"],
    },
    "Learning": {
        "norm of the gradient": ["learner/gradient_norm"],
        "entropy": ["learner/entropy"],
        "KL divergence": ["learner/kl"],
        "explained variance of the critic": ["learner/explained_variance"],
        "loss of the policy": ["learner/policy_loss"],
        "loss of the critic": ["learner/value_loss"],
        "share of the signal in the difference of pairs": ["learner/signal_share"],
    },
    "Imitation": {
        "cross-entropy": [f"{IMITATION}/loss"],
        "decisions in which the policy agrees": [f"{IMITATION}/agreement"],
    },
    "Throughput": {
        "environment steps per second": ["throughput/steps_per_second"],
        "CPU seconds of an iteration": ["throughput/cpu_seconds"],
    },
}


def layout_of(metric: str, tags: Collection[str]) -> dict[str, dict[str, list[Any]]]:
    """Return the layout of the page "Custom Scalars": of `CHARTS`, those that have something to show.

    Args:
        metric: the first chart: `GAIN`, or the tag of a `Goal`.
        tags: of all points.
    """
    heading = HEADINGS.get(metric, OTHER_GOAL)
    every = {name: dict(charts) for name, charts in CHARTS.items()}
    every["Overview"] = {heading: [metric], **every["Overview"]}
    drawn = {
        name: {
            title.format(metric=heading.partition(" of ")[0]): ["Multiline", list(shown)]
            for title, shown in charts.items()
            if any(re.match(pattern, tag) for pattern in shown for tag in tags)
        }
        for name, charts in every.items()
    }
    return {name: charts for name, charts in drawn.items() if charts}


class TensorBoardWriter:
    """Writes one folder per line under `tensorboard` of a run. Without room for curves, a run goes on without them.

    Tags of scalars: `0_overview/*`, `train/*` of sampled episodes, `learner/*`, `throughput/*`, `imitation/*` (a line
    of its own, whose steps are samples), `progress/*`, what training has cost so far, and `validation/*`. What
    `0_overview` shows, and the return of training episodes, is drawn over each of these costs too, as `1_over_*/*`: the
    policy's in lines of their own, `policy/over_*`, which go on at the cost where a resumed run does.

    Args:
        folder: of the run; `tensorboard` in it is made when the first point is written.
        note: receives one line if the operating system does not let the curves be written.
    """

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        self.folder, self._note = folder / FOLDER, note
        self._writers: dict[str, SummaryWriter] = {}
        self._first_step: dict[str, int] = {}  # of lines of a resumed run
        self._spent: dict[str, float] = {}  # by axis
        self._levels: dict[str, dict[str, float]] = {}
        self._tags: set[str] = set()
        self._metric = ""  # until it is described, and once its layout is written
        self._broken = False

    def continue_after(self, step: int, progress: Mapping[str, float]) -> None:
        """Continue the curves of a resumed run: points after this step, written before a crash, are no longer shown."""
        self._first_step = dict.fromkeys((POLICY, IMITATION), step + 1)
        self._first_step |= {over(axis): round(spent) + 1 for axis, spent in progress.items()}

    def write(self, scalars: Mapping[str, float], step: int, line: str = POLICY) -> None:
        """Add points to the curves of one line; omit values that are not finite."""
        self._add(scalars, step, line)
        if line != POLICY:
            return
        self._spent |= {axis: scalars[f"{PROGRESS}/{axis}"] for axis in AXES if f"{PROGRESS}/{axis}" in scalars}
        shown = {tag: value for tag, value in scalars.items() if tag == RETURN or tag.startswith(OVERVIEW)}
        for axis, spent in self._spent.items():
            self._add(tags_over(axis, shown), round(spent), over(axis))
            for name, level in self._levels.items() if spent > 0 else ():
                self._add(tags_over(axis, {tag: level[tag] for tag in level.keys() & shown}), round(spent), name)

    def draw_level(self, scalars: Mapping[str, float], last: int, line: str) -> None:
        """Draw horizontal lines from step 0 to the last step; earlier levels of the line are forgotten."""
        with self._going_on_without():
            if line not in self._writers and not self._broken:
                self._writers[line] = open_writer(self.folder / line, 0)
        self._levels[line] = dict(scalars)
        for step in dict.fromkeys((0, last)):
            self._add(scalars, step, line)
        for axis in AXES:
            self._add(tags_over(axis, scalars), 0, line)

    def _add(self, scalars: Mapping[str, float], step: int, line: str) -> None:
        with self._going_on_without():
            for tag, value in scalars.items():
                if is_finite(value) and not self._broken:
                    self._writer(line).add_scalar(tag, value, step)
                    self._tags.add(tag)

    def describe(self, texts: Mapping[str, str], settings: Mapping[str, Any], metric: str = HEADLINE) -> None:
        """Write texts (Markdown) and the settings as hyperparameters; the layout of the custom scalars follows.

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
            self._metric = metric
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

    def _arrange(self) -> None:
        """Write the layout of the custom scalars, once."""
        with self._going_on_without():
            if self._metric and self._tags and not self._broken:
                self._writer(POLICY).add_custom_scalars(layout_of(self._metric, self._tags))
        self._metric = ""

    def flush(self) -> None:
        """Write all buffered points to disk; after the first iteration, the layout of what it has written."""
        if FIRST_LEARNT in self._tags:
            self._arrange()
        for writer in self._writers.values():
            with self._going_on_without():
                writer.flush()

    def close(self) -> None:
        """Write the buffered points and close the files."""
        self._arrange()
        for writer in self._writers.values():
            with self._going_on_without():
                writer.close()
        self._writers.clear()

    def _writer(self, line: str) -> SummaryWriter:
        if line not in self._writers:
            self._writers[line] = open_writer(self.folder / line, self._first_step.get(line))
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


def over(axis: str) -> str:
    """Return the policy's line over one of `AXES`."""
    return f"{POLICY}/over_{axis}"


def tags_over(axis: str, scalars: Mapping[str, float]) -> dict[str, float]:
    """Return scalars with their tags over one of `AXES`."""
    return {f"1_over_{axis}/{tag.rpartition('/')[2]}": value for tag, value in scalars.items()}


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
