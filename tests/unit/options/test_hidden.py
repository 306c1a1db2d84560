"""Episodes whose throughputs are hidden or drawn: the same as under a scheduler, and the rows of beliefs."""

from dataclasses import replace

import numpy as np
import pytest

from agents.networks.option_scorer import OptionScorer
from agents.policies.options.playing import Player
from agents.policies.options.scheduler import OptionScheduler
from baselines.parts.linear_gaussian import LinearGaussian
from envs.cluster import build_cluster
from envs.options import ListedOptions, OptionBatch, OptionRound, OptionRules, OptionSpec
from envs.options.columns import (
    EVICT,
    JOB_DOUBT,
    JOB_SAMPLES,
    OPTION_DOUBT,
    OPTION_DOUBT_CHANGE,
    OPTION_SAMPLES,
    TUNE,
    WAIT,
)
from envs.options.columns import OPTION_GPUS as GPUS
from envs.options.columns import OPTION_SPREAD as SPREAD
from envs.performance import DrawnModel
from envs.scheduling import ClusterView
from envs.simulation import Information, Scenario, Setup, SimulationView, Simulator, run_episode
from envs.simulation.world.state import Status
from envs.types import Allocation, Configuration
from envs.workloads import SyntheticSource
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.unit.options.worlds import random_rules

SEEDS = 6


def hidden_world(seed: int) -> RandomWorld:
    """A random world without failures in which throughputs are hidden, and work is known or not."""
    world = random_world(seed, plain=bool(seed % 2))
    information = Information(
        "exact" if seed % 3 else "none",
        throughput=("observed", "profiled")[seed % 2],
        stated_error=0.5,
        sample_error=0.1,
    )
    scenario = replace(world.setup.scenario, failures=None, batch_sizes="usual", information=information)
    return replace(world, setup=replace(world.setup, scenario=scenario, estimator=LinearGaussian()))


def random_scorer(seed: int) -> OptionScorer:
    """A scorer with random weights."""
    network = OptionScorer(OptionSpec(), hidden=8, reluctance=0.0)
    rng = np.random.default_rng(seed)
    for parameter in network.parameters():
        parameter.data[:] = parameter.data.new_tensor(rng.normal(0.0, 0.3, tuple(parameter.shape)))
    return network


def test_scheduler_and_environment_leave_one_log():
    """On beliefs that change from round to round, with the same samples of the same seed."""
    restarts = 0
    for seed in range(SEEDS):
        world, rng = hidden_world(seed), np.random.default_rng(seed)
        rules = random_rules(rng, changes=("start", "resize", "move")[seed % 3])
        network = random_scorer(seed)
        batch = OptionBatch(world.setup, world.workload.models, len(world.workload), rules=rules, logging=True)
        jct = Player(batch).play([world.workload], network, [world.seed], temperature=0.0)
        assert batch.hidden is not None
        scenario = replace(world.setup.scenario, horizon=float(batch.hidden.state.episode["horizon"][0, 0]))
        simulator = Simulator(world.workload, replace(world.setup, scenario=scenario), world.seed)
        result = run_episode(OptionScheduler(network, rules), simulator)
        assert batch.log() == result.log, f"seed {seed}"
        assert simulator.beliefs is not None
        assert batch.hidden.beliefs[0] is not None
        assert batch.hidden.beliefs[0].num_beliefs == simulator.beliefs.num_beliefs
        if result.finished.all() and len(result.records) == len(world.workload):
            records = result.records[result.records["measured"]]
            assert jct[0] == pytest.approx((records["finish_time"] - records["submit_time"]).mean())
        restarts += int(result.records["num_restarts"].sum())
    assert restarts > 0


def drawn_world(information: Information | None = None, node_gpus: int = 4) -> tuple[Setup, SyntheticSource]:
    """Two nodes of two types, and small jobs with curves of their own."""
    groups = [
        {
            "gpu_type": name,
            "num_nodes": 1,
            "num_gpus": node_gpus,
            "cpu_cores": 12,
            "memory": 250,
            "intra_node_bandwidth": 80.0,
            "inter_node_bandwidth": 1.25,
        }
        for name in ("V100", "P100")
    ]
    cluster, performance = build_cluster("two", groups), DrawnModel()
    scenario = Scenario(batch_sizes="usual", information=information or Information())
    source = SyntheticSource(cluster, performance, num_jobs=8, load=0.8, curves="by_job", max_gpus=4)
    return Setup(cluster, performance, scenario, LinearGaussian()), source


@pytest.mark.parametrize("information", [Information(), Information(throughput="observed", sample_error=0.1)])
def test_drawn_episodes_of_one_batch_are_those_that_are_played_alone(information):
    """Episodes have rows of their own in the tables."""
    setup, source = drawn_world(information)
    rules, workloads = (
        OptionRules(changes="move"),
        [source.episode(np.random.default_rng(i), "train") for i in range(3)],
    )
    network = random_scorer(0)
    batch = OptionBatch(setup, source.models, source.num_jobs, 3, rules)
    together = Player(batch).play(workloads, network, [5, 6, 7])
    again = Player(batch).play(workloads, network, [5, 6, 7])
    assert (together == again).all()
    for b, workload in enumerate(workloads):
        alone = OptionBatch(setup, source.models, source.num_jobs, 1, rules, logging=True)
        Player(alone).play([workload], network, [5 + b], temperature=0.0)
        one = Player(batch).play(workloads, network, [5, 6, 7], temperature=0.0)[b]
        horizon = float((alone.hidden.state if alone.hidden else alone.state).episode["horizon"][0, 0])
        told = replace(setup, scenario=replace(setup.scenario, horizon=horizon))
        result = run_episode(OptionScheduler(network, rules), Simulator(workload, told, 5 + b))
        assert alone.log() == result.log
        assert one == alone.mean_jct(0)


@pytest.mark.parametrize("information", [Information(), Information(throughput="observed", sample_error=0.1)])
def test_running_episodes_go_on_when_another_one_needs_larger_tables(information):
    """The second episode has larger jobs, and more models than there are rows for."""
    setup, source = drawn_world(information, node_gpus=16)
    rules = OptionRules(changes="move")
    small = source.episode(np.random.default_rng(0), "train")
    many = SyntheticSource(setup.cluster, setup.performance, num_jobs=8, curves="by_job", max_gpus=16)
    large = many.episode(np.random.default_rng(1), "train")
    models = tuple(f"resnet50~{i}" for i in range(40))
    jobs = large.jobs.copy()
    jobs["model"], jobs["num_gpus"], jobs["max_gpus"] = range(8), 16, 16
    large = replace(large, models=models, jobs=jobs)
    alone, grown = (OptionBatch(setup, source.models, source.num_jobs, 2, rules) for _ in range(2))
    rng = np.random.default_rng(0)
    for batch in (alone, grown):
        batch.load(0, small, np.random.default_rng(0))
        batch.load(1, small, np.random.default_rng(0))
    steps = 0
    while not alone.ended[1]:
        if steps == 20:
            grown.load(0, large, np.random.default_rng(1))
            assert grown.arrays.world.throughputs.shape[2] == 17
            assert len(grown.arrays.world.throughputs) == 80
        chosen = np.array([-1, int(rng.integers(len(alone.options(1).what)))])
        assert (alone.options(1).options == grown.options(1).options).all()
        alone.step(chosen)
        grown.step(chosen)
        steps += 1
    assert steps > 20
    assert grown.ended[1]
    assert alone.mean_jct(1) == grown.mean_jct(1)


def test_a_copy_of_a_running_episode_learns_on_its_own_and_ends_the_same():
    setup, source = drawn_world(Information(throughput="observed", sample_error=0.1))
    rules, rng = OptionRules(changes="move"), np.random.default_rng(0)
    first, second = (OptionBatch(setup, source.models, source.num_jobs, 2, rules) for _ in range(2))
    for b in range(2):
        first.load(b, source.episode(np.random.default_rng(b), "train"), np.random.default_rng(b))
    for _ in range(25):
        first.step(np.array([-1, int(rng.integers(len(first.options(1).what)))]))
    second.copy_episodes(np.array([0]), first, np.array([1]))
    while not first.ended[1]:
        chosen = int(rng.integers(len(first.options(1).what)))
        assert (first.options(1).options == second.options(0).options).all()
        first.step(np.array([-1, chosen]))
        second.step(np.array([chosen, -1]))
    assert second.ended[0]
    assert first.mean_jct(1) == second.mean_jct(0)


class Looker:
    """Compares the rows of beliefs with what the view says, and then carries out random options."""

    preemptive = elastic = True
    information = "estimate"

    def __init__(self, rules: OptionRules) -> None:
        self.round, self.rng, self.compared = OptionRound(rules), np.random.default_rng(0), 0

    def reset(self, cluster: object, rng: object) -> None:
        """Begin."""

    def schedule(self, view: ClusterView) -> Allocation:
        """Look at all options of every decision."""
        assert isinstance(view, SimulationView)
        over = not self.round.begin(view)
        while not over:
            options = self.round.options()
            self._compare(view, options)
            over = self.round.step(int(self.rng.integers(len(options.what))))
        return self.round.fill(view.allocation(keep_running=True))

    def _compare(self, view: SimulationView, options: ListedOptions) -> None:
        cluster, state = view.cluster, self.round.arrays.world
        for (change, row, node, _), found in zip(options.what.tolist(), options.options, strict=True):
            if change in (WAIT, EVICT):
                continue
            job = int(options.job_ids[row])
            gpus = max(round(float(found[GPUS]) * 4), int(view.job(job).min_gpus))
            nodes = round(2 ** (3.0 * float(found[SPREAD])) - 1)
            if gpus > round(float(found[GPUS]) * 4):
                continue  # a gang, whose further nodes are assumed
            on = Configuration(cluster.nodes[node].gpu_type, gpus, nodes)
            belief = view.belief(job, on)
            assert found[OPTION_DOUBT] == np.float32(belief.spread)
            assert found[OPTION_SAMPLES] == np.float32(np.log1p(belief.num_samples) / 2)
            record, change_of_doubt = state.jobs[0][job], 0.0
            if record.status == Status.RUNNING and not record.touched:
                held = view.placement(job).gpus
                now = Configuration(cluster.nodes[min(held)].gpu_type, sum(held.values()), len(held))
                change_of_doubt = float(found[OPTION_DOUBT]) - view.belief(job, now).spread
            assert found[OPTION_DOUBT_CHANGE] == pytest.approx(change_of_doubt, abs=1e-6)
            self.compared += belief.num_samples
        for found in options.jobs:
            assert found[JOB_DOUBT] > 0
            assert 0 <= found[JOB_SAMPLES] < 5


def test_rows_of_beliefs_are_those_of_the_view():
    setup, source = drawn_world(Information(throughput="observed", sample_error=0.1, stated_error=0.5))
    looker = Looker(OptionRules(changes="move"))
    run_episode(looker, Simulator(source.episode(np.random.default_rng(0), "train"), setup))
    assert looker.compared > 0


@pytest.mark.parametrize("information", [Information(), Information(throughput="observed", sample_error=0.1)])
def test_nothing_is_tuned_where_throughputs_are_hidden_or_drawn(information):
    setup, source = drawn_world(information)
    batch = OptionBatch(setup, source.models, source.num_jobs, rules=OptionRules(changes="move", tune=True))
    batch.load(0, source.episode(np.random.default_rng(0), "train"), np.random.default_rng(0))
    while not batch.ended[0]:
        found = batch.options().what[:, 0]
        assert TUNE not in found
        batch.step(np.array([len(found) - 1]))
