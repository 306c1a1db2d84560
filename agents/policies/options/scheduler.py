"""A policy over options as a scheduler, which runs in the same loop as every heuristic."""

from typing import Any, ClassVar

import numpy as np
import torch

from agents.policies.options.acting_together import choose_by_node
from agents.policies.options.lesson import Lesson
from agents.policies.options.playing import draw_option, weigh
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.torch_playing import choose
from agents.policies.options.weights import ActsCompiled, ScorerArrays, acts_compiled, score_options, scorer_arrays
from envs.options import ListedOptions, OptionRound, OptionRules
from envs.options.arrays import OptionArrays, option_arrays
from envs.options.by_node import TOGETHER
from envs.options.carrying import carry_features, forget_kept_rows
from envs.options.kernels import prepare, take
from envs.options.several import take_likeliest
from envs.options.together import act_together
from envs.scheduling import ClusterView
from envs.simulation import SimulationView
from envs.simulation.compiled.jit import kernel
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray

DRAWS = 64  # random numbers that are drawn for a round at first


@kernel
def play_round(batch: OptionArrays, s: ScorerArrays, draws: FloatArray, first: int, temperature: float) -> bool:
    """Take decisions of episode 0 until its round is over.

    Args:
        batch: the environment, in a round that is not over.
        s: the scorer.
        draws: float64[K], uniform random numbers, one for each decision with several options.
        first: decisions of the episode before this round.
        temperature: of the softmax over scores; 0 for the likeliest option.

    Returns:
        Whether the round is over; if not, there are too few draws for the next decision.
    """
    a = option_arrays(batch, 0)
    prepare(a)
    forget_kept_rows(a)
    while True:
        option = 0
        together = a.rules[0].turn == TOGETHER
        if a.rules[0].num_options > 1:
            decision = a.rules[0].decisions - first
            if temperature > 0 and decision >= len(draws):
                return False
            if together:
                forget_kept_rows(a)
            carry_features(a, False)
            score_options(a, s, 0)
            if together:
                choose_by_node(a, s.scores, temperature, draws[decision] if temperature > 0 else 0.0)
            elif temperature > 0:
                option = draw_option(a, s, weigh(a, s, temperature), draws[decision])
            elif take_likeliest(a, s.scores):
                return True
            else:
                continue
        elif together:
            choose_by_node(a, s.scores, 0.0, 0.0)
        if act_together(a) if together else take(a, option):
            return True


class OptionScheduler:
    """A policy over options as a scheduler. It plays each round on a copy of the state, whose draft it returns.

    A network that is `ActsCompiled` takes all decisions of a round in one call of compiled code. Any other network is
    asked for scores decision by decision, in torch.

    Args:
        network: has a method `scores`, see `OptionScorer`. Its weights are read when an episode begins.
        rules: those with which it was trained, or others.
        temperature: of the softmax over scores from which options are drawn; 0 for the likeliest option.
    """

    preemptive: ClassVar[bool] = True
    elastic: ClassVar[bool] = True
    information: ClassVar[str] = "estimate"

    def __init__(self, network: Any, rules: OptionRules, *, temperature: float = 0.0) -> None:
        self.network, self.rules, self.temperature = network, rules, temperature
        self.counters: dict[str, int] = {}
        self._round = OptionRound(rules)
        self._rng = np.random.default_rng(0)
        self._rows: IntArray | None = None
        self._scorer: ScorerArrays | None = None

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self._round, self._rng, self._rows = OptionRound(self.rules), rng, None
        self.counters = {}

    def schedule(self, view: ClusterView) -> Allocation:
        """Play one round and return its allocation."""
        assert isinstance(view, SimulationView), "a policy observes a snapshot of the compiled engine"
        if self._round.begin(view):
            self._decide()
        self.counters = self._round.counters()
        return self._round.fill(view.allocation(keep_running=True))

    def _decide(self) -> None:
        """Take all decisions of the round."""
        if acts_compiled(self.network, self.rules.turn):
            self._decide_compiled(self.network)
        else:
            self._decide_in_torch()

    def _decide_compiled(self, network: ActsCompiled) -> None:
        arrays = self._round.arrays
        if arrays.what is not self._rows:  # a new episode, or the snapshot has grown
            self._scorer, self._rows = scorer_arrays(network, 1, arrays), arrays.what
        assert self._scorer is not None
        draws = self._rng.random(DRAWS) if self.temperature > 0 else np.zeros(0)
        first = int(arrays.rules[0, 0].decisions)
        while not play_round(arrays, self._scorer, draws, first, self.temperature):
            draws = np.concatenate((draws, self._rng.random(len(draws))))

    @torch.inference_mode()
    def _decide_in_torch(self) -> None:
        over = False
        while not over:
            options = self._round.options()
            if self.rules.turn == "together":
                over = self._act_together(options)
            elif len(options.what) == 1:
                over = self._round.step(0)
            elif self.temperature == 0 and self._round.at_once > 1:
                over = self._round.step_likeliest(self._scores(options))
            else:
                over = self._round.step(self._choose(options))

    def _act_together(self, options: ListedOptions) -> bool:
        """Let all nodes choose; return whether the round is over."""
        lesson, chosen = as_lesson(options, together=True), np.full(len(options.nodes), -1)
        places, scores = np.zeros(1, np.int64), np.zeros(1)
        if len(options.what) > 1:
            draws = self._rng.random((1, 2)) if self.temperature > 0 else None
            places, _, scores = choose(self.network, lesson, self.temperature, draws, together=True)
        chosen[options.node_of[places]] = places
        return self._round.act(chosen, scores)

    def _scores(self, options: ListedOptions) -> FloatArray:
        """Return float64[options], the network's scores."""
        lesson = as_lesson(options)
        found: FloatArray = (
            self.network.scores(gather_decisions(lesson, Rows.of(lesson), np.arange(1))).double().numpy()
        )
        return found

    def _choose(self, options: ListedOptions) -> int:
        """Return the place of the option that is carried out, of several."""
        draws = self._rng.random((1, 2)) if self.temperature > 0 else None
        return int(choose(self.network, as_lesson(options), self.temperature, draws)[0][0])


def as_lesson(options: ListedOptions, together: bool = False) -> Lesson:
    """Return one decision in the form in which networks see many; `together` where nodes act together."""
    choice_of = np.zeros(len(options.what), np.int64)
    if together:
        choice_of[1:] = np.cumsum(np.diff(options.node_of) != 0)
    return Lesson(
        num_options=np.array([len(options.what)]),
        num_jobs=np.array([len(options.jobs)]),
        num_nodes=np.array([len(options.nodes)]),
        num_choices=np.array([choice_of[-1] + 1]),
        chosen=np.zeros(choice_of[-1] + 1, np.int64),
        log_probability=np.zeros(choice_of[-1] + 1),
        lost=np.zeros(choice_of[-1] + 1),
        advantage=np.zeros(1),
        options=options.options,
        job_of=options.job_of,
        node_of=options.node_of,
        choice_of=choice_of,
        jobs=options.jobs,
        nodes=options.nodes,
        cluster=options.cluster[None],
    )
