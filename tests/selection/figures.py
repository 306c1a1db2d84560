"""`make figures`: what the house weighs, as one table; REVISION="a b" puts other revisions beside the working tree.

Lines count as they stand in the files. Words are those of pages and of the README. CPU seconds are the sums of
`costs.json`, so they are as old as its figures; those of `make check` are what it would choose for one changed file.
"""

import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from tests.selection.__main__ import BEFORE, BUDGET, COMPILING, REPOSITORY, git, read_texts
from tests.selection.choice import KERNEL, Chooser, fit
from tests.selection.imports import Imports

PRODUCT = ("agents", "baselines", "deployment", "envs", "murmuration", "scripts")
CHANGES = {
    "a baseline": "baselines/las.py",
    "a network": "agents/networks/option_scorer.py",
    "a reader": "envs/workloads/readers/philly.py",
    "a page": "docs/tasks.md",
    "a kernel": "envs/simulation/world/kernels.py",
}
# Where a setting of a command is declared: its default, its form, its field, or a list of keys.
DECLARED = re.compile(
    r"^(?:conf/\w+\.yaml|(?:scripts/launch|murmuration/config)/(?:values|descript\w+|describe|registry|recall|settings)\.py)$"
)
COUNTED = ("episodes", "split", "reference", "recorded", "frames", "looks", "growth", "loggers", "measured", "patience")
ENGINE = re.compile(r"^from (envs\.simulation\.(?!reference\b)[\w.]+) import", re.MULTILINE)
GIVEN = ("log", "result", "scenario", "setup", "state")  # inputs, and the format of answers


def texts_of(revision: str) -> dict[str, str]:
    """The texts of a revision by path, as `read_texts` gives those of the working tree."""
    packed = subprocess.run(["git", "archive", revision], cwd=REPOSITORY, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive, tempfile.TemporaryDirectory() as folder:
        archive.extractall(folder, filter="data")
        root = Path(folder)
        paths = [path for path in root.rglob("*") if path.suffix in (".py", ".yaml", ".md", ".json") and path.is_file()]
        return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def lines_in(texts: Mapping[str, str], folders: Sequence[str]) -> int:
    """Lines of the Python files of folders."""
    return sum(t.count("\n") for path, t in texts.items() if path.endswith(".py") and path.split("/")[0] in folders)


def words_in(texts: Mapping[str, str]) -> int:
    """Words of the pages."""
    return sum(len(text.split()) for path, text in texts.items() if path.endswith(".md"))


def places_of_settings(texts: Mapping[str, str]) -> float:
    """The mean number of files in which one of the `COUNTED` settings is declared; all primary configs are one."""
    found: dict[str, set[str]] = {key: set() for key in COUNTED}
    for path, text in texts.items():
        if DECLARED.match(path):
            for key in COUNTED:
                pattern = rf"^{key}:" if path.endswith(".yaml") else rf'^    {key}: |"{key}"|\b{key}=cfg\.'
                if re.search(pattern, text, re.MULTILINE):
                    found[key].add("conf" if path.endswith(".yaml") else path)
    return sum(map(len, found.values())) / len(found)


def shared_with_reference(texts: Mapping[str, str]) -> int:
    """Lines of the engine's modules that its reference imports, besides what both are given."""
    modules = {
        module
        for path, text in texts.items()
        if path.startswith("envs/simulation/reference/")
        for module in ENGINE.findall(text)
        if module.rpartition(".")[2] not in GIVEN
    }
    return sum(texts.get(f"{module.replace('.', '/')}.py", "").count("\n") for module in modules)


def cost_of_tests(texts: Mapping[str, str]) -> float:
    """CPU seconds of all test files that have a measured cost."""
    table = json.loads(texts.get("tests/selection/costs.json", "") or "{}")
    return float(sum(seconds for path, seconds in table.items() if path in texts))


FIGURES: Mapping[str, Callable[[Mapping[str, str]], float]] = {
    "lines of the product": lambda texts: lines_in(texts, PRODUCT),
    "lines of tests": lambda texts: lines_in(texts, ("tests",)),
    "words of pages": words_in,
    "files in conf/": lambda texts: sum(path.startswith("conf/") for path in texts),
    "places in which a setting is declared": places_of_settings,
    "lines shared by reference and engine": shared_with_reference,
    "CPU-s of all tests": cost_of_tests,
}


def cost_of_checks(texts: Mapping[str, str]) -> dict[str, float]:
    """CPU seconds that `make check` reserves for each change: of the chosen tests, and of all before them."""
    costs = json.loads(texts["tests/selection/costs.json"])
    chooser = Chooser(Imports({p: t for p, t in texts.items() if p.endswith(".py")}), texts, costs)
    found = {}
    for name, path in CHANGES.items():
        before = BEFORE + COMPILING * bool(path.endswith(".py") and KERNEL.search(texts[path]))
        kept, _ = fit(chooser.choose([path]), BUDGET - before)
        found[f"CPU-s of make check, {name}"] = before + sum(test.seconds for test in kept)
    return found


def main(revisions: Sequence[str]) -> None:
    """Print the table."""
    here = read_texts() | {"tests/selection/costs.json": (REPOSITORY / "tests/selection/costs.json").read_text()}
    columns = {revision: texts_of(revision) for revision in revisions} | {"now": here}
    print(f"{'':40}" + "".join(f"{git('rev-parse', '--short', n)[0] if n != 'now' else n:>12}" for n in columns))
    for name, count in FIGURES.items():
        print(f"{name:40}" + "".join(f"{count(texts):12,.6g}" for texts in columns.values()))
    for name, seconds in cost_of_checks(here).items():
        print(f"{name:40}" + " " * 12 * len(revisions) + f"{seconds:12,.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
