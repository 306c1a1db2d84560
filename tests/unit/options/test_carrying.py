"""Rows that are carried over from one decision to the next equal those written anew, to the bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.options import OptionBatch
from envs.options.arrays import OptionArrays, option_arrays
from envs.options.carrying import carry_features, forget_kept_rows
from envs.options.kernels import prepare
from envs.simulation.compiled.jit import kernel
from tests.conformance.random_worlds import random_world
from tests.unit.options.worlds import batch_of, draw, random_rules


@kernel
def carry_decision(batch: OptionArrays, is_first: bool) -> int:
    """Write the rows of the present decision of episode 0 as players do; return how many were copied."""
    a = option_arrays(batch, 0)
    prepare(a)
    if is_first:
        forget_kept_rows(a)
    carry_features(a, True)
    copied = 0
    for option in range(a.rules[0].num_options):
        copied += a.kept.option_before[option] >= 0
    return copied


def carried(batch: OptionBatch, is_first: bool) -> tuple[list[np.ndarray], int]:
    """All rows of the present decision, and how many of the options were copied."""
    copied = carry_decision(batch.arrays, is_first)
    arrays, rules = batch.arrays, batch.arrays.rules[0, 0]
    return [
        arrays.options[: rules["num_options"]].copy(),
        arrays.jobs[: rules["num_jobs"]].copy(),
        arrays.nodes.copy(),
        arrays.cluster.copy(),
    ], copied


def play_both(seed: int, steps: int, *, pairs: bool = False, **rules: object) -> int:
    """Play random options in two equal episodes, one of which carries rows over; return how many were copied."""
    world, rng = random_world(seed, pairs=pairs), np.random.default_rng(seed)
    chosen_rules = random_rules(rng, **rules)
    batch, plain = (batch_of(world.setup, world.workload, chosen_rules, seed) for _ in range(2))
    rounds, total = -1, 0
    for _ in range(steps):
        if plain.ended[0]:
            break
        now = int(plain.state.episode[0, 0]["num_rounds"])
        found, copied = carried(batch, now != rounds)
        listed = plain.options()
        for rows, expected in zip(found, (listed.options, listed.jobs, listed.nodes, listed.cluster), strict=True):
            assert np.array_equal(rows, expected)
        rounds, total = now, total + copied
        option = np.array([draw(plain, rng, waiting=0.1)])
        for each in (batch, plain):
            each.step(option)
    return total


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_carried_rows_equal_those_written_anew(seed):
    play_both(seed, steps=60)


def test_most_rows_of_a_round_are_copied_where_running_jobs_may_change():
    copied = [play_both(seed, steps=60, changes="move", max_decisions=11, turn="auction") for seed in range(8)]
    assert sum(copied) > 300
