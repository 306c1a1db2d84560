"""What all tests share: quiet threads, hypothesis profiles, and the way to real data."""

import os

# Before anything imports NumPy or torch: one thread each (the tests themselves run side by side), asleep when idle.
for _name, _value in {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "MPLBACKEND": "Agg",
}.items():
    os.environ.setdefault(_name, _value)

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.compositions import cheap_compositions

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every run that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parents[1]
# Of two workers, one begins with the kernels of the engine and of Starling. The other one needs no kernels at first,
# then finds those of the engine in the cache and compiles those of the environments: nothing is compiled twice.
FIRST = (
    *("golden/test_batch_by_goodput.py", "architecture/test_commands.py", "architecture/test_configs.py"),
    "architecture/test_pages.py",
)

# "house": a run passes or fails by the code alone. "thorough" looks for what that misses: HYPOTHESIS_PROFILE=thorough
settings.register_profile(
    "house", deadline=None, max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("house"), max_examples=1000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))


@pytest.hookimpl(tryfirst=True)  # before the hook that sorts out `-m`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for real data as such, and put files with slow tests first.

    Workers take whole files, in this order with `--no-loadscope-reorder`: at the end none waits for a long file.
    """
    for item in items:
        if "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker("real_data")
    first = {REPOSITORY / "tests" / path: rank for rank, path in enumerate(FIRST)}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (first.get(item.path, len(first)), item.path not in slow))


@pytest.fixture(scope="session", autouse=True)
def compositions() -> Iterator[None]:
    """Compose each choice of groups once."""
    with cheap_compositions():
        yield


@pytest.fixture(autouse=True)
def interrupts_as_before() -> Iterator[None]:
    """Undo what an interrupted script does: it ignores further interrupts, and so would processes of later tests."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)  # see murmuration.config.errors.interrupt_on_termination
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """The path of a file of public traces or profiles, such as `real_data("traces/muri/trace3.csv.gz")`.

    Looks in the folder that MURMURATION_DATA names, else in `shared/data` beside the repository. The test is
    skipped where the file is absent.
    """

    def find(relative_path: str) -> Path:
        root = Path(os.environ.get("MURMURATION_DATA") or REPOSITORY.parent / "shared" / "data")
        path = root / relative_path
        if not path.exists():
            pytest.skip(f"no real data: {path} is absent; MURMURATION_DATA names the folder with traces/ and profiles/")
        return path

    return find
