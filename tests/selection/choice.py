"""Which test files a change concerns, nearest first, as many as fit into a budget of CPU seconds."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.selection.costs import UNKNOWN
from tests.selection.imports import Imports, module_of

# Tests with one case for each choice of `conf/`, by group; of these only the cases of what changed are run.
OF_CHOICES = {
    "tests/conformance/test_schedulers.py": {"scheduler"},
    "tests/conformance/test_zero_throughputs.py": {"scheduler"},
    "tests/conformance/test_beliefs.py": {"scheduler"},
    "tests/conformance/test_estimators.py": {"estimator"},
    "tests/conformance/test_predictors.py": {"predictor"},
    "tests/architecture/test_builds.py": None,  # all groups
    "tests/architecture/test_configs.py": None,
}
# Tests with one case for each page, and others that read all pages.
OF_PAGES = ("tests/architecture/test_pages.py", "tests/architecture/test_commands.py")
ON_PAGES = ("tests/architecture/test_pointers.py", "tests/architecture/test_site.py")
ON_SOURCE = tuple(f"tests/architecture/test_{name}.py" for name in ("budgets", "docstrings", "names"))
# A changed kernel is compiled anew, with all that call it, and nearly every test plays on it: these few stand for them.
CORE = (
    "tests/unit/simulation/test_engine.py",
    "tests/golden/test_fifo.py",
    "tests/golden/test_tiresias.py",
    "tests/conformance/test_reference.py::test_with_gpus_alone[0]",
    "tests/conformance/test_reference.py::test_with_all_rules[0]",
)
KERNEL = re.compile(
    r"^(?:@(?:leaf|part|kernel)\b|from envs\.simulation\.compiled\.jit import|(?:import|from) numba\b)", re.MULTILINE
)
TARGET = re.compile(r"_target_: *([\w.]+)")
MOST_CHOICES = 4  # choices of each group that one changed module is checked with: those nearest to it


@dataclass(frozen=True)
class Chosen:
    """A test file, or one test of it, and how far it is from the change: 0 is the change's own test.

    Where `only` is given, of tests with one case for each choice or page just the cases of these names are run.
    """

    path: str
    distance: int
    seconds: float
    only: frozenset[str] = frozenset()


class Chooser:
    """Maps changed files to tests.

    Args:
        imports: Who imports what.
        texts: The text of each file of the repository that is text, by path.
        costs: CPU seconds by test file.
    """

    def __init__(self, imports: Imports, texts: Mapping[str, str], costs: Mapping[str, float]) -> None:
        self.imports, self.texts, self.costs = imports, texts, costs
        self.tests = [path for path in texts if re.fullmatch(r"tests/.*/test_\w+\.py", path)]
        choices = [path.split("/") for path in texts if re.fullmatch(r"conf/\w+/\w+\.yaml", path)]
        self.choices = [(group, name.removesuffix(".yaml")) for _, group, name in choices]
        self.pages = frozenset(path for path in texts if path.endswith(".md"))
        self.names = frozenset(name for _, name in self.choices) | self.pages
        self._found: dict[str, Chosen] = {}

    def choose(self, changed: Iterable[str]) -> list[Chosen]:
        """All tests that the changed files concern, nearest first, of those at one distance the cheapest first."""
        self._found = {}
        for path in changed:
            self._add_for(path)
        return sorted(self._found.values(), key=lambda test: (test.distance, test.seconds, test.path))

    def _add_for(self, path: str) -> None:
        """Add the tests that one changed file concerns."""
        text = self.texts.get(path, "")
        if PurePosixPath(path).name == "conftest.py" or (path.startswith("envs/simulation/") and KERNEL.search(text)):
            for test in CORE:
                self._add(test, 0)
        elif path.endswith(".py"):
            self._add_importers([module_of(path)])
            self._add_choices(self._nearest_choices(module_of(path)))
        elif path.startswith("conf/") and path.count("/") == 2:
            self._add_importers([self.imports.home_of(target) for target in TARGET.findall(text)], base=1)
            self._add_choices([(path.split("/")[1], PurePosixPath(path).stem)])
        elif path.endswith(".md"):
            for test in OF_PAGES:
                self._add(test, 0, [path])
            for test in ON_PAGES:
                self._add(test, 1)
        else:  # data: of the modules beside it
            folder = PurePosixPath(path).parent
            beside = [each for each in self.texts if each.endswith(".py") and PurePosixPath(each).parent == folder]
            self._add_importers([module_of(each) for each in beside], base=1)
        if path.endswith(".py"):
            for test in ON_SOURCE:
                self._add(test, 1)
        self._add_mentions(path)

    def _add(self, path: str, distance: int, only: Iterable[str] = ()) -> None:
        """Add a test, or bring it nearer; what is added without names is run as a whole."""
        file, names = path.partition("::")[0], frozenset(only)
        if found := self._found.get(path):
            distance = min(distance, found.distance)
            names = names | found.only if names and found.only else frozenset()
        seconds = self.costs.get(path, UNKNOWN)
        if names:
            seconds = max(4.0, seconds * len(names) / max(1, self._cases_of(file)))
        self._found[path] = Chosen(path, distance, seconds, names)

    def _cases_of(self, path: str) -> int:
        """About how many cases a test file has: choices of its groups, or pages."""
        groups = OF_CHOICES.get(path)
        return len(self.pages if path in OF_PAGES else [g for g, _ in self.choices if groups is None or g in groups])

    def _add_importers(self, modules: Iterable[str], base: int = 0) -> None:
        """Add tests that import the modules.

        Those that are named after a module or its package come first. Those in the folder of its part, such as
        tests/unit/agents, count as one import nearer.
        """
        modules = list(modules)
        parts = {part for module in modules for part in module.split(".")}
        stems = tuple(f"test_{part}_" for module in modules for part in module.split(".")[1:])
        for module, distance in self.imports.distances(modules).items():
            path = self.imports.files.get(module, "")
            if path in self.tests and path not in OF_CHOICES:
                own = not distance or f"{PurePosixPath(path).stem}_".startswith(stems)
                beside = distance > 1 and not parts.isdisjoint(PurePosixPath(path).parts[1:-1])
                self._add(path, 0 if own else base + distance - beside)

    def _nearest_choices(self, module: str) -> list[tuple[str, str]]:
        """Choices of `conf/` that build something of the module, directly or through what imports it."""
        distances = self.imports.distances([module])
        found: dict[str, list[tuple[int, str]]] = {}
        for group, name in self.choices:
            targets = TARGET.findall(self.texts[f"conf/{group}/{name}.yaml"])
            near = [distances[home] for target in targets if (home := self.imports.home_of(target)) in distances]
            if near:
                found.setdefault(group, []).append((min(near), name))
        return [(group, name) for group, near in found.items() for _, name in sorted(near)[:MOST_CHOICES]]

    def _add_choices(self, choices: Iterable[tuple[str, str]]) -> None:
        """Add what is required of every choice of a group, for these alone."""
        for group, name in choices:
            for test, groups in OF_CHOICES.items():
                if groups is None or group in groups:
                    self._add(test, 1, [name])

    def _add_mentions(self, path: str) -> None:
        """Add tests that name a file which nothing imports: a script, a page, a choice of `conf/`, others."""
        name, stem = (re.escape(each) for each in (PurePosixPath(path).name, PurePosixPath(path).stem))
        if path.startswith("conf/"):
            group = re.escape(PurePosixPath(path).parent.name)
            pattern = rf"\b{group}={stem}\b|\b{group}/{stem}\b"
        elif re.fullmatch(r"scripts/\w+\.py", path):
            pattern = rf"scripts/{stem}\b|^(?:import|from) {stem}\b|[\"']{stem}(?:\.py)?[\"']"
        elif path.endswith(".py"):
            pattern = rf"[\"']{re.escape(module_of(path))}\b"
        else:
            pattern = rf"[\"'/]{name}[\"'/]"
        for test in self.tests:
            if test not in OF_CHOICES and test not in OF_PAGES and re.search(pattern, self.texts[test], re.MULTILINE):
                self._add(test, 2)


def fit(tests: Iterable[Chosen], budget: float) -> tuple[list[Chosen], list[Chosen]]:
    """The tests that fit into so many CPU seconds, in their order, and those that are left out."""
    kept: list[Chosen] = []
    left_out: list[Chosen] = []
    for test in tests:
        fits = test.seconds <= budget
        (kept if fits else left_out).append(test)
        budget -= test.seconds if fits else 0.0
    return kept, left_out
