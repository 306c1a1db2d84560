"""What there is to measure, by name."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from benchmarks.report import Report
from benchmarks.suite import Suite
from envs.types import MurmurationError
from launch.names import ChoiceError, near

Measure = Callable[[Report, Suite], None]
# A module of this package each; imported when chosen, since one of them needs torch and ray.
PARTS = ("engine", "decisions", "faces", "thinking", "starting", "training", "traces", "published")


def chosen(names: str | Sequence[str]) -> dict[str, Measure]:
    """By name what measures the parts of these names, or `all`.

    Raises:
        ChoiceError: there is no such part.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    wanted = list(PARTS) if wanted == ["all"] else wanted
    for name in wanted:
        if name not in PARTS:
            raise ChoiceError(f"parts={name}: no such part{near(name, PARTS)}; there are: all, {', '.join(PARTS)}")
    return {name: import_module(f"benchmarks.{name}").measure for name in wanted}


@contextmanager
def noted(report: Report, part: str) -> Iterator[None]:
    """Let what a part cannot do, for want of data perhaps, cost that part alone, and a fault as well."""
    try:
        yield
    except MurmurationError as refusal:
        report.notes.append(f"{part}: stopped: {refusal}")
    except Exception:
        report.broke(part)
