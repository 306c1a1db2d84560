"""The compiled environment against its reference implementation: equal options, features, counters and event logs."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from envs.options import OptionBatch
from envs.options.columns import (
    ACTION_NAMES,
    CLUSTER_COLUMNS,
    EVICT,
    JOB_ROW_COLUMNS,
    NODE_COLUMNS,
    OPTION_COLUMNS,
    WAIT,
)
from envs.options.reference import ReferenceOptions
from envs.options.rules import CHANGES
from envs.types import ClusterError, Configuration
from tests.conformance.random_worlds import Workshop, random_world
from tests.unit.options.worlds import batch_of, begun, draw, listed, random_rules

ABSENT = {  # from these worlds: what is believed, predicted and shared
    *("doubt", "doubt_change", "samples", "time_low", "time_high"),
    *("is_share", "shares", "loses", "partner_loses", "partner_time", "partner_regains"),
}
CHUNK = 12
MOST_STEPS = 50  # of one world; what is equal so long stays equal


def compare_rows(name: str, found: np.ndarray, expected: np.ndarray, columns: tuple[str, ...]) -> None:
    """Assert that features are equal, to the last bit of float32."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
    differs = np.argwhere(found != expected)
    assert not len(differs), (
        f"{name}: {columns[differs[0][-1]]} of {differs[0]}: {found[tuple(differs[0])]}, "
        f"reference {expected[tuple(differs[0])]}"
    )


def compare(name: str, batch: OptionBatch, reference: ReferenceOptions) -> None:
    """Assert that both show the same and count the same."""
    assert (float(batch.time[0]), bool(batch.ended[0])) == (reference.simulator.time, reference.ended), name
    assert batch.counters() == reference.counters | {"left_out": 0}, name
    if reference.ended:
        return
    assert listed(batch) == [tuple(option) for option in reference.options], name
    found, observer = batch.options(), reference.observer
    assert found.turn == reference.lister.turn, name
    assert found.job_ids.tolist() == reference.lister.rows, name
    compare_rows(f"{name}, options", found.options, observer.options(reference.options), OPTION_COLUMNS)
    compare_rows(f"{name}, jobs", found.jobs, observer.jobs(), JOB_ROW_COLUMNS)
    compare_rows(f"{name}, nodes", found.nodes, observer.nodes(reference.subround), NODE_COLUMNS)
    expected = observer.cluster(reference.decision, reference.gang)
    compare_rows(f"{name}, cluster", found.cluster[None], expected[None], CLUSTER_COLUMNS)


def play(name: str, batch: OptionBatch, reference: ReferenceOptions, rng: np.random.Generator) -> list[str]:
    """Chance decides for both; return the changes of the options that were carried out."""
    compare(name, batch, reference)
    changes: list[str] = []
    while len(changes) < MOST_STEPS and not batch.ended[0]:
        chosen = draw(batch, rng)
        changes.append(ACTION_NAMES[reference.options[chosen].change])
        batch.step(np.array([chosen]))
        reference.step(chosen)
        compare(f"{name}, step {len(changes)}", batch, reference)
    return changes


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("turn", ["auction", "turns"])
@pytest.mark.parametrize("chunk", range(2))
def test_both_see_and_do_the_same(chunk, turn, plain):
    """From the first decision of random worlds under random rules."""
    changes: Counter[str] = Counter()
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world, rng = random_world(seed, plain=plain), np.random.default_rng(seed)
        rules = random_rules(rng, changes=CHANGES[seed % 3], turn=turn)
        batch, reference = begun(world, rules)
        changes.update(play(f"{world.name} {rules}", batch, reference, rng))
        assert batch.state.log(0) == reference.simulator.log, world.name
    assert sum(changes.values()) > 20 * CHUNK
    assert min(changes[change] for change in ACTION_NAMES if change != "share") > 0, changes


@pytest.mark.parametrize("seed", [7, 8])
def test_both_ask_nodes_again_that_have_waited(seed):
    """Nodes wait and evict until nothing runs in these two worlds, and all that have waited must choose again."""
    world, rng = random_world(seed), np.random.default_rng(seed)
    batch, reference = begun(world, random_rules(rng, turn="turns", changes="move", idle="allowed"))
    again = 0
    for _ in range(60):
        if batch.ended[0]:
            break
        changes = [option.change for option in reference.options]
        evictions = [place for place, change in enumerate(changes) if change == EVICT]
        if evictions and rng.random() < 0.4:
            chosen = int(rng.choice(evictions))
        else:
            chosen = 0 if changes[0] == WAIT and rng.random() < 0.5 else int(rng.integers(len(changes)))
        have_waited, now = bool(reference.lister.waited), reference.simulator.num_rounds
        batch.step(np.array([chosen]))
        reference.step(chosen)
        compare(world.name, batch, reference)
        again += have_waited and not reference.lister.waited and now == reference.simulator.num_rounds
    assert again > 0


@pytest.mark.parametrize("turn", ["auction", "turns"])
def test_both_only_start_jobs_where_running_ones_keep_what_they_have(turn):
    """Whatever the rules allow elsewhere."""
    changes: Counter[str] = Counter()
    for seed in range(6):
        world, rng = random_world(seed), np.random.default_rng(seed)
        never = replace(world.setup, scenario=replace(world.setup.scenario, preemption="never"))
        batch, reference = begun(replace(world, setup=never), random_rules(rng, changes="move", turn=turn))
        changes.update(play(world.name, batch, reference, rng))
    assert set(changes) <= {"wait", "start", "join", "tune", "share"}
    assert changes["start"] > 0


class Narrow(Workshop):
    """Jobs run on at most two nodes, so that a gang may find no second node that completes it."""

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return super().throughput(model, configuration) if configuration.num_nodes <= 2 else 0.0


def test_both_give_up_the_same_gangs():
    broken = 0
    for seed in range(4, 14):
        world, rng = random_world(seed), np.random.default_rng(seed)
        world = replace(world, setup=replace(world.setup, performance=Narrow()))
        rules = random_rules(rng)
        try:
            batch, reference = begun(world, rules)
        except ClusterError:  # a job needs three nodes
            continue
        play(f"{world.name} {rules}", batch, reference, rng)
        assert batch.state.log(0) == reference.simulator.log, world.name
        broken += batch.counters()["broken_gangs"]
    assert broken > 2


def test_the_worlds_hold_what_decides():
    """Preemptions, restarts and failures; every feature takes several values."""
    found: Counter[str] = Counter()
    seen: dict[str, set[float]] = {name: set() for name in (*OPTION_COLUMNS, *JOB_ROW_COLUMNS, *NODE_COLUMNS)}
    for seed in range(30):
        world, rng = random_world(seed), np.random.default_rng(seed)
        rules = random_rules(rng, changes="move", num_candidates=8, tune=True)
        batch = batch_of(world.setup, world.workload, rules, seed)
        for _ in range(60):
            if batch.ended[0]:
                break
            options = batch.options()
            for columns, rows in (
                (OPTION_COLUMNS, options.options),
                (JOB_ROW_COLUMNS, options.jobs),
                (NODE_COLUMNS, options.nodes),
            ):
                for name, values in zip(columns, rows.T, strict=True):
                    seen[name] |= {*values[:4].tolist(), *values[-4:].tolist()}
            batch.step(np.array([draw(batch, rng)]))
        jobs = batch.state.jobs[0]
        for name in ("num_restarts", "num_preemptions", "num_interruptions"):
            found[name] += int(jobs[name].sum())
    assert min(found.values()) > 0, found
    flags = {name for name in seen if name.startswith("is_")} | {"full", "waits", "runs", "changed", "first", "down"}
    few = {name for name, values in seen.items() if len(values) < 2 + (name not in flags)}
    few -= {"efficiency_1", "efficiency_2", "efficiency_4", "efficiency_8"}  # these worlds have two curves
    assert few == ABSENT, few ^ ABSENT
