"""What a training run says of itself: where it is from the start, and when it is interrupted how to go on."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Tell where a run keeps its files and how its curves are shown; an interrupt carries the command that resumes."""
    run = os.path.relpath(folder)
    print(f"trains in {run}", flush=True)
    print(f"tensorboard --logdir {shlex.quote(os.path.join(run, 'tensorboard'))}", flush=True)
    try:
        yield
    except KeyboardInterrupt:
        command = shlex.join(["python", sys.argv[0], f"resume={run}"])
        reached = "go on" if (folder / "state.json").exists() else "nothing is kept yet; begin anew in its folder"
        raise KeyboardInterrupt(f"{reached} with {command}") from None
