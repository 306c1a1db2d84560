"""Files of strangers as plain data: read without running or importing anything, and within bounds.

OmegaConf and Hydra interpret texts: one that contains `${` can import modules, call functions and read the environment.
So what was read from a run folder meets them only after all of it has passed through this module.
"""

import json
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from murmuration.config.errors import ChoiceError

LARGEST_CONFIGURATION = 256 * 1024  # bytes; one with all schedulers has about 10,000
LARGEST_FIGURES = 64 * 1024 * 1024  # bytes of a JSON file
DEEPEST = 24  # levels of lists and mappings
MOST_VALUES = 20_000  # of a configuration
LONGEST_TEXT = 4096  # characters of one value
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")  # of the top level
REFERENCE = re.compile(r"\$\{oc\.select:([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*), ?(-?\d{1,9}(?:\.\d{1,9})?)\}")
# Like PyYAML's safe loader, but as OmegaConf writes: 1e3 is a number, and a date is a text.
_EXPONENT = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)[eE][-+]?\d+")
_TAG = "tag:yaml.org,2002:"
_SCALARS = tuple(_TAG + name for name in ("null", "bool", "int", "float", "str"))
MISSING = "???"  # OmegaConf's sign for a value that the command line must give
MAY_MISS = ("checkpoint",)


def read_configuration(path: Path) -> dict[str, Any]:
    """Read the configuration of an earlier run as plain values: texts, numbers, true or false, null, lists, mappings.

    The earlier versions' only reference, `${oc.select:key,number}`, is replaced by what it refers to.

    Raises:
        ChoiceError: the file cannot be read, is no mapping, is out of bounds, or holds any other reference, an alias, a
            tag, or a key that is no name.
    """
    content = read_unfilled(path)
    cluster = content.get("cluster")
    groups = cluster.get("groups") if isinstance(cluster, dict) else None
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict):
            group.pop("nodes_per_rack", None)  # of earlier versions; it had no effect
    return {name: fill_references(value, content) for name, value in content.items()}


def read_unfilled(path: Path) -> dict[str, Any]:
    """Read a configuration without replacing the earlier versions' references, for its hash.

    Raises:
        ChoiceError: see `read_configuration`.
    """
    text = _read_text(path, LARGEST_CONFIGURATION)
    try:
        found = _Composer(text).compose()
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise ChoiceError(f"{path}: cannot be read ({' '.join(str(error).split())[:200]})") from error
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ChoiceError(f"{path}: is no configuration; it must have keys such as cluster and workload")
    if wrong := [name for name in found if not KEY.fullmatch(name)]:  # OmegaConf reads `[trust]` as the key `trust`
        raise ChoiceError(f"{path}: {shorten(wrong[0])} is no key of a configuration; remove it")
    for key, value in walk(found):
        if isinstance(value, str) and is_unsafe(value) and not REFERENCE.fullmatch(value):
            raise ChoiceError(
                f"{path}: {key} is {shorten(value)}; a recalled configuration may hold no ${{...}}: write the value"
            )
        if isinstance(value, str) and ("\0" in value or (value == MISSING and key not in MAY_MISS)):
            raise ChoiceError(f"{path}: {key} is {shorten(value)}, which is no value; write one there")
    return found


def check_aliases(path: Path) -> None:
    """Check that a YAML file of the user's own is within bounds once every alias is replaced by what it stands for.

    Hydra recurses into values and copies what aliases stand for. It says what else is wrong with a file.

    Raises:
        ChoiceError: the file is too large, nested too deeply, or has too many values.
    """
    text = _read_text(path, LARGEST_CONFIGURATION)
    sizes: dict[str, tuple[int, int]] = {}  # by anchor: values, levels
    open_nodes: list[tuple[str | None, int, int]] = [(None, 0, 0)]  # anchor, values and levels so far
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
                open_nodes.append((event.anchor, 1, 1))
            elif isinstance(event, yaml.ScalarEvent):
                _add_node(open_nodes, sizes, event.anchor, 1, 0)
            elif isinstance(event, yaml.AliasEvent):
                _add_node(open_nodes, sizes, None, *sizes.get(str(event.anchor), (MOST_VALUES + 1, 0)))
            elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                _add_node(open_nodes, sizes, *open_nodes.pop())
            if len(open_nodes) - 1 > DEEPEST or open_nodes[-1][2] > DEEPEST:
                raise ChoiceError(f"{path}: is nested more than {DEEPEST} levels deep; write it with fewer levels")
            if open_nodes[-1][1] > MOST_VALUES:
                raise ChoiceError(
                    f"{path}: has more than {MOST_VALUES:,} values once aliases are replaced; write it with fewer"
                )
    except yaml.YAMLError:
        return


def _add_node(
    open_nodes: list[tuple[str | None, int, int]],
    sizes: dict[str, tuple[int, int]],
    anchor: str | None,
    values: int,
    levels: int,
) -> None:
    """Count a node that has ended in the node around it, and keep its size under its anchor."""
    if anchor is not None:
        sizes[anchor] = (values, levels)
    above, others, deepest = open_nodes[-1]
    open_nodes[-1] = (above, others + values, max(deepest, levels + 1))


def load_json(path: Path) -> Any:
    """Read a JSON file of a run folder.

    Raises:
        ChoiceError: it cannot be read, is too large, is nested too deeply, or is no JSON.
    """
    text = _read_text(path, LARGEST_FIGURES)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ChoiceError(f"{path}: cannot be read ({' '.join(str(error).split())[:200]})") from error
    if depth_of(found) > DEEPEST:
        raise ChoiceError(f"{path}: cannot be read (it is nested more than {DEEPEST} levels deep)")
    return found


def is_unsafe(text: str) -> bool:
    """Whether OmegaConf would interpret a text instead of taking it as it is."""
    return "${" in text


def check_resolved(values: Mapping[Any, Any]) -> None:
    """Check that the resolved configuration of a new run is plain: read again, it must mean the same.

    Raises:
        ChoiceError: names the key of a text that OmegaConf would interpret.
    """
    for key, value in walk(values):
        if isinstance(value, str) and is_unsafe(value):
            raise ChoiceError(f"{key} is {shorten(value)}; no value of a configuration may contain ${{")


def fill_references(value: Any, content: Mapping[str, Any]) -> Any:
    """Return a plain value with the number in place of every `${oc.select:key,number}` in it.

    Args:
        value: of a configuration; it is not changed.
        content: the whole configuration. A number in it at the key counts, else the number behind the comma.
    """
    if isinstance(value, dict):
        return {name: fill_references(each, content) for name, each in value.items()}
    if isinstance(value, list):
        return [fill_references(each, content) for each in value]
    if not isinstance(value, str) or not (found := REFERENCE.fullmatch(value)):
        return value
    there: Any = content
    for name in found[1].split("."):
        there = there.get(name) if isinstance(there, dict) else None
    default = float(found[2]) if "." in found[2] else int(found[2])
    return there if isinstance(there, int | float) and not isinstance(there, bool) else default


def walk(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of plain data with its value, inner ones too; keys are like `cluster.groups[0].gpus`."""
    items: Any = ()
    if isinstance(node, Mapping):
        items = ((f"{key}.{name}" if key else str(name), value) for name, value in node.items())
    elif isinstance(node, list | tuple):
        items = ((f"{key}[{index}]", value) for index, value in enumerate(node))
    for inner, value in items:
        yield inner, value
        yield from walk(value, inner)


def depth_of(node: Any) -> int:
    """Return how many levels of lists and mappings plain data has."""
    level, depth = [node], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
        depth += 1
    return depth


def shorten(value: Any) -> str:
    """Return a value as Python writes it, cut to 80 characters, for messages."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _read_text(path: Path, most: int) -> str:
    """Read a text file; never a device or a pipe, which may have no end.

    Raises:
        ChoiceError: it is missing, no file, too large, or not in UTF-8.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ChoiceError(f"{path}: cannot be read (it is no file)")
        with path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ChoiceError(f"{path}: cannot be read (it has more than {most:,} bytes)")
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise ChoiceError(f"{path}: cannot be read ({reason})") from error


class _Composer:
    """Builds plain data from the events of PyYAML's parser, which themselves neither construct nor recurse."""

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._scalars = yaml.SafeLoader("")
        self._num_values = 0

    def compose(self) -> Any:
        """Return the content of the only document; None if there is none.

        Raises:
            YAMLError: it is no YAML, or is more than plain data within bounds.
            ValueError: a number is too long.
        """
        found: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.StreamStartEvent | yaml.StreamEndEvent | yaml.DocumentEndEvent):
                continue
            if isinstance(event, yaml.DocumentStartEvent):
                if found:
                    raise yaml.YAMLError("it has several documents")
                continue
            found.append(self._value(event, 0))
        return found[0] if found else None

    def _value(self, event: Any, depth: int) -> Any:
        self._num_values += 1
        if self._num_values > MOST_VALUES:
            raise yaml.YAMLError(f"it has more than {MOST_VALUES:,} values")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise yaml.YAMLError(f"an alias or anchor in line {event.start_mark.line + 1}; write the value itself")
        if event.tag is not None:
            raise yaml.YAMLError(f"the tag {shorten(event.tag)} in line {event.start_mark.line + 1}; leave it out")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if depth >= DEEPEST:
            raise yaml.YAMLError(f"it is nested more than {DEEPEST} levels deep")
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(each, depth + 1) for each in self._until(yaml.SequenceEndEvent)]
        return self._mapping(depth + 1)

    def _until(self, end: type) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _mapping(self, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for event in self._until(yaml.MappingEndEvent):
            key = self._value(event, depth)
            if isinstance(key, bool) or not isinstance(key, int | str) or (isinstance(key, str) and is_unsafe(key)):
                raise yaml.YAMLError(f"the key {shorten(key)}, which is no name")
            if key in found:
                raise yaml.YAMLError(f"the key {shorten(key)} twice")
            found[key] = self._value(next(self._events), depth)
        if len({type(key) for key in found}) > 1:
            raise yaml.YAMLError("keys of one mapping that are names and numbers")
        return found

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if len(text) > LONGEST_TEXT:
            raise yaml.YAMLError(f"a text of {len(text):,} characters, at most {LONGEST_TEXT:,} are read")
        if not event.implicit[0]:  # it is in quotes
            return text
        if _EXPONENT.fullmatch(text):
            return float(text)
        tag = self._scalars.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        return self._scalars.construct_object(yaml.ScalarNode(tag, text)) if tag in _SCALARS else text
