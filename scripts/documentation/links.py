"""Links of pages: relative paths in the repository, rewritten for the site."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r" *(?P<mark>```+|~~~+)")
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|#|/")  # another site, the page itself, or the root of a site
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
PAGES = "docs/"


def blocks(markdown: str) -> Iterator[tuple[bool, str]]:
    """Yield the page in parts: whether a part is text rather than a block of code, and the part."""
    for is_text, lines in groupby(_lines(markdown), key=lambda line: line[0]):
        yield is_text, "".join(line for _, line in lines)


def _lines(markdown: str) -> Iterator[tuple[bool, str]]:
    fence = ""
    for line in markdown.splitlines(keepends=True):
        found = FENCE.match(line)
        mark = found["mark"] if found else ""
        yield not (fence or mark), line
        if not fence:
            fence = mark
        elif mark.startswith(fence) and line.strip() == mark:
            fence = ""


def rewritten(
    markdown: str, path: str, place: str, site: Collection[str], moved: Mapping[str, str], repository: str | None
) -> str:
    """Return a page with links for the site.

    A link to a page or picture of the site leads to its place there. Another link leads to the repository if that
    has an address; otherwise its text remains, with the path of the file.

    Args:
        markdown: the page.
        path: the page's path in the repository, such as "docs/world.md".
        place: its place on the site, such as "world.md".
        site: the places of all pages and pictures of the site.
        moved: path in the repository -> place on the site, of what is not in `docs/`: pages, and code with a reference.
        repository: the address of the repository; None if it has none.
    """

    def replace(found: re.Match[str]) -> str:
        file, mark, anchor = found["target"].partition("#")
        if OUTSIDE.match(found["target"]):
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        new = moved.get(target, target.removeprefix(PAGES))
        if target in site and target == posixpath.normpath(posixpath.join(posixpath.dirname(place), file)):
            return found[0]  # a picture that was made beside its page, as those of notebooks
        if target in moved or (target.startswith(PAGES) and new in site):
            relative = posixpath.relpath(new, posixpath.dirname(place) or ".")
            return f"{found['image']}[{found['text']}]({relative}{mark}{anchor})"
        if target.startswith(PAGES):
            return found[0]  # not there: MkDocs reports it
        if repository:
            return f"[{found['text']}]({repository.rstrip('/')}/blob/HEAD/{target}{mark}{anchor})"
        known = found["text"].strip("`") in (target, posixpath.basename(target))
        return f"`{target}`" if known else f"{found['text']} (`{target}`)"

    return "".join(_outside_code(part, replace) if is_text else part for is_text, part in blocks(markdown))


def _outside_code(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    """Replace the links of a text, except for those within a span of code."""
    spans = [span.span() for span in CODE.finditer(text)]

    def checked(found: re.Match[str]) -> str:
        return found[0] if any(start < found.start() < end for start, end in spans) else replace(found)

    return LINK.sub(checked, text)
