"""CPU seconds, the best of several repeats."""

import time
from collections.abc import Callable


def cpu_seconds(play: Callable[[], object], repeats: int = 1, prepare: Callable[[], object] | None = None) -> float:
    """The least process CPU time of a call; what `prepare` does before each repeat does not count."""
    best = float("inf")
    for _ in range(repeats):
        if prepare is not None:
            prepare()
        began = time.process_time()
        play()
        best = min(best, time.process_time() - began)
    return best
