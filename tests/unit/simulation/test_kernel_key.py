"""Keys of compiled functions: an edit that can change the code changes the key, and no other edit does."""

import importlib
import sys
import textwrap
from pathlib import Path

import numba
import pytest

from envs.simulation.compiled.jit import COMPILES, jit
from envs.simulation.compiled.kernel_cache import find_kernel_folder
from envs.simulation.compiled.kernel_key import find_functions, find_key, has_changed

pytestmark = pytest.mark.skipif(not COMPILES, reason="nothing is compiled")

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCES = {
    "amounts.py": """
        import enum
        FACTOR = 3
        STEPS = (1, 2)
        class Colour(enum.IntEnum):
            RED = 5
            BLUE = 6
        """,
    "lowest.py": """
        import numpy as np
        import amounts
        from amounts import FACTOR
        from envs.simulation.compiled.jit import leaf

        TABLE = np.array([1.0, 2.0])
        WEIGHT = np.float64(0.5)

        @leaf
        def scaled(a):
            return FACTOR * a + amounts.STEPS[1] + TABLE[1] * WEIGHT
        """,
    "middle.py": """
        from amounts import Colour
        from envs.simulation.compiled.jit import part
        from lowest import scaled

        @part
        def raised(a, by=1):
            return scaled(a) + (by + Colour.BLUE)
        """,
    "upper.py": """
        from typing import NamedTuple
        import numpy as np
        from envs.simulation.compiled.jit import kernel
        from middle import raised

        RECORD = np.dtype([("first", np.int64), ("second", np.int64)])
        UNUSED = 1

        class Pair(NamedTuple):
            left: int
            right: int

        class Inner(NamedTuple):
            pair: Pair

        @kernel
        def total(inner, rows):
            "Return a number."
            return raised(inner.pair.left) + rows[0].first

        def arguments():
            rows = np.zeros(1, RECORD)
            rows["first"], rows["second"] = 1000, 2000
            return Inner(Pair(10, 20)), rows
        """,
}
CHANGES = {
    "a constant of a file without kernels": ("amounts.py", "FACTOR = 3", "FACTOR = 4", 1050.0),
    "an attribute of a module": ("amounts.py", "(1, 2)", "(1, 7)", 1045.0),
    "a member of an enumeration": ("amounts.py", "BLUE = 6", "BLUE = 16", 1050.0),
    "an array": ("lowest.py", "[1.0, 2.0]", "[1.0, 22.0]", 1050.0),
    "a number of NumPy": ("lowest.py", "float64(0.5)", "float64(5.5)", 1050.0),
    "a callee of a callee": ("lowest.py", "FACTOR * a +", "FACTOR * a + 10 +", 1050.0),
    "a constant in a function": ("upper.py", "rows[0]", "100 + rows[0]", 1140.0),
    "an argument's default": ("middle.py", "by=1", "by=11", 1050.0),
    "fields of a record": ("upper.py", '"first", np.int64), ("second"', '"second", np.int64), ("first"', 1040.0),
    "fields of a named tuple": ("upper.py", "    left: int\n    right: int", "    right: int\n    left: int", 1070.0),
    "what is inlined": ("middle.py", "part", "leaf", 1040.0),
}
NO_CHANGES = {
    "a docstring": ("upper.py", "Return a number.", "Return the sum."),
    "a comment and a line": ("lowest.py", "TABLE =", "# What is added.\n\nTABLE ="),
    "what no kernel reads": ("upper.py", "UNUSED = 1", "UNUSED = 2"),
    "the order of functions": ("lowest.py", "@leaf", "@leaf\ndef other(a):\n    return a\n\n@leaf"),
}


@pytest.fixture
def version(tmp_path, monkeypatch):
    """Writes the small package, with one edit, into a new folder; returns its top module."""
    monkeypatch.setenv("MURMURATION_CACHE", str(tmp_path / "cache"))
    find_kernel_folder.cache_clear()

    def write(name="", before="", after=""):
        folder = tmp_path / f"version_{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for path, source in SOURCES.items():
            text = textwrap.dedent(source)
            assert path != name or before in text
            (folder / path).write_text(text.replace(before, after) if path == name else text)
            monkeypatch.delitem(sys.modules, path.removesuffix(".py"), raising=False)
        monkeypatch.syspath_prepend(folder)
        return importlib.import_module("upper")

    yield write
    for path in SOURCES:
        sys.modules.pop(path.removesuffix(".py"), None)
    find_kernel_folder.cache_clear()


def key_of(module):
    """The key of the top function."""
    given = tuple(numba.typeof(each) for each in module.arguments())
    return find_key(module.total, given, ("a processor",))


@pytest.mark.parametrize("what", CHANGES)
def test_an_edit_that_changes_code_changes_the_key_and_the_result(version, what):
    name, before, after, expected = CHANGES[what]
    first = version()
    key = key_of(first)
    assert first.total(*first.arguments()) == 1040.0
    second = version(name, before, after)
    assert key_of(second) != key
    assert second.total(*second.arguments()) == expected


@pytest.mark.parametrize("what", NO_CHANGES)
def test_other_edits_keep_the_key_in_another_folder_too(version, what):
    assert key_of(version()) == key_of(version(*NO_CHANGES[what]))


def double(number):
    return 2 * number


@pytest.mark.parametrize("callee", ["leaf", "inlined"])
def test_a_global_that_was_replaced_after_the_key_was_found_keeps_its_callers_from_the_cache(
    version, monkeypatch, tmp_path, callee
):
    module = version("lowest.py", "leaf", callee)
    key_of(module)
    lowest = sys.modules["lowest"]
    monkeypatch.setattr(lowest, "FACTOR", 30)
    assert has_changed(lowest.scaled)
    assert module.total(*module.arguments()) == 1310.0
    assert list((tmp_path / "cache").iterdir()) == []
    assert jit(double)(4) == 8
    assert [file.stem.partition("-")[0] for file in (tmp_path / "cache").iterdir()] == ["double"]


def test_every_kernel_of_the_project_has_a_key_that_names_no_place():
    kernels = set()
    for path in (each for folder in ("envs", "baselines") for each in (REPOSITORY / folder).rglob("*.py")):
        if "from envs.simulation.compiled.jit import" in path.read_text():
            name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
            kernels |= {each for each in vars(importlib.import_module(name)).values() if hasattr(each, "py_func")}
    texts = [text for kernel in kernels for text in find_functions(kernel).values()]
    assert len(kernels) > 400
    assert not [text for text in texts if " at 0x" in text or "/envs/" in text]
