"""Whole episodes under any network for options: all episodes of a batch take a decision together, in torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from agents.networks.decisions import segment_log_softmax
from agents.policies.options.lesson import Lesson
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.tape import RECORDS, Tape, TapeArrays, note_moment, record_decision, tape_has_room
from envs.options import OptionBatch
from envs.options.arrays import OptionArrays, option_arrays
from envs.options.features import write_features
from envs.options.kernels import prepare
from envs.simulation.compiled.jit import kernel
from envs.types import BoolArray, FloatArray, IntArray


@kernel
def see_all(batch: OptionArrays, alive: BoolArray, place: IntArray, tape: TapeArrays) -> bool:
    """Record the present decision of every episode that is alive; return False if the tape has too little room.

    Args:
        batch: the environment.
        alive: bool[B].
        place: int64[B], overwritten by the record of each episode; -1 for none, also if it has only one option.
        tape: empty before.
    """
    for b in range(len(alive)):
        place[b] = -1
        if not alive[b]:
            continue
        a = option_arrays(batch, b)
        prepare(a)
        if a.rules[0].num_options < 2:
            continue
        if not tape_has_room(tape, a):
            return False
        write_features(a)
        place[b] = tape.counts[1]
        note_moment(tape, a, b)
        record_decision(tape, a, 0, 0.0, 0.0)
    return True


@torch.inference_mode()
def play_in_torch(
    batch: OptionBatch,
    network: Any,
    num_episodes: int,
    streams: Sequence[np.random.Generator],
    tape: Tape,
    temperature: float,
    most: int | None,
) -> None:
    """Play the first episodes of an environment to their ends; the arguments are those of `Player.play`.

    Moments and records are sorted by episode in the end, as if the episodes had been played one after another.
    """
    seen, limit = Tape(batch.cluster.num_nodes, batch.spec), 1.0 if most != 0 else 0.0
    place, chosen = np.full(batch.batch_size, -1), np.full(batch.batch_size, -1)
    alive = np.zeros(batch.batch_size, np.bool_)
    while True:
        alive[:num_episodes] = ~batch.ended[:num_episodes]
        if not alive.any():
            break
        seen.clear()
        while not see_all(batch.arrays, alive, place, seen.arrays):
            seen.grow()
            seen.clear()
        chosen[:] = np.where(alive, 0, -1)
        records = np.flatnonzero(place >= 0)
        if len(records):
            lesson = Lesson.of(seen, np.zeros(int(seen.arrays.counts[0])))
            draws = np.array([streams[b].random(2) for b in records.tolist()]) if temperature > 0 else None
            option, log_probability = choose(network, lesson, temperature, draws)
            chosen[records] = option
            if draws is not None:
                tape.take(seen, option, log_probability, draws[:, 1], draws[:, 1] < limit)
                if most and tape.arrays.counts[RECORDS] >= 2 * most:
                    limit = tape.thin(most)
        batch.step(chosen)
    tape.sort_moments()


def choose(network: Any, lesson: Lesson, temperature: float, draws: FloatArray | None) -> tuple[IntArray, FloatArray]:
    """Choose an option in every decision of a lesson.

    Args:
        network: has a method `scores`.
        lesson: the decisions.
        temperature: of the softmax over scores.
        draws: float64[D, 2], of which the first column decides; None for the likeliest option.

    Returns:
        int64[D], the place of the chosen options, and float64[D], the logarithm of their probabilities.
    """
    every = np.arange(lesson.num_decisions)
    decisions = gather_decisions(lesson, Rows.of(lesson), every)
    scores = network.scores(decisions)
    logs = segment_log_softmax(scores / temperature if draws is not None else scores, decisions.decision_of, len(every))
    weights, first = logs.double().exp().numpy(), decisions.first.numpy()
    option = np.zeros(len(every), np.int64)
    for d, (start, count) in enumerate(zip(first, lesson.num_options, strict=True)):
        own = weights[start : start + count]
        if draws is None:
            option[d] = own.argmax()
        else:
            option[d] = min(np.searchsorted(np.cumsum(own), draws[d, 0] * own.sum(), side="right"), count - 1)
    return option, logs.double().numpy()[first + option]
