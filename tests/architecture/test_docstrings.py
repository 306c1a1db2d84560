"""Every public name of the packages has a docstring."""

import ast
from collections.abc import Iterator

import pytest

PACKAGES = ("envs/", "agents/", "baselines/")
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


def test_public_names_are_documented(trees):
    ours = {path: tree for path, tree in trees.items() if path.startswith(PACKAGES)}
    assert [f"{path}:{found}" for path, tree in ours.items() for found in undocumented(tree)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("", []),
        ("x = 1", ["1 module"]),
        ('"""Doc."""\ndef f(): pass', ["2 f"]),
        ('"""Doc."""\nasync def f(): pass', ["2 f"]),
        ('"""Doc."""\ndef _f(): pass', []),
        ('"""Doc."""\nclass C:\n    def m(self): pass', ["2 C", "3 C.m"]),
        ('"""Doc."""\nclass C:\n    """Doc."""\n    def __len__(self): pass\n    def m(self):\n        """Doc."""', []),
        ('"""Doc."""\nclass _C:\n    def m(self): pass', []),
        ('"""Doc."""\nclass C:\n    """Doc."""\n    @x.setter\n    def x(self, value): pass', []),
        ('"""Doc."""\n@typing.overload\ndef f(): pass', []),
        ('"""Doc."""\n@cached\ndef f(): pass', ["3 f"]),
    ],
)
def test_a_missing_docstring_is_seen(source, found):
    assert list(undocumented(ast.parse(source))) == found
