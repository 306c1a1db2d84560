"""Reading back what was written for TensorBoard."""

import re
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2

from agents.tags import POLICY


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) points by tag of one line's folder."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def charts_of(folder: Path) -> dict[str, list[str]]:
    """The layout of "Custom Scalars" in a run's event files: the tags that each chart shows, over all lines."""
    events = EventAccumulator(str(folder / POLICY))
    events.Reload()
    layout = layout_pb2.Layout.FromString(events.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0])
    lines = {path.parent for path in folder.rglob("events.out.tfevents.*")}
    tags = sorted({tag for line in lines for tag in scalars(line)})
    return {
        chart.title: [tag for tag in tags if any(re.match(pattern, tag) for pattern in chart.multiline.tag)]
        for category in layout.category
        for chart in category.chart
    }
