"""Names: public names are unique, and no identifier contains a retired word."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import pytest

PRODUCT = ("envs/", "baselines/", "agents/", "deployment/", "murmuration/", "scripts/")
RECIPES = "scripts/recipes/"

# Public names that several modules may define, and why.
SHARED_NAMES = {
    "main": "the entry point of every script",
    "env": "PettingZoo's name in each environment's package",
    "parallel_env": "PettingZoo's name in each environment's package",
    "raw_env": "PettingZoo's name in each environment's package",
}

# The retired word and the term that replaced it.
RETIRED = {
    **dict.fromkeys(("wish", "wishes"), "allocation or requested"),
    **dict.fromkeys(("server", "servers"), "node"),
    **dict.fromkeys(("speed", "speeds", "pace", "rate", "rates"), "throughput"),
    **dict.fromkeys(("kind", "kinds"), "gpu_type, or the name of what is classified"),
    **dict.fromkeys(("abandoned",), "starved"),
    **dict.fromkeys(("twin", "twins"), "reference implementation"),
    **dict.fromkeys(("luck",), "seed or noise"),
    **dict.fromkeys(("talk", "talks", "talker", "talkers"), "has traffic"),
    **dict.fromkeys(("host", "hosts"), "CPU and memory"),
    **dict.fromkeys(("neighbour", "neighbours"), "co-located jobs"),
}

# Identifiers that may contain a retired word wherever they are, and why.
ALLOWED_IDENTIFIERS = {
    "EventKind": "an event has a kind: arrival, start, resize, stop, finish, failure",
    "_EVENT_KINDS": "the kinds of an event",
    "event_kinds": "the kinds of an event",
    "learning_rate": "of an optimizer, the field's term",
}

# (path, identifier) pairs that are allowed in one file, and why.
OF_EVENTS = [f"envs/simulation/{name}.py" for name in ("reference/log", "world/clock", "world/kernels")]
OF_EVENTS += [f"tests/unit/simulation/{name}.py" for name in ("plays", "test_engine", "test_failures", "test_rules")]
ALLOWED_IN_FILE = {
    ("tests/unit/workloads/test_kubernetes.py", "kind"): "the field of Kubernetes' API",
    ("tests/unit/baselines/test_kueue_objects.py", "kind"): "the field of Kubernetes' API",
    ("tests/conformance/audit.py", "kind"): "the kind of an event",
    **{(path, "kind"): "the kind of an event" for path in OF_EVENTS},
    ("deployment/kubernetes/adapter.py", "kind"): "the field of Kubernetes' API",
    ("murmuration/soak/fuzzing/readers.py", "batch_host"): "the field of squeue --json",
    ("tests/unit/deployment/test_slurm.py", "batch_host"): "the field of squeue --json",
}

# Words with one meaning, and the type of what they name. A setting of a plain type may be called after it, too.
ONE_MEANING = {"plan": "ExecutionPlan", "plans": "ExecutionPlan", "market": "Market"}
PLAIN = {"bool", "int", "str", "None", "Any", "dict", "Mapping", "Component"}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def exported(trees: Mapping[str, ast.Module]) -> set[str]:
    """All names in an `__all__`."""
    found: set[str] = set()
    for node in (node for tree in trees.values() for node in tree.body):
        if "__all__" in assigned(node):
            found |= {str(item.value) for item in ast.walk(node) if isinstance(item, ast.Constant)}
    return found


def assigned(node: ast.stmt) -> list[str]:
    """Names that a statement of a module's body assigns."""
    single = [node.target] if isinstance(node, ast.AnnAssign | ast.AugAssign) else []
    targets = node.targets if isinstance(node, ast.Assign) else single
    return [target.id for target in targets if isinstance(target, ast.Name)]


def public_names(tree: ast.Module, constants: set[str]) -> set[str]:
    """Public top-level classes, functions and type aliases of a module, and its constants that an `__all__` exports.

    A type alias is an assigned name in CapWords.
    """
    names = {node.name for node in tree.body if isinstance(node, Definition)}
    for name in (name for node in tree.body for name in assigned(node)):
        if name in constants or re.fullmatch(r"[A-Z]+[a-z]\w*", name):
            names.add(name)
    return {name for name in names if not name.startswith("_")}


def shared_names(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Public names that several modules define: name -> paths."""
    constants = exported(trees)
    definitions: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for name in public_names(tree, constants):
            definitions[name].append(path)
    return {name: sorted(paths) for name, paths in sorted(definitions.items()) if len(paths) > 1}


def words(identifier: str) -> list[str]:
    """The words of an identifier in lower case: parts between `_`, and within them parts that begin with a capital."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def retired(identifier: str) -> list[str]:
    """The retired words in an identifier."""
    return [word for word in words(identifier) if word in RETIRED]


def given_names(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, identifier) of everything that a file names: itself, definitions, arguments, variables, attributes, keys.

    Uses are not included. Our own names are found where they are defined, and names of libraries are not ours.
    """
    yield from ((0, part) for part in PurePosixPath(path).with_suffix("").parts)
    for node in ast.walk(tree):
        fields = ["asname"] if isinstance(node, ast.alias | ast.keyword) else ["name", "arg", "asname"]
        if isinstance(getattr(node, "ctx", None), ast.Store):
            fields = ["id", "attr"]
        names = [getattr(node, field, None) for field in fields]
        names += [getattr(key, "value", None) for key in getattr(node, "keys", ())]
        yield from (
            (getattr(node, "lineno", 1), name) for name in names if isinstance(name, str) and name.isidentifier()
        )


def retired_words(trees: Mapping[str, ast.Module]) -> list[str]:
    """Identifiers with a retired word that are not on an allow-list: once per file, with the first line."""
    found: dict[tuple[str, str], int] = {}
    for path, tree in trees.items():
        for line, name in given_names(path, tree):
            if retired(name) and name not in ALLOWED_IDENTIFIERS and (path, name) not in ALLOWED_IN_FILE:
                found.setdefault((path, name), line)
    return [f"{path}:{line} {name}" for (path, name), line in found.items()]


def other_meanings(trees: Mapping[str, ast.Module]) -> list[str]:
    """Annotated arguments, fields and variables whose name has one meaning and whose type is another one's."""
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.arg(arg=name, annotation=ast.expr() as annotation):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=annotation):
                    pass
                case _:
                    continue
            types = ast.unparse(annotation)
            plain = set(re.findall(r"\w+", types)) <= PLAIN
            if name in ONE_MEANING and ONE_MEANING[name] not in types and not plain:
                found.append(f"{path}:{node.lineno} {name}: {types}")
    return found


@pytest.fixture(scope="module")
def product(trees):
    """The files of the product, without its tests and recipes, each of which stands alone."""
    return {path: tree for path, tree in trees.items() if path.startswith(PRODUCT) and not path.startswith(RECIPES)}


def test_no_two_public_things_share_a_name(product):
    shared = shared_names(product)
    assert {name: paths for name, paths in shared.items() if name not in SHARED_NAMES} == {}


def test_no_identifier_contains_a_retired_word(trees):
    assert retired_words(trees) == []


def test_words_with_one_meaning_name_nothing_else(trees):
    assert other_meanings(trees) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("self.market: Prices = 0", ["a.py:1 market: Prices"]),
        ("def f(plan: ExecutionPlan | None, plans: int = 4): pass", []),
    ],
)
def test_another_meaning_of_a_word_is_seen(source, found):
    assert other_meanings({"a.py": ast.parse(source)}) == found


def test_what_is_allowed_is_needed(product, trees):
    assert set(SHARED_NAMES) - set(shared_names(product)) == set()
    given = ((path, name) for path, tree in trees.items() for _, name in given_names(path, tree) if retired(name))
    others = {(path, name) for path, name in given if path != "tests/architecture/test_names.py"}
    assert set(ALLOWED_IN_FILE) - others == set()
    assert set(ALLOWED_IDENTIFIERS) - {name for _, name in others} == set()


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("Records = list[int]", "class Records: pass", ["Records"]),
        ("__all__ = ['A']\n__all__ += ['DAY']\nDAY = 1", "DAY: int = 1", ["DAY"]),
        ("from b import World\nclass A:\n    def play(self): pass", "class World: pass\ndef play(): pass", []),
    ],
)
def test_a_shared_name_is_seen(first, second, shared):
    trees = {"a.py": ast.parse(first), "b.py": ast.parse(second)}
    assert shared_names(trees) == {name: ["a.py", "b.py"] for name in shared}


@pytest.mark.parametrize(
    ("identifier", "found"),
    [
        ("rate_among_neighbours", ["rate", "neighbours"]),
        ("GPUKind", ["kind"]),
        ("speedup_of_space", []),
    ],
)
def test_a_retired_word_is_found_in_an_identifier(identifier, found):
    assert retired(identifier) == found


FORMS = """class Wish: pass
def f(*, pace=1): pass
[1 for speed in x]
self.luck = 1
import allocation as twin
{'rate': 1}
x.sort(kind='stable'), print(parameter.kind), 'server', x['server']
"""


def test_a_retired_word_is_seen_wherever_a_name_is_given(monkeypatch):
    found = retired_words({"envs/hosts.py": ast.parse(FORMS)})
    assert {each.rpartition(" ")[2] for each in found} == {"hosts", "Wish", "pace", "rate", "luck", "speed", "twin"}
    monkeypatch.setitem(ALLOWED_IN_FILE, ("a.py", "host"), "a name of Ray's")
    trees = {path: ast.parse("host = EventKind = 1") for path in ("a.py", "b.py")}
    assert retired_words(trees) == ["b.py:1 host"]
