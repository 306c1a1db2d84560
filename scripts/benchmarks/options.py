"""The placement environment: training from nothing, where its time goes, and all decisions of a round."""

import dataclasses
import statistics
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from agents.methods.group_ppo import GroupPPOSettings
from agents.methods.group_ppo.learning import GroupConfig
from agents.networks import Blueprint
from agents.on_options.learner import LocalOptionTraining
from agents.policies.options.playing import Player
from agents.policies.options.scheduler import OptionScheduler
from agents.policies.options.tape import MOMENTS
from agents.problems.options import OptionProblem, OptionSetup, OptionTask
from benchmarks.decisions import time_decisions
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import FULL, Size, decide_in_rounds, load_three_quarters
from envs.options import OptionBatch, OptionRules
from envs.options.reference import ReferenceOptions
from envs.simulation.reference import reference_at
from envs.simulation.world.state import State
from murmuration.config.describe import describe_further
from murmuration.config.inputs import build_inputs

SCORER, TRAINED, ATTENTION, CLAIMS = "scorer", "trained scorer", "attention", "claims"
NETWORKS = {
    SCORER: Blueprint("agents.networks.option_scorer.OptionScorer", {}),
    TRAINED: Blueprint("agents.networks.option_scorer.OptionScorer", {"hidden": 48}),
    ATTENTION: Blueprint("agents.networks.option_attention.OptionAttention", {}),
    CLAIMS: Blueprint("agents.networks.option_claims.OptionClaims", {}),
}
LEAST = {  # training episodes for a CPU-second, by task, what may be changed, and network
    ("shared-16", "start", SCORER): 100,
    ("shared-16", "resize", SCORER): 50,
    ("shared-16", "move", SCORER): 20,
    ("shared-16", "move", TRAINED): 20,
    ("shared-16", "start", ATTENTION): 10,
    ("rigid-64", "move", SCORER): 5,
    ("full-64", "move", SCORER): 5,
}
CHECKPOINT = Path(__file__).parents[2] / "checkpoints" / "anywhere"
MOST_MS = {64: 10, 1000: 100}  # for all decisions of a round, by nodes
TOGETHER = OptionRules(changes="move", turn="together", distinct_nodes=False, losers="next_best")
MOST_MS_TOGETHER = {SCORER: 100, CLAIMS: 100, ATTENTION: 300}  # for a round of 1,000 nodes that act together
REFERENCE_DECISIONS = 40


def measure_options(report: Report, suite: Suite) -> None:
    """Time training and sampling, the reference environment, and the rounds of a scheduler."""
    torch.set_num_threads(1)
    for name, changes, network in LEAST:
        if suite.num_sizes > 2 or name == "shared-16":
            _measure_training(report, suite, name, changes, network)
    _measure_reference(report)
    for size in suite.sizes:
        if size.nodes <= max(MOST_MS):
            _measure_rounds(report, suite, dataclasses.replace(size, elastic=True))
            _measure_together(report, suite, dataclasses.replace(size, elastic=True))


def option_task(name: str, changes: str) -> OptionTask:
    """A task of the library in the placement environment."""
    name, described = describe_further(name)
    inputs = build_inputs(described)
    return OptionTask(name, inputs.setup, inputs.source, OptionRules(changes=changes))  # type: ignore[arg-type]


def policy_of(network: str, task: OptionTask) -> nn.Module:
    """A network with the weights that training begins with, or a trained one, which takes more decisions."""
    problem = OptionProblem((task,), NETWORKS[network])
    return problem.load(CHECKPOINT) if network == TRAINED else problem.build(0, None)


def _measure_training(report: Report, suite: Suite, name: str, changes: str, network: str) -> None:
    """Time an iteration after a first one, and its sampling alone."""
    task = option_task(name, changes)
    policy = policy_of(network, task)
    settings = GroupPPOSettings(num_workloads=suite.pairs, iterations=1000)
    setup = OptionSetup.of(OptionProblem((task,), NETWORKS[network]), settings, policy, 0)
    algorithm = LocalOptionTraining(setup, GroupConfig)
    algorithm.train()
    spent = cpu_seconds(algorithm.train, suite.repeats)
    algorithm.stop()
    count = settings.num_episodes  # all at once, as networks that act in torch are played in training
    player = Player(task.batch(count))
    workloads = [task.source.episode(np.random.default_rng(0), "train")] * count
    sampling = cpu_seconds(
        lambda: player.play(workloads, policy, [0] * count, most=settings.num_decisions), suite.repeats
    )
    decisions = float(player.tape.arrays.counts[MOMENTS]) / count
    rounds = float(player.batch.state.episode["num_rounds"].mean())
    per_second = count / spent

    def add(what: str, value: float, unit: str, least: float = 0) -> None:
        report.add("options", name, f"{network}, {changes}: {what}", value, unit, least=least)

    add("training episodes", per_second, "1/CPU-s", LEAST[name, changes, network])
    add("decisions in training", per_second * decisions, "1/CPU-s")
    add("rounds (env-steps) in training", per_second * rounds, "1/CPU-s")
    add("sampled episodes", count / sampling, "1/CPU-s")
    add("sampled decisions", count * decisions / sampling, "1/CPU-s")
    add("share of sampling", sampling / spent, "")


def _measure_reference(report: Report) -> None:
    """Time random decisions with all features in compiled code, one by one, and in the reference implementation."""
    task = option_task("shared-16", "move")
    workload = task.source.episode(np.random.default_rng(0), "train")
    batch = OptionBatch(task.setup, workload.models, len(workload), rules=task.rules)
    batch.load(0, workload, np.random.default_rng(0))
    start = State.allocate(task.setup.cluster, len(workload), scenario=task.setup.scenario)
    scenario = dataclasses.replace(task.setup.scenario, horizon=float(batch.state.episode["horizon"][0, 0]))
    start.load(0, workload, scenario, batch.table, np.random.default_rng(0))
    reference = ReferenceOptions(reference_at(start, 0, workload, task.setup), task.rules)
    reference.proceed()
    batch.step(np.array([-1]))  # compiles
    batch.options()
    rng, fast, slow = np.random.default_rng(0), 0.0, 0.0
    for _ in range(REFERENCE_DECISIONS):
        began = time.process_time()
        listed = batch.options()
        fast += time.process_time() - began
        began = time.process_time()
        rows = reference.observer.options(reference.options)
        reference.observer.jobs()
        reference.observer.nodes(reference.subround)
        reference.observer.cluster(reference.decision, reference.gang)
        slow += time.process_time() - began
        report.same("rows of options", bool(np.array_equal(listed.options, rows)), True)
        option = int(rng.integers(len(rows)))
        began = time.process_time()
        batch.step(np.array([option]))
        fast += time.process_time() - began
        began = time.process_time()
        reference.step(option)
        slow += time.process_time() - began
    report.add("options", "shared-16", "random decision, one by one", 1e6 * fast / REFERENCE_DECISIONS, "us")
    report.add("options", "shared-16", "random decision, reference", 1e6 * slow / REFERENCE_DECISIONS, "us")
    report.add("options", "shared-16", "faster than the reference", slow / fast, "x")


def _measure_rounds(report: Report, suite: Suite, size: Size) -> None:
    """Time `schedule` of a scheduler with the untrained scorer: all decisions of a round."""
    episode = load_three_quarters(size, FULL)
    scheduler = OptionScheduler(policy_of(SCORER, option_task("shared-16", "move")), OptionRules(changes="move"))
    next(time_decisions(scheduler, episode, 600.0))  # compiles
    spent = list(islice(time_decisions(scheduler, episode, 600.0), 1 + suite.steps))
    decisions = scheduler.counters["decisions"]
    report.add("options", size, "all decisions of the first round", 1e3 * spent[0], "ms")
    median = 1e3 * statistics.median(spent[1:])
    report.add("options", size, "all decisions of a round, median", median, "ms", most=MOST_MS.get(size.nodes, 0))
    report.add("options", size, "decisions of a round, mean", decisions / len(spent), "")


def _measure_together(report: Report, suite: Suite, size: Size) -> None:
    """Time `schedule` where nodes act together in rounds of ten minutes, with the untrained networks."""
    episode = load_three_quarters(size, decide_in_rounds(FULL, 600.0))
    for network, most in MOST_MS_TOGETHER.items():
        scheduler = OptionScheduler(policy_of(network, option_task("shared-16", "move")), TOGETHER)
        next(time_decisions(scheduler, episode, 600.0))  # compiles
        spent = list(islice(time_decisions(scheduler, episode, 600.0), 1 + suite.steps))
        what = f"round of nodes that act together, {network}, median"
        limit = most if size.nodes == max(MOST_MS) else 0
        report.add("options", size, what, 1e3 * statistics.median(spent[1:]), "ms", most=limit)
