"""Hostile changes of plain data and of its text, and a guard that sees what reading them does."""

import copy
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

MARK = "owned"  # the file that every attack tries to make in the working directory
CANARY = "stranger"  # the module that every attack tries to import
CODE = f"open('{MARK}', 'w').close()"
TARGETS: tuple[str, ...] = (
    "os.system",
    "builtins.exec",
    f"{CANARY}.Net",
    "this.s",
    "sympy.sympify",
    "hydra.utils.instantiate",
    "",
)
TARGETS += ("runpy.run_path", "envs.simulation.Scenario.__init__", "papers.maifs.improvements", "subprocess.Popen")
TARGETS += ("papers.sia.experiment.sia_workloads", "murmuration.runs.commands.os.system", "..", "a" * 5000)
REFERENCES = (
    "${oc.env:HOME}",
    "x${oc.env:HOME}y",
    "${oc.env:HOME,1}",
    "${oc.decode:${oc.env:HOME}}",
    "${oc.create:'{_target_: this.s}'}",
    f"${{oc.create:'{{_target_: {CANARY}.Net}}'}}",
    f"${{${{cluster.name}}:\"{{_target_: sympy.sympify, a: '{CODE}'}}\"}}",
    "${${oc.select:cluster.name}:1}",
    "${oc.${cluster.name}:HOME}",
    "${oc.select:a,${oc.env:HOME}}",
    "${oc.select:${oc.env:HOME},1}",
    "${oc.select:task.objective.jct,1.0}${oc.env:HOME}",
    "${oc.select:hydra.runtime.cwd,x}",
    "${oc.select:..seed,1}",
    "${oc.select:task.objective.jct}",
    "${oc.dict.values:cluster}",
    "${oc.deprecated:seed}",
    "${hydra:runtime.cwd}",
    "${own_folder:}",
    "${unused:}",
    "${seed}",
    "${.name}",
    "${..seed}",
    "${cluster[groups][0]}",
    "\\${oc.env:HOME}",
    "\\\\${oc.env:HOME}",
    "$${oc.env:HOME}",
    "${",
    "${}",
    "${oc.env:HOME",
    "${ oc.env : HOME }",
    "${oc.env:\nHOME}",
    "???",
)
# Replaced by what they refer to, so they do no harm.
HARMLESS = ("${oc.select:task.objective.jct,1.0}", "${oc.select:seed,3}", "${oc.select:no.such.key, -0.5}")
TEXTS = (
    "",
    "x",
    "\0",
    "a" * 10_000,
    "\x1b[2J",
    "\ud800".encode("utf-8", "replace").decode(),
    "../../etc/passwd",
    "é" * 99,
)
NUMBERS = (0, 1, -1, 3, 10**6, 10**30, 0.0, -0.5, 1e308, 1.5, float("inf"), float("nan"))
KEYS: tuple[str, ...] = (
    "_target_",
    "_args_",
    "_partial_",
    "_convert_",
    "_recursive_",
    "__class__",
    "[trust]",
    "trust",
    "trust[0]",
    "hydra",
)
KEYS += (
    "ray.address",
    "target",
    "a.b",
    "${oc.env:HOME}",
    "",
    "1",
    "record",
    "results",
    "tasks",
    "schedulers",
    "own",
    "<<",
)
TASKS: tuple[str, ...] = (
    "shared-16 workload._target_=this.s",
    "shared-16 hydra.searchpath=[/tmp]",
    "shared-16 +x={_target_:this.s}",
)
TASKS += ("shared-16 scenario.failures=${oc.env:HOME}", "shared-16 agent.target=this.s", "--config-dir /tmp", "..", "")
TASKS += (
    "shared-16 ++workload@trust=x",
    "shared-16 hydra/launcher=x",
    "shared-16 workload.x='a'",
    "shared-16 ~workload",
)


def wrong(rng: random.Random, targets: Sequence[str]) -> Any:
    """Draw a value that may be of another type or size; nodes name only the given targets."""
    match rng.randrange(6):
        case 0 | 1:
            return rng.choice(NUMBERS)
        case 2:
            return rng.choice(["", "x", "1e3", "none", "2020-01-01", "fifo"])
        case 3:
            return rng.choice([None, True, False, [], {}, [1], ["x", "y"], [[]], {"a": 1}, {3: "x"}])
        case 4:
            return rng.choice(targets)
        case _:
            return {"_target_": rng.choice(targets)}


def hostile(rng: random.Random) -> Any:
    """Draw a value that could run something, read something, or need much memory if it were interpreted."""
    node = {"_target_": rng.choice(TARGETS), "a": rng.choice([CODE, rng.choice(REFERENCES)])}
    match rng.randrange(13):
        case 0 | 1 | 2 | 3:
            return rng.choice(REFERENCES)
        case 4:
            return rng.choice(TEXTS)
        case 5:
            return rng.choice(NUMBERS)
        case 6:
            return rng.choice([None, True, False, [], {}, [[]], {"a": {}}, [None], list(range(50))])
        case 7:
            return node
        case 8:
            return [{"x": node}, node]
        case 9:
            return nested(rng.choice([3, 30, 90]), rng.choice([node, rng.choice(REFERENCES)]), rng.random() < 0.5)
        case 10:
            return list(TASKS[: rng.randrange(1, len(TASKS))]) if rng.random() < 0.3 else [rng.choice(TASKS)]
        case 11:
            return rng.choice(TARGETS)
        case _:
            return rng.choice(HARMLESS)


def nested(depth: int, value: Any, lists: bool) -> Any:
    """Return a value within so many lists or mappings."""
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return value


def mutate(rng: random.Random, honest: Any, targets: Sequence[str] = ()) -> Any:
    """Return a copy of plain data with one to three changes: wrong values if there are targets, else attacks."""
    found = copy.deepcopy(honest)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = [
            (node, key) for node in _containers(found) for key in (node if isinstance(node, dict) else range(len(node)))
        ]
        named = [place for place in places if place[1] == "_target_"]
        node, key = rng.choice(named if named and rng.random() < 0.1 else places)
        match rng.randrange(8):
            case 0 | 1 | 2 | 3:
                node[key] = wrong(rng, targets) if targets else hostile(rng)
            case 4 if isinstance(node, dict) and not targets:
                node[rng.choice(KEYS)] = hostile(rng)
            case 5 if isinstance(node, dict) and not targets:
                node[rng.choice([*KEYS, *REFERENCES])] = node.pop(key)
            case 6:
                del node[key]
            case _:
                other, place = rng.choice(places)
                node[key] = copy.deepcopy(other[place]) if not isinstance(place, int) or place < len(other) else None
        if not found:
            break
    return found


def mutate_text(rng: random.Random, text: str) -> bytes:
    """Return the text of a YAML or JSON file with one hostile change of its syntax or its bytes."""
    lines = text.splitlines()
    at = rng.randrange(len(lines))
    match rng.randrange(12):
        case 0:  # a tag
            tags = ("!!python/object/apply:os.system", "!!python/name:os.system", "!!python/object/apply:pathlib.Path")
            lines.insert(at, f'evil: {rng.choice([*tags, "!!binary", "!!set", "!x"])} ["touch {MARK}"]')
        case 1:  # aliases that stand for a billion values
            levels = [f"b{i}: &b{i} [{','.join([f'*b{i - 1}'] * 10)}]" for i in range(1, 10)]
            lines = ["b0: &b0 [x,x]", *levels, *lines]
        case 2:
            lines = ["base: &base", f"  _target_: {rng.choice(TARGETS[:4])}", *lines, "  <<: *base"]
        case 3:  # a mapping that contains itself
            lines.append("self: &self {a: *self}")
        case 4:
            lines = [*lines, "---", *lines]
        case 5:
            lines = [*lines, *lines]
        case 6:
            return "\n".join(lines)[: rng.randrange(len(text))].encode()
        case 7:
            lines.insert(at, "[" * rng.choice([30, 3000, 60_000]))
        case 8:
            lines.insert(
                at, rng.choice(["seed: 1" + "0" * 6000, "? [a, b]\n: c", "1.5: x", "yes: x", "null: x", "\t: x"])
            )
        case 9:
            lines.append("x: '" + "a" * rng.choice([5000, 300_000]) + "'")
        case 10:
            lines.insert(
                0, rng.choice(["%YAML 9.9", "\ufeff", "%TAG ! tag:python/", "!!map", "--- !!python/object:os.x"])
            )
        case _:
            data = bytearray(text, "utf-8")
            for _ in range(rng.randrange(1, 30)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(data)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def as_yaml(content: Any) -> str:
    """Return plain data as YAML that contains its texts unchanged."""
    return yaml.dump(content, Dumper=_Dumper, allow_unicode=True, sort_keys=False)


def _containers(node: Any) -> list[Any]:
    found: list[Any] = []
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, dict | list) and each:
            found.append(each)
            pending += each.values() if isinstance(each, dict) else each
    return found


class Guard:
    """Notes what forbidden things happen within `watching`: imports, writes, commands, reads of the environment."""

    FORBIDDEN: tuple[str, ...] = (
        "import",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "subprocess.Popen",
        "os.mkdir",
        "os.rename",
        "os.remove",
    )
    FORBIDDEN += (
        "os.putenv",
        "socket.connect",
        "shutil.rmtree",
        "os.symlink",
        "os.link",
        "os.truncate",
        "os.chmod",
        "exec",
    )

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._on = False
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event in self.FORBIDDEN:
            self.seen.append(f"{event} {str(arguments[0])[:80]}")
        elif event == "open" and len(arguments) > 2:
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.seen.append(f"open for writing {arguments[0]}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what this process does within the block."""
        environment: Any = type(os.environ)
        before = environment.__getitem__

        def read(mapping: Any, key: Any) -> Any:
            if key != "OC_CAUSE":  # OmegaConf reads it whenever it raises an error
                self.seen.append(f"environment variable {key}")
            return before(mapping, key)

        environment.__getitem__ = read
        self._on = True
        try:
            yield
        finally:
            self._on = False
            environment.__getitem__ = before


def plant(folder: Path) -> None:
    """Put the module that attacks try to import into a folder; it leaves the mark."""
    (folder / f"{CANARY}.py").write_text(f"{CODE}\nclass Net: pass\n")
