"""Links of pages: relative in the repository, and rewritten for the site."""

import pytest

from documentation.links import blocks, rewritten

SITE = {
    "index.md",
    "world.md",
    "how_to/scheduler.md",
    "images/world.png",
    "contributing.md",
    "reference/envs.types.md",
} | {"notebooks/one_3.png"}
MOVED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "envs/types": "reference/envs.types.md"}


def on_site(markdown, path="docs/world.md", place="world.md", repository=None):
    return rewritten(markdown, path, place, SITE, MOVED, repository)


@pytest.mark.parametrize(
    ("path", "place", "link", "new"),
    [
        ("docs/world.md", "world.md", "[a](how_to/scheduler.md)", "[a](how_to/scheduler.md)"),
        ("docs/world.md", "world.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/how_to/scheduler.md", "how_to/scheduler.md", "[a](../world.md#b)", "[a](../world.md#b)"),
        (
            "docs/how_to/scheduler.md",
            "how_to/scheduler.md",
            "[a](../../CONTRIBUTING.md#b)",
            "[a](../contributing.md#b)",
        ),
        ("docs/how_to/scheduler.md", "how_to/scheduler.md", "[a](../../envs/types)", "[a](../reference/envs.types.md)"),
        ("README.md", "index.md", "[a](docs/world.md)", "[a](world.md)"),
        ("README.md", "index.md", "![a](docs/images/world.png)", "![a](images/world.png)"),
        ("README.md", "index.md", "[`a`](docs/world.md)", "[`a`](world.md)"),
        ("notebooks/one.ipynb", "notebooks/one.md", "![png](one_3.png)", "![png](one_3.png)"),
        ("README.md", "index.md", "[two\nlines](docs/world.md)", "[two\nlines](world.md)"),
    ],
)
def test_a_link_to_a_page_leads_to_its_place_on_the_site(path, place, link, new):
    assert on_site(link, path, place) == new


@pytest.mark.parametrize("link", ["[a](https://example.org/b.md)", "[a](#b)", "[a](mailto:a@example.org)"])
def test_other_links_stay(link):
    assert on_site(link) == link


def test_a_page_that_is_not_there_stays_and_mkdocs_reports_it():
    assert on_site("[a](absent.md)") == "[a](absent.md)"
    assert on_site("[a](docs/absent.md)", "README.md", "index.md") == "[a](docs/absent.md)"


@pytest.mark.parametrize(
    ("link", "new"),
    [
        ("[the licence](../LICENSE)", "the licence (`LICENSE`)"),
        ("[LICENSE](../LICENSE)", "`LICENSE`"),
        ("[`job.py`](../envs/job.py)", "`envs/job.py`"),
    ],
)
def test_a_link_to_another_file_becomes_its_path(link, new):
    assert on_site(link) == new


def test_a_link_to_another_file_leads_to_the_repository_if_it_has_an_address():
    new = on_site("[a](../LICENSE#b)", repository="https://example.org/project/")
    assert new == "[a](https://example.org/project/blob/HEAD/LICENSE#b)"


@pytest.mark.parametrize(
    "code",
    [
        "```\n[a](../README.md)\n```\n",
        "1. Step:\n\n   ```python\n   x[0](../README.md)\n   ```\n",
        "````\n```\n[a](../README.md)\n````\n",
        "Call `x[0](../README.md)` and ``y`[0](../README.md)``.",
    ],
)
def test_code_is_left_alone(code):
    assert on_site(code) == code


def test_text_after_code_is_rewritten():
    page = "```bash\nls\n```\n[a](../README.md)\n"
    assert [is_text for is_text, _ in blocks(page)] == [False, True]
    assert on_site(page) == page.replace("../README.md", "index.md")
