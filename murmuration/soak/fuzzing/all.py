"""All fuzzes, with the number of inputs of a long one."""

from collections.abc import Callable, Iterator

from murmuration.soak.fuzzing.bridge import fuzz_decisions, fuzz_reports
from murmuration.soak.fuzzing.count import FuzzCount
from murmuration.soak.fuzzing.protocol import fuzz_protocol
from murmuration.soak.fuzzing.readers import fuzz_readers
from murmuration.soak.fuzzing.sacct import fuzz_sacct

FUZZES: dict[Callable[[int, int], FuzzCount], int] = {
    fuzz_protocol: 15_000,
    fuzz_readers: 20_000,
    fuzz_sacct: 20_000,
    fuzz_decisions: 2_000,
    fuzz_reports: 2_000,
}


def fuzz_all(factor: float, seed: int) -> Iterator[FuzzCount]:
    """Run all fuzzes, one after the other, with a factor for their numbers of inputs.

    Raises:
        RunFailedError: an input ends in a traceback, a hang, or an order that the simulator would refuse.
    """
    for fuzz, inputs in FUZZES.items():
        yield fuzz(max(int(factor * inputs), 1), seed)
