"""What a soak does besides playing: requests that cannot be, and processes that are killed while they write."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from envs.evaluation import files
from envs.simulation import Simulator
from envs.types import Allocation, AllocationError, Placement
from launch.errors import RunFailedError

LINES = 100_000  # of a file that a process is killed over
WRITER = """
import runpy, sys
from pathlib import Path
write_whole = runpy.run_path(sys.argv[1])["write_whole"]
for number in range(10**9):
    write_whole(Path(sys.argv[2]), f"{number}\\n" * int(sys.argv[3]))
    print(flush=True)
"""


class TamperedSimulator(Simulator):
    """A simulator that is also asked for impossible allocations, each before a possible one.

    Args:
        share: probability per round that it is.
        rng: draws them.
        arguments: of `Simulator`.
    """

    def __init__(self, share: float, rng: np.random.Generator, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.share, self._rng = share, rng
        self.refused = 0  # impossible allocations

    def apply(self, allocation: Allocation) -> None:
        """Apply an allocation, now and then after an impossible one, which must be refused and change nothing.

        Raises:
            RunFailedError: the impossible one was accepted.
        """
        if self._rng.random() < self.share:
            try:
                super().apply(self._impossible())
            except AllocationError:
                self.refused += 1
            else:
                raise RunFailedError(f"{self.workload.name}: an impossible allocation was accepted")
        super().apply(allocation)

    def _impossible(self) -> Allocation:
        """Draw an allocation with one thing in it that cannot be; the rest of it can."""
        view, cluster = self.view, self.cluster
        allocation = view.allocation(keep_running=bool(self._rng.random() < 0.5))
        jobs, node = view.queued.tolist() + view.running.tolist(), int(self._rng.integers(cluster.num_nodes))
        job = int(self._rng.choice(jobs)) if jobs else 0
        too_many = int(cluster.node_gpus[node]) + int(self._rng.integers(1, 9))
        match int(self._rng.integers(6)):
            case 0:
                allocation.changes[len(view.submit_time)] = Placement({node: 1})  # a job that has not arrived
            case 1:
                allocation.changes[job] = Placement({cluster.num_nodes: 1})
            case 2:
                allocation.changes[job] = Placement({node: too_many})
            case 3:
                allocation.changes[job] = Placement({node: -1})
            case 4:
                allocation.changes[job] = Placement({})
            case _:
                allocation.next_decision = view.time
        return allocation


def kill_a_writer(path: Path, rng: np.random.Generator) -> None:
    """Kill a process that replaces a file again and again, and check that the file is whole.

    Raises:
        RunFailedError: it is not.
    """
    command = [sys.executable, "-c", WRITER, str(files.__file__), str(path), str(LINES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(float(rng.uniform(0.0, 0.02)))
        writer.send_signal(signal.SIGKILL)
    lines = path.read_text().splitlines()
    if len(lines) != LINES or len(set(lines)) != 1:
        raise RunFailedError(f"{path}: a process that was killed left a part of the file, {len(lines)} lines")
