"""Names from files are printed and drawn as texts: rich's own console and unmarked texts of plots are used nowhere."""

import ast
from collections.abc import Iterator

import pytest

HOME = "envs/pictures/texts.py"
PILLOW = "envs/episodes/drawing.py"  # it draws with Pillow, which knows no mathematics
# What may be imported from rich: what renders no text of its own, or takes a `TextConsole`.
ALLOWED = {
    "rich.live": {"Live"},
    "rich.progress": {
        *("BarColumn", "Progress", "ProgressColumn", "Task", "TaskID", "TimeElapsedColumn", "TimeRemainingColumn"),
        "track",
    },
    "rich.table": {"Column", "Table"},
    "rich.text": {"Text"},
}
# Calls of Matplotlib that take a text, and its position.
DRAW = {"annotate": 0, "set_title": 0, "set_xlabel": 0, "set_ylabel": 0, "suptitle": 0, "set_yticks": 1, "text": -1}
LEAST = {
    "annotate": 2,
    "set_yticks": 2,
    "text": 2,
}  # arguments; with fewer, the call is none of Matplotlib's, or without text
DRAW_BY_KEYWORD = {"label", "title", "xlabel", "ylabel"}


def past_the_console(tree: ast.AST) -> Iterator[str]:
    """Yield what could print a text as mark-up."""
    shows: set[str] = set()  # names imported from rich that need `console=`, or else they print to rich's own
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"{node.lineno} {each.name}" for each in node.names if each.name.split(".")[0] == "rich")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rich":
            allowed = ALLOWED.get(str(node.module), set())
            yield from (f"{node.lineno} {each.name}" for each in node.names if each.name not in allowed)
            shows |= {each.name for each in node.names} & {"Live", "Progress", "track"}
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = {each.arg for each in node.keywords}
            if name == "from_markup" or "markup" in given or (name in shows and "console" not in given):
                yield f"{node.lineno} {name}"


def unmarked_texts(tree: ast.AST) -> Iterator[str]:
    """Yield texts of plots that are neither constant nor the result of `plot_text`."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        texts = [each.value for each in node.keywords if each.arg in DRAW_BY_KEYWORD]
        if node.func.attr in DRAW and len(node.args) >= LEAST.get(node.func.attr, 1):
            texts.append(node.args[DRAW[node.func.attr]])
        yield from (f"{node.lineno} {ast.unparse(text)}" for text in texts if has_unmarked_name(text))


def has_unmarked_name(text: ast.AST) -> bool:
    """Return whether a variable stands in an expression outside of `plot_text(...)`, other than a module's constant."""
    if isinstance(text, ast.Call) and ast.unparse(text.func) == "plot_text":
        return False
    if isinstance(text, ast.ListComp):
        return has_unmarked_name(text.elt)
    if isinstance(text, ast.Name) and not text.id.isupper() and text.id != "list":
        return True
    return any(map(has_unmarked_name, ast.iter_child_nodes(text)))


def product(trees, marker=""):
    return {
        path: tree
        for path, tree in trees.items()
        if not path.startswith(("tests/", "scripts/recipes/")) and path != HOME and marker in ast.unparse(tree)
    }


def test_no_text_is_printed_as_markup(trees):
    found = {path: lines for path, tree in product(trees).items() if (lines := list(past_the_console(tree)))}
    assert found == {}, f"print with `wide_console` of {HOME}, and show tasks with its `TaskText`"


def test_no_text_of_a_plot_is_mathematics(trees):
    found = {
        path: lines
        for path, tree in product(trees, "matplotlib").items()
        if path != PILLOW
        if (lines := list(unmarked_texts(tree)))
    }
    assert found == {}, f"draw texts with `plot_text` of {HOME}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from rich import print", ["1 print"]),
        ("Text.from_markup(x)", ["1 from_markup"]),
        ("console.print(x, markup=True)", ["1 print"]),
        ("from rich.progress import Progress\nProgress(bar, console=c)", []),
    ],
)
def test_a_way_past_the_console_is_seen(source, found):
    assert list(past_the_console(ast.parse(source))) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("axes.plot(x, label=f'{run.name}')", ["1 f'{run.name}'"]),
        ("axes.set_yticks(x, [each for each in y])", ["1 [each for each in y]"]),
        ("axes.set_title(plot_text(name))\naxes.plot(x, label=BOUND)\naxes.set_yticks(x)\naxes.set_xlabel('t')", []),
    ],
)
def test_an_unmarked_text_is_seen(source, found):
    assert list(unmarked_texts(ast.parse(source))) == found
