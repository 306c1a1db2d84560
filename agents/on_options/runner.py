"""Runners for options: groups of episodes of one workload, and the costs that followed each decision."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from torch import Tensor

from agents.on_options.advantage import cost_to_go, leave_one_out_advantages
from agents.on_ray.pieces import PieceRunner
from agents.policies.options.lesson import Lesson
from agents.policies.options.playing import Player
from agents.policies.options.tape import MOMENTS, RECORDS, Tape
from agents.policies.options.weights import acts_compiled
from agents.problems.options import OptionSetup
from agents.tags import ENV_STEPS, LENGTH, RETURN
from envs.episodes import Elapsed, Reward
from envs.options import OptionRules
from envs.types import FloatArray, IntArray


class Group(NamedTuple):
    """What was played of one workload.

    Attributes:
        lesson: the recorded decisions. Their `advantage` is against the baseline of the group, or minus the cost to go.
        episode: int64[D], the episode of each, from 0 in each group.
        time: float64[D], of each, in mean JCTs of its group.
        figures: means over episodes, by tag.
    """

    lesson: Lesson
    episode: IntArray
    time: FloatArray
    figures: dict[str, float]

    @classmethod
    def join(cls, groups: "Sequence[Group]", group_size: int) -> "Group":
        """Return all decisions of several groups, with episodes numbered through, and the means of their figures."""
        names = sorted({name for group in groups for name in group.figures})
        figures = {name: float(np.mean([group.figures[name] for group in groups])) for name in names}
        return cls(
            Lesson.join([group.lesson for group in groups]),
            np.concatenate([group.episode + i * group_size for i, group in enumerate(groups)]),
            np.concatenate([group.time for group in groups]),
            figures | {ENV_STEPS: figures[LENGTH] * group_size * len(groups)},
        )


class OptionRunner(PieceRunner):
    """Plays groups of episodes."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._network = self._setup.build()
        self._players: dict[tuple[str, OptionRules, int], Player] = {}  # by task, rules and number of episodes

    def play(self, weights: Mapping[str, Tensor], iteration: int, numbers: Sequence[int]) -> dict[int, Group]:
        """Play the groups of some workloads; return what is learnt from each, and figures.

        In torch, all groups of a task are played in one batch, which takes less than half of the time. The last bit of
        a score may then depend on the other groups.
        """
        self._network.load_state_dict(weights)
        found: dict[int, Group] = {}
        if self._setup.drawn:
            self._players.clear()  # each world is played once
        worlds = sorted({self._setup.world_of(number) for number in numbers})
        together = [[number for number in numbers if self._setup.world_of(number) == world] for world in worlds]
        alone = [[number] for number in numbers]
        compiled = acts_compiled(self._network, self._setup.rules(iteration).turn)
        for batch in alone if compiled else together:
            found |= self._play_groups(iteration, batch)
        return found

    def _play_groups(self, iteration: int, numbers: Sequence[int]) -> dict[int, Group]:
        """Play groups of one task in one batch."""
        setup: OptionSetup[Any] = self._setup
        settings, count = setup.settings, len(numbers)
        size, share = settings.group_size, settings.decisions_of_workload
        drawn = {number: setup.draw(iteration, number) for number in numbers}
        task = drawn[numbers[0]][0]
        if (key := (task.name, task.rules, count)) not in self._players:
            self._players[key] = Player(task.batch(size * count))
        player = self._players[key]
        jct = player.play(
            [workload for _, workload, _ in drawn.values() for _ in range(size)],
            self._network,
            [seed for *_, seed in drawn.values() for _ in range(size)],  # the same outages and estimates in a group
            temperature=settings.temperature_at(iteration),
            most=share if share is None or count == 1 else 2 * share * count,
            group_size=size,
        )
        found = {}
        for i, number in enumerate(numbers):
            first, end = i * size, (i + 1) * size
            tape = player.tape if count == 1 else player.tape.part(first, end)
            if count > 1 and share is not None:
                tape.thin(share)
            ends = player.batch.state.episode[first:end, 0]
            makespan = np.mean([player.batch.makespan(b) for b in range(first, end)])
            figures = {"train/mean_jct": float(jct[first:end].mean()), "train/makespan": float(makespan)}
            found[number] = self._group_of(tape, ends, task.reward, figures)
        return found

    def _group_of(self, tape: Tape, ends: Any, reward: Reward, figures: dict[str, float]) -> Group:
        settings, arrays, unit = self._setup.settings, tape.arrays, figures["train/mean_jct"]
        horizon = settings.horizon * unit
        advantages, returns = tape_advantages(tape, ends, reward, horizon, compares=settings.compares_groups)
        moment = arrays.moment[: arrays.counts[RECORDS]]
        figures |= {LENGTH: float(arrays.counts[MOMENTS]) / len(ends), RETURN: float(returns.mean())}
        return Group(Lesson.of(tape, advantages / unit), arrays.episode[moment], arrays.time[moment] / unit, figures)


def tape_advantages(
    tape: Tape, ends: Any, reward: Reward, horizon: float, *, compares: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return the advantage of every moment of a tape, float64[moments], if all its episodes are of one workload.

    Without `compares` it is minus the cost to go, the return. The second array, float64[episodes], has the sum of the
    rewards of each episode from its first decision on.

    Args:
        tape: the moments of each episode together, in the order of episodes.
        ends: records of the engine's episodes at their ends, one for each.
        reward: see its class.
        horizon: in s of simulated time; a cost that lies t seconds ahead counts exp(-t / horizon).
        compares: whether episodes are each other's baseline.
    """
    noted, (count, *_) = tape.arrays, tape.arrays.counts.tolist()
    group, of = len(ends), noted.episode[:count]
    moments = np.bincount(of, minlength=group)
    first = np.concatenate([[0], np.cumsum(moments + 1)])  # each episode has its end as a last instant
    place = np.arange(count) + of
    totals = []
    for field in ("time", "job_seconds", "busy_seconds"):
        total = np.empty(first[-1])
        total[place], total[first[1:] - 1] = getattr(noted, field)[:count], ends[field]
        totals.append(total)
    cost = np.zeros(first[-1])
    cost[1:] = -np.asarray(reward(Elapsed(*(np.diff(total) for total in totals))))
    cost[first[:-1]] = 0.0  # what lies before the first decision of an episode
    cost = np.cumsum(cost)
    to_go = np.concatenate([cost_to_go(totals[0][a:b], cost[a:b], horizon) for a, b in pairwise(first)])
    found: FloatArray = -to_go
    if compares:
        found = leave_one_out_advantages(first, totals[0], cost, to_go, group, horizon)
    return found[place], -cost[first[1:] - 1]
