"""The hash of a scheduler's source files: what changes it, and what does not."""

import re
import time
from pathlib import Path

import pytest

from murmuration.config.choices import list_choices, open_configs
from murmuration.home import ROOT
from murmuration.records import sources
from murmuration.records.recorded import library_configurations
from murmuration.records.sources import _find, _follow, _read, _Source, hash_sources

CODE = '''
"""A docstring."""
import math


class A:
    """Another one."""

    def schedule(self, view):
        """And one more."""
        return math.inf if view else f"{view!r:>10}"
'''


def files_of(module: str) -> set[str]:
    """The modules on which one depends."""
    files: dict[str, Path] = {}
    _follow(module, (ROOT,), files)
    return set(files)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("import math", "import math  # the library", True),
        ('"""Another one."""', '"""Other words."""', True),
        ('    """Another one."""\n', "", True),
        ("return math.inf if view else", "return (\n            math.inf\n            if view\n            else", True),
        ("math.inf", "math.nan", False),
        ("schedule", "plan", False),
        ("import math", "import math as math, cmath", False),
        (':>10}"', ':>11}"', False),
    ],
)
def test_only_what_code_does_counts(old: str, new: str, same: bool) -> None:
    changed = CODE.replace(old, new)
    if new.startswith("return ("):
        changed = changed.rstrip() + ")\n"
    assert changed != CODE
    assert (_Source(changed).digest == _Source(CODE).digest) == same


def test_a_digest_is_the_same_for_every_version_of_python() -> None:
    """Written down; a version of Python whose syntax trees differ would show here."""
    assert _Source(CODE).digest == "419b7c6bc1f8"


def test_the_files_of_a_scheduler_are_those_that_it_imports() -> None:
    fifo, planner = files_of("baselines.fifo"), files_of("baselines.planner.scheduler")
    assert {"baselines.fifo", "baselines.compiled.fifo", "baselines.parts.placing"} <= fifo
    assert not any(name.startswith(("envs", "numpy", "baselines.starling")) for name in fifo)
    assert {"baselines.starling.scheduler", "baselines.optimus", "baselines.hesrpt"} <= planner
    assert "baselines" not in planner, "the list of all schedulers names every one"
    assert "baselines.pollux" not in planner


def test_every_import_of_baselines_is_followed() -> None:
    """A second, simpler reading of the files finds the same modules."""
    for path in sorted((ROOT / "baselines").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if path.name != "__init__.py":
            wanted = set(re.findall(r"^from (baselines[\w.]*) import", text, re.MULTILINE))
            found = files_of(module)
            for name in wanted:
                assert name in found or any(each.startswith(f"{name}.") for each in found), (module, name)


def test_every_scheduler_has_a_hash_of_its_own_files_and_it_is_quick() -> None:
    _read.cache_clear()
    with open_configs():
        library = library_configurations(list_choices("scheduler"))
    began = time.process_time()
    hashes = {name: hash_sources(each) for name, each in library.items()}
    seconds = time.process_time() - began
    print(f"hashed the sources of {len(hashes)} schedulers in {seconds:.2f} s of CPU time")
    assert seconds < 20
    assert hashes["fifo"] == hashes["fifo_easy"], "options are not sources"
    assert len({hashes[name] for name in ("fifo", "srtf", "las", "starling", "planner", "forecast_planner")}) == 6


def test_a_module_of_an_own_folder_counts_with_those_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_rule.py").write_text(
        "from own_help import limit\nfrom baselines import Fifo\nclass Own(Fifo): pass\n"
    )
    (tmp_path / "own_help.py").write_text("import numpy\nlimit = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    configuration = {"_target_": "own_rule.Own", "inner": {"_target_": "baselines.las.Las"}}
    before = hash_sources(configuration)
    assert hash_sources({"_target_": "own_rule.Own"}) != before, "classes among the options count"
    (tmp_path / "own_help.py").write_text("import numpy\nlimit = 4\n")
    _read.cache_clear()
    assert hash_sources(configuration) != before
    (tmp_path / "own_help.py").write_text("import numpy\n\nlimit = 3  # jobs\n")
    _read.cache_clear()
    assert hash_sources(configuration) == before


def test_the_class_behind_a_short_name_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _find("baselines", (ROOT,)) == ROOT / "baselines" / "__init__.py"
    assert list(sources._resolve("baselines", "Fifo", (ROOT,))) == ["baselines.fifo"]
    assert list(sources._resolve("baselines.starling", "knee", (ROOT,))) == ["baselines.starling.knee"]
    assert list(sources._resolve("baselines.las", "Las", (ROOT,))) == ["baselines.las"]
