"""Fixtures for the tests of workloads: a small cluster, a linear performance model, and files."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from envs.cluster import build_cluster
from envs.performance import IdealModel
from envs.types import ClusterSpec

Write = Callable[[str, str], Path]


@pytest.fixture
def cluster() -> ClusterSpec:
    """Two nodes of 8 V100."""
    return build_cluster("two_nodes", [{"gpu_type": "V100", "num_nodes": 2, "num_gpus": 8}])


@pytest.fixture
def ideal() -> IdealModel:
    """One sample per second and GPU, for models a and b."""
    return IdealModel(models=("a", "b"))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a text file and return its path."""

    def made(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return made


@pytest.fixture
def lines() -> Callable[[Sequence[str]], str]:
    """Rows as the text of a file."""
    return lambda rows: "".join(f"{row}\n" for row in rows)
