"""What an installation without the extra `learn` lacks."""

MODULES = ("ray", "safetensors", "torch")  # all else that is imported is a dependency of everything
INSTALL = "pip install -c constraints.txt -e '.[learn]'"


def missing(error: BaseException) -> str | None:
    """One line for an import that failed because the extra is not installed; None for any other error."""
    if not isinstance(error, ModuleNotFoundError) or (error.name or "").partition(".")[0] not in MODULES:
        return None
    return f"{error.name} is not installed; training and trained policies need it: {INSTALL}"
