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
from agents.policies.options.tape import MOMENTS, RECORDS
from agents.problems.options import OptionSetup
from envs.episodes import Elapsed, Reward
from envs.options import OptionRules
from envs.types import FloatArray, IntArray


class Group(NamedTuple):
    """What was played of one workload.

    Attributes:
        lesson: the recorded decisions. Their `advantage` is against the baseline of the group, or minus the cost to go.
        episode: int64[D], the episode of each, from 0 in each group.
        time: float64[D], of each, in s.
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
        return cls(
            Lesson.join([group.lesson for group in groups]),
            np.concatenate([group.episode + i * group_size for i, group in enumerate(groups)]),
            np.concatenate([group.time for group in groups]),
            {name: float(np.mean([group.figures[name] for group in groups])) for name in names},
        )


class OptionRunner(PieceRunner):
    """Plays groups of episodes."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._network = self._setup.build()
        self._players: dict[tuple[str, OptionRules], Player] = {}  # by task and rules

    def play(self, weights: Mapping[str, Tensor], iteration: int, numbers: Sequence[int]) -> dict[int, Group]:
        """Play the groups of some workloads; return what is learnt from each, and figures."""
        self._network.load_state_dict(weights)
        return {number: self._play_group(iteration, number) for number in numbers}

    def _play_group(self, iteration: int, number: int) -> Group:
        setup: OptionSetup[Any] = self._setup
        settings = setup.settings
        task, workload, seed = setup.draw(iteration, number)
        if (key := (task.name, task.rules)) not in self._players:
            self._players[key] = Player(task.batch(settings.group_size))
        player = self._players[key]
        jct = player.play(
            [workload] * settings.group_size,
            self._network,
            [seed] * settings.group_size,  # the same outages and estimates for all
            temperature=settings.temperature_at(iteration),
            most=settings.decisions_of_workload,
        )
        tape, group = player.tape.arrays, settings.compares_groups
        lesson = Lesson.of(player.tape, tape_advantages(player, task.reward, settings.horizon, compares=group))
        moment = tape.moment[: tape.counts[RECORDS]]
        time = player.batch.state.episode["time"][:, 0]
        figures = {
            "train/mean_jct": float(jct.mean()),
            "train/makespan": float((time - workload.jobs["submit_time"][0]).mean()),
            "train/decisions": float(tape.counts[MOMENTS]) / settings.group_size,
        }
        return Group(lesson, tape.episode[moment], tape.time[moment], figures)


def tape_advantages(player: Player, reward: Reward, horizon: float, *, compares: bool = True) -> FloatArray:
    """Return the advantage of every moment of a tape, float64[moments], if all its episodes are of one workload.

    Without `compares` it is minus the cost to go, the return.
    """
    tape, episode = player.tape.arrays, player.batch.state.episode[:, 0]
    count, group = int(tape.counts[MOMENTS]), len(episode)
    of = tape.episode[:count]
    moments = np.bincount(of, minlength=group)
    first = np.concatenate([[0], np.cumsum(moments + 1)])  # each episode has its end as a last instant
    place, ends = np.arange(count) + of, first[1:] - 1
    totals = []
    for noted, field in ((tape.time, "time"), (tape.job_seconds, "job_seconds"), (tape.busy_seconds, "busy_seconds")):
        total = np.empty(first[-1])
        total[place], total[ends] = noted[:count], episode[field]
        totals.append(total)
    cost = np.zeros(first[-1])
    cost[1:] = -np.asarray(reward(Elapsed(*(np.diff(total) for total in totals))))
    cost[first[:-1]] = 0.0  # what lies before the first decision of an episode
    cost = np.cumsum(cost)
    to_go = np.concatenate([cost_to_go(totals[0][a:b], cost[a:b], horizon) for a, b in pairwise(first)])
    found: FloatArray = -to_go
    if compares:
        found = leave_one_out_advantages(first, totals[0], cost, to_go, group, horizon)
    noted_only: FloatArray = found[place]
    return noted_only


def episode_returns(player: Player, reward: Reward) -> FloatArray:
    """Return float64[episodes], what a reward gives for whole episodes that have ended, without discount."""
    episode = player.batch.state.episode[:, 0]
    found: FloatArray = np.asarray(reward(Elapsed(episode["time"], episode["job_seconds"], episode["busy_seconds"])))
    return found
