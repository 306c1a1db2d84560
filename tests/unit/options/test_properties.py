"""What holds of every list of options, in random worlds under random rules."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.options import OptionBatch
from envs.options.columns import (
    CLUSTER_COLUMNS,
    EVICT,
    JOB_ROW_COLUMNS,
    JOIN,
    NODE_COLUMNS,
    OPTION_COLUMNS,
    RATIO_LIMIT,
    START,
    TUNE,
    WAIT,
)
from envs.simulation import Information
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.unit.options.worlds import batch_of, draw, listed, random_rules

SEEDS = st.integers(0, 10**6)
STEPS = 40
FRACTIONS = {
    "option": (*OPTION_COLUMNS[:6], "type_loss", "restart", "full", "free_after", "of_fair_share"),
    "job": ("waits", "runs", "changed", "rank", "first", "min_gpus", "restart_delay", "lacks_cpus", "lacks_memory"),
    "node": ("free", "gpus", "jobs", "type_throughput", "down"),
    "cluster": ("waiting", "free", "decisions", "gang"),
}
RATIOS = {
    "option": ("gpus", "throughput", "efficiency"),
    "job": ("requested_gpus",),
    "node": ("cpu_demand", "memory_demand", "link_load"),
    "cluster": ("running", "waiting_per_gpu"),
}
LOSSES = ("cpu_shortage", "cpu_harm", "memory_shortage", "memory_harm", "stage_suffered", "stage_harm")


def new_batch(seed: int) -> tuple[RandomWorld, OptionBatch, np.random.Generator]:
    """A world at its first decision."""
    world, rng = random_world(seed), np.random.default_rng(seed)
    return world, batch_of(world.setup, world.workload, random_rules(rng), seed), rng


def free_gpus(batch: OptionBatch) -> np.ndarray:
    """int64[num_nodes]: GPUs that no job holds in the draft."""
    return np.asarray(batch.state.nodes["free"][0])


@settings(max_examples=15)
@given(seed=SEEDS)
def test_every_option_fits(seed):
    """A draft never takes GPUs that are not there, and jobs never have more than they may."""
    _, batch, rng = new_batch(seed)
    for _ in range(STEPS):
        if batch.ended[0]:
            return
        jobs, free = batch.state.jobs[0], free_gpus(batch)
        for change, job, node, gpus in listed(batch):
            if change in (START, JOIN):
                assert 1 <= gpus <= free[node]
                assert jobs[job]["gpus"] + gpus <= jobs[job]["max_gpus"]
            assert gpus <= batch.cluster.node_gpus[max(node, 0)] or change in (WAIT, TUNE)
        batch.step(np.array([draw(batch, rng)]))
        assert (free_gpus(batch) >= 0).all()
        assert (batch.state.jobs[0]["gpus"] <= batch.state.jobs[0]["max_gpus"]).all()


@settings(max_examples=15)
@given(seed=SEEDS)
def test_every_gang_is_completed_or_given_up(seed):
    """Between rounds no job holds fewer GPUs than it needs; a round has finitely many decisions."""
    _, batch, rng = new_batch(seed)
    rounds, decisions = int(batch.state.episode[0, 0]["num_rounds"]), 0
    most = batch.rules.max_decisions + batch.cluster.num_gpus * (len(batch.state.jobs[0]) + 1)
    for _ in range(STEPS):
        if batch.ended[0]:
            return
        batch.step(np.array([draw(batch, rng, waiting=0.0)]))
        now = int(batch.state.episode[0, 0]["num_rounds"])
        decisions = decisions + 1 if now == rounds else 0
        rounds = now
        assert decisions <= most
        jobs, rules = batch.state.jobs[0], batch.arrays.rules[0, 0]
        short = np.flatnonzero((jobs["gpus"] > 0) & (jobs["gpus"] < jobs["min_gpus"]))
        assert short.tolist() == ([rules["gang"]] if rules["gang"] >= 0 else [])
        if decisions == 0:
            assert not len(short)


@settings(max_examples=15)
@given(seed=SEEDS)
def test_nobody_waits_on_an_idle_cluster_where_a_job_fits(seed):
    _, batch, rng = new_batch(seed)
    for _ in range(STEPS):
        if batch.ended[0]:
            return
        changes = {change for change, *_ in listed(batch)}
        up = batch.state.nodes["num_gpus"][0] * (batch.state.nodes["down"][0] == 0)
        gang = int(batch.arrays.rules[0, 0]["gang"])
        others_run = free_gpus(batch).sum() + (batch.state.jobs[0][gang]["gpus"] if gang >= 0 else 0) < up.sum()
        may_wait = others_run and (gang < 0 or batch.rules.turn == "turns")
        if batch.rules.idle == "allowed" or START not in changes:
            assert (WAIT in changes) == may_wait
        assert WAIT not in changes or (may_wait and (batch.rules.idle != "never" or START not in changes))
        batch.step(np.array([draw(batch, rng)]))


@settings(max_examples=15)
@given(seed=SEEDS)
def test_left_out_nodes_are_equal_to_one_that_stays(seed):
    """Without `distinct_nodes` there are more options, and each of these has an equal one of the same job."""
    world, _, rng = new_batch(seed)
    rules = random_rules(rng)
    few = batch_of(world.setup, world.workload, replace(rules, distinct_nodes=True), seed)
    all_nodes = batch_of(world.setup, world.workload, replace(rules, distinct_nodes=False), seed)
    for _ in range(15):
        if few.ended[0]:
            return
        short, long = listed(few), listed(all_nodes)
        assert set(short) <= set(long)
        first, every = few.options(), all_nodes.options()
        kept = {(job, *row.tolist()) for (_, job, _, _), row in zip(short, first.options, strict=True)}
        assert {(job, *row.tolist()) for (_, job, _, _), row in zip(long, every.options, strict=True)} == kept
        chosen = draw(few, rng)
        all_nodes.step(np.array([long.index(short[chosen])]))
        few.step(np.array([chosen]))


@settings(max_examples=15)
@given(seed=SEEDS)
def test_features_are_within_their_bounds(seed):
    _, batch, rng = new_batch(seed)
    for _ in range(STEPS):
        if batch.ended[0]:
            return
        found = batch.options()
        for name, columns, rows in (
            ("option", OPTION_COLUMNS, found.options),
            ("job", JOB_ROW_COLUMNS, found.jobs),
            ("node", NODE_COLUMNS, found.nodes),
            ("cluster", CLUSTER_COLUMNS, found.cluster[None]),
        ):
            assert np.isfinite(rows).all()
            assert (np.abs(rows) < 20).all()
            for group, most in ((FRACTIONS, 1.0), (RATIOS, RATIO_LIMIT)):
                values = rows[:, [columns.index(column) for column in group[name]]]
                assert ((values >= 0) & (values <= most)).all(), name
        losses = found.options[:, [OPTION_COLUMNS.index(column) for column in LOSSES]]
        assert ((losses >= 0) & (losses <= 1)).all()
        batch.step(np.array([draw(batch, rng)]))


@settings(max_examples=10)
@given(seed=SEEDS)
def test_hidden_work_never_shows(seed):
    """Two worlds that differ only in the work of jobs look alike until the first of these jobs ends."""
    world, rng = random_world(seed, plain=True), np.random.default_rng(seed)
    scenario = replace(world.setup.scenario, information=Information("none"), horizon=1e9)
    setup, longer = replace(world.setup, scenario=scenario), world.workload.jobs.copy()
    longer["work"] *= 1000.0
    rules = random_rules(rng)
    one = batch_of(setup, world.workload, rules, seed)
    other = batch_of(setup, replace(world.workload, jobs=longer), rules, seed)
    for _ in range(STEPS):
        done = [(batch.state.jobs[0]["status"] == 3).any() or batch.ended[0] for batch in (one, other)]
        if any(done) or one.time[0] != other.time[0]:
            return
        for mine, theirs in zip(one.options(), other.options(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        chosen = np.array([draw(one, rng, waiting=0.0)])
        one.step(chosen)
        other.step(chosen)


@settings(max_examples=10)
@given(seed=SEEDS)
def test_copies_of_a_running_episode_continue_identically(seed):
    """A copy is taken in the middle of a round, is played on by the same choices, and leaves the original alone."""
    world, batch, rng = new_batch(seed)
    for _ in range(int(rng.integers(STEPS))):
        if not batch.ended[0]:
            batch.step(np.array([draw(batch, rng)]))
    other = OptionBatch(world.setup, world.workload.models, len(world.workload), 2, batch.rules)
    other.load(0, world.workload, np.random.default_rng(seed))
    other.copy_episodes(np.array([1]), batch, np.array([0]))
    before = [] if batch.ended[0] else listed(batch)
    chosen: list[int] = []
    while not other.ended[1] and len(chosen) < STEPS:
        changes = other.options(1).what[:, 0]
        chosen.append(int(rng.integers(len(changes))))
        other.step(np.array([-1, chosen[-1]]))
    assert before == ([] if batch.ended[0] else listed(batch))
    for option in chosen:
        batch.step(np.array([option]))
    assert batch.ended[0] == other.ended[1]
    for name in ("start", "finish", "gpus", "num_restarts"):
        np.testing.assert_array_equal(batch.state.jobs[0][name], other.state.jobs[1][name])
    assert batch.counters() == other.counters(1)


@settings(max_examples=12)
@given(seed=SEEDS)
def test_an_evicted_job_waits_and_may_start_again(seed):
    _, batch, rng = new_batch(seed)
    for _ in range(STEPS):
        if batch.ended[0]:
            return
        options = listed(batch)
        evictions = [place for place, option in enumerate(options) if option[0] == EVICT]
        place = int(rng.choice(evictions)) if evictions else draw(batch, rng)
        round_before = batch.state.episode[0, 0]["num_rounds"]
        batch.step(np.array([place]))
        if evictions and batch.state.episode[0, 0]["num_rounds"] == round_before:
            job = options[place][1]
            assert batch.state.jobs[0][job]["gpus"] == 0
            assert job not in [other for change, other, *_ in listed(batch) if change not in (WAIT, START)]
