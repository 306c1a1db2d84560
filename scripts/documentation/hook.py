"""MkDocs' hook: adds tasks, notebooks, the reference and pages from elsewhere in the repository, and rewrites links.

mkdocs.yml names this file. Its `extra.pages` has the pages outside `docs/`: path in the repository -> place on site.
"""

import csv
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # MkDocs loads this file by its path

from documentation.links import rewritten
from documentation.reference import MODULES, documented_paths, place_of, reference_pages

TASKS, TABLES = "conf/task", "baselines/records"  # folders of the definitions and tables of tasks
NOTEBOOKS = "notebooks"  # folder, in the repository and on the site
PANDAS_TABLE = '<table border="1" class="dataframe">'  # the theme styles tables without a class
PANDAS_STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.DOTALL)


def repository_of(config: MkDocsConfig) -> Path:
    """Return the folder that holds mkdocs.yml."""
    return Path(config.config_file_path).parent


def moved_pages(config: MkDocsConfig) -> dict[str, str]:
    """Return the pages outside `docs/`: path in the repository -> place on the site."""
    root = repository_of(config)
    return {**config.extra["pages"], **notebook_pages(root), **task_pages(root)}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the reference, the notebooks and the tasks to their sections of the navigation."""
    root, reference = repository_of(config), [place_of(module) for module in MODULES]
    notebooks, tasks = list(notebook_pages(root).values()), list(task_pages(root).values())
    fill(config.nav or [], {"Reference": reference, "Notebooks": notebooks, "Tasks": tasks})
    return config


def fill(nav: list[Any], added: Mapping[str, list[str]]) -> None:
    """Add pages to the sections of a navigation, at any depth, by the title of the section."""
    for section in nav:
        for title, pages in section.items() if isinstance(section, dict) else ():
            if isinstance(pages, list):
                fill(pages, added)
                pages += added.get(title, [])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of `extra.pages`, the notebooks, and one page for each task and each package of the reference."""
    root = repository_of(config)
    named: dict[str, str] = config.extra["pages"]
    pages = [(place, (root / path).read_text(encoding="utf-8")) for path, place in named.items()]
    for place, content in [*pages, *reference_pages(root), *notebook_files(root), *task_files(root)]:
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


def notebook_pages(root: Path) -> dict[str, str]:
    """Return the place on the site of each notebook of a repository, by its path in the repository."""
    names = sorted(file.stem for file in (root / NOTEBOOKS).glob("*.ipynb"))
    return {f"{NOTEBOOKS}/{name}.ipynb": f"{NOTEBOOKS}/{name}.md" for name in names}


def notebook_files(root: Path) -> Iterator[tuple[str, str | bytes]]:
    """Yield (place on the site, content) of a page for each notebook, and of its stored pictures; nothing is run."""
    for path, place in notebook_pages(root).items():
        name = Path(path).stem
        text, resources = MarkdownExporter().from_filename(str(root / path), {"unique_key": name})
        yield place, PANDAS_STYLE.sub("", text).replace(PANDAS_TABLE, "<table>")
        for picture, content in resources["outputs"].items():
            yield f"{NOTEBOOKS}/{picture}", content


def task_pages(root: Path) -> dict[str, str]:
    """Return the place on the site of each task, by the path of its definition in the repository."""
    names = sorted(file.stem for file in (root / TASKS).glob("*.yaml"))
    return {f"{TASKS}/{name}.yaml": f"tasks/{name}.md" for name in names if name != "none"}


def task_files(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (place on the site, content) of a page for each task: its purpose, table and definition."""
    for path, place in task_pages(root).items():
        name, definition = Path(path).stem, (root / path).read_text(encoding="utf-8")
        _, about, *_ = definition.splitlines()
        table = root / TABLES / f"{name}.csv"
        shown = show_table(table.read_text(encoding="utf-8")) if table.exists() else "It is not recorded yet."
        yield place, f"# {name}\n\n{about.removeprefix('# ')}\n\n{shown}\n\n```yaml\n{definition}```\n"


def show_table(text: str) -> str:
    """Return a table of `scripts/tasks.py --tables` as Markdown: a line with a hash, notes, CSV."""
    _, notes, *table = text.splitlines()
    head, *rows = csv.reader(table)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join([*(f"| {' | '.join(cells)} |" for cells in lines), "", notes.removeprefix("# ")])
