"""`--help` of every script with a primary config loads nothing that takes long, and a start loads no scipy.stats."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
LOADED = """
import atexit, sys
sys.path.insert(0, {scripts!r})
heavy = {{{heavy}}}
atexit.register(lambda: print(*sorted(heavy.intersection(sys.modules)), file=sys.stderr))
sys.argv = [{script!r}, "--help"]
import runpy
runpy.run_path({script!r}, run_name="__main__")
"""
HEAVY = ("envs", "hydra", "numba", "numpy", "omegaconf", "pandas", "scipy", "torch", "yaml")


@pytest.mark.parametrize("name", ["compare", "train"])
def test_help_is_printed_before_anything_heavy_is_imported(name):
    code = LOADED.format(scripts=str(SCRIPTS), script=str(SCRIPTS / f"{name}.py"), heavy=", ".join(map(repr, HEAVY)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert "Options are key=value" in done.stdout
    assert f"conf/{name}.yaml:" in done.stdout


def test_a_comparison_imports_no_scipy_stats():
    code = "import sys; import murmuration.runs.comparing; print('scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
