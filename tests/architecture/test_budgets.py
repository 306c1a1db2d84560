"""Limits on the size of functions and files, and rules for names of files and for constructors."""

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

LONGEST_FUNCTION = 60
LONGEST_FILE = 500
LONGEST_SCRIPT = 59  # of scripts/*.py: parse, build, call, print; the packages beside them are files like any other


def long_functions(tree: ast.Module) -> Iterator[str]:
    """Functions above the limit; decorators are not counted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > LONGEST_FUNCTION:
                yield f"{node.lineno} {node.name}: {size} lines"


def longest_file(path: str) -> int:
    """The greatest number of lines of a file."""
    return LONGEST_SCRIPT if PurePosixPath(path).parent == PurePosixPath("scripts") else LONGEST_FILE


def long_files(texts: dict[str, str]) -> list[str]:
    """Files above their limit."""
    sizes = {path: len(text.splitlines()) for path, text in texts.items()}
    return [f"{path}: {size} lines" for path, size in sizes.items() if size > longest_file(path)]


def grab_bags(paths: list[str]) -> list[str]:
    """Files whose name says nothing about their content."""
    return [path for path in paths if PurePosixPath(path).stem in {"util", "utils"}]


def sinks(tree: ast.Module) -> Iterator[str]:
    """Constructors that accept unknown names.

    One that passes its whole `**kwargs` to the base class is allowed: there an unknown name is an error,
    or the base class is not ours.
    """
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        for node in owner.body:
            if isinstance(node, ast.FunctionDef) and node.name in {"__init__", "__new__"}:
                sink = node.args.kwarg
                if sink and not passed_on(node, sink.arg):
                    yield f"{node.lineno} {owner.name}.{node.name}(**{sink.arg})"


def passed_on(function: ast.FunctionDef, name: str) -> bool:
    """Whether the function calls `super().__init__(..., **name)`."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"__init__", "__new__"}
        and any(k.arg is None and isinstance(k.value, ast.Name) and k.value.id == name for k in node.keywords)
        for node in ast.walk(function)
    )


def test_the_source_is_found(texts):
    assert "envs/types/job.py" in texts
    assert "tests/architecture/test_budgets.py" in texts


def test_functions_stay_short(trees):
    assert [f"{path}:{found}" for path, tree in trees.items() for found in long_functions(tree)] == []


def test_files_stay_short(texts):
    assert long_files(texts) == []


def test_no_file_is_a_grab_bag(texts):
    assert grab_bags(list(texts)) == []


def test_constructors_name_their_arguments(trees):
    assert [f"{path}:{found}" for path, tree in trees.items() for found in sinks(tree)] == []


@pytest.mark.parametrize(("lines", "found"), [(60, []), (61, ["1 f: 61 lines"])])
def test_a_long_function_is_seen(lines, found):
    source = "def f():\n" + "    x = 1\n" * (lines - 1)
    assert list(long_functions(ast.parse(source))) == found


def test_a_long_method_within_a_function_is_seen():
    source = "def outer():\n    class C:\n        async def m(self):\n" + "            x = 1\n" * 60
    assert {line.split(":")[0] for line in long_functions(ast.parse(source))} == {"1 outer", "3 m"}


@pytest.mark.parametrize(
    ("path", "lines", "kept"),
    [("envs/a.py", 500, True), ("envs/a.py", 501, False), ("scripts/a.py", 59, True), ("scripts/a.py", 60, False)],
)
def test_a_long_file_is_seen(path, lines, kept):
    assert (long_files({path: "x = 1\n" * lines}) == []) is kept


def test_a_grab_bag_is_seen():
    paths = ["envs/utils.py", "agents/util.py", "envs/utilisation.py"]
    assert grab_bags(paths) == ["envs/utils.py", "agents/util.py"]


@pytest.mark.parametrize(
    ("body", "swallows"),
    [
        ("def __init__(self, **options): self.options = options", True),
        ("def __init__(self, **kwargs): super().__init__(1, **kwargs)", False),
        ("def run(self, **kwargs): pass", False),
    ],
)
def test_a_sink_is_seen(body, swallows):
    assert bool(list(sinks(ast.parse(f"class C:\n    {body}\n")))) is swallows
