"""Whole episodes: compiled code and torch choose alike, and the tape has what the policy saw."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from agents.networks.decisions import Decisions, segment_log_softmax
from agents.networks.option_scorer import OptionScorer
from agents.policies.options.lesson import Lesson
from agents.policies.options.playing import Player
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.tape import MOMENTS, RECORDS, Tape
from envs.options import OptionSpec
from tests.unit.options.tasks import small_task


class OnlyInTorch(nn.Module):
    """The same scores by a network of which compiled code knows nothing."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def scores(self, decisions: Decisions) -> torch.Tensor:
        found: torch.Tensor = self.network.scores(decisions)
        return found


def scorer_of(seed: int = 0) -> OptionScorer:
    torch.manual_seed(seed)
    return OptionScorer(OptionSpec(), hidden=8, output_scale=0.5, reluctance=0.0)


@pytest.mark.parametrize("changes", ["start", "resize", "move"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_compiled_code_and_torch_play_the_same_episodes(changes, temperature):
    task, network = small_task(changes), scorer_of()
    workloads = [task.source.episode(np.random.default_rng(seed), "train") for seed in (0, 0, 1)]
    players = [Player(task.batch(3)) for _ in range(2)]
    jcts = [
        player.play(workloads, played, [5, 5, 6], temperature=temperature, most=12)
        for player, played in zip(players, (network, OnlyInTorch(network)), strict=True)
    ]
    assert jcts[0].tolist() == jcts[1].tolist()
    if temperature == 0.0:
        assert jcts[0][0] == jcts[0][1], "the likeliest options of one workload are the same ones"
        return
    fast, slow = (player.tape.arrays for player in players)
    moments, records = fast.counts[MOMENTS], fast.counts[RECORDS]
    assert fast.counts.tolist() == slow.counts.tolist()
    assert 0 < records < moments
    assert np.array_equal(fast.time[:moments], slow.time[:moments])
    assert np.array_equal(fast.job_seconds[:moments], slow.job_seconds[:moments])
    order = np.argsort(slow.moment[:records])
    assert np.array_equal(fast.moment[:records], slow.moment[:records][order])
    assert np.array_equal(fast.chosen[:records], slow.chosen[:records][order])
    assert np.allclose(fast.log_probability[:records], slow.log_probability[:records][order], atol=1e-6)


def test_what_is_recorded_gives_the_probabilities_with_which_options_were_drawn():
    task, network = small_task("move"), scorer_of()
    player = Player(task.batch(2))
    workload = task.source.episode(np.random.default_rng(0), "train")
    player.play([workload] * 2, network, [1, 2], most=None)
    lesson = Lesson.of(player.tape, np.zeros(int(player.tape.arrays.counts[MOMENTS])))
    every = np.arange(lesson.num_decisions)
    decisions = gather_decisions(lesson, Rows.of(lesson), every)
    logs = segment_log_softmax(network.scores(decisions), decisions.decision_of, len(every))
    chosen = logs[decisions.first + torch.from_numpy(lesson.chosen)]
    assert np.allclose(chosen.detach().numpy(), lesson.log_probability, atol=1e-6)
    assert np.allclose(np.add.reduceat(logs.exp().detach().numpy(), decisions.first.numpy()), 1.0, atol=1e-5)


def test_a_minibatch_of_some_decisions_has_their_scores():
    task, network = small_task("resize"), scorer_of()
    player = Player(task.batch(1))
    player.play([task.source.episode(np.random.default_rng(0), "train")], network, [1], most=None)
    lesson = Lesson.of(player.tape, np.zeros(int(player.tape.arrays.counts[MOMENTS])))
    rows = Rows.of(lesson)
    whole = network.scores(gather_decisions(lesson, rows, np.arange(lesson.num_decisions))).detach()
    picked = np.array([7, 2, 5])
    expected = torch.cat([whole[rows.options[d] : rows.options[d] + lesson.num_options[d]] for d in picked])
    assert torch.allclose(network.scores(gather_decisions(lesson, rows, picked)).detach(), expected, atol=1e-6)


def test_lessons_of_clusters_of_different_sizes_are_joined():
    network, lessons = scorer_of(), []
    for nodes in (2, 3):
        task = small_task(num_nodes=nodes)
        player = Player(task.batch(1))
        player.play([task.source.episode(np.random.default_rng(0), "train")], network, [1], most=None)
        lessons.append(Lesson.of(player.tape, np.zeros(int(player.tape.arrays.counts[MOMENTS]))))
    joined = Lesson.join(lessons)
    apart = [network.scores(gather_decisions(each, Rows.of(each), np.arange(each.num_decisions))) for each in lessons]
    together = network.scores(gather_decisions(joined, Rows.of(joined), np.arange(joined.num_decisions)))
    assert torch.allclose(together, torch.cat(apart), atol=1e-6)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_thinned_tape_has_a_random_sample_of_all_decisions(compiled):
    """The decisions with the smallest draws are kept, also where the tape is thinned before the end."""
    task, network = small_task("move"), scorer_of()
    workload = task.source.episode(np.random.default_rng(0), "train")
    player, few = Player(task.batch(3)), Player(task.batch(3))
    few.tape = Tape(task.setup.cluster.num_nodes, moments=4, records=16, options=16, jobs=16)
    played = network if compiled else OnlyInTorch(network)
    player.play([workload] * 3, played, [1, 2, 3], most=None)
    few.play([workload] * 3, played, [1, 2, 3], most=7)
    moments, records = player.tape.arrays.counts[:2]
    assert few.tape.arrays.counts[MOMENTS] == moments
    assert few.tape.arrays.counts[RECORDS] == 7
    assert len(few.tape.arrays.moment) < records, "it was thinned on the way"
    kept = np.sort(np.argsort(player.tape.arrays.draw[:records])[:7])
    advantage = np.arange(float(moments))
    whole, found = Lesson.of(player.tape, advantage), Lesson.of(few.tape, advantage)
    assert np.array_equal(whole.advantage[kept], found.advantage)
    rows, own = Rows.of(whole), Rows.of(found)
    for one, other in zip(gather_decisions(whole, rows, kept), gather_decisions(found, own, np.arange(7)), strict=True):
        assert torch.equal(one, other)


def test_a_tape_that_grows_forgets_nothing():
    task, network = small_task(), scorer_of()
    workload = task.source.episode(np.random.default_rng(0), "train")
    large, small = Player(task.batch(1)), Player(task.batch(1))
    small.tape = Tape(task.setup.cluster.num_nodes, moments=4, records=2, options=16, jobs=16)
    for player in (large, small):
        player.play([workload], network, [1], most=None)
    advantage = np.arange(float(large.tape.arrays.counts[MOMENTS]))
    expected, found = Lesson.of(large.tape, advantage), Lesson.of(small.tape, advantage)
    for name in Lesson._fields:
        assert np.array_equal(getattr(expected, name), getattr(found, name)), name


def test_episodes_of_one_seed_share_the_world_and_not_the_choices():
    task, network = small_task(), scorer_of()
    workload = task.source.episode(np.random.default_rng(0), "train")
    jct = Player(task.batch(4)).play([workload] * 4, network, [1] * 4)
    assert len(set(jct.tolist())) > 1
