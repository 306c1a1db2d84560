"""A page in headless Chromium: what its script reports about it, and screenshots."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
CHECKS = """
<script>
setTimeout(() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width + 1) found.push("page wider than the screen");
  for (const place of document.querySelectorAll(".scroll"))
    if (width > 1300 && place.scrollWidth > place.clientWidth + 1) found.push("a table scrolls sideways");
  for (const place of document.querySelectorAll(".chart")) {
    const name = place.dataset.chart || place.id;
    const box = place.getBoundingClientRect();
    const marks = place.querySelectorAll(".mark, .line, .boxes");
    const drawing = place.querySelector("svg.drawing");
    if (!drawing) found.push(`${name}: not drawn`);
    else if (drawing.getBoundingClientRect().right > box.right + 1) found.push(`${name}: wider than its place`);
    if (!marks.length) found.push(`${name}: empty`);
    for (const title of place.querySelectorAll(".drawing text")) {
      const text = title.getBoundingClientRect();
      const beside = text.left < box.left - 1 || text.right > box.right + 1;
      if (beside || text.top < box.top - 1 || text.bottom > box.bottom + 1)
        found.push(`${name}: clipped: ${title.textContent}`);
    }
    const labels = [...place.querySelectorAll(".tick-x")].map((label) => label.getBoundingClientRect());
    labels.sort((one, other) => one.left - other.left);
    if (labels.some((label, at) => at && label.left < labels[at - 1].right)) found.push(`${name}: labels overlap`);
  }
  document.title = JSON.stringify({ charts: document.querySelectorAll("svg.drawing").length, found });
}, 1500);
</script>
"""


def find_browser() -> str:
    """Return the path of a browser; skip the test where there is none."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium: install one to look at the pages")


LEAST_WINDOW = 500  # pixels; Chromium makes no narrower window, so a phone's page is a frame in one
TELL = """
<script>
const title = document.querySelector("title");
new MutationObserver(() => parent.postMessage(document.title, "*")).observe(title, { childList: true });
</script>
"""


def look_at(page: Path, width: int, height: int = 2000, checks: str = CHECKS) -> str:
    """Return the title that the checks, a script, leave on a page, drawn at a width."""
    if width >= LEAST_WINDOW:
        return title_of(add_checks(page, width, checks).as_uri(), width, height)
    framed = add_checks(page, width, TELL + checks)
    frame = page.with_name(f"frame_{width}.html")
    frame.write_text(
        "<title></title><script>onmessage = (event) => (document.title = event.data);</script>"
        f'<iframe src="{framed.name}" style="width: {width}px; height: {height}px; border: 0"></iframe>',
        encoding="utf-8",
    )
    return title_of(frame.as_uri(), LEAST_WINDOW, height)


def add_checks(page: Path, width: int, checks: str) -> Path:
    """Write a copy of a page with the checks beside it, and return its path."""
    checked = page.with_name(f"checked_{width}.html")
    checked.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{checks}</body>"), encoding="utf-8")
    return checked


def title_of(address: str, width: int, height: int) -> str:
    """Return the title of the page at an address, once its scripts have run for some seconds of the browser's time.

    The browser's clock stops while a request is unanswered.
    """
    page = drawn(address, width, height)
    title = re.search(r"<title>(.*?)</title>", page, re.DOTALL)
    assert title, page[-2000:]
    return html.unescape(title.group(1))


def drawn(address: str, width: int, height: int, milliseconds: int = 6000) -> str:
    """Return the page at an address as its scripts have made it after so much of the browser's time."""
    command = [find_browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    quiet = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    options = [f"--virtual-time-budget={milliseconds}", f"--window-size={width},{height}", address]
    done = subprocess.run([*command, *quiet, *options], capture_output=True, text=True, timeout=600)
    assert done.stdout, done.stderr[-2000:]
    return done.stdout
