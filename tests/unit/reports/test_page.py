"""A comparison as Markdown."""

import pytest

from envs.evaluation import Comparison
from envs.evaluation.compare import compare_schedulers
from envs.performance import IdealModel
from envs.simulation import Setup
from murmuration.reports.page import by_figure, lines_of_missing, markdown_page
from tests.unit.evaluation.test_compare import CLUSTER, InOrder, Preempting, Refusing, workloads
from tests.unit.metrics.fabricated import Told, fabricated


@pytest.fixture(scope="module")
def comparison():
    """Two schedulers, the better one last, and one that cannot run."""
    schedulers = {"zealous": Preempting(), "calm": InOrder(), "blind": Refusing()}
    setup = Setup(CLUSTER, IdealModel())
    return compare_schedulers(schedulers, workloads(2), setup, reference="calm", optional=["blind"])


def table_of(page: str) -> list[list[str]]:
    """The cells of a page's table, by row."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]


def test_every_row_has_a_cell_for_every_column(comparison):
    head, rule, *rows = table_of(markdown_page(comparison))
    assert {"scheduler", "unfinished", "vs calm", "p99", "makespan", "restarts"} <= set(head)
    assert rule == ["---"] + ["---:"] * (len(head) - 1)
    assert {len(row) for row in rows} == {len(head)}


def test_rows_are_sorted_by_mean_jct_and_end_with_the_bound(comparison):
    rows = table_of(markdown_page(comparison))[2:]
    means = [comparison.estimate("mean_jct", row[0]).value for row in rows[:-1]]
    assert means == sorted(means)
    assert {row[0] for row in rows[:-1]} == {"zealous", "calm"}
    assert rows[-1][0] == "lower bound"


def test_the_page_states_left_out_schedulers_and_the_caption(comparison):
    page = markdown_page(comparison)
    assert "- blind is left out: not applicable: needs remaining work" in page
    assert page.endswith("".join(f"\n- {line}" for line in comparison.caption.splitlines()) + "\n")


def test_schedulers_are_left_out_together_if_only_their_own_names_tell_the_reasons_apart():
    why = "needs remaining work, which this scenario hides (information.work is none)"
    idle = [fabricated([Told(0, 1, 5)], end=9)]
    inapplicable = {
        "afs": f"not applicable: Afs: {why}",
        "greedy": "it chooses batch sizes: jobs keep theirs",
        "gavel": f"not applicable: Gavel with objective=makespan: {why}",
    }
    assert lines_of_missing(Comparison({"idle": idle}, inapplicable)) == [
        f"afs, gavel are left out: not applicable: {why}",
        "greedy is left out: it chooses batch sizes: jobs keep theirs",
    ]


def test_without_a_mean_the_order_is_that_of_the_comparison():
    idle = [fabricated([Told(0, 1, 5)], end=9)]
    comparison = Comparison({"idle": idle, "lazy": idle})
    assert by_figure(comparison) == [0, 1]
    assert "| idle | - " in markdown_page(comparison)
