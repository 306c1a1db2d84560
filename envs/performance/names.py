"""One line for a name that nobody knows: what it is, what is allowed, what was probably meant."""

import difflib
from collections.abc import Iterable


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown name, with the near miss if there is one and all known names otherwise."""
    names = list(known)
    lowered = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    hint = f"; did you mean {lowered[close[0]]!r}?" if close else ""
    return f"{kind} {name!r} has no figures; known: {', '.join(names)}{hint}"
