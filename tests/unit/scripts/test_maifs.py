"""The table of MAIFS' claims: improvements worked out by hand, and the published row."""

import pytest

from baselines import Fifo, Srtf
from envs.evaluation.comparison import Comparison
from envs.evaluation.statistics import Estimate
from envs.performance import IdealModel
from envs.simulation import Setup, Simulator, run_episode
from papers.maifs import as_improvement, improvement_table
from tests.golden.playground import jobs, two_nodes

# A long job before a short one, both for all GPUs: FIFO has JCTs of 10 and 12 s, SRTF of 12 and 2 s, and so on.
LOADS = [jobs((0, 8, 10), (0, 8, 2 + i)) for i in range(3)]


@pytest.fixture
def comparison() -> Comparison:
    """SRTF as the policy, beside FIFO."""
    setup = Setup(two_nodes(), IdealModel())
    runs = {
        name: [run_episode(make(), Simulator(load, setup)) for load in LOADS]
        for name, make in (("policy", Srtf), ("fifo", Fifo))
    }
    return Comparison(runs, reference="policy")


def test_improvements_follow_from_the_ratios(comparison: Comparison) -> None:
    table = improvement_table(comparison, "policy").set_index("scheduler")
    ratio = (14 / 22 * 16 / 23 * 18 / 24) ** (1 / 3)  # of few workloads, the geometric mean
    assert float(str(table.loc["fifo", "mean JCT"]).split()[0]) == pytest.approx(100 * (1 - ratio), abs=0.06)
    assert table.loc["fifo", "makespan"] == "0.0 [0.0, 0.0]"
    assert table.loc["fifo", "windows"] == 3
    assert "policy" not in table.index


def test_the_published_figures_stand_below(comparison: Comparison) -> None:
    last = improvement_table(comparison, "policy").iloc[-1]
    assert last.tolist() == ["published, state of the art", "at most 46", "at most 44", "not public"]


def test_equal_makespans_have_a_ratio_of_one(comparison: Comparison) -> None:
    assert comparison.ratio("makespan", "policy", "fifo") == Estimate(1.0, 1.0, 1.0)


def test_more_than_a_baseline_is_a_negative_improvement() -> None:
    assert as_improvement(Estimate(1.25, 1.1, 1.5)) == "-25.0 [-50.0, -10.0]"
