"""The files in the recipes of CONTRIBUTING are complete, and each YAML names what it builds."""

import ast
import re
from pathlib import PurePosixPath

import pytest
import yaml

FILE = re.compile(r"`(?P<path>[\w/]+\.(?:py|yaml))`:\n\n```(?:python|yaml)\n(?P<text>.*?)```", re.DOTALL)
LIMIT = 40  # lines of one file; a recipe is short


@pytest.fixture(scope="module")
def recipes(repository):
    """Text by path, such as "conf/scheduler/largest_first.yaml"."""
    page = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {match["path"]: match["text"] for match in FILE.finditer(page)}


def targets(content):
    """Import paths that a configuration names, at any depth."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in ("_target_", "target"):
                yield value
            else:
                yield from targets(value)


def test_there_is_a_recipe_for_each_part(recipes):
    groups = {PurePosixPath(path).parent.name for path in recipes if path.endswith(".yaml")}
    assert groups == {"scheduler", "agent", "workload", "cluster", "performance", "reconfiguration"}


def test_recipes_are_short_and_belong_to_folders_that_exist(recipes, repository):
    assert {path for path, text in recipes.items() if len(text.splitlines()) > LIMIT} == set()
    assert {path for path in recipes if not (repository / path).parent.is_dir()} == set()


def test_recipes_do_not_overwrite_a_file_of_the_clone(recipes, repository):
    assert {path for path in recipes if (repository / path).exists()} == set()


def test_code_is_documented_and_parses(recipes):
    for path, text in recipes.items():
        if path.endswith(".py"):
            tree = ast.parse(text, path)
            assert ast.get_docstring(tree) or path.startswith("tests/"), path


def test_what_a_yaml_builds_is_in_the_recipe_or_in_the_clone(recipes, repository):
    for path, text in recipes.items():
        if not path.endswith(".yaml"):
            continue
        found = list(targets(yaml.safe_load(text)))
        assert found, path
        for target in found:
            module, _, name = target.rpartition(".")
            file = module.replace(".", "/")
            if f"{file}.py" in recipes:
                assert name in {getattr(node, "name", "") for node in ast.parse(recipes[f"{file}.py"]).body}, target
            else:
                assert (repository / file).is_dir() or (repository / f"{file}.py").exists(), target


def test_a_recipe_opens_with_what_list_shows(recipes):
    """`scripts/list.py` describes a choice by the first comment of its YAML."""
    assert {path for path, text in recipes.items() if path.endswith(".yaml") and not text.startswith("# ")} == set()
