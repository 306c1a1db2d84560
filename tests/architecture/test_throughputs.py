"""What a performance model returns is checked: only `find_throughput` asks one that may be a user's own."""

import ast

import pytest

ASKS = "envs/performance/model.py"  # `find_throughput`


def unchecked(tree: ast.AST) -> list[str]:
    """Uses of the method `throughput` of something called performance."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "throughput":
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            found += [f"{node.lineno} {ast.unparse(node)}"] if name.strip("_") == "performance" else []
    return found


def test_throughputs_are_asked_for_in_one_place(trees):
    found = {path: uses for path, tree in trees.items() if path.startswith("envs/") and (uses := unchecked(tree))}
    assert list(found) == [ASKS]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("setup.performance.throughput(model, on)", ["1 setup.performance.throughput"]),
        ("ask = performance.throughput", ["1 performance.throughput"]),
        ("find_throughput(performance, model, on)", []),
        ("job.throughput", []),
    ],
)
def test_an_unchecked_question_is_seen(source, found):
    assert unchecked(ast.parse(source)) == found
