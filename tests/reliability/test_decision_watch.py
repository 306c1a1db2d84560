"""A decision that takes long is named while it runs."""

import threading
import time
import warnings

import numpy as np
import pytest

from baselines import Fifo
from envs.scheduling import ClusterView
from envs.simulation import Setup, Simulator, SlowDecisionWarning, run_episode
from envs.simulation.watch import DecisionWatch
from envs.types import Allocation, ClusterSpec, MurmurationError
from tests.unit.simulation.bench import Bench
from tests.unit.simulation.plays import cluster_of, jobs_of


class Thinker(Fifo):
    """FIFO that waits in its second decision until a warning of it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Count decisions anew."""
        super().reset(cluster, rng)
        self.decisions = 0

    def schedule(self, view: ClusterView) -> Allocation:
        """Decide as FIFO, slowly."""
        self.decisions += 1
        if self.decisions == 2:
            assert self.told.wait(600)
        return super().schedule(view)


def test_a_slow_decision_is_named_with_its_instant(monkeypatch):
    """The warning comes from the watch's thread, before `schedule()` returns: the scheduler waits for it."""
    thinker, said = Thinker(), []

    def tell(message: str, category: type[Warning], stacklevel: int) -> None:
        if "t = 7 s" in message:  # on a busy machine, other decisions may take longer too
            said.append((message, category))
            thinker.told.set()

    monkeypatch.setattr(warnings, "warn", tell)
    engine = Simulator(jobs_of((0, 4, 40), (7, 4, 40)), Setup(cluster_of(4), Bench()))
    result = run_episode(thinker, engine, "thinker", compiled=False, decision_limit=0.2)
    assert said == [("scheduler thinker: schedule() at t = 7 s takes longer than 0.2 s", SlowDecisionWarning)]
    assert result.finished.all()


def test_fast_decisions_and_no_limit_say_nothing():
    before = threading.active_count()
    for limit in (600.0, float("inf")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine = Simulator(jobs_of((0, 4, 40), (7, 4, 40)), Setup(cluster_of(4), Bench()))
            run_episode(Fifo(), engine, compiled=False, decision_limit=limit)
    assert threading.active_count() == before  # the watch ends with the run


def test_a_decision_without_switches_is_reported_when_it_returns():
    watch = DecisionWatch("s", 0.01)  # its thread is not started
    watch.begin(3.0)
    time.sleep(0.02)
    with pytest.warns(SlowDecisionWarning, match="t = 3 s"):
        watch.end()


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_the_limit_is_positive(limit):
    with pytest.raises(MurmurationError, match="decision limit"):
        DecisionWatch("s", limit)
