"""Files of runs are written as a whole: every call that writes one is in a block of `whole_file`."""

import ast
from collections.abc import Iterator

import pytest

WRITES = {"write_text", "write_bytes", "savefig", "to_csv", "to_parquet", "save_file"}
# Nothing reads these files before they are complete: a job renames its report, a state's folder appears
# as a whole, and pages are built anew.
EXEMPT = (
    "agents/on_ray/state.py",
    "envs/performance/refit.py",
    "envs/episodes/film.py",
    "scripts/documentation/",
    "deployment/jobs.py",
    "scripts/experiments/slurm_advice.py",  # what a watcher prints, as it prints it
    "murmuration/soak/fuzzing/",
)


def loose_writes(tree: ast.AST) -> Iterator[str]:
    """Calls that write a file outside of a block of `whole_file`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.With) and "whole_file(" in " ".join(map(ast.unparse, node.items)):
            continue
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            modes = [each.value for each in node.args if isinstance(each, ast.Constant)]
            opens = name in ("open", "ZipFile") and any(str(mode)[:1] in ("w", "x") for mode in modes)
            if opens or (name in WRITES and (node.args or name != "to_csv")):
                yield f"{node.lineno} {name}"
        yield from loose_writes(node)


def test_files_are_written_as_a_whole(trees):
    found = {
        path: writes
        for path, tree in trees.items()
        if path.startswith(("agents/", "envs/", "baselines/", "deployment/", "scripts/"))
        and not path.startswith(EXEMPT)
        if (writes := list(loose_writes(tree)))
    }
    assert found == {}, "write with write_whole, write_frame, write_figure, or in a block of whole_file"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("frame.to_csv(path)", ["1 to_csv"]),
        ("write_whole(path, frame.to_csv(index=False))", []),
        ("zipfile.ZipFile(part, 'w')", ["1 ZipFile"]),
        ("open(path, 'wb').write(x)", ["1 open"]),
        ("path.open('rb')", []),
        ("with whole_file(path) as part, ZipFile(part, 'w') as f:\n    part.write_text(x)", []),
    ],
)
def test_a_loose_write_is_seen(source, found):
    assert list(loose_writes(ast.parse(source))) == found
