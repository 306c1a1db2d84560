"""Checked reading of JSON from strangers: every mistake is one line that names the place, the value and the remedy."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from envs.types import MurmurationError, did_you_mean

LONGEST_VALUE = 60  # characters of a value that a message quotes
MOST_DIGITS = 4000  # of a whole number; Python itself reads 4,300


class ProtocolError(MurmurationError):
    """A message that does not follow the protocol, or a connection that broke."""


def parse_json(text: bytes | str, place: str, *, tolerant: bool = False) -> "Entry":
    """Read one JSON document.

    Args:
        text: the document.
        place: how errors call it.
        tolerant: whether a number that is infinite or too long is read as NaN, so that it damages one entry alone.

    Raises:
        ProtocolError: it is no JSON, or has NaN or an infinite number, for which JSON has no form.
    """

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number in JSON; send null")

    def nan(name: str) -> float:
        return math.nan

    def whole(digits: str) -> float:
        return int(digits) if len(digits) <= MOST_DIGITS else math.nan

    try:
        if tolerant:
            return Entry(json.loads(text, parse_constant=nan, parse_int=whole), place)
        return Entry(json.loads(text, parse_constant=refuse), place)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{place}: is no JSON ({error}); send one JSON object on one line") from None


def quote(value: object) -> str:
    """Return a value as an error shows it: short, and without control characters."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "..."


@dataclass(slots=True)
class Entry:
    """A value of a JSON document, with its place for errors. All methods raise ProtocolError for another form.

    Attributes:
        value: the value.
        name: how errors call it; within `above`, the name of a field with a dot, or an index in brackets.
        above: what it is a part of.
    """

    value: Any
    name: str
    above: "Entry | None" = None

    @property
    def place(self) -> str:
        """How errors call it."""
        return self.name if self.above is None else f"{self.above.place}{self.name}"

    def refuse(self, wanted: str) -> ProtocolError:
        """Return the error for a value of another form than `wanted`."""
        return ProtocolError(f"{self.place} is {quote(self.value)}; it must be {wanted}")

    def field(self, name: str) -> "Entry":
        """Return the value of a field that must be there."""
        content = self._object()
        if name not in content:
            raise ProtocolError(f"{self.place}: has no {name}{did_you_mean(name, content)}; add it")
        return Entry(content[name], f".{name}", self)

    def optional(self, name: str) -> "Entry | None":
        """Return the value of a field; None if it is absent or null."""
        value = self._object().get(name)
        return None if value is None else Entry(value, f".{name}", self)

    def only(self, *names: str) -> None:
        """Check that an object has no other fields than these."""
        content = self._object()
        if content.keys() <= set(names):
            return
        for name in content:
            if name not in names:
                hint = did_you_mean(name, names, lead=", ")
                raise ProtocolError(f"{self.place}: has the field {quote(name)}{hint}; fields are {', '.join(names)}")

    def items(self, most: int = 1_000_000) -> "Iterator[Entry]":
        """Yield the entries of a list."""
        if not isinstance(self.value, list) or len(self.value) > most:
            raise self.refuse(f"a list of at most {most:,} entries")
        return (Entry(value, f"[{i}]", self) for i, value in enumerate(self.value))

    def by_number(self) -> "Iterator[tuple[int, Entry]]":
        """Yield an object whose names are whole numbers, such as nodes."""
        for name, value in self._object().items():
            if not (name.isascii() and name.isdecimal() and len(name) < 10):
                raise ProtocolError(f"{self.place}: has the field {quote(name)}; fields are numbers from 0 on")
            yield int(name), Entry(value, f".{name}", self)

    def whole(self, least: int, most: int) -> int:
        """Return a whole number of a range."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not least <= self.value <= most:
            raise self.refuse(f"a whole number from {least} to {most}")
        return self.value

    def number(self, least: float = 0.0, most: float = math.inf) -> float:
        """Return a finite number of a range."""
        value = self.value
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        try:
            found = float(value) if fits else math.nan
        except OverflowError:
            found = math.nan
        if not (math.isfinite(found) and least <= found <= most):
            raise self.refuse(f"a number from {least:g}" + (f" to {most:g}" if most < math.inf else " on"))
        return found

    def amounts(self, names: Iterable[str], most: float) -> dict[str, float]:
        """Return the fields of an object with these names as numbers from 0 on, without those absent or null."""
        content = self._object()
        found = {}
        for name in names:
            value = content.get(name)
            if value is None:
                continue
            plain = type(value) is float and 0.0 <= value <= most
            found[name] = value if plain else Entry(value, f".{name}", self).number(most=most)
        return found

    def text(self, longest: int = 1000) -> str:
        """Return a text; half a surrogate pair, which cannot be written as UTF-8, becomes a question mark."""
        if not isinstance(self.value, str) or len(self.value) > longest:
            raise self.refuse(f"a text of at most {longest} characters")
        return self.value if self.value.isascii() else self.value.encode("utf-8", "replace").decode()

    def switch(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.refuse("true or false")
        return self.value

    def _object(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.refuse("an object")
        return self.value
