"""MkDocs' hook: adds the pages that are elsewhere in the repository and the reference, and rewrites links.

mkdocs.yml names this file. Its `extra.pages` has the pages outside `docs/`: path in the repository -> place on site.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # MkDocs loads this file by its path

from documentation.links import rewritten
from documentation.notebooks import notebook_files, notebook_pages
from documentation.reference import MODULES, documented_paths, place_of, reference_pages


def repository_of(config: MkDocsConfig) -> Path:
    """Return the folder that holds mkdocs.yml."""
    return Path(config.config_file_path).parent


def moved_pages(config: MkDocsConfig) -> dict[str, str]:
    """Return the pages outside `docs/`: path in the repository -> place on the site."""
    return {**config.extra["pages"], **notebook_pages(repository_of(config))}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the reference and the notebooks to their sections of the navigation."""
    notebooks = list(notebook_pages(repository_of(config)).values())
    fill(config.nav or [], {"Reference": [place_of(module) for module in MODULES], "Notebooks": notebooks})
    return config


def fill(nav: list[Any], added: Mapping[str, list[str]]) -> None:
    """Add pages to the sections of a navigation, at any depth, by the title of the section."""
    for section in nav:
        for title, pages in section.items() if isinstance(section, dict) else ():
            if isinstance(pages, list):
                fill(pages, added)
                pages += added.get(title, [])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of `extra.pages`, the notebooks, and one page for each package of the reference."""
    root = repository_of(config)
    named: dict[str, str] = config.extra["pages"]
    pages = [(place, (root / path).read_text(encoding="utf-8")) for path, place in named.items()]
    for place, content in [*pages, *reference_pages(root), *notebook_files(root)]:
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page; the front page has no list of pages at its side."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    moved = moved_pages(config)
    place = page.file.src_uri
    path = {place: path for path, place in moved.items()}.get(place, f"docs/{place}")
    places = {**documented_paths(repository_of(config)), **moved}
    return rewritten(markdown, path, place, {file.src_uri for file in files}, places, config.repo_url)
