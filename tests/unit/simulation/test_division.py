"""Division of a node's cores and memory: properties of the kernel, and amounts worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.simulation import Scenario, Setup, State, ThroughputTable
from envs.simulation.world.arrays import World, world_of
from envs.simulation.world.division import SHORT_OF_CPUS, divide, divide_uneven_nodes, mark_uneven
from envs.simulation.world.shares import new_share
from envs.types import ClusterSpec, NodeSpec
from tests.unit.simulation.bench import Bench

PARTS = 64
CLUSTER = ClusterSpec((NodeSpec("plain", 8, cpu_cores=24.0, memory=500.0),))
SCENARIO = Scenario(cpu_memory="shared")
TABLE = ThroughputTable.build(Setup(CLUSTER, Bench(), SCENARIO), ("any",), 8)
Row = tuple[int, int, float | None]  # GPUs, 64ths that saturate it, cores that it names


def node_with(rows: list[Row], cores: float) -> World:
    """One node with a share for each row, job by job."""
    state = State.allocate(CLUSTER, 8, scenario=SCENARIO)
    state._clear(0, SCENARIO)
    state.jobs["first_share"] = -1
    here = world_of(state, TABLE)
    here.nodes[0].cpus = cores
    for j, (gpus, most, named) in enumerate(rows):
        new_share(here, j, 0, gpus, np.nan if named is None else named, 0.0)
        share = here.shares[here.jobs[j].first_share]
        share.most_cpus = most if named is None else 0
        here.nodes[0].claimed_cpus += most if named is None else int(named * PARTS)
    return here


def parts_of(here: World, count: int) -> list[int]:
    """64ths of cores of each job."""
    return [int(here.shares[here.jobs[j].first_share].cpus * PARTS) for j in range(count)]


@st.composite
def shares_of_a_node(draw: st.DrawFn) -> tuple[list[Row], float]:
    """Up to 8 GPUs in shares that could use one 64th to 12 cores for each GPU; some name amounts that fit."""
    rows: list[Row] = []
    left, named_parts = 8, 0
    while left and draw(st.booleans()):
        gpus = draw(st.integers(1, left))
        named = draw(st.sampled_from([None, None, 0.5, 2.25])) if rows else None
        rows.append((gpus, draw(st.integers(gpus, 12 * PARTS * gpus)), named))
        named_parts += 0 if named is None else int(named * PARTS)
        left -= gpus
    cores = (named_parts + 8 + draw(st.integers(0, 40 * PARTS))) / PARTS
    return rows, cores


@given(shares_of_a_node())
def test_amounts_are_max_min_fair_up_to_saturation(drawn):
    """No share is below saturation while another has more for each GPU, up to the rounding to 64ths; nothing is left
    over while a share is not saturated; amounts fit; each GPU has a 64th.
    """
    rows, cores = drawn
    here = node_with(rows, cores)
    divide(here, 0, False)
    parts = parts_of(here, len(rows))
    world_chosen = [j for j, (_, _, named) in enumerate(rows) if named is None]
    assert sum(parts) <= cores * PARTS
    assert all(rows[j][0] <= parts[j] <= rows[j][1] for j in world_chosen)
    assert all(parts[j] == rows[j][2] * PARTS for j in range(len(rows)) if rows[j][2] is not None)
    hungry = [j for j in world_chosen if parts[j] < rows[j][1]]
    if hungry:
        assert sum(parts) == cores * PARTS
    for j in hungry:
        for other in world_chosen:
            assert parts[j] / rows[j][0] >= parts[other] / rows[other][0] - 2


@given(shares_of_a_node())
def test_a_node_with_enough_for_all_saturates_them_as_the_division_would(drawn):
    rows, cores = drawn
    one, other = node_with(rows, cores), node_with(rows, cores)
    divide(one, 0, False)
    other.nodes[0].short = SHORT_OF_CPUS
    mark_uneven(other, 0)
    divide_uneven_nodes(other)
    assert parts_of(one, len(rows)) == parts_of(other, len(rows))


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ([(1, 100, None), (1, 100, None), (1, 100, None)], [10, 10, 10]),
        (
            [(1, 5, None), (1, 100, None), (1, 100, None)],
            [5, 12, 13],
        ),  # 25 remain for two: 12.5 each, rounded down first
        ([(2, 100, None), (1, 100, None)], [20, 10]),  # saturates at 50 for each GPU, so it is served before 1
        ([(2, 8, None), (1, 100, None)], [8, 22]),
        ([(1, 7, None), (2, 14, None)], [7, 14]),  # enough for all: 9 stay free
        ([(3, 90, None), (1, 0, 20 / 64)], [10, 20]),  # the named amount first
    ],
)
def test_thirty_parts_by_hand(rows, parts):
    here = node_with(rows, 30 / PARTS)
    divide(here, 0, False)
    assert parts_of(here, len(rows)) == parts
