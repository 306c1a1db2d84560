"""Reading back what was written for TensorBoard."""

import re
from collections.abc import Collection
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.loggers.tensorboard import layout_of


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) points by tag of one line's folder."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def charts_without_curves(metric: str, tags: Collection[str]) -> list[str]:
    """Titles of TensorBoard's charts that show a tag, a pattern, which no curve has."""
    charts = [chart for category in layout_of(metric).values() for chart in category.items()]
    return [title for title, (_, shown) in charts if not all(any(re.match(tag, t) for t in tags) for tag in shown)]
