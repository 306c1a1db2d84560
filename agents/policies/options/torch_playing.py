"""Whole episodes under any network for options: all episodes of a batch take a decision together, in torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from agents.networks.decisions import segment_log_softmax
from agents.policies.options.acting_together import choose_by_node, draw_of, record_choices
from agents.policies.options.lesson import Lesson
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.tape import RECORDS, Tape, TapeArrays, note_moment, record_decision, tape_has_room
from envs.options import OptionBatch
from envs.options.arrays import OptionArrays, option_arrays
from envs.options.by_node import TOGETHER
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
        if a.rules[0].turn == TOGETHER:
            choose_by_node(a, a.joint.scores, 0.0, 0.0)  # so that each node has a choice, which is overwritten
            record_choices(tape, a, 0.0)
        else:
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
    alive, together = np.zeros(batch.batch_size, np.bool_), batch.rules.turn == "together"
    while True:
        alive[:num_episodes] = ~batch.ended[:num_episodes]
        if not alive.any():
            break
        seen.clear()
        while not see_all(batch.arrays, alive, place, seen.arrays):
            seen.grow()
            seen.clear()
        chosen[:] = np.where(alive & ~together, 0, -1)
        records = np.flatnonzero(place >= 0)
        if len(records):
            lesson = Lesson.of(seen, np.zeros(int(seen.arrays.counts[0])))
            draws = np.array([streams[b].random(2) for b in records.tolist()]) if temperature > 0 else None
            own = seen.arrays
            count = len(lesson.chosen)
            own.chosen[:count], own.log_probability[:count], scores = choose(
                network, lesson, temperature, draws, together
            )
            if together:
                act_by_node(batch, own, records, scores)
            else:
                chosen[records] = own.chosen[:count]
            if draws is not None:
                tape.take(seen, draws[:, 1], draws[:, 1] < limit)
                if most and tape.arrays.counts[RECORDS] >= 2 * most:
                    limit = tape.thin(most)
        if together:
            for b in np.flatnonzero(alive & (place < 0)).tolist():
                act_alone(batch, b)
        else:
            batch.step(chosen)
    tape.sort_moments()


def act_by_node(batch: OptionBatch, seen: TapeArrays, episodes: IntArray, scores: FloatArray) -> None:
    """Carry out what nodes that act together have chosen, and note which claims got nothing.

    Args:
        batch: the environment.
        seen: the decisions, one for each of `episodes`.
        episodes: int64[D].
        scores: float64[M], of all their options.
    """
    for k, b in enumerate(episodes.tolist()):
        first, count = int(seen.first_option[k]), int(seen.num_options[k])
        own = slice(int(seen.first_choice[k]), int(seen.first_choice[k] + seen.num_choices[k]))
        nodes = seen.node_of[first + seen.chosen[own]]
        chosen = np.full(batch.cluster.num_nodes, -1)
        chosen[nodes] = seen.chosen[own]
        seen.lost[own] = batch.act(b, chosen, scores[first : first + count])[nodes]


def act_alone(batch: OptionBatch, b: int) -> None:
    """Carry out the only option of an episode in which nodes act together."""
    chosen = np.full(batch.cluster.num_nodes, -1)
    chosen[batch.options(b).node_of] = 0
    batch.act(b, chosen, np.zeros(1))


def choose(
    network: Any, lesson: Lesson, temperature: float, draws: FloatArray | None, together: bool = False
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Choose an option in every decision of a lesson, or where nodes act together one of every node.

    Args:
        network: has a method `scores`.
        lesson: the decisions.
        temperature: of the softmax over scores.
        draws: float64[D, 2], of which the first column decides; None for the likeliest option.
        together: whether nodes act together.

    Returns:
        int64[C], the place of the chosen options among those of their decisions, float64[C], the logarithm of their
        probabilities, and float64[M], all scores.
    """
    decisions = gather_decisions(lesson, Rows.of(lesson), np.arange(lesson.num_decisions))
    scores = network.scores(decisions)
    scaled, decision = scores / temperature if draws is not None else scores, decisions.choice_decision.numpy()
    logs = segment_log_softmax(scaled, decisions.choice_of, len(decision)).double()
    weights, sizes = logs.exp().numpy(), np.bincount(decisions.choice_of.numpy(), minlength=len(decision))
    starts, option = np.cumsum(sizes) - sizes, np.zeros(len(decision), np.int64)
    node_of, nodes_before = decisions.node_of.numpy(), np.cumsum(lesson.num_nodes) - lesson.num_nodes
    for c, (start, size, d) in enumerate(zip(starts.tolist(), sizes.tolist(), decision.tolist(), strict=True)):
        own = weights[start : start + size]
        if draws is None:
            option[c] = start + own.argmax()
            continue
        draw = draws[d, 0]
        if together:
            draw = draw_of(draw, int(node_of[start] - nodes_before[d]))
        option[c] = start + min(np.searchsorted(np.cumsum(own), draw * own.sum(), side="right"), size - 1)
    first = decisions.first.numpy()[decision]
    return option - first, logs.numpy()[option], scores.double().numpy()
