"""Changes of documents and bytes, as a stranger could write them."""

import random
from collections.abc import Sequence
from typing import Any


def change_value(rng: random.Random, value: Any, odd: Sequence[Any]) -> Any:
    """Return a document with one value, name or entry changed, dropped or repeated.

    Args:
        rng: draws the change.
        value: the document, in plain values.
        odd: values that take the place of others.
    """
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        if isinstance(value, list):
            copies = [change_value(rng, value[at], odd)] * rng.choice([0, 1, 1, 1, 1, 1, 2])
            return [*value[:at], *copies, *value[at + 1 :]]
        name = list(value)[at]
        other = rng.choice([name, "999", "-1", "gpus"]) if rng.random() < 0.1 else name
        changed = {} if rng.random() < 0.1 else {other: change_value(rng, value[name], odd)}
        return {each: kept for each, kept in value.items() if each != name} | changed
    if isinstance(value, int | float) and rng.random() < 0.3:
        return (
            value + rng.randint(-3, 19) if rng.random() < 0.5 else min(value, 10**300) * 10.0 ** rng.randint(-300, 299)
        )
    return rng.choice(odd)


def spoil_bytes(content: bytes, rng: random.Random) -> bytes:
    """Replace up to three pieces of a content, and cut one in five."""
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(content) + 1)
        piece = rng.choice((b"", b"\xff", b"\0", b'"', b"}", b"9" * 5000, b"\n", b"-", b"[" * 5000))
        content = content[:place] + piece + content[place + rng.randint(0, 3) :]
    return content[: rng.randrange(len(content) + 1)] if rng.random() < 0.2 else content
