"""What a script does with an exception."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from launch.explain import explained


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Tell a user's mistake in one line on stderr and exit with 2; MURMURATION_DEBUG=1 shows the trace."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        print("interrupted", *interrupt.args, sep="; ", file=sys.stderr)  # what it says is how to go on
        sys.exit(130)
    except Exception as error:
        message = explained(error)
        if message is None or os.environ.get("MURMURATION_DEBUG") == "1":
            raise
        print(f"error: {message}", file=sys.stderr)
        sys.exit(2)
