"""The error message for an unknown name."""

from collections.abc import Iterable

from envs.types import did_you_mean


def describe_unknown(category: str, name: str, known: Iterable[str]) -> str:
    """Return one line with the unknown name, all known names and, if there is one, the most similar name."""
    names = list(known)
    hint = did_you_mean(name, names, quoted=True)
    return f"{category} {name!r} has no figures; known: {', '.join(names)}{hint}"
