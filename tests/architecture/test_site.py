"""The documentation site: it builds without network and warnings, is whole, and loads nothing from other machines."""

import ast
import json
import os
import re
import subprocess
import sys
import threading
import time
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
griffe = pytest.importorskip("griffe", reason="the site needs the extra `docs`")

from documentation.hook import notebook_files  # noqa: E402
from documentation.reference import MODULES, place_of, reference_pages  # noqa: E402
from tests.unit.reports.pages import add_checks, look_at, title_of  # noqa: E402

pytestmark = pytest.mark.slow

NO_NETWORK = """
import socket

def refuse(*_, **__):
    raise OSError("the site is built without network")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""
ELSEWHERE = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//")
CHECKS = """
<script>
setTimeout(() => {
  const found = [], width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width + 1) found.push("page wider than the screen");
  for (const image of document.querySelectorAll("article img"))
    if (!image.naturalWidth) found.push(`no picture: ${image.getAttribute("src")}`);
  let end = 0;
  for (const part of document.querySelectorAll("article > *")) {
    const box = part.getBoundingClientRect();
    if (!box.height || getComputedStyle(part).float !== "none") continue;
    if (box.top < end - 1) found.push(`overlap: ${part.textContent.slice(0, 40)}`);
    if (box.left < -1 || box.right > width + 1) found.push(`beyond the screen: ${part.textContent.slice(0, 40)}`);
    end = box.bottom;
  }
  document.title = JSON.stringify({ parts: document.querySelectorAll("article > *").length, found });
}, 1500);
</script>
"""


SEARCHED = """
<script>
(async () => {
  const results = () => [...document.querySelectorAll(".md-search-result__link")].map((link) => link.href);
  for (let i = 0; i < 40 && !results().length; i++)
    await (location.protocol === "file:" ? new Promise((done) => setTimeout(done, 100)) : fetch(`slow?${i}`));
  const box = document.querySelector(".md-search__input").getBoundingClientRect();
  document.title = JSON.stringify({ results: results(), shown: box.width > 100 });
})();
</script>
"""


class Loaded(HTMLParser):
    """What a page loads, in contrast to where its links lead; and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.addresses, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("src", "srcset", "data", "poster") or (name == "href" and tag == "link"):
                self.addresses.append(value)
            elif name == "id":
                self.anchors.add(value)


@pytest.fixture(scope="module")
def site(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    offline = tmp_path_factory.mktemp("offline")
    (offline / "sitecustomize.py").write_text(NO_NETWORK)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(offline), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site, repository):
    pages = {path.relative_to(repository / "docs").with_suffix(".html") for path in repository.glob("docs/**/*.md")}
    notebooks = {path.relative_to(repository).with_suffix(".html") for path in repository.glob("notebooks/*.ipynb")}
    tasks = {Path("tasks", f"{path.stem}.html") for path in repository.glob("conf/task/*-*.yaml")}
    others = {Path("index.html"), Path("contributing.html"), Path("changelog.html"), Path("checkpoints.html")}
    assert notebooks
    assert pages | notebooks | tasks | others <= {path.relative_to(site) for path in site.rglob("*.html")}
    assert "<td>starling" in (site / "tasks" / "full-64.html").read_text(encoding="utf-8")
    assert "What is it?" in (site / "index.html").read_text(encoding="utf-8")


def test_notebooks_show_their_stored_pictures(site, repository):
    shown = {}
    for path in repository.glob("notebooks/*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        stored = sum("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", ()))
        page = site / "notebooks" / f"{path.stem}.html"
        addresses = [address for address in Loaded(page.read_text(encoding="utf-8")).addresses if path.stem in address]
        assert len([address for address in addresses if (page.parent / address).is_file()]) == stored, path.name
        shown[path.stem] = stored
    assert sum(shown.values()) >= 2


def test_tables_of_notebooks_have_the_style_of_the_others(repository):
    """The theme leaves tables with a class as they are, and pandas gives its own one."""
    pages = {place: str(text) for place, text in notebook_files(repository) if place.endswith(".md")}
    assert sum("<table>" in text for text in pages.values()) >= 5
    for place, text in pages.items():
        assert not re.search(r"<table [^>]*class|<style", text), place


def test_the_reference_groups_names_of_other_packages(repository):
    """The page of `envs` only collects names: a line for each package."""
    text = dict(reference_pages(repository))[place_of("envs")].partition("## Names of other packages")[2]
    homes = re.findall(r"^- \[`([\w.]+)`\]", text, re.MULTILINE)
    assert len(homes) == len(set(homes)) > 5
    for home, links in re.findall(r"^- \[`([\w.]+)`\]\S*: (.*)$", text, re.MULTILINE):
        assert links
        assert set(re.findall(r"\]\(([\w.]+)\.md#", links)) == {home}


def test_pages_load_nothing_from_other_machines(site):
    for page in site.rglob("*.html"):
        addresses = Loaded(page.read_text(encoding="utf-8")).addresses
        assert addresses, page
        assert [address for address in addresses if ELSEWHERE.match(address)] == [], page
    for style in site.rglob("*.css"):
        assert not IN_STYLE.search(style.read_text(encoding="utf-8")), style


@pytest.mark.parametrize(
    ("address", "found"),
    [("https://example.org/a.js", True), ("//example.org/a.js", True), ("assets/a.js", False), ("../a.css", False)],
)
def test_an_address_on_another_machine_is_seen(address, found):
    (seen,) = Loaded(f'<a href="https://example.org">x</a><script src="{address}"></script>').addresses
    assert bool(ELSEWHERE.match(seen)) is found


def test_the_reference_has_every_exported_name(site, repository):
    """Each is described on the page of its package, or linked from there."""
    for module in MODULES:
        page = (site / place_of(module)).with_suffix(".html").read_text(encoding="utf-8")
        file = repository / module.replace(".", "/") / "__init__.py"
        tree = ast.parse(file.read_text(encoding="utf-8")) if file.exists() else ast.Module([], [])
        assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AugAssign)]
        lists = [node.value for node in assigned if ast.unparse(node).startswith("__all__")]
        anchors = Loaded(page).anchors
        names = [name for each in lists for name in ast.literal_eval(each)]
        for name in names or ["Scheduler", "ClusterView"]:
            own = {f"{module}.{name}", f"{module}.{name}.{name}"} & anchors
            assert own or f'.{name}"><code>{name}</code>' in page, f"{module}.{name}"


def test_every_package_with_exported_names_has_a_page(repository):
    packages = [*repository.glob("envs/*/__init__.py"), *repository.glob("agents/*/__init__.py")]
    names = {".".join(file.parent.relative_to(repository).parts) for file in packages if "__all__" in file.read_text()}
    assert names - set(MODULES) == set()


def test_the_search_finds_a_rule_of_the_world(site):
    documents = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    assert any("Net progress" in entry["text"] and entry["location"].startswith("world.html") for entry in documents)


class Slow(SimpleHTTPRequestHandler):
    """Serves a folder; `slow` takes half a second, in which the browser's clock stands and its workers work."""

    def do_GET(self):
        if "/slow" in self.path:
            time.sleep(0.5)
        super().do_GET()

    def log_message(self, format, *args):
        """Write nothing."""


@pytest.mark.browser
def test_the_search_works_in_a_folder_and_over_http(site):
    page = add_checks(site / "index.html", 1280, SEARCHED)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Slow, directory=str(site))) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        try:
            for address in (page.as_uri(), f"http://127.0.0.1:{serving.server_port}/{page.name}"):
                seen = json.loads(title_of(f"{address}?q=stratified+bootstrap", 1280, 900))
                assert seen["shown"], address
                assert any("/results.html" in found for found in seen["results"]), address
        finally:
            serving.shutdown()


@pytest.mark.browser
@pytest.mark.parametrize("page", ["index.html", "tutorial.html", "how_to/scheduler.html", "reference/envs.types.html"])
@pytest.mark.parametrize("width", [500, 1280])
def test_pages_fit_the_screen(site, page, width):
    seen = json.loads(look_at(site / page, width, 12000, CHECKS))
    assert seen["parts"] > 1
    assert seen["found"] == []
