"""The project's own source, parsed once for all tests of its architecture."""

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = ("envs", "agents", "baselines", "deployment", "scripts", "murmuration", "tests")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds pyproject.toml."""
    return REPOSITORY


@pytest.fixture(scope="session")
def texts() -> dict[str, str]:
    """The text of every Python file, by its path in the repository, such as "envs/types/job.py"."""
    files = sorted(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))
    return {path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8") for path in files}


@pytest.fixture(scope="session")
def trees(texts: dict[str, str]) -> dict[str, ast.Module]:
    """The same files as syntax trees."""
    return {path: ast.parse(text, path) for path, text in texts.items()}
