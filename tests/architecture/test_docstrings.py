"""Public names of the packages have docstrings, which describe only names that exist; examples in docstrings run."""

import ast
import doctest
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

PACKAGES = ("envs/", "agents/", "baselines/", "deployment/")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def undocumented(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    """Public classes, functions and methods without a docstring, and the module itself."""
    if isinstance(node, ast.Module) and ast.get_docstring(node) is None and node.body:
        yield "1 module"
    for child in node.body:
        if not isinstance(child, Definition) or child.name.startswith("_") or documented_elsewhere(child):
            continue
        name = prefix + child.name
        if ast.get_docstring(child) is None:
            yield f"{child.lineno} {name}"
        if isinstance(child, ast.ClassDef):
            yield from undocumented(child, f"{name}.")


def documented_elsewhere(definition: Definition) -> bool:
    """Overloads and setters are documented at the function and the getter."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in definition.decorator_list}
    return bool(names & {"overload", "setter", "deleter"})


def described(docstring: str) -> list[str]:
    """Names of the entries in the sections `Args` and `Attributes` of a docstring."""
    sections = re.findall(r"^(?:Args|Attributes):\n((?: {4}.*\n?|\n)+)", docstring, re.MULTILINE)
    return [name for section in sections for name in re.findall(r"^ {4}(\w+):", section, re.MULTILINE)]


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names of a function's arguments."""
    parts = function.args
    named = [*parts.posonlyargs, *parts.args, *parts.kwonlyargs, parts.vararg, parts.kwarg]
    return {argument.arg for argument in named if argument}


def members(node: ast.ClassDef) -> set[str]:
    """Fields and methods of a class, attributes that its methods set, and arguments of its constructor."""
    names = {child.name for child in node.body if isinstance(child, Definition)}
    for child in ast.walk(node):
        match child:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name="__init__" | "__new__"):
                names |= arguments(child)
    return names


def stale(tree: ast.Module) -> Iterator[str]:
    """Entries of docstrings that name no argument of the function, or nothing in the class."""
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            known = members(node) if isinstance(node, ast.ClassDef) else arguments(node)
            for name in described(ast.get_docstring(node) or ""):
                if name not in known:
                    yield f"{node.lineno} {node.name}: {name}"


def test_docstrings_describe_names_that_exist(trees):
    assert [f"{path}:{found}" for path, tree in trees.items() for found in stale(tree)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('def f(a):\n    """Do.\n\n    Args:\n        a: it.\n        b: not there.\n    """', ["1 f: b"]),
        ('class C:\n    """It.\n\n    Attributes:\n        a: it.\n        b: old.\n    """\n    a: int', ["1 C: b"]),
        ('class C:\n    """It.\n\n    Args:\n        a: it.\n    """\n    def __init__(self, a): pass', []),
    ],
)
def test_a_stale_entry_is_seen(source, found):
    assert list(stale(ast.parse(source))) == found


def test_public_names_are_documented(trees):
    ours = {path: tree for path, tree in trees.items() if path.startswith(PACKAGES)}
    assert [f"{path}:{found}" for path, tree in ours.items() for found in undocumented(tree)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 1\nclass _C:\n    def m(self): pass", ["1 module"]),
        ('"""Doc."""\nclass C:\n    def m(self): pass\n    def __len__(self): pass', ["2 C", "3 C.m"]),
        ('"""Doc."""\n@typing.overload\ndef f(): pass', []),
    ],
)
def test_a_missing_docstring_is_seen(source, found):
    assert list(undocumented(ast.parse(source))) == found


def with_examples(trees: dict[str, ast.Module]) -> list[str]:
    """Paths of the files of packages and scripts whose docstrings have examples, but not of scripts themselves."""
    places = (*PACKAGES, "murmuration/", "scripts/benchmarks/", "scripts/documentation/")
    parser = doctest.DocTestParser()
    definitions = (Definition, ast.Module)
    return [
        path
        for path, tree in trees.items()
        if path.startswith(places)
        and any(
            parser.get_examples(ast.get_docstring(node) or "")
            for node in ast.walk(tree)
            if isinstance(node, definitions)
        )
    ]


def test_examples_in_docstrings_give_what_they_show(trees):
    paths = with_examples(trees)
    assert paths
    for path in paths:
        name = path.removeprefix("scripts/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        failed, attempted = doctest.testmod(import_module(name))
        assert (failed, attempted > 0) == (0, True), path


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('def f():\n    """Do.\n\n    >>> f()\n    1\n    """', ["envs/x.py"]),
        ('def f():\n    """Do >>> nothing."""', []),
    ],
)
def test_an_example_is_seen(source, found):
    assert with_examples({"envs/x.py": ast.parse(source)}) == found
    assert with_examples({"tests/x.py": ast.parse(source)}) == []
