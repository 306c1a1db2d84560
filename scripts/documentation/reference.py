"""The reference: a page for each package, with the docstrings of its public names."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import griffe

FOLDER = "reference"

# A name is documented on the first of these pages whose module exports it; later pages link to it.
MODULES = (
    "envs.scheduling",
    "envs.types",
    "envs.cluster",
    "envs.performance",
    "envs.workloads",
    "envs.workloads.readers",
    "envs.simulation",
    "envs.metrics",
    "envs.episodes",
    "envs.options",
    "envs.bidding",
    "envs.evaluation",
    "envs",
    "baselines",
    "agents.networks",
    "agents.methods.group_ppo",
    "agents.methods.evolution",
    "agents.methods.vdn",
    "agents.loggers",
    "agents.policies",
    "agents",
)


def place_of(module: str) -> str:
    """Return the place of a module's page on the site."""
    return f"{FOLDER}/{module}.md"


def documented_paths(root: Path) -> dict[str, str]:
    """Return the place on the site of each documented package and module, by its path in the repository."""
    paths = {module: module.replace(".", "/") for module in MODULES}
    return {path if (root / path).is_dir() else f"{path}.py": place_of(module) for module, path in paths.items()}


def public_names(module: griffe.Module) -> list[str]:
    """Return the names that a module exports: those in `__all__`, or the public names that it defines."""
    if module.exports is not None:
        return [str(name) for name in module.exports]
    return [name for name, member in module.members.items() if not name.startswith("_") and not member.is_alias]


def first_line(module: griffe.Module) -> str:
    """Return the first line of a module's docstring."""
    return module.docstring.value.partition("\n")[0] if module.docstring else ""


def page(module: griffe.Module, own: list[str], others: dict[str, str]) -> str:
    """Return a module's page: its docstring and its own names, and links to names that are documented elsewhere.

    Args:
        module: the module.
        own: names to document here.
        others: names of other pages -> their modules.
    """
    path = module.path
    text = f"# `{path}`\n\n::: {path}\n    options:\n      members: {own}\n"
    for name in own:
        if module[name].is_module:  # a function of the same name as the module that defines it
            text += f"\n::: {path}.{name}.{name}\n    options:\n      show_root_heading: true\n"
    if others:
        text += "\n## Names of other packages\n\nIt also exports, by package:\n\n"
        for home in dict.fromkeys(others.values()):
            links = ", ".join(f"[`{name}`]({home}.md#{home}.{name})" for name in others if others[name] == home)
            text += f"- [`{home}`]({home}.md): {links}\n"
    return text


def reference_pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (place on the site, Markdown) of the index of the reference and of its pages.

    Args:
        root: the folder with the packages. They are read, not imported.
    """
    loader = griffe.GriffeLoader(search_paths=[root])
    for top in dict.fromkeys(module.partition(".")[0] for module in MODULES):
        loader.load(top)
    loader.resolve_aliases()
    owners: dict[str, str] = {}
    rows = []
    for name in MODULES:
        module = cast(griffe.Module, loader.modules_collection[name])
        paths = {each: module[each].canonical_path for each in public_names(module)}
        own = [each for each, path in paths.items() if owners.setdefault(path, name) == name]
        others = {each: owners[path] for each, path in paths.items() if owners[path] != name}
        yield place_of(name), page(module, own, others)
        rows.append(f"| [`{name}`]({name}.md) | {first_line(module)} |")
    table = "\n".join(["| package | content |", "|---|---|", *rows])
    yield f"{FOLDER}/index.md", f"# Reference\n\nThe public names of each package, from their docstrings.\n\n{table}\n"
