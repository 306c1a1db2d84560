"""The report on queues: a row for each scheduler and queue, and a picture."""

import pandas as pd

from baselines import Fifo, Srtf
from envs.evaluation.compare import compare_schedulers
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup
from murmuration.reports.queues import plot_queue_shares, write_queue_table
from tests.golden.playground import two_nodes
from tests.golden.test_kueue import of_teams


def test_each_queue_has_a_row_and_an_area(tmp_path):
    """Jobs of ten queues, of which the two smallest are drawn together."""
    rows = [(0.0, 2, 100.0 - each, f"team {each}") for each in range(9)]
    scenario = Scenario()
    setup = Setup(two_nodes(), IdealModel(), scenario)
    comparison = compare_schedulers({"fifo": Fifo(), "srtf": Srtf()}, [of_teams(*rows, (0, 1, 1, ""))], setup, 0)
    first = write_queue_table(comparison, scenario, tmp_path / "queues.csv")
    table = pd.read_csv(tmp_path / "queues.csv", keep_default_na=False)
    assert table.groupby("scheduler")["jobs"].sum().to_dict() == {"fifo": 10, "srtf": 10}
    assert table["gpu_share"].astype(float).between(0, 0.25).all()
    figure = plot_queue_shares(first)
    assert [axes.get_title() for axes in figure.axes] == ["fifo", "srtf"]
    _, labels = figure.axes[0].get_legend_handles_labels()
    assert (len(labels), labels[-1]) == (9, "others")
    alone = compare_schedulers({"fifo": Fifo()}, [of_teams((0, 1, 1, "a"))], setup, 0)
    assert write_queue_table(alone, scenario, tmp_path / "none.csv") == {}
    assert not (tmp_path / "none.csv").exists()
