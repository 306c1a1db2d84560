"""Notebooks as pages: their text, code and stored outputs. Nothing is run."""

from collections.abc import Iterator
from pathlib import Path

from nbconvert import MarkdownExporter

FOLDER = "notebooks"


def notebook_pages(root: Path) -> dict[str, str]:
    """Return the place on the site of each notebook of a repository, by its path in the repository."""
    names = sorted(file.stem for file in (root / FOLDER).glob("*.ipynb"))
    return {f"{FOLDER}/{name}.ipynb": f"{FOLDER}/{name}.md" for name in names}


def notebook_files(root: Path) -> Iterator[tuple[str, str | bytes]]:
    """Yield (place on the site, content) of a page for each notebook, and of the pictures of its outputs."""
    for path, place in notebook_pages(root).items():
        name = Path(path).stem
        text, resources = MarkdownExporter().from_filename(str(root / path), {"unique_key": name})
        yield place, text
        for picture, content in resources["outputs"].items():
            yield f"{FOLDER}/{picture}", content
