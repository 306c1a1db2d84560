"""Standard output that nobody reads any more, or that cannot be written: the end in one line, or silently."""

import errno
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def checked_output() -> Iterator[None]:
    """Leave with 1, silently, if the reader of standard output has closed it, as `head` does.

    Print one line and leave with 2 if it cannot be written, for example because a disk is full.
    """
    try:
        yield
    except (OSError, SystemExit) as error:
        leave_if_lost(error)
        raise
    leave_if_lost()


def leave_if_lost(raised: BaseException | None = None) -> None:
    """Leave if what was printed cannot be written; nothing else is printed then, also not at the end of Python.

    Args:
        raised: the error of a `print`, if output has no buffer. Errors of files have a name.

    Raises:
        SystemExit: it cannot.
    """
    lost = raised if isinstance(raised, OSError) and not raised.filename else None
    if lost and not (lost.errno == errno.ENOSPC or (lost.errno == errno.EPIPE and has_no_reader())):
        lost = None  # of another pipe, such as that of a worker
    try:
        sys.stdout.flush()
    except OSError as error:
        lost = error
    if lost is None:
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(lost, BrokenPipeError):
        sys.exit(1)
    print(f"error: standard output cannot be written ({lost.strerror})", file=sys.stderr)
    sys.exit(2)


def has_no_reader() -> bool:
    """Return whether standard output is a pipe that its reader has closed."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
