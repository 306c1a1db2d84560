"""The experiment: instances, figures in tables, and its internal checks."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from baselines.sampling_matching.problem import problem
from baselines.sampling_matching.search import Sampling
from envs.performance import default_model
from envs.types import Configuration
from murmuration.config.describe import describe_reproduction
from murmuration.config.errors import ChoiceError
from papers.sampling_matching import experiment as experiment_module
from papers.sampling_matching import report
from papers.sampling_matching.clearing import ClearedMatching, clear_by_paths
from papers.sampling_matching.exact import every_split
from papers.sampling_matching.experiment import (
    Experiment,
    by_size,
    certified_rows,
    count_table,
    fairness_table,
    large_table,
    one_at_a_time,
    slow_table,
    time_table,
)
from papers.sampling_matching.instances import FAST_LINKS, GPU_TYPES, SLOW_LINKS, draw

CONF = Path(__file__).resolve().parents[3] / "conf"


@pytest.fixture
def small(monkeypatch):
    """The experiment on small sizes."""
    for name, value in {
        "CERTIFIED": ((2, 5), (3, 6)),
        "LARGE_SIZES": ((3, 7, False), (4, 20, True)),
        "TIMED": ((2, 5),),
        "SLOW": (3, 6),
        "COUNTS": (5, 10),
        "HUGE": (6, 40),
    }.items():
        monkeypatch.setattr(experiment_module, name, value)
    return Experiment(Sampling(samples=10), 3, 0)


def test_instances_are_equal_in_every_call():
    one, again = (Experiment(Sampling(), 3, 7).each(3, 8) for _ in range(2))
    assert all((a.problem.throughputs == b.problem.throughputs).all() for a, b in zip(one, again, strict=True))
    other = Experiment(Sampling(), 3, 8).each(3, 8)
    assert not (one[0].problem.work == other[0].problem.work).all()


@pytest.mark.parametrize("seed", range(5))
def test_workers_of_a_type_have_the_zoos_throughput(seed):
    """Every row of throughputs belongs to a model on one GPU of each type; every type has a worker."""
    made = draw(np.random.default_rng(seed), 5, 20, FAST_LINKS, alike=True).problem
    performance = default_model()
    known = {
        tuple(performance.throughput(name, Configuration(gpu_type, 1)) for gpu_type in GPU_TYPES)
        for name in performance.models
    }
    assert all(tuple(row) in known for row in made.throughputs[:, 0, 0].tolist())
    assert made.supply.sum() == 20
    assert (made.supply >= 1).all()


def test_single_workers_differ_by_at_most_a_tenth():
    made = draw(np.random.default_rng(0), 2, 30, FAST_LINKS, alike=False).problem
    assert made.supply.tolist() == [1] * 30
    performance = default_model()
    types = [
        [performance.throughput(name, Configuration(gpu_type, 1)) for gpu_type in GPU_TYPES]
        for name in performance.models
    ]
    for row in made.throughputs[:, 0, 0]:
        off = [np.abs(row[:, None] / np.array(known) - 1).min(axis=1).max() for known in types if min(known) > 0]
        assert min(off) <= 0.1 + 1e-9


def test_slow_links_and_small_batches_make_communication_costly():
    fast, slow = (
        draw(np.random.default_rng(3), 4, 12, links, alike=True).problem for links in (FAST_LINKS, SLOW_LINKS)
    )
    assert (slow.work == fast.work).all()
    assert (slow.overhead[:, 2:] >= 10 * fast.overhead[:, 2:] - 1e-9).all()


def test_one_at_a_time_by_hand():
    """On all three workers: 30 / 3 = 10 s and 60 / 6 = 10 s with 1 s of overhead: 10 + 21."""
    made = problem([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], [30, 60], overhead=[[0, 0, 0, 0], [0, 0, 0, 1]])
    assert one_at_a_time(made) == 10 + 21


def test_certified_rows_and_their_tables(small):
    rows = certified_rows(small)
    gaps = rows[rows["method"] != "one at a time"]
    assert set(rows["method"]) == {*small.methods(), "sampling, fair", "one at a time"}
    assert len(rows) == 2 * 3 * 9
    assert (gaps["gap"] >= -1e-6).all()
    assert gaps["jain"].between(1 / 3, 1 + 1e-9).all()
    first = small.each(2, 5)[0].problem
    row = rows.query("jobs == 2 and instance == 0 and method == 'both'").iloc[0]
    matching = small.methods()["both"](first, small.rng(0))
    assert row["gap"] == pytest.approx(100 * (matching.worth / every_split(first).worth - 1))
    table = by_size(rows)
    assert table["jobs on workers"].tolist() == ["2 on 5", "3 on 6"]
    assert table["categories"].tolist() == [4, 10]
    assert float(table["both"][0].split()[0]) == round(gaps.query("jobs == 2 and method == 'both'")["gap"].mean(), 2)
    assert fairness_table(rows)["jobs on workers"].tolist() == ["2 on 5", "3 on 6"]


def test_the_large_table_names_its_bounds(small):
    table = large_table(small, 2)
    assert table["bound by"].tolist() == ["HiGHS", "prices"]
    assert table["all categories"].str.contains(r"\(").all()  # 969 categories of 4 jobs on 20 workers can be listed
    assert all(float(cell.split()[0]) >= -0.01 for name in ("sampling", "greedy", "both") for cell in table[name])


def test_time_tables_have_ratios(small):
    table = time_table(small, 2)
    assert table["categories"].tolist() == [4]
    assert table["times faster"][0] == round(float(table["times faster"][0]))
    assert float(table["all: s"][0]) > 0
    assert count_table(small)["samples"].tolist() == [5, 10]


def test_the_slow_table_has_all_orders(small):
    table = slow_table(small)
    assert table["method"].tolist() == [
        "all categories",
        *(f"uniform, by {order}" for order in ("workload", "lightest", "none", "benefit")),
        "sampling",
        "greedy",
        "both",
    ]
    assert (table["max"] >= table["median"]).all()
    assert table["communication % of JCT, equal shares"].between(0, 100).all()


def test_the_whole_report(small, tmp_path):
    result = report.jct_gap("", tmp_path, instances=3, sampling=Sampling(samples=10))
    assert len(result.tables) == 6
    assert all(isinstance(frame, pd.DataFrame) and len(frame) for _, frame in result.tables)
    assert any(note.startswith("reconstruction: ") for note in result.notes)
    assert {path.name for path in tmp_path.iterdir()} == {"gaps.csv", *(f"table_{i}.csv" for i in range(1, 7))}


def test_assignments_with_different_welfare_are_an_error(small, monkeypatch):
    def worse(values, sizes, supply):
        cleared = clear_by_paths(values, sizes, supply)
        return ClearedMatching(cleared.counts, cleared.prices, cleared.welfare * (1 - 1e-6))

    assert "largest relative difference" in report.assignment_note(small)
    monkeypatch.setattr(report, "_CLEARING_METHODS", (clear_by_paths, worse))
    with pytest.raises(AssertionError, match="differ"):
        report.assignment_note(small)


def test_a_paper_alone_names_its_first_table():
    def chosen(paper, table):
        content = OmegaConf.load(CONF / "reproduce.yaml")
        own = {"paper": paper, "table": table, "data": ""}
        return describe_reproduction(OmegaConf.create({"tables": content.tables, **own})).table.values["_target_"]

    assert chosen("sampling_matching", None).endswith("jct_gap")
    assert chosen("rubick", "prediction_error").endswith("prediction_error")
    for paper, table, said in (("sampling", None, "did you mean sampling_matching"), ("rubick", "x", "no such table")):
        with pytest.raises(ChoiceError, match=said):
            chosen(paper, table)
