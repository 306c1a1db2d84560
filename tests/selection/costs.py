"""CPU seconds of test files: measured by a plugin of pytest, kept in `costs.json`."""

import json
import os
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("costs.json")
UNKNOWN = 5.0  # CPU seconds of a file that the table does not have


def read_costs() -> dict[str, float]:
    """CPU seconds by test file, such as "tests/golden/test_fifo.py"; processes that a test starts count."""
    table: dict[str, float] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


class Costs:
    """Writes the CPU seconds of all files of a run that came to its end into the table (`make costs`).

    Each worker of pytest-xdist measures what it runs; its reports bring the figures to the process that writes.
    """

    def __init__(self) -> None:
        self._before = 0.0
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Leave out what was spent between two tests, such as collection."""
        self._before = sum(os.times()[:4])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        """Attach the CPU seconds since the report before."""
        report = yield
        now = sum(os.times()[:4])
        report.cpu_seconds, self._before = now - self._before, now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up by file."""
        path = report.nodeid.partition("::")[0]
        self._seconds[path] = self._seconds.get(path, 0.0) + getattr(report, "cpu_seconds", 0.0)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the table: what was not run keeps its figure, files that are gone go."""
        if not hasattr(session.config, "workerinput") and exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
        ):
            table = {**read_costs(), **{path: round(seconds, 1) for path, seconds in self._seconds.items()}}
            kept = {path: table[path] for path in sorted(table) if (session.config.rootpath / path).exists()}
            TABLE.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin: `pytest -p tests.selection.costs`."""
    config.pluginmanager.register(Costs())
