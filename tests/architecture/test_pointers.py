"""Modules, names and files that docstrings point to exist."""

import ast
import re
from importlib import import_module
from importlib.util import find_spec

import pytest

PACKAGES = ("envs", "agents", "baselines")
FILES = (".py", ".md", ".yaml", ".csv", ".json", ".png", ".log", "/")
POINTER = re.compile(r"`([A-Za-z_][\w./-]*)`")


def docstrings(tree):
    """(line, text) of every docstring, and of every string that stands alone below an assignment."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else []:
            value = child.value if isinstance(child, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield child.lineno, value.value


def is_name(dotted):
    """Whether a dotted name is a module, or what attributes of a module lead to."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = find_spec(".".join(parts[:size])) is not None
        except ModuleNotFoundError:
            continue
        if found:
            thing = import_module(".".join(parts[:size]))
            for part in parts[size:]:
                fields = getattr(thing, "__dataclass_fields__", {}) | getattr(thing, "__annotations__", {})
                if not hasattr(thing, part):
                    return part in fields
                thing = getattr(thing, part)
            return True
    return False


def variables(tree):
    """Names of a file's variables and arguments, which a pointer may begin with as well as with a module's name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def dangling(path, tree, repository):
    """What the docstrings of a file point to and is not there: modules, what they define, and files."""
    folder = path.rpartition("/")[0]
    siblings = {entry.stem for entry in (repository / folder).iterdir()} - set(variables(tree))
    for line, text in docstrings(tree):
        for pointer in POINTER.findall(text):
            first = re.split(r"[./]", pointer)[0]
            here = [base for base in bases(repository, folder) if (base / first).is_dir()]
            if pointer.endswith(FILES):
                # A run's own files and folders are not in the repository.
                found = "/" not in pointer or not here or any((base / pointer).exists() for base in here)
            elif "." in pointer and first in PACKAGES:
                found = is_name(pointer)
            elif "." in pointer and first in siblings:
                found = is_name(f"{folder.replace('/', '.')}.{pointer}")
            else:
                continue
            if not found:
                yield f"{path}:{line} {pointer}"


def bases(repository, folder):
    """Folders in which a file may be named: the repository, and those that hold the file that names it."""
    yield repository
    while folder:
        yield repository / folder
        folder = folder.rpartition("/")[0]


def test_docstrings_point_to_what_there_is(trees, repository):
    ours = {path: tree for path, tree in trees.items() if path.startswith(tuple(f"{name}/" for name in PACKAGES))}
    assert [found for path, tree in ours.items() for found in dangling(path, tree, repository)] == []


def test_a_variable_named_like_a_module_is_no_pointer(repository):
    tree = ast.parse('def f(state):\n    """What `state.anything` holds."""')
    assert list(dangling("envs/simulation/kernels.py", tree, repository)) == []
    tree = ast.parse('def f(other):\n    """What `state.anything` holds."""')
    assert list(dangling("envs/simulation/kernels.py", tree, repository)) == [
        "envs/simulation/kernels.py:2 state.anything"
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See `envs.simulation.Simulator`.", []),
        ("See `envs.simulation.settle`.", ["envs.simulation.settle"]),
        ("See `envs.types.NodeSpec.num_gpus`.", []),
        ("See `envs.types.NodeSpec.num_cpus`.", ["envs.types.NodeSpec.num_cpus"]),
        ("See `jit.jit` and `numpy.array`.", []),
        ("See `jit.absent`.", ["jit.absent"]),
        ("See `docs/world.md` and `envs/simulation/`.", []),
        ("See `docs/word.md`.", ["docs/word.md"]),
        ("See `docs/`, `docs/absent/` and `output.csv` of a run.", ["docs/absent/"]),
        ("A plain `word`, `samples/s`, `x.y` and a folder `output/` of a run.", []),
    ],
)
def test_a_stale_pointer_is_seen(text, found, repository):
    tree = ast.parse(f'"""{text}"""')
    assert list(dangling("envs/simulation/kernels.py", tree, repository)) == [
        f"envs/simulation/kernels.py:1 {pointer}" for pointer in found
    ]
