"""The pages: the tutorial's scheduler, and Python that is no file of a recipe."""

import re
from pathlib import Path
from typing import Any

import pytest

from documentation.links import blocks
from envs.performance import IdealModel
from envs.scheduling import Scheduler
from envs.simulation import Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload

BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```\n(?P<output>.*?)^```\n)?", re.DOTALL | re.MULTILINE)
SHALLOW = re.compile(r"^ {1,3}(?:[-*] |\d+\. |```)|(?<=\n\n) {1,3}\S", re.MULTILINE)  # less than MkDocs needs
RECIPES = "how_to"  # their files are checked by `test_recipes`
REPOSITORY = Path(__file__).resolve().parents[2]


def pages_with_code():
    """Pages with Python that is no file of a recipe: (code, output that the page shows or None) by path."""
    pages = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "checkpoints" / "README.md"]
    texts = {page.relative_to(REPOSITORY): page.read_text(encoding="utf-8") for page in sorted(pages)}
    found = {path: BLOCK.findall(text) for path, text in texts.items() if RECIPES not in path.parts}
    return {path.as_posix(): examples for path, examples in found.items() if examples}


WITH_CODE = pages_with_code()


@pytest.fixture(scope="module")
def source():
    """The class of the tutorial."""
    return WITH_CODE["docs/tutorial.md"][0][0]


@pytest.fixture
def scheduler(source):
    names: dict[str, Any] = {}
    exec(source, names)
    (found,) = [value() for value in names.values() if isinstance(value, type)]
    return found


def start_and_finish(scheduler, *jobs):
    """Start and finish times by job; jobs are (submit time, GPUs, seconds) on two nodes of four GPUs."""
    specs = [JobSpec(i, submit, gpus, gpus * seconds, "any") for i, (submit, gpus, seconds) in enumerate(jobs)]
    cluster = ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 4)))
    result = run_episode(scheduler, Simulator(Workload.of(specs), Setup(cluster, IdealModel())))
    return [(row["start_time"], row["finish_time"]) for row in result.records]


def test_pages_have_code():
    assert {"docs/tutorial.md", "docs/bidding.md"} <= set(WITH_CODE)


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_of_pages_runs_and_prints_what_they_show(page, capsys, monkeypatch, tmp_path):
    """The blocks of a page share their names, from top to bottom."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for code, output in WITH_CODE[page]:
        exec(compile(code, page, "exec"), names)
        printed = capsys.readouterr().out
        assert printed == output


def shallow(text):
    """Blocks, lists and paragraphs in a list that are indented by less than four spaces: MkDocs ends the list there."""
    parts = [part if is_text else part.partition("\n")[0] for is_text, part in blocks(text)]
    return [found[0] for part in parts for found in SHALLOW.finditer(part)]


def test_what_is_nested_in_a_list_is_indented_by_four_spaces(repository):
    pages = [*repository.glob("*.md"), *repository.glob("docs/**/*.md"), repository / "checkpoints" / "README.md"]
    found = {page.name: shallow(page.read_text(encoding="utf-8")) for page in pages}
    assert {name: places for name, places in found.items() if places} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1. a\n   b\n\n    ```\n   - c\n    ```\n", []),
        ("1. a\n\n   ```\n   b\n   ```\n", ["   ```"]),
        ("- a\n  - b\n", ["  - "]),
    ],
)
def test_a_shallow_indent_is_seen(text, found):
    assert shallow(text) == found


def test_it_takes_twelve_lines_and_imports_nothing(source):
    assert len(source.splitlines()) <= 12
    assert "import" not in source


def test_it_is_a_scheduler(scheduler):
    assert isinstance(scheduler, Scheduler)


def test_the_shortest_jobs_start_first(scheduler):
    """All at t=0 on 8 GPUs: jobs 2 (1 s) and 0 (5 s) fill the cluster; job 1 (9 s) replaces job 2 at 1."""
    assert start_and_finish(scheduler, (0, 4, 5), (0, 4, 9), (0, 4, 1)) == [(0, 5), (1, 10), (0, 1)]


def test_no_job_is_interrupted(scheduler):
    """Job 1 is shorter than the rest of job 0 at 2, and still waits for it."""
    assert start_and_finish(scheduler, (0, 8, 5), (2, 8, 1)) == [(0, 5), (5, 6)]


def test_a_job_that_does_not_fit_is_skipped(scheduler):
    """At 1, 4 GPUs are free: job 1 needs 8 and waits; job 2, though longer, runs."""
    assert start_and_finish(scheduler, (0, 4, 5), (1, 8, 1), (1, 4, 2)) == [(0, 5), (5, 6), (1, 3)]
