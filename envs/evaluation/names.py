"""Names in a comparison that a user types."""

from collections.abc import Sequence

from envs.types import MurmurationError, did_you_mean


def find_name(name: str, known: Sequence[str], lacks: str) -> str:
    """Return a name that is known.

    Raises:
        MurmurationError: it is not.
    """
    if name not in known:
        hint = did_you_mean(str(name), known, lead=", ")
        raise MurmurationError(f"comparison: {str(name)[:80]!r} {lacks}{hint}; choose one of {', '.join(known)}")
    return name
