"""A tiny PyTorch job that grows and shrinks without losing its place: gloo processes on the CPU.

python -m deployment.wrapper <folder> 1 30 -- python scripts/recipes/elastic_torch.py --processes 2 --steps 200

Each step processes one global batch, which is divided among the processes, so the weights do not depend on their
number. Data follow from the step alone. On SIGTERM the job finishes its step, writes a checkpoint and ends.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from deployment.wrapper import report_work

BATCH = 24  # divisible by 1, 2, 3 and 4 processes


def batch_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the global batch of a step: inputs float64[BATCH, 8] and their sums float64[BATCH, 1]."""
    made = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 8, generator=made, dtype=torch.float64)
    return x, x.sum(1, keepdim=True)


def _train(rank: int, processes: int, folder: Path, steps: int, pause: float) -> None:
    """Train from the last checkpoint on, as one of several processes."""
    asked = [False]
    signal.signal(signal.SIGTERM, lambda *_: asked.__setitem__(0, True))
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet_{os.getppid()}", rank=rank, world_size=processes)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1, dtype=torch.float64)
    checkpoint, step, began = folder / "checkpoint.pt", 0, time.monotonic()
    if checkpoint.exists():
        kept = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(kept["model"])
        step = kept["step"]
    first = step
    while step < steps:
        stop = torch.tensor([int(asked[0])])
        dist.all_reduce(stop)  # all of them stop after the same step
        if stop.item():
            break
        x, y = (part.chunk(processes)[rank] for part in batch_of(step))
        loss = ((model(x) - y) ** 2).sum() / BATCH
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                assert weight.grad is not None
                dist.all_reduce(weight.grad)
                weight.sub_(weight.grad, alpha=0.05)
        step += 1
        time.sleep(pause / processes)
        if rank == 0 and step % 5 == 0:
            report_work(step * BATCH, (step - first) * BATCH / (time.monotonic() - began))
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": step}, checkpoint.with_suffix(".part"))
        checkpoint.with_suffix(".part").replace(checkpoint)
        report_work(step * BATCH, 0.0)
    dist.destroy_process_group()


def main() -> None:
    """Start the processes, pass SIGTERM on to them, and end when they have."""
    parser = argparse.ArgumentParser(description="A tiny elastic PyTorch job.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds of a step on one process")
    arguments = parser.parse_args()
    folder = Path(os.environ["MURMURATION_FOLDER"])
    given = (arguments.processes, folder, arguments.steps, arguments.pause)
    running = start_processes(_train, given, arguments.processes, join=False, start_method="fork")  # type: ignore[no-untyped-call]
    signal.signal(signal.SIGTERM, lambda *_: [each.terminate() for each in running.processes])
    while not running.join():
        pass
    sys.exit(0)


if __name__ == "__main__":
    main()
