"""What `make check` chooses: tests that a change concerns, nearest first, within a budget of CPU seconds."""

import json
import subprocess
from types import SimpleNamespace
from typing import Any

import grimp
import pytest

from tests.selection import __main__ as check
from tests.selection import costs
from tests.selection.choice import CORE, OF_CHOICES, OF_PAGES, ON_PAGES, ON_SOURCE, Chooser, Chosen, fit
from tests.selection.imports import Imports

MADE_UP = {
    "baselines/__init__.py": "from baselines.las import Las\nfrom baselines.muri import (Muri,\n    Pairs,  # two\n)",
    "baselines/las.py": "",
    "baselines/muri.py": "from baselines.las import Las",
    "tests/golden/test_las.py": "from baselines import Las",
    "tests/golden/test_muri.py": "from baselines import Muri, Pairs",
    "tests/unit/test_all.py": "import baselines",
    "tests/unit/test_list.py": "run('list', 'scheduler=muri')",
    "conf/scheduler/las.yaml": "_target_: baselines.Las",
    "conf/scheduler/muri.yaml": "_target_: baselines.muri.Muri",
    "scripts/list.py": "",
    "docs/las.md": "",
    "docs/muri.md": "",
}
EDGES = [
    *(("baselines", "baselines.las"), ("baselines", "baselines.muri"), ("baselines.muri", "baselines.las")),
    *(("tests.golden.test_las", "baselines"), ("tests.golden.test_muri", "baselines")),
    ("tests.unit.test_all", "baselines"),
]


@pytest.fixture
def made_up():
    graph = grimp.ImportGraph()
    for importer, imported in EDGES:
        graph.add_import(importer=importer, imported=imported)
    texts = {path: text for path, text in MADE_UP.items() if path.endswith(".py")}
    return Chooser(Imports(texts, graph), MADE_UP, {"tests/golden/test_las.py": 2.0})


@pytest.fixture(scope="module")
def real():
    texts = check.read_texts()
    return Chooser(Imports({path: text for path, text in texts.items() if path.endswith(".py")}), texts, {})


def files(chooser, *changed):
    """Distances of the chosen tests by file name, without those that every change of Python has."""
    general = {*OF_CHOICES, *OF_PAGES, *ON_PAGES, *ON_SOURCE}
    return {test.path: test.distance for test in chooser.choose(changed) if test.path not in general}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ("baselines/las.py", {"golden/test_las.py": 0, "golden/test_muri.py": 2, "unit/test_all.py": 2}),
        ("baselines/muri.py", {"golden/test_muri.py": 0, "unit/test_all.py": 2}),
        ("baselines/__init__.py", {"golden/test_las.py": 1, "golden/test_muri.py": 1, "unit/test_all.py": 1}),
        ("tests/golden/test_las.py", {"golden/test_las.py": 0}),
        ("conf/scheduler/muri.yaml", {"golden/test_muri.py": 0, "unit/test_list.py": 2, "unit/test_all.py": 3}),
        ("scripts/list.py", {"unit/test_list.py": 2}),
        ("LICENSE", {}),
    ],
)
def test_a_name_that_a_package_passes_on_leads_to_its_own_tests_first(made_up, changed, found):
    assert files(made_up, changed) == {f"tests/{path}": distance for path, distance in found.items()}


def test_the_nearest_come_first_and_of_these_the_cheapest(made_up):
    chosen = made_up.choose(["baselines/las.py", "tests/golden/test_muri.py"])
    assert [(test.path, test.seconds) for test in chosen if "golden" in test.path] == [
        ("tests/golden/test_las.py", 2.0),
        ("tests/golden/test_muri.py", costs.UNKNOWN),
    ]


def test_of_what_is_required_of_every_choice_only_the_cases_of_what_changed_are_run(made_up):
    only = {test.path: test.only for test in made_up.choose(["baselines/muri.py"])}
    assert only["tests/conformance/test_schedulers.py"] == {"muri"}
    only = {test.path: test.only for test in made_up.choose(["baselines/las.py", "docs/las.md"])}
    assert only["tests/conformance/test_schedulers.py"] == {"las", "muri"}  # Muri imports it
    assert only["tests/architecture/test_pages.py"] == {"docs/las.md"}


def test_a_file_that_is_changed_itself_runs_as_a_whole(made_up):
    chooser = made_up
    chooser.tests.append("tests/architecture/test_pages.py")
    chooser.imports.files["tests.architecture.test_pages"] = "tests/architecture/test_pages.py"
    chooser.imports.graph.add_module("tests.architecture.test_pages")
    for changed in (
        ["docs/las.md", "tests/architecture/test_pages.py"],
        ["tests/architecture/test_pages.py", "docs/las.md"],
    ):
        (test,) = [test for test in chooser.choose(changed) if test.path == "tests/architecture/test_pages.py"]
        assert not test.only


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ("baselines/starling/decide.py", "tests/golden/test_starling.py"),
        ("agents/networks/option_scorer.py", "tests/unit/agents/test_option_networks.py"),
        ("envs/workloads/readers/philly.py", "tests/unit/workloads/test_philly_raw.py"),
        ("scripts/tune.py", "tests/unit/runs/test_tune_and_sweep.py"),
        ("conf/task/full-64.yaml", "tests/unit/records/test_tasks.py"),
        ("tests/golden/playground.py", "tests/golden/test_las.py"),
        ("pyproject.toml", "tests/architecture/test_packaging.py"),
    ],
)
def test_a_change_selects_the_tests_of_what_it_changes(real, changed, path):
    assert path in files(real, changed)


def test_a_changed_baseline_selects_the_cases_of_its_choices(real):
    only = {test.path: test.only for test in real.choose(["baselines/tiresias.py"])}
    assert only["tests/conformance/test_schedulers.py"] & {"tiresias", "las"} == {"tiresias"}


def test_a_changed_page_selects_the_tests_of_pages(real):
    chosen = {test.path: test.only for test in real.choose(["docs/world.md"])}
    assert {path: {"docs/world.md"} for path in OF_PAGES}.items() <= chosen.items()
    assert {*ON_PAGES} <= chosen.keys()


@pytest.mark.parametrize(
    "changed", ["envs/simulation/world/kernels.py", "envs/simulation/compiled/jit.py", "tests/conftest.py"]
)
def test_a_changed_kernel_or_conftest_selects_the_core_set(real, changed):
    assert {test.path for test in real.choose([changed]) if test.distance == 0} == {*CORE}


@pytest.mark.parametrize("path", [*OF_CHOICES, *OF_PAGES, *ON_PAGES, *ON_SOURCE, *CORE])
def test_named_tests_exist(real, path):
    file, _, name = path.partition("::")
    assert f"def {name.partition('[')[0]}" in real.texts[file]


def test_what_does_not_fit_is_left_out_and_cheaper_tests_behind_it_are_not():
    tests = [Chosen("a", 0, 30.0), Chosen("b", 1, 80.0), Chosen("c", 1, 60.0), Chosen("d", 2, 30.0)]
    kept, left_out = fit(tests, 120.0)
    assert [[test.path for test in some] for some in (kept, left_out)] == [["a", "b"], ["c", "d"]]
    assert [test.path for test in fit(tests, 100.0)[0]] == ["a", "c"]


def test_the_nearest_are_run_first_and_cases_of_other_names_deselected(tmp_path):
    def item(file, **params):
        return SimpleNamespace(path=tmp_path / file, callspec=SimpleNamespace(params=params) if params else None)

    items = [
        item("a.py"),
        item("a.py", seed=1),
        item("a.py", name="las"),
        item("a.py", name="fifo", seed=1),
        item("b.py", name="las"),
    ]
    gone = []
    config: Any = SimpleNamespace(
        rootpath=tmp_path, hook=SimpleNamespace(pytest_deselected=lambda items: gone.extend(items))
    )
    kept = items.copy()
    chosen = [Chosen("b.py", 0, 1.0), Chosen("a.py", 1, 1.0, frozenset({"fifo"}))]
    check.Cases(chosen, frozenset({"las", "fifo"})).pytest_collection_modifyitems(config, kept)
    assert gone == [items[2]]
    assert kept == [items[4], items[0], items[1], items[3]]


def test_what_would_begin_after_the_budget_is_skipped(monkeypatch):
    cases = check.Cases([], frozenset())
    item: Any = SimpleNamespace()
    monkeypatch.setattr("os.times", lambda: (1.0, 0.5, check.LAST - 1.5, 0.0, 1e9))
    cases.pytest_runtest_setup(item)
    monkeypatch.setattr("os.times", lambda: (1.0, 0.5, check.LAST - 1.5, 0.1, 1e9))
    with pytest.raises(pytest.skip.Exception, match="115 CPU seconds are spent"):
        cases.pytest_runtest_setup(item)
    assert cases.skipped == 1


def test_changed_files_are_those_since_the_branch_left_main_and_new_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "REPOSITORY", tmp_path)

    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    table = tmp_path / "conf" / "scheduler" / "choices.yml"
    table.parent.mkdir(parents=True)
    table.write_text("las:\n  x: 1\nmuri:\n  x: 1\n")
    git("add", ".")
    for number, name in enumerate(("old.py", "committed.py", "edited.py", "new.py")):
        (tmp_path / name).write_text("")
        if name == "edited.py":
            (tmp_path / "old.py").write_text("x = 1\n")
            continue
        if name != "new.py":
            git("add", name)
            git("commit", "-m", name)
        if number == 0:
            git("switch", "-c", "branch")
    table.write_text("las:\n  x: 1\nmuri:\n  x: 2\n")
    expected = ["committed.py", "conf/scheduler/muri.yaml", "edited.py", "new.py", "old.py"]
    assert sorted(check.changed_files()) == expected


def test_the_command_says_what_it_left_out_and_that_it_is_no_substitute(monkeypatch, capsys):
    monkeypatch.setattr(check, "run_tests", lambda tests, names: print("runs", tests[0].path) is None)
    monkeypatch.setattr(check, "run_quick_checks", lambda changed: True)
    monkeypatch.setattr(
        check,
        "read_costs",
        lambda: {"tests/golden/test_tiresias.py": 1.0, "tests/unit/baselines/test_packing.py": 500.0},
    )
    assert check.main(["baselines/tiresias.py"]) == 0
    *_, first, left_out, last = capsys.readouterr().out.splitlines()
    assert first == "runs tests/golden/test_tiresias.py"
    assert left_out.startswith("left out: ")
    assert "no substitute for make test" in last
    with pytest.raises(SystemExit, match=r"^make check: no file 'baselines/lass.py'"):
        check.main(["baselines/lass.py"])


@pytest.mark.parametrize(
    ("exitstatus", "expected"),
    [(1, {"tests/a.py": 3.0, "tests/b.py": 7.0}), (2, {"tests/b.py": 7.0, "tests/gone.py": 9.0})],
)
def test_costs_of_a_run_that_came_to_its_end_are_kept_by_file(exitstatus, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "TABLE", tmp_path / "costs.json")
    costs.TABLE.write_text(json.dumps({"tests/b.py": 7.0, "tests/gone.py": 9.0}))
    (tmp_path / "tests").mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / "tests" / name).write_text("")
    plugin: Any = costs.Costs()
    for name, seconds in (("test_x", 1.0), ("test_y[1]", 2.0)):
        plugin.pytest_runtest_logreport(SimpleNamespace(nodeid=f"tests/a.py::{name}", cpu_seconds=seconds))
    plugin.pytest_sessionfinish(SimpleNamespace(config=SimpleNamespace(rootpath=tmp_path)), exitstatus)
    assert costs.read_costs() == expected
