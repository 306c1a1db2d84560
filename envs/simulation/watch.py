"""A watch over decisions that take long in real time."""

import threading
import time
import warnings

from envs.types import MurmurationError, Seconds

CHECKS = 4  # looks at the running decision within the limit


class SlowDecisionWarning(UserWarning):
    """A scheduler's `schedule()` has not returned within the limit."""


class DecisionWatch:
    """Warn of a decision that takes longer than a limit, while it still runs, with the scheduler and the instant.

    A thread looks at the present decision a few times within the limit, so a decision costs next to nothing. Nothing is
    interrupted: a scheduler that never returns is named, and the user ends the run. Code that holds Python's global
    lock throughout, such as a foreign library, is reported when it returns.

    ```
    with DecisionWatch("optimus", limit=60.0) as watch:
        watch.begin(view.time)
        scheduler.schedule(view)
        watch.end()
    ```

    Args:
        scheduler: the name to report.
        limit: seconds of real time; infinite for no watch.

    Raises:
        MurmurationError: the limit is not positive.
    """

    def __init__(self, scheduler: str, limit: Seconds) -> None:
        if not limit > 0:
            raise MurmurationError(f"decision limit is {limit} s; it must be positive, or infinite for none")
        self.scheduler, self.limit = scheduler, limit
        self._present: tuple[Seconds, Seconds] | None = None  # real time of its begin, simulated time
        self._told: tuple[Seconds, Seconds] | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "DecisionWatch":
        if self.limit < threading.TIMEOUT_MAX:
            self._thread = threading.Thread(target=self._watch, name="decision watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def begin(self, now: Seconds) -> None:
        """Note that a decision begins at a simulated time."""
        self._present = (time.monotonic(), now)

    def end(self) -> None:
        """Note that the decision has returned."""
        present, self._present = self._present, None
        if present is not None:
            self._tell_if_slow(present)

    def _watch(self) -> None:
        while not self._over.wait(self.limit / CHECKS):
            present = self._present
            if present is not None:
                self._tell_if_slow(present)

    def _tell_if_slow(self, present: tuple[Seconds, Seconds]) -> None:
        began, now = present
        if time.monotonic() - began > self.limit and present is not self._told:
            self._told = present
            warnings.warn(
                f"scheduler {self.scheduler}: schedule() at t = {now:g} s takes longer than {self.limit:g} s",
                SlowDecisionWarning,
                stacklevel=1,
            )
