"""`make check`: the tests that a change concerns, chosen by the graph of imports, in at most 120 CPU seconds."""

import fnmatch
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from murmuration.config.tables import TABLE, read_table, split_table
from tests.selection.choice import KERNEL, Chooser, Chosen, fit
from tests.selection.costs import read_costs
from tests.selection.imports import Imports

REPOSITORY = Path(__file__).resolve().parents[2]
READ = (".py", ".yaml", ".yml", ".md")
BUDGET = 120.0  # CPU seconds, of all checks together
LAST = 115.0  # no test begins after so many
BEFORE = 35.0  # of the budget: start, style, layers, types
COMPILING = 50.0  # of the budget: to compile a changed kernel anew, and all that call it


def git(*words: str) -> list[str]:
    """The lines that a git command prints; none where it fails."""
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True)
    return [] if done.returncode else done.stdout.splitlines()


def changed_files() -> list[str]:
    """What differs from the commit where this branch left main, and files that git does not know yet.

    Of a table of choices, each entry that differs stands for a file of its own.
    """
    bases = [commit for main in ("origin/main", "main") for commit in git("merge-base", "HEAD", main)]
    base = (bases or ["HEAD"])[0]
    found = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    tables = fnmatch.filter(found, f"conf/*/{TABLE}")
    for path in tables:
        before = split_table("".join(f"{line}\n" for line in git("show", f"{base}:{path}"))).items()
        now = read_table(REPOSITORY / Path(path).parent).items()
        found += [f"{Path(path).parent}/{name}.yaml" for name in sorted({name for name, _ in before ^ now})]
    return [path for path in found if path not in tables]


def read_texts() -> dict[str, str]:
    """The text of each file of the working tree that git has or would add; "" of what is no text."""
    paths = git("ls-files", "--cached", "--others", "--exclude-standard")
    known = [path for path in paths if (REPOSITORY / path).is_file()]
    texts = {path: (REPOSITORY / path).read_text(encoding="utf-8") if path.endswith(READ) else "" for path in known}
    for path in fnmatch.filter(known, f"conf/*/{TABLE}"):  # each choice as if it had a file of its own
        texts |= {f"{Path(path).parent}/{name}.yaml": text for name, text in split_table(texts[path]).items()}
    return texts


class Cases:
    """Runs tests in their order; of those with one case for each choice or page, the cases of what changed.

    Skips what would begin after the budget is spent, because kernels had to be compiled or costs have changed.

    Args:
        tests: The chosen tests.
        names: All names of choices and pages.
    """

    def __init__(self, tests: Sequence[Chosen], names: frozenset[str]) -> None:
        self.only = {test.path.partition("::")[0]: test.only for test in tests}
        self.names = names
        self.skipped = 0

    @pytest.hookimpl(trylast=True)  # after the order of tests/conftest.py, which serves runs of everything
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the cases of other names."""
        order = list(self.only)
        items.sort(key=lambda item: order.index(item.path.relative_to(config.rootpath).as_posix()))
        kept = [self._keeps(item, config.rootpath) for item in items]
        config.hook.pytest_deselected(items=[item for item, keeps in zip(items, kept, strict=True) if not keeps])
        items[:] = [item for item, keeps in zip(items, kept, strict=True) if keeps]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test after the budget; what the process and its children have used counts."""
        if sum(os.times()[:4]) > LAST:
            self.skipped += 1
            pytest.skip(f"{LAST:g} CPU seconds are spent")

    def _keeps(self, item: pytest.Item, root: Path) -> bool:
        only = self.only[item.path.relative_to(root).as_posix()]
        case = getattr(item, "callspec", None)
        named = self.names & {value for value in case.params.values() if isinstance(value, str)} if case else set()
        return not only or not named or bool(named & only)


def run_tests(tests: Sequence[Chosen], names: frozenset[str]) -> bool:
    """Run the tests in their order, and say how many came too late; whether all others passed."""
    cases = Cases(tests, names)
    status = pytest.main(["-q", "-m", "not exhaustive", *(test.path for test in tests)], plugins=[cases])
    if cases.skipped:
        print(f"left out: {cases.skipped} tests, since {LAST:g} CPU seconds were spent before them")
    return status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def run_quick_checks(changed: Sequence[str]) -> bool:
    """Style, layers, and types where mypy has its cache; whether all passed."""
    commands = [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["lint-imports", "--no-logo"]]
    if any(path.endswith(".py") for path in changed):
        if (REPOSITORY / ".mypy_cache").is_dir():
            commands.append(["mypy"])
        else:
            print("left out: types, which take minutes without mypy's cache; make types fills it")
    passed = True
    for name, *words in commands:
        passed &= not subprocess.run([Path(sys.executable).with_name(name), *words], cwd=REPOSITORY).returncode
    return passed


def main(words: Sequence[str]) -> int:
    """Check the named files, or what changed; 1 if anything fails."""
    texts = read_texts()
    changed = list(words) or changed_files()
    if unknown := [path for path in words if path not in texts]:
        sys.exit(f"make check: no file {unknown[0]!r} in the repository; FILES takes paths such as baselines/las.py")
    chooser = Chooser(Imports({p: t for p, t in texts.items() if p.endswith(".py")}), texts, read_costs())
    compiled = any(KERNEL.search(texts.get(path, "")) for path in changed if path.endswith(".py"))
    kept, left_out = fit(chooser.choose(changed), BUDGET - BEFORE - COMPILING * compiled)
    print(f"changed: {', '.join(changed) or 'nothing'}")
    for test in kept:
        cases = f" of {', '.join(sorted(test.only))}" if test.only else ""
        print(f"  {test.path}{cases}: distance {test.distance}, {test.seconds:.0f} CPU-s")
    passed = run_quick_checks(changed)
    passed &= not kept or run_tests(kept, chooser.names)
    if left_out:
        some = ", ".join(test.path for test in left_out[:5])
        print(
            f"left out: {len(left_out)} test files that the change may concern,"
            f" {sum(test.seconds for test in left_out):.0f} CPU-s: {some}{', ...' if len(left_out) > 5 else ''}"
        )
    print(f"{'passed' if passed else 'FAILED'}: make check is no substitute for make test, which runs everything")
    return not passed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
