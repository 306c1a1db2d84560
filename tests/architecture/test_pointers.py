"""Modules, names and files that docstrings and pages point to exist."""

import ast
import re
from importlib import import_module
from importlib.util import find_spec

import pytest

PACKAGES = ("envs", "agents", "baselines", "deployment")
FILES = (".py", ".md", ".yaml", ".csv", ".json", ".png", ".log", "/")
POINTER = re.compile(r"`([A-Za-z_][\w./-]*)`")
FOLDERS = (*PACKAGES, "conf", "docs", "notebooks", "scripts", "tests")
SAVED = re.compile(r"`([\w./]+)`:\n")  # a recipe's file, which its text follows
PLACED = re.compile(r"`(\w+)` (?:in|of) `([\w/]+/\w+\.py)`")
STEP = re.compile(r"\| `([\w/]+\.py)` \| `([\w.]+)`(.*) \|$", re.MULTILINE)  # of a table: a file, and a name in it


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


def dangling_on_page(text, repository):
    """List files, folders, modules and names that a page points to and that are not there."""
    for pointer in sorted({*POINTER.findall(text)} - {*SAVED.findall(text)}):
        first = re.split(r"[./]", pointer)[0]
        if "/" in pointer and first in FOLDERS:
            found = (repository / pointer).exists() or (repository / f"{pointer}.py").exists()
        elif "." in pointer and first in PACKAGES and not pointer.endswith(FILES):
            found = is_name(pointer)
        else:
            continue
        if not found:
            yield pointer


def misplaced(text, trees):
    """List names that a page says are in a file, in the words "`name` in `file`", and that are not."""
    for name, path in PLACED.findall(text):
        if path not in trees or name not in names_of(trees[path]):
            yield f"{path} {name}"


def names_of(tree):
    """The names that the statements of a module define."""
    for node in tree.body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        yield from (getattr(node, "name", None), *(getattr(target, "id", None) for target in targets))


def definition(dotted, body):
    """The function or class of a dotted name in a module's or a class's body; None if it is not there."""
    first, _, rest = dotted.partition(".")
    found = next((node for node in body if getattr(node, "name", "") == first), None)
    return definition(rest, found.body) if found and rest else found


def wrong_steps(text, trees):
    """The rows of a page's tables whose file does not define the name, or whose other names have nothing to do with it.

    Such a row reads: | ... | `file` | `name`, called by `other name` |. Of the two names one must use the other.
    """
    for path, name, others in STEP.findall(text):
        own = definition(name, trees[path].body) if path in trees else None
        if own is None:
            yield f"{path} {name}"
            continue
        for other in POINTER.findall(others):
            last = other.rpartition(".")[2]
            found = [node for tree in trees.values() if (node := definition(other, tree.body))]
            if not any(uses(node, own.name) for node in found) and not (found and uses(own, last)):
                yield f"{path} {name} {other}"


def uses(node, name):
    """Whether a definition contains a name."""
    return any(name in (getattr(each, "id", ""), getattr(each, "attr", "")) for each in ast.walk(node))


@pytest.fixture(scope="module")
def pages(repository):
    paths = (*(repository / "docs").rglob("*.md"), *(repository / name for name in ("README.md", "CONTRIBUTING.md")))
    return {path.relative_to(repository).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_pages_point_to_what_there_is(pages, repository):
    assert [(path, found) for path, text in pages.items() for found in dangling_on_page(text, repository)] == []


def test_pages_name_the_right_files(pages, trees):
    assert sum(len(PLACED.findall(text)) for text in pages.values()) >= 10
    assert [(path, found) for path, text in pages.items() for found in misplaced(text, trees)] == []


def test_the_paths_of_a_job_an_action_and_a_setting_are_those_of_the_code(pages, trees):
    text = pages["docs/architecture.md"]
    assert len(STEP.findall(text)) >= 20, "the tables have another form"
    assert list(wrong_steps(text, trees)) == []


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("| a | `envs/simulation/world/state.py` | `State.log`, called by `SimulatedEpisode.result` |", []),
        (
            "| a | `envs/simulation/world/state.py` | `State.log`, called by `SimulatedEpisode.apply` |",
            ["envs/simulation/world/state.py State.log SimulatedEpisode.apply"],
        ),
    ],
)
def test_a_wrong_step_is_seen(row, found, trees):
    assert list(wrong_steps(f"{row}\n", trees)) == found


def test_a_stale_pointer_on_a_page_is_seen(repository):
    text = "See `docs/world.md`, `envs.simulation.State`, `docs/word.md`, `envs.simulation.settle` and `results.json`."
    assert list(dangling_on_page(text, repository)) == ["docs/word.md", "envs.simulation.settle"]


def test_a_wrong_file_is_seen(trees):
    places = ("envs/simulation/world/state.py", "envs/simulation/world/arrays.py")
    text = "`State` in `{}`, `State` of `{}`, `f` in `envs/absent.py`".format(*places)
    assert list(misplaced(text, trees)) == ["envs/simulation/world/arrays.py State", "envs/absent.py f"]


def test_docstrings_point_to_what_there_is(trees, repository):
    ours = {path: tree for path, tree in trees.items() if path.startswith(tuple(f"{name}/" for name in PACKAGES))}
    assert [found for path, tree in ours.items() for found in dangling(path, tree, repository)] == []


def test_a_variable_named_like_a_module_is_no_pointer(repository):
    tree = ast.parse('def f(state):\n    """What `state.anything` holds."""')
    assert list(dangling("envs/simulation/world/kernels.py", tree, repository)) == []
    tree = ast.parse('def f(other):\n    """What `state.anything` holds."""')
    assert list(dangling("envs/simulation/world/kernels.py", tree, repository)) == [
        "envs/simulation/world/kernels.py:2 state.anything"
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See `envs.types.NodeSpec.num_gpus` and `envs.types.NodeSpec.num_cpus`.", ["envs.types.NodeSpec.num_cpus"]),
        ("See `docs/`, `docs/absent/`, `docs/word.md` and `output.csv`.", ["docs/absent/", "docs/word.md"]),
        ("A plain `word`, `samples/s`, `x.y` and a folder `output/` of a run.", []),
    ],
)
def test_a_stale_pointer_is_seen(text, found, repository):
    tree = ast.parse(f'"""{text}"""')
    assert list(dangling("envs/simulation/world/kernels.py", tree, repository)) == [
        f"envs/simulation/world/kernels.py:1 {pointer}" for pointer in found
    ]
