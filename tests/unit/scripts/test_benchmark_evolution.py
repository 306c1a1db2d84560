"""The benchmark of training by evolution strategies: it counts rounds, and its clocks change nothing."""

from collections.abc import Iterator

import numpy as np
import pytest
from hydra import initialize_config_dir

from agents.problems.bids import BiddingTask, Silence
from agents.problems.playing import Game, play
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from benchmarks import evolution
from benchmarks.report import Report
from benchmarks.suite import Suite
from murmuration.config.choices import CONF
from murmuration.config.describe import describe_further
from murmuration.config.inputs import build_inputs


@pytest.fixture(autouse=True)
def configs() -> Iterator[None]:
    """The configuration's folder, which tasks are composed from."""
    with initialize_config_dir(str(CONF), version_base=None):
        yield


def test_training_is_timed_in_each_market():
    """On a cluster of four nodes."""
    report = Report()
    evolution.measure_evolution(report, Suite(num_sizes=1, pairs=1))
    assert {row.size for row in report.rows} == {"shared-16"}
    found = {row.what: row.value for row in report.rows}
    for market in evolution.MARKETS:
        rounds = found[f"{market}: rounds (env-steps)"]
        assert rounds > 50 * found[f"{market}: training episodes"] > 0
        assert found[f"{market}: bids of nodes (agent-steps)"] == pytest.approx(4 * rounds)
        assert 0 < found[f"{market}: the market's share"] < 1
        assert 0 < found[f"{market}: the network's share"] < 1 - found[f"{market}: the market's share"]


def test_a_timed_market_decides_as_the_market_does():
    inputs = build_inputs(describe_further("shared-16")[1])
    workload = inputs.source.episode(np.random.default_rng(0), "train")
    scores = []
    timed = evolution.TimedMarket(StarlingMarket(Starling(look_ahead=0)))
    for market in (timed.market, timed):
        task = BiddingTask("shared-16", inputs.setup, inputs.source, market)
        scores += play(Silence(task.spec.num_bids), task.batch(1), [Game(0, workload, 0)])
    assert scores[0] == scores[1]
    assert timed.clock.rounds > 50
    assert timed.clock.seconds > 0
