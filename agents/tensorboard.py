"""TensorBoard output: one run for the policy and one per baseline. A baseline's figures are horizontal lines."""

from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

POLICY = "policy"


class TensorBoardWriter:
    """Writes scalars under `folder`, one sub-folder per line.

    Tags: `train/*` of sampled episodes, `learner/*`, `throughput/*`, `imitation/*`, and `validation/*`, which the
    baselines have as well.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers: dict[str, SummaryWriter] = {}

    def write(self, scalars: Mapping[str, float], step: int, line: str = POLICY) -> None:
        """Add points to the curves of one line; omit values that are not finite."""
        if line not in self._writers:
            self._writers[line] = SummaryWriter(str(self.folder / line))
        for tag, value in scalars.items():
            if value == value and abs(value) != float("inf"):
                self._writers[line].add_scalar(tag, value, step)

    def flush(self) -> None:
        """Write all buffered points to disk."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Write the buffered points and close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
