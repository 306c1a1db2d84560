"""A policy over options leaves the same event log as a scheduler and in the environment that training uses."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from agents.networks.decisions import Decisions
from agents.networks.option_scorer import OptionScorer
from agents.policies.options.playing import Player
from agents.policies.options.scheduler import OptionScheduler
from envs.options import OptionBatch, OptionRules, OptionSpec
from envs.options.rules import CHANGES
from envs.scheduling import Scheduler
from envs.simulation import EventKind, EventLog, Information, RunResult, Simulator, run_episode
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.unit.options.worlds import random_rules

SEEDS = 8  # worlds for each set of changes


class Linear(nn.Module):
    """The simplest network: a score is a weighted sum of the features of an option."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(OptionSpec().option_features, 1)

    def scores(self, decisions: Decisions) -> torch.Tensor:
        """Return float32[M]."""
        out: torch.Tensor = self.layer(decisions.options)[:, 0]
        return out


def without_chance(seed: int, *, pairs: bool = False) -> RandomWorld:
    """A random world without failures, in which work is known exactly or not at all."""
    world = random_world(seed, plain=bool(seed % 2), pairs=pairs)
    known = Information("exact" if seed % 3 else "none")
    scenario = replace(world.setup.scenario, failures=None, information=known)
    return replace(world, setup=replace(world.setup, scenario=scenario))


def both(world: RandomWorld, network: nn.Module, rules: OptionRules) -> tuple[EventLog, RunResult]:
    """The log of the environment's episode, and the run of the scheduler."""
    batch = OptionBatch(world.setup, world.workload.models, len(world.workload), rules=rules, logging=True)
    Player(batch).play([world.workload], network, [world.seed], temperature=0.0)
    scenario = replace(world.setup.scenario, horizon=float(batch.state.episode["horizon"][0, 0]))
    scheduler = OptionScheduler(network, rules)
    result = run_episode(scheduler, Simulator(world.workload, replace(world.setup, scenario=scenario)))
    assert result.counters == batch.counters()
    return batch.state.log(0), result


@pytest.mark.parametrize("changes", CHANGES)
def test_scheduler_and_environment_leave_one_log(changes):
    event_kinds: Counter[int] = Counter()
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        rules = random_rules(np.random.default_rng(seed), changes=changes)
        world = without_chance(seed)
        log, result = both(world, OptionScorer(OptionSpec(), output_scale=1.0, reluctance=0.0), rules)
        assert log == result.log, f"{world.name} {rules}"
        event_kinds.update(result.log.events["kind"].tolist())
    assert event_kinds[EventKind.START] > 5 * SEEDS
    assert event_kinds[EventKind.RESIZE] > 5 or changes == "start"
    assert (event_kinds[EventKind.STOP] > 5) == (changes == "move")


@pytest.mark.parametrize("seed", range(4))
def test_a_network_in_torch_leaves_one_log_too(seed):
    torch.manual_seed(seed)
    world = without_chance(seed)
    log, result = both(world, Linear(), OptionRules(changes="move", max_decisions=5))
    assert log == result.log
    assert len(log.events) > 3


def test_compiled_and_torch_choices_agree():
    torch.manual_seed(3)
    network, world, rules = OptionScorer(OptionSpec(), reluctance=0.0), without_chance(5), OptionRules(changes="resize")
    hidden = type("Hidden", (), {"scores": network.scores})()
    logs = [
        run_episode(OptionScheduler(one, rules), Simulator(world.workload, world.setup)).log
        for one in (network, hidden)
    ]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("network", [OptionScorer(OptionSpec()), Linear()])
def test_sampled_runs_follow_their_seed(network):
    scheduler = OptionScheduler(network, OptionRules(changes="resize"), temperature=1.0)
    assert isinstance(scheduler, Scheduler)
    world = without_chance(9)
    runs = [run_episode(scheduler, Simulator(world.workload, world.setup, seed)) for seed in (1, 1, 2)]
    assert runs[0].finished.any()
    assert runs[0].log == runs[1].log
    assert runs[0].log != runs[2].log
    assert runs[0].counters["decisions"] > 10


class InTorch(nn.Module):
    """A scorer that does not act compiled."""

    def __init__(self, scorer: OptionScorer) -> None:
        super().__init__()
        self.scores = scorer.scores


@pytest.mark.parametrize("seed", range(6))
def test_compiled_code_takes_the_decisions_that_torch_takes(seed):
    """Without rows of earlier decisions, and with all rows written anew."""
    torch.manual_seed(seed)
    network, world = OptionScorer(OptionSpec(), output_scale=1.0, reluctance=0.0), without_chance(seed)
    rules = random_rules(np.random.default_rng(seed), changes="move", turn="auction", max_decisions=30)
    (one, _), (other, _) = (both(world, each, rules) for each in (network, InTorch(network)))
    assert one == other
