"""Imports: the packages have generic names and strict layers, so test what an import loads and whose it is."""

import ast
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from types import ModuleType

import pytest

HEAVY = ("torch", "ray", "hydra", "omegaconf")

FORBIDDEN = {
    "envs/": HEAVY,
    "baselines/": (*HEAVY, "agents"),
    "deployment/": (*HEAVY, "agents", "baselines"),
    "agents/": ("hydra", "omegaconf", "baselines"),
    "agents/networks/": ("hydra", "omegaconf", "baselines", "ray"),
}


def imported(tree):
    """Top-level names of all packages that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def run(source, folder):
    """Run source in a new interpreter in a folder, and return what it prints as JSON."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def foreign(tmp_path):
    """A working directory outside the repository with folders of our names, which many projects have."""
    for name in ("envs", "agents", "baselines"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_envs_baselines_and_deployment_load_no_learning_library(foreign, texts):
    modules = [path[:-3].replace("/", ".") for path in texts if path.startswith(("envs/", "baselines/", "deployment/"))]
    assert {"envs.__init__", "baselines.__init__", "deployment.__init__"} <= set(modules)
    names = sorted(name.removesuffix(".__init__") for name in modules)
    source = f"import importlib, json, sys; [importlib.import_module(name) for name in {names!r}]; "
    loaded = run(source + f"print(json.dumps([n for n in {HEAVY!r} if n in sys.modules]))", foreign)
    assert loaded == []


def test_from_a_foreign_folder_the_packages_are_ours_and_load_none_of_their_modules(foreign, repository):
    packages = ("envs", "agents", "baselines")
    source = f"import json, sys, {', '.join(packages)}; all = [{', '.join(packages)}]; "
    source += f"loaded = [n for n in sys.modules if n.startswith({tuple(f'{name}.' for name in packages)})]; "
    files, loaded = run(source + "print(json.dumps([[one.__file__ for one in all], loaded]))", foreign)
    assert files == [str(repository / name / "__init__.py") for name in packages]
    assert loaded == []


@pytest.mark.parametrize("package", ["envs", "agents", "baselines"])
def test_what_a_package_exports_exists(package):
    module = importlib.import_module(package)
    assert sorted(module.__all__) == sorted(module._HOMES)
    for name in module.__all__:
        assert getattr(module, name) is getattr(importlib.import_module(module._HOMES[name]), name)
        assert not isinstance(getattr(module, name), ModuleType), name
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Absent'"):
        _ = module.Absent


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_no_file_imports_what_its_folder_forbids(folder, trees):
    ours = {path: set(imported(tree)) for path, tree in trees.items() if path.startswith(folder)}
    assert {
        path: names & set(FORBIDDEN[folder]) for path, names in ours.items() if names & set(FORBIDDEN[folder])
    } == {}


def test_an_import_is_seen():
    source = "import torch.nn as nn, os\nfrom ray.rllib import core\nfrom . import a\nb = 1\ndef f():\n    import hydra"
    assert set(imported(ast.parse(source))) == {"torch", "os", "ray", "hydra"}


def test_a_heavy_import_would_be_seen(foreign):
    """The check of `sys.modules` works: a module that is imported by another one shows up there."""
    light = next(name for name in ("hydra", "omegaconf") if importlib.util.find_spec(name))
    source = f"import importlib, json, sys; importlib.import_module({light!r}); "
    assert light in run(source + f"print(json.dumps([n for n in {HEAVY!r} if n in sys.modules]))", foreign)


def module_of(path):
    """The name by which a file is imported; those of scripts are beside the running script."""
    parts = path.removesuffix(".py").removeprefix("scripts/").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree, modules, exports):
    """The project's files that a file imports: at its top, in functions, or for annotations alone.

    `exports` tells for each package which module has a name that it lists.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found = exports.get(node.module, {}).get(alias.name, node.module)
                yield from [name for name in (full, found) if name in modules][:1]


def circles_of(imports):
    """Sorted groups of modules that import each other, in one step or in several."""
    reached = {module: set(found) for module, found in imports.items()}
    while True:
        longer = {module: found.union(*(reached[other] for other in found)) for module, found in reached.items()}
        if longer == reached:
            break
        reached = longer
    return sorted({tuple(sorted(m for m in reached[module] if module in reached[m])) for module in reached} - {()})


def test_no_files_import_each_other(trees):
    own = {module_of(path): path for path in trees if not path.startswith("tests/")}
    packages = {module for module, path in own.items() if path.endswith("/__init__.py")}
    exports = {
        package: {
            alias.name: node.module
            for node in ast.walk(trees[own[package]])
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for package in packages
    }
    modules = own.keys() - packages
    imports = {name: set(imports_of(trees[own[name]], modules, exports)) - {name} for name in modules}
    assert len(imports) > 400
    assert sum(len(found) for found in imports.values()) > 1000
    assert circles_of(imports) == []


def test_circles_are_found():
    """Of three files in a circle, and of one that only looks on."""
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert circles_of(imports) == [("a", "b", "c")]


def test_ray_is_started_in_one_place(texts):
    code = {path: text for path, text in texts.items() if not path.startswith("tests/")}
    assert [path for path, text in code.items() if "ray.init(" in text] == ["agents/on_ray/connecting.py"]
