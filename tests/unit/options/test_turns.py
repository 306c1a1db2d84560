"""Nodes that choose one after another."""

import numpy as np
import pytest

from envs.options import OptionBatch, OptionRules
from envs.options.columns import EVICT, JOIN, RESIZE, START, WAIT
from envs.simulation import EventKind
from envs.types import MurmurationError
from tests.unit.episodes.players import jobs_like
from tests.unit.options.test_rounds import WAITING, TwoNodes, events, nodes
from tests.unit.options.worlds import choose, listed, play_area

TURNS = OptionRules(turn="turns")


def turn(batch: OptionBatch) -> int:
    """The node whose turn it is."""
    return batch.options().turn


def test_nodes_choose_in_order_and_around_again():
    batch = play_area(nodes(2, 2), jobs_like((0, 1, 10), (0, 1, 20), (0, 1, 30), (0, 1, 40)), TURNS)
    assert (turn(batch), listed(batch)) == (0, [(START, 3, 0, 1), *((START, job, 0, 1) for job in (0, 1, 2))])
    choose(batch, (START, 3, 0, 1))
    assert (turn(batch), listed(batch)) == (1, [WAITING, *((START, job, 1, 1) for job in (0, 1, 2))])
    choose(batch, (START, 2, 1, 1))
    assert turn(batch) == 0
    choose(batch, (START, 1, 0, 1))
    assert (turn(batch), listed(batch)) == (1, [WAITING, (START, 0, 1, 1)])
    choose(batch, (START, 0, 1, 1))
    assert batch.time[0] > 0


def test_waiting_ends_a_nodes_part_of_the_round():
    batch = play_area(nodes(2, 2), jobs_like(*((0, 1, 10 + job) for job in range(5))), TURNS)
    choose(batch, (START, 0, 0, 1))
    choose(batch, WAITING)  # node 1
    assert turn(batch) == 0
    choose(batch, WAITING)  # node 0: nobody is left
    assert batch.time[0] == 10.0
    assert events(batch, EventKind.START) == [(0.0, 0)]
    assert turn(batch) == 0


def test_a_node_without_options_is_left_out():
    batch = play_area(nodes(1, 2, 2), jobs_like((0, 2, 50), (0, 2, 60)), TURNS)
    assert turn(batch) == 1
    choose(batch, (START, 0, 1, 2))
    assert turn(batch) == 2


def test_a_node_that_waits_gives_its_equals_a_turn():
    """Nodes 0 and 1 are equal and empty: node 1 has options only once node 0 has waited."""
    batch = play_area(nodes(2, 2, 4), jobs_like((0, 4, 50), (1, 1, 10)), TURNS)
    choose(batch, (START, 0, 2, 4))
    assert (batch.time[0], turn(batch)) == (1.0, 0)
    choose(batch, WAITING)
    assert (turn(batch), listed(batch)) == (1, [WAITING, (START, 1, 1, 1)])


def test_nodes_are_asked_in_order_to_join_a_gang():
    """Job 1 needs six GPUs; after node 1 come node 2 and node 0."""
    batch = play_area(nodes(2, 4, 2, 2), jobs_like((0, 2, 40), (0, 6, 60)), TURNS)
    assert turn(batch) == 0
    choose(batch, (START, 0, 0, 2))
    assert turn(batch) == 1
    choose(batch, (START, 1, 1, 2))
    # Nodes 2 and 3 must give all that they have, which is just enough.
    assert (turn(batch), listed(batch)) == (2, [WAITING, (JOIN, 1, 2, 2)])
    choose(batch, (JOIN, 1, 2, 2))
    assert (turn(batch), listed(batch)) == (3, [WAITING, (JOIN, 1, 3, 2)])
    choose(batch, (JOIN, 1, 3, 2))
    assert events(batch, EventKind.START) == [(0.0, 0), (0.0, 1)]


def test_a_node_that_waits_lets_a_gang_go():
    """Without node 2 the gang cannot be completed; its job waits for the next round, and node 2 is not asked again."""
    batch = play_area(nodes(2, 4, 2), jobs_like((0, 2, 40), (0, 6, 60), (0, 1, 90)), TURNS)
    choose(batch, (START, 0, 0, 2))
    choose(batch, (START, 1, 1, 4))
    assert turn(batch) == 2
    choose(batch, WAITING)
    assert batch.counters()["broken_gangs"] == 1
    assert (turn(batch), listed(batch)) == (1, [WAITING, (START, 2, 1, 1)])
    choose(batch, WAITING)
    assert batch.time[0] == 20.0


def test_nobody_lets_a_gang_go_while_nothing_else_runs():
    batch = play_area(nodes(4, 4), jobs_like((0, 6, 60)), TURNS)
    choose(batch, (START, 0, 0, 4))
    assert listed(batch) == [(JOIN, 0, 1, 2)]


def test_nobody_waits_after_an_eviction_that_leaves_all_idle():
    """Node 0 evicts the only job that runs, which needs both nodes."""
    rules = OptionRules(turn="turns", changes="move")
    batch = play_area(nodes(2, 4), jobs_like((0, 6, 60), (1, 6, 60)), rules)
    choose(batch, (START, 0, 0, 2))
    choose(batch, (JOIN, 0, 1, 4))
    assert (batch.time[0], turn(batch), listed(batch)) == (1.0, 0, [WAITING, (EVICT, 0, 0, 0)])
    choose(batch, (EVICT, 0, 0, 0))
    assert turn(batch) == 1
    assert {change for change, *_ in listed(batch)} == {START}  # of gangs; all is idle, so that nobody may wait


def test_a_gang_that_nobody_can_complete_is_given_up():
    batch = play_area(nodes(2, 1, 1), jobs_like((0, 3, 30), (0, 1, 90)), TURNS, performance=TwoNodes())
    choose(batch, (START, 0, 0, 1))
    choose(batch, (JOIN, 0, 1, 1))
    assert batch.counters()["broken_gangs"] == 1
    assert {change for change, *_ in listed(batch)} == {START}


def test_a_node_changes_only_its_own_jobs():
    rules = OptionRules(turn="turns", changes="resize")
    batch = play_area(nodes(2, 3), jobs_like((0, 1, 90, 1, 2), (0, 1, 90, 1, 2), (1, 9, 1, 5, 9)), rules)
    choose(batch, (START, 0, 0, 1))
    choose(batch, (START, 1, 1, 1))
    while batch.time[0] == 0.0:
        choose(batch, WAITING)
    assert listed(batch) == [WAITING, (RESIZE, 0, 0, 2), (JOIN, 1, 0, 1)]
    choose(batch, (JOIN, 1, 0, 1))
    assert (turn(batch), listed(batch)) == (1, [WAITING, (JOIN, 0, 1, 1)])


def test_random_play_ends_in_both_orders():
    """Waiting often and rarely: every episode ends with all jobs done."""
    workload = jobs_like(*((3.0 * job, 1 + job % 5, 40.0, 1, 6) for job in range(12)))
    for waiting in (0.05, 0.7):
        rng = np.random.default_rng(0)
        batch = play_area(nodes(2, 4, 2), workload, OptionRules(turn="turns", changes="move"))
        for _ in range(3000):
            if batch.ended[0]:
                break
            changes = batch.options().what[:, 0]
            may_wait = changes[0] == WAIT
            batch.step(np.array([0 if may_wait and rng.random() < waiting else int(rng.integers(len(changes)))]))
        assert batch.ended[0]
        assert len(events(batch, EventKind.FINISH)) == 12


def test_an_unknown_rule_is_refused():
    with pytest.raises(MurmurationError, match="env.turn is 'dice'; it must be one of auction, turns"):
        OptionRules(turn="dice")  # type: ignore[arg-type]
