"""A Slurm test cluster for the tests that need one; they are skipped with the reason where there cannot be one."""

import importlib.util
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from deployment.slurm.testbed import SlurmTestbed, start_testbed, stop_testbed, why_no_testbed


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmTestbed]:
    """Three nodes of four GPUs; all daemons and jobs end with the module."""
    if why := why_no_testbed():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("slurm", numbered=True) / "cluster"
    try:
        yield start_testbed(folder, num_nodes=3, num_gpus=4)
    finally:
        stop_testbed(folder)


def daemons_of(folder: Path) -> str:
    """The processes that have a folder in their command line or environment, for assertions that none is left."""
    return subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, text=True).stdout


@pytest.fixture
def repository_script() -> Callable[[str], ModuleType]:
    """Import a script of the project by name."""

    def load(name: str) -> ModuleType:
        path = Path(__file__).resolve().parents[3] / "scripts" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"script_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
