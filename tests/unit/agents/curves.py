"""Reading back what was written for TensorBoard."""

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) points by tag of one line's folder."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
