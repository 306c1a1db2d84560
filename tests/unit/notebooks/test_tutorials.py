"""The numbered notebooks run from top to bottom, and what they show in the repository is what they give now."""

import json
import re
from pathlib import Path

import pytest

from tests.unit.notebooks.cells import IMAGE, CodeCell, code_cells

FOLDER = Path(__file__).parents[3] / "notebooks"
TUTORIALS = sorted(FOLDER.glob("[0-9]_*.ipynb"))
TRAINED = {"4_train_and_read_the_curves"}  # processors differ in the last digits of torch
LARGEST = 100_000  # bytes of a file
LINK = re.compile(r"\]\((?!https?://)([^)#]+)\)")
by_name = pytest.mark.parametrize("notebook", TUTORIALS, ids=lambda path: path.stem)


@pytest.mark.slow
@by_name
def test_it_runs_and_shows_what_the_repository_shows(notebook, monkeypatch):
    if notebook.stem in TRAINED:
        pytest.importorskip("torch", reason="needs torch: pip install -c constraints.txt -e '.[learn]'")
        pytest.importorskip("ray", reason="needs ray: pip install -c constraints.txt -e '.[learn]'")
    monkeypatch.chdir(FOLDER)
    names = {"__name__": "__main__"}
    for cell in code_cells(notebook):
        cell.run(names)
        if notebook.stem not in TRAINED:
            assert cell.found_text == cell.kept_text, cell.source
            assert hasattr(cell.value, "_repr_png_") == any(IMAGE in output.get("data", {}) for output in cell.kept)


@pytest.mark.slow
def test_a_kernel_of_this_environment_runs_the_first_one():
    """As Jupyter does it: in a process of its own."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(TUTORIALS[0], as_version=4)
    kept = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    found = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    printed = [["".join(output.get("text", "") for output in cell) for cell in cells] for cells in (kept, found)]
    assert printed[0] == printed[1]


def test_there_are_six_in_order():
    assert [path.name[0] for path in TUTORIALS] == list("123456")


@by_name
def test_its_outputs_are_small_and_hold_no_error(notebook):
    assert notebook.stat().st_size <= LARGEST
    outputs = [output for cell in code_cells(notebook) for output in cell.kept]
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result"}
    assert sum(IMAGE in output.get("data", {}) for output in outputs) <= 1
    assert all(output["name"] == "stdout" for output in outputs if output["output_type"] == "stream")


@by_name
def test_its_links_lead_to_files(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    links = [link for text in texts for link in LINK.findall(text)]
    assert [link for link in links if not (notebook.parent / link).exists()] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("print(1)\n2 + 2", ["1\n", "4"]),
        ("x = 1", [""]),
        ("print(1)", ["1\n"]),
        ("def f():\n    return 'a'\n\n\nf()", ["", "'a'"]),
        ("None", [""]),
    ],
)
def test_a_cell_shows_what_it_prints_and_its_last_value(source, found):
    cell = CodeCell(source, [])
    cell.run({})
    assert cell.found_text == found


def test_an_output_that_is_out_of_date_is_seen():
    stream = {"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]}
    result = {"output_type": "execute_result", "data": {"text/plain": ["4"]}}
    picture = {"output_type": "execute_result", "data": {"text/plain": ["<Image>"], IMAGE: "abc"}}
    assert CodeCell("", [stream, result, picture]).kept_text == ["a\nb\n", "4"]
