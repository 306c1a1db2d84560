"""Nothing public is left over: a name that only tests and exports mention has no user."""

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

PRODUCT = ("envs/", "baselines/", "agents/", "deployment/", "murmuration/", "scripts/")
EXPORTS = ("__all__", "_HOMES", "_MODULES")
WORD = re.compile(r"[A-Za-z_]\w*")

# Functions and classes that are called from outside, and by whom.
CALLED_FROM_OUTSIDE = {
    "on_config": "MkDocs, in its hook",
    "on_files": "MkDocs, in its hook",
    "on_page_markdown": "MkDocs, in its hook",
    "AdvanceResult": "nobody: it documents the result codes of kernels, which are plain integers",
    "fitted_noise_scales": "a test, which computes a table's figures anew from the data",
    "find_disagreements": "a test, which compares the pages of tasks with their records",
}


def public(tree: ast.Module) -> list[str]:
    """The functions and classes that a module defines for others."""
    found = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return [name for name in found if not name.startswith("_")]


def skipped(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of a module that use nothing: its exports and docstrings."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id in EXPORTS for target in targets):
            yield from ast.walk(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def used(tree: ast.Module) -> Iterator[str]:
    """The names that a module uses, in code or in strings; imports and exports do not count."""
    left_out = set(map(id, skipped(tree)))
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Constant(value=str(text)):
                yield from WORD.findall(text)


def unused(trees: Mapping[str, ast.Module], texts: str = "") -> set[str]:
    """Public functions and classes that neither the modules use nor the other texts name."""
    named = {name for tree in trees.values() for name in used(tree)} | set(WORD.findall(texts))
    return {name for tree in trees.values() for name in public(tree)} - named


def test_every_public_function_and_class_is_used(trees, repository):
    product = {path: tree for path, tree in trees.items() if path.startswith(PRODUCT)}
    files = [*(repository / "conf").rglob("*.y*ml"), *(repository / "docs").rglob("*.md"), repository / "README.md"]
    files += [*(repository / "notebooks").glob("*.ipynb"), repository / "pyproject.toml"]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert unused(product, texts) == set(CALLED_FROM_OUTSIDE)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from a import grow\n__all__ = ['grow']\ndef grow(): 'See `grow`.'", {"grow"}),
        ("class Grown: pass\nx: 'Grown' = 1", set()),
    ],
)
def test_an_unused_name_is_seen(source, found):
    assert unused({"a.py": ast.parse(source)}) == found
    assert unused({"a.py": ast.parse(source)}, "_target_: a.grow, a.Grown") == set()
