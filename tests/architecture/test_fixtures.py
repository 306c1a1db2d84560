"""The fixtures and settings that tests/conftest.py provides for all other tests."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FIRST, pytest_collection_modifyitems

COLLECTED = """
def test_with(real_data): ...
def test_without(): ...
"""


def test_real_data_is_found_in_the_folder_of_the_variable(real_data, tmp_path, monkeypatch):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "small.csv").write_text("submit_time\n0\n")
    monkeypatch.setenv("MURMURATION_DATA", str(tmp_path))
    assert real_data("traces/small.csv") == tmp_path / "traces" / "small.csv"


def test_absent_data_skips_in_one_line(real_data, tmp_path, monkeypatch):
    monkeypatch.setenv("MURMURATION_DATA", str(tmp_path))
    with pytest.raises(pytest.skip.Exception) as skipped:
        real_data("traces/absent.csv")
    assert str(tmp_path / "traces" / "absent.csv") in str(skipped.value)
    assert "MURMURATION_DATA" in str(skipped.value)
    assert "\n" not in str(skipped.value)


def test_without_the_variable_real_data_is_searched_beside_the_repository(real_data, repository, monkeypatch):
    monkeypatch.delenv("MURMURATION_DATA", raising=False)
    with pytest.raises(pytest.skip.Exception, match="shared"):
        real_data("no such file")
    if (repository.parent / "shared" / "data").is_dir():
        assert real_data("") == repository.parent / "shared" / "data"


def test_tests_that_use_real_data_are_marked(repository, tmp_path):
    (tmp_path / "conftest.py").write_text((repository / "tests" / "conftest.py").read_text())
    (tmp_path / "test_marks.py").write_text(COLLECTED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "real_data", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert collected == ["test_marks.py::test_with"], done.stdout


def test_no_file_sets_the_mode_of_hydra(repository):
    """Scripts within a test are spared the composition that would find it."""
    contents = {path: yaml.safe_load(path.read_text()) for path in (repository / "conf").rglob("*.yaml")}
    assert [path for path, content in contents.items() if "mode" in ((content or {}).get("hydra") or {})] == []


def test_files_with_slow_tests_come_first_and_after_those_that_compile_kernels(repository):
    assert [path for path in FIRST if not (repository / "tests" / path).exists()] == []

    def test_in(path, *marks):
        return SimpleNamespace(path=repository / "tests" / path, get_closest_marker=lambda name: name in marks)

    names = ["unit/a.py", "unit/b.py", FIRST[1], "unit/b.py", FIRST[0], "unit/a.py"]
    items: list[Any] = [test_in(name, *(["slow"] if i == 3 else [])) for i, name in enumerate(names)]
    pytest_collection_modifyitems(items)
    found = [item.path.relative_to(repository / "tests").as_posix() for item in items]
    assert found == [*FIRST[:2], "unit/b.py", "unit/b.py", "unit/a.py", "unit/a.py"]


def test_threads_are_few_and_sleep_when_idle():
    assert os.environ["OMP_NUM_THREADS"].isdigit()
    assert "OMP_WAIT_POLICY" in os.environ


@given(st.integers())
def test_properties_have_no_deadline(number):
    assert settings().deadline is None
    assert number == int(str(number))
