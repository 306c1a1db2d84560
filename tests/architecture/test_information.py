"""Schedulers use no way to the engine that a view does not offer."""

import ast

ENGINE_SIDE = "_engine_side"  # see `envs.simulation.seen.view.ViewSource`
VIEWS = ("envs/simulation/seen/view.py", "envs/simulation/seen/snapshot.py", "envs/types/sealed.py")


def uses(tree: ast.Module) -> list[int]:
    """Lines that name the engine's side of a view, as an attribute or as text."""
    found: list[int] = []
    for node in ast.walk(tree):
        named = isinstance(node, ast.Attribute) and node.attr == ENGINE_SIDE
        if named or (isinstance(node, ast.Constant) and node.value == ENGINE_SIDE):
            found.append(node.lineno)  # type: ignore[attr-defined]
    return found


def test_only_views_use_the_engine_behind_them(trees):
    offenders = [
        f"{path}:{line}"
        for path, tree in trees.items()
        if path.startswith(("envs/", "agents/", "baselines/", "deployment/", "scripts/")) and path not in VIEWS
        for line in uses(tree)
    ]
    assert not offenders, f"ask the view or its snapshot instead: {offenders}"


def test_uses_are_found():
    assert uses(ast.parse("a = view._engine_side.state\nb = getattr(view, '_engine_side')\nc = view.source")) == [1, 2]
