"""constraints.txt pins the requirements of pyproject.toml, and links and targets in the documentation exist."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.!]+)")
LINK = re.compile(r"\]\((?!https?://|#|mailto:)(?P<target>[^)#\s]+)")


def pins(text):
    """Exact versions by canonical name; any other line is an error."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = {line: PIN.fullmatch(line) for line in lines}
    assert [line for line, match in found.items() if match is None] == [], "neither comment nor name==version"
    return {canonicalize_name(m["name"]): Version(m["version"]) for m in found.values() if m}


def unmet(requirements, pinned):
    """Requirements without a pin, or with a pin that they do not allow."""
    needs = [Requirement(text) for text in requirements]
    versions = {need: pinned.get(canonicalize_name(need.name)) for need in needs}
    return [str(need) for need, version in versions.items() if version is None or version not in need.specifier]


@pytest.fixture(scope="module")
def project(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def pinned(repository):
    return pins((repository / "constraints.txt").read_text())


def test_all_files_name_the_same_release(project, repository):
    release = project["version"]
    citation = (repository / "CITATION.cff").read_text()
    newest = re.search(r"^## \[(\d\S*)\] - (\S+)$", (repository / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest.groups() == (release, *re.findall(r"^date-released: (\S+)$", citation, re.MULTILINE))
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [release]
    assert f"murmuration-{release}-py3" in (repository / "docs" / "install.md").read_text()


def test_every_requirement_is_pinned(project, pinned):
    extras = project["optional-dependencies"]
    assert unmet([*project["dependencies"], *(line for lines in extras.values() for line in lines)], pinned) == []


def test_the_core_needs_no_learning_library(project):
    names = {Requirement(text).name for text in project["dependencies"]}
    assert names.isdisjoint({"torch", "ray"})


def test_ray_alone_chooses_gymnasium(project):
    (gymnasium,) = [need for need in map(Requirement, project["dependencies"]) if need.name == "gymnasium"]
    assert not gymnasium.specifier


@pytest.mark.parametrize("line", ["torch==2.13.0+cpu", "-e .", "murmuration @ file:///somewhere", "numpy>=2"])
def test_a_pin_that_works_on_one_machine_only_is_seen(line):
    with pytest.raises(AssertionError, match="name==version"):
        pins(f"# header\nscipy==1.17.1\n{line}\n")


def test_an_unmet_requirement_is_seen():
    pinned = {"numpy": Version("2.4.6"), "hydra-core": Version("1.3.8")}
    assert unmet(["numpy>=2,<3", "hydra_core>=1.3", "scipy"], pinned) == ["scipy"]
    assert unmet(["numpy<2"], pinned) == ["numpy<2"]


def test_links_between_pages_exist(repository):
    pages = [*repository.glob("*.md"), *repository.glob("docs/**/*.md"), repository / "checkpoints" / "README.md"]
    assert repository / "README.md" in pages
    links = [(page, match["target"]) for page in pages for match in LINK.finditer(page.read_text())]
    assert links
    assert [f"{page.name}: {target}" for page, target in links if not (page.parent / target).exists()] == []


def test_make_targets_that_the_pages_name_exist(repository):
    targets = set(re.findall(r"^([a-z]+):", (repository / "Makefile").read_text(), re.MULTILINE))
    pages = [repository / name for name in ("README.md", "CONTRIBUTING.md", ".ci/run", "constraints.txt")]
    named = {
        (page.name, name) for page in pages for name in re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(), re.M)
    }
    assert ("README.md", "demo") in named
    assert {(page, name) for page, name in named if name not in targets} == set()
