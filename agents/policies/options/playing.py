"""Whole episodes under the option scorer, in compiled code."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.policies.options.acting_together import decide_by_node
from agents.policies.options.tape import Tape, TapeArrays, note_moment, record_decision, tape_has_room
from agents.policies.options.torch_playing import play_in_torch
from agents.policies.options.weights import ScorerArrays, acts_compiled, score_options, scorer_arrays
from envs.options import OptionBatch
from envs.options.arrays import OptionArrays, option_arrays
from envs.options.by_node import TOGETHER
from envs.options.carrying import carry_features, forget_kept_rows
from envs.options.kernels import ROUND_OVER, advance_to_decision, prepare, take
from envs.options.several import likeliest
from envs.simulation.compiled.jit import RepeatedKernel, kernel, leaf
from envs.simulation.world.kernels import END, LOG_FULL, ROUND
from envs.types import FloatArray, IntArray
from envs.workloads import Workload

FINISHED, TAPE_FULL, DRAWS_USED = 0, 1, 2


@leaf
def weigh(a: OptionArrays, s: ScorerArrays, temperature: float) -> float:
    """Turn the scores into weights exp((score - highest) / temperature); return their sum."""
    highest = s.scores[likeliest(a, s.scores)]
    total = 0.0
    for option in range(a.rules[0].num_options):
        s.scores[option] = np.exp((s.scores[option] - highest) / temperature)
        total += s.scores[option]
    return total


@leaf
def draw_option(a: OptionArrays, s: ScorerArrays, total: float, draw: float) -> int:
    """Return the option at which the weights, added up in order, pass `draw` times their sum."""
    passed = 0.0
    for option in range(a.rules[0].num_options):
        passed += s.scores[option]
        if passed > draw * total:
            return option
    return int(a.rules[0].num_options - 1)


@leaf
def draw_and_note(
    a: OptionArrays,
    s: ScorerArrays,
    b: int,
    temperature: float,
    draw: float,
    second_draw: float,
    limit: float,
    tape: TapeArrays,
) -> int:
    """Draw an option and note the decision; the arguments are those of `decide_by_node`."""
    total = weigh(a, s, temperature)
    option = draw_option(a, s, total, draw)
    note_moment(tape, a, b)
    if second_draw < limit:
        record_decision(tape, a, option, np.log(s.scores[option] / total), second_draw)
    return int(option)


@kernel
def play_episode(
    batch: OptionArrays,
    s: ScorerArrays,
    b: int,
    draws: FloatArray,
    temperature: float,
    limit: float,
    tape: TapeArrays,
    outcomes: IntArray,
    listed: bool,
) -> int:
    """Play one episode to its end, or until something needs more room.

    Args:
        batch: the environment.
        s: the scorers.
        b: the episode.
        draws: float64[K, 2], uniform random numbers; the row is the number of decisions so far.
        temperature: of the softmax over scores; 0 for the likeliest option.
        limit: decisions whose second draw is below it are recorded.
        tape: nothing is noted at temperature 0.
        outcomes: int64[B], the result codes of the environment, overwritten.
        listed: whether the options of the present decision are in the workspace.

    Returns:
        FINISHED (the episode has ended, or the environment must `resume` it), TAPE_FULL or DRAWS_USED.
    """
    a = option_arrays(batch, b)
    v = s.variant[b]
    if outcomes[b] != ROUND:
        return FINISHED
    if not listed:
        prepare(a)
    forget_kept_rows(a)
    while True:
        option, is_over = 0, False
        if a.rules[0].num_options > 1:
            if temperature > 0 and a.rules[0].decisions >= len(draws):
                return DRAWS_USED
            if temperature > 0 and not tape_has_room(tape, a):
                return TAPE_FULL
            carry_features(a, temperature > 0)
            score_options(a, s, v)
            k = min(a.rules[0].decisions, len(draws) - 1)
            if a.rules[0].turn == TOGETHER:
                is_over = decide_by_node(a, s.scores, b, temperature, draws[k, 0], draws[k, 1], limit, tape)
            elif temperature > 0:
                option = draw_and_note(a, s, b, temperature, draws[k, 0], draws[k, 1], limit, tape)
            else:
                option = likeliest(a, s.scores)
        elif a.rules[0].turn == TOGETHER:
            is_over = decide_by_node(a, s.scores, b, 0.0, 0.0, 1.0, 0.0, tape)
        if a.rules[0].turn != TOGETHER:
            is_over = take(a, option)
        if is_over:
            outcomes[b] = advance_to_decision(a)
            forget_kept_rows(a)
            if outcomes[b] != ROUND:
                return FINISHED


class Player:
    """Plays batches of workloads under a network for options.

    A network that is `ActsCompiled` plays episode after episode in compiled code. Any other network chooses for all
    episodes at once, in torch.

    Args:
        batch: the environment.
    """

    def __init__(self, batch: OptionBatch) -> None:
        self.batch = batch
        self.tape = Tape(batch.cluster.num_nodes, batch.spec)
        self._play_episode = RepeatedKernel(play_episode)

    def play(
        self,
        workloads: Sequence[Workload],
        network: Any,
        seeds: Sequence[int],
        *,
        temperature: float = 1.0,
        most: int | None = 0,
        group_size: int | None = None,
    ) -> FloatArray:
        """Play workloads to their ends; the tape has the decisions of these episodes alone.

        Args:
            workloads: at most as many as the environment has episodes.
            network: has a method `scores`, see `OptionScorer`.
            seeds: of each episode. Outages and noisy estimates follow from its seed alone, as in `Simulator`; choices
                follow from the seed and the place of the episode in its group.
            temperature: see `play_episode`.
            most: decisions that are recorded, drawn at random from those of all episodes; None for all.
            group_size: episodes of a group; None for all.

        Returns:
            float64[len(workloads)], the mean JCT of the measured jobs, in s.
        """
        self.tape.clear()
        size = group_size or len(workloads)
        streams = [np.random.default_rng([seed, b % size]) for b, seed in enumerate(seeds)]
        for b, workload in enumerate(workloads):
            self.batch.load(b, workload, np.random.default_rng(seeds[b]))
        if acts_compiled(network, self.batch.rules.turn):
            scorer = scorer_arrays(network, self.batch.batch_size, self.batch.arrays)
            limit = 1.0 if most != 0 else 0.0
            for b in range(len(workloads)):
                limit = self._play_compiled(scorer, b, streams[b], temperature, limit, most)
        else:
            play_in_torch(self.batch, network, len(workloads), streams, self.tape, temperature, most)
        if most:
            self.tape.thin(most)
        return np.array([self.batch.mean_jct(b) for b in range(len(workloads))])

    def _play_compiled(
        self,
        scorer: ScorerArrays,
        b: int,
        rng: np.random.Generator,
        temperature: float,
        limit: float,
        most: int | None,
    ) -> float:
        """Play an episode; return the limit of draws from which on decisions need no longer be recorded."""
        batch = self.batch
        draws = rng.random((512, 2)) if temperature > 0 else np.zeros((1, 2))
        listed = False  # another episode may have been played last
        while batch.outcomes[b] != END:
            code = self._play_episode(
                batch.arrays, scorer, b, draws, temperature, limit, self.tape.arrays, batch.outcomes, listed
            )
            listed = True
            if code == TAPE_FULL:
                limit = self.tape.make_room(most, limit)
            elif code == DRAWS_USED:
                draws = np.concatenate((draws, rng.random(draws.shape)))
            elif batch.outcomes[b] in (LOG_FULL, ROUND_OVER):
                batch.resume(b)
        return limit
