"""Configurations stop at the door: only the modules that are about them see one, all others take descriptions."""

import ast

import pytest

DOOR = (
    *(
        "arguments",
        "choices",
        "describe",
        "describe_ablation",
        "describe_estimates",
        "errors",
        "outcomes",
        "provenance",
    ),
    *("recall", "registry"),
)
CONFIGURATIONS = {"DictConfig", "ListConfig", "OmegaConf", "HydraConfig", "compose", "compose_options", "cfg"}
ALLOWED = {f"murmuration/config/{name}.py" for name in DOOR} | {"murmuration/runs/commands.py"}


def seen(tree: ast.Module) -> set[str]:
    """What a file has to do with configurations: imports of omegaconf, and names that stand for them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "omegaconf"}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module)} if str(node.module).split(".")[0] == "omegaconf" else set()
            found |= {alias.name for alias in node.names if alias.name in CONFIGURATIONS}
        elif isinstance(node, ast.arg) and node.arg == "cfg":
            found.add("cfg")
    return found


def test_only_the_door_sees_configurations(trees):
    scripts = {path: seen(tree) for path, tree in trees.items() if path.startswith(("scripts/", "murmuration/"))}
    assert {path: found for path, found in scripts.items() if found and path not in ALLOWED} == {}
    assert {path for path in ALLOWED if not scripts[path]} == set(), (
        "no configuration is seen there; take it off the list"
    )


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from omegaconf.errors import MissingMandatoryValue", {"omegaconf.errors"}),
        ("def f(): import omegaconf", {"omegaconf"}),
        ("from murmuration.config.arguments import compose_options", {"compose_options"}),
        ("from hydra import compose", {"compose"}),
        ("def f(cfg): pass", {"cfg"}),
        ("def f(run): return run.problem", set()),
    ],
)
def test_a_configuration_is_seen(source, found):
    assert seen(ast.parse(source)) == found
