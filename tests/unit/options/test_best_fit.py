"""One option for each waiting job: its requested GPUs, on the node that fits best."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.networks.option_scorer import OptionScorer
from envs.options import OptionBatch, OptionRules, OptionSpec
from envs.options.columns import JOIN, START, WAIT
from envs.types import ClusterSpec, MurmurationError, NodeSpec
from tests.conformance.random_worlds import RandomWorld
from tests.unit.episodes.players import jobs_like
from tests.unit.options.test_option_scheduler import both, without_chance
from tests.unit.options.worlds import begun, choose, draw, listed, play_area

RULES = OptionRules(placing="best_fit", queue_order="fifo")


def nodes(*gpus: int, types: str = "") -> ClusterSpec:
    """Nodes with so many GPUs; their types are letters."""
    return ClusterSpec(tuple(NodeSpec(name, count) for name, count in zip(types or "V" * len(gpus), gpus, strict=True)))


def of_one_size(seed: int) -> RandomWorld:
    """A random world whose jobs have the size that they request, unless no GPU type has so many GPUs."""
    world = without_chance(seed)
    jobs = world.workload.jobs.copy()
    cluster = world.setup.cluster
    fits = jobs["num_gpus"] <= np.bincount(cluster.node_types, cluster.node_gpus).max()
    for name in ("min_gpus", "max_gpus"):
        jobs[name] = np.where(fits, jobs["num_gpus"], jobs[name])
    return replace(world, workload=replace(world.workload, jobs=jobs))


def test_an_elastic_job_gets_what_it_requests_where_the_fewest_gpus_are_free():
    """Job 0 could run on 1 to 4 GPUs and asks for 2, so it goes to node 1; job 1 then finds room on node 0 alone."""
    batch = play_area(nodes(4, 2), jobs_like((0, 2, 100, 1, 4), (0, 2, 100)), RULES)
    assert sorted(listed(batch)) == [(START, 0, 1, 2), (START, 1, 1, 2)]
    choose(batch, (START, 0, 1, 2))
    assert listed(batch) == [(WAIT, -1, -1, 0), (START, 1, 0, 2)]


def test_a_job_that_a_node_could_hold_is_not_spread():
    """Jobs 0 and 1 leave one and three GPUs free. Job 2 needs four, on one node, and node 0 is free at t = 10."""
    batch = play_area(nodes(4, 4), jobs_like((0, 3, 30), (0, 1, 50), (1, 1, 50), (2, 4, 40)), RULES)
    choose(batch, (START, 0, 0, 3))
    choose(batch, (START, 1, 0, 1))
    assert batch.time[0] == 1.0
    choose(batch, (START, 2, 1, 1))
    assert batch.time[0] == 50.0, "at t = 10 three GPUs are free on each node"
    assert listed(batch) == [(WAIT, -1, -1, 0), (START, 3, 0, 4)]


def test_a_gang_takes_nodes_of_one_type():
    """Six GPUs: type B has eight. Node 0 has as many free ones as the nodes of B, but its type has only four."""
    batch = play_area(nodes(4, 4, 4, types="ABB"), jobs_like((0, 6, 60), (1, 6, 60)), RULES)
    assert listed(batch) == [(START, 0, 1, 4)]
    choose(batch, (START, 0, 1, 4))
    assert listed(batch) == [(JOIN, 0, 2, 2)]
    choose(batch, (JOIN, 0, 2, 2))
    assert batch.time[0] == 10.0, "type A and what is left of B hold no second gang"


def test_compiled_and_reference_list_the_same():
    decisions = joins = 0
    for seed in range(40):
        world, rng = of_one_size(seed), np.random.default_rng(seed)
        rules = replace(RULES, num_candidates=int(rng.integers(1, 9)))
        batch, reference = begun(world, rules)
        while not batch.ended[0]:
            assert listed(batch) == [tuple(option) for option in reference.options], f"{world.name} {rules}"
            jobs = [job for action, job, *_ in listed(batch) if action != WAIT]
            assert len(jobs) == len(set(jobs)), "one option for each job"
            joins += listed(batch)[0][0] == JOIN
            chosen = draw(batch, rng)
            batch.step(np.array([chosen]))
            reference.step(chosen)
            decisions += 1
        assert reference.ended
    assert decisions > 200
    assert joins > 5


def test_scheduler_and_environment_leave_one_log():
    """Jobs are elastic here, and both fix their sizes."""
    starts = 0
    for seed in range(12):
        torch.manual_seed(seed)
        network = OptionScorer(OptionSpec(), output_scale=1.0, reluctance=0.0)
        log, result = both(without_chance(seed), network, RULES)
        assert log == result.log
        starts += len(log.events)
    assert starts > 100


@pytest.mark.parametrize("other", [{"changes": "move"}, {"turn": "turns"}, {"tune": True}, {"share": True}])
def test_best_fit_only_starts_jobs(other):
    with pytest.raises(MurmurationError, match="env.placing is best_fit with changes=.*it only starts jobs: set chang"):
        OptionRules(placing="best_fit", **other)


def test_a_batch_fixes_the_sizes():
    world = without_chance(2)
    batch = OptionBatch(world.setup, world.workload.models, len(world.workload), rules=RULES)
    batch.load(0, world.workload, np.random.default_rng(0))
    fits = world.workload.jobs["num_gpus"] <= np.bincount(batch.cluster.node_types, batch.cluster.node_gpus).max()
    jobs = batch.state.jobs[0][: len(world.workload)][fits]
    assert (jobs["min_gpus"] == jobs["num_gpus"]).all()
    assert (jobs["max_gpus"] == jobs["num_gpus"]).all()
