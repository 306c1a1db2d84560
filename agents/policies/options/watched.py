"""A policy over options whose decisions are remembered for films and pictures: what nodes wanted, and what was done."""

from typing import Any

import numpy as np
import torch

from agents.networks.decisions import segment_log_softmax
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.scheduler import OptionScheduler, as_lesson
from envs.episodes.scene import Scene
from envs.options import ListedOptions
from envs.options.columns import ACTION_NAMES, EVICT, JOIN, MOVE, OPTION_GPUS, OPTION_THROUGHPUT, RESIZE, START, TUNE
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray

MOST_SAID = 3  # decisions of a round that a picture describes
CLEARLY = 1.05  # times the throughput elsewhere, from which it is mentioned


class WatchedOptions(OptionScheduler):
    """An `OptionScheduler` that tells what its nodes wanted in the last round. It takes its decisions in torch.

    Each network that has `scores` can be watched. `attention` of the network, where it has such a method, gives the
    weights of edges (`OptionAttention.attention`); elsewhere the weight is the number of jobs for which both nodes have
    an option.

    Args:
        scheduler: the policy.

    Attributes:
        attention: float64[num_nodes, num_nodes], who attends to whom in the first decision of the last round; None
            without attention, or without a decision.
    """

    def __init__(self, scheduler: OptionScheduler) -> None:
        super().__init__(scheduler.network, scheduler.rules, temperature=scheduler.temperature)
        self.attention: FloatArray | None = None
        self._num_nodes, self._types = 0, tuple[str, ...]()
        self._forget()

    def _forget(self) -> None:
        self.attention = None
        self._edges, self._weights = np.zeros((0, 2), np.int64), np.zeros(0)
        self._wants, self._said, self._decisions = list[str](), list[str](), 0

    @property
    def num_edges(self) -> int:
        """Pairs of nodes that had options for the same job in the first decision of the last round."""
        return len(self._edges)

    def schedule(self, view: ClusterView) -> Allocation:
        """Play one round and return its allocation."""
        self._num_nodes = view.cluster.num_nodes
        self._types = tuple(node.gpu_type for node in view.cluster.nodes)
        self._forget()
        return super().schedule(view)

    def annotate(self, scene: Scene) -> Scene:
        """Return a scene with the edges and wants of the last round, and sentences about its first decisions."""
        said = self._said[:MOST_SAID]
        if self._decisions > MOST_SAID:
            said.append(f"and {self._decisions - MOST_SAID} more decisions in this round")
        return scene.with_notes(self._edges, self._weights, self._wants, said, MOST_SAID + 1)

    def _decide(self) -> None:
        self._decide_in_torch()

    def _choose(self, options: ListedOptions) -> int:
        place = super()._choose(options)
        self._remember(options, place)
        return place

    def _scores(self, options: ListedOptions) -> FloatArray:
        scores = super()._scores(options)
        self._remember(options, int(scores.argmax()))
        return scores

    def _act_together(self, options: ListedOptions) -> bool:
        before = self._round.counters()["lost_claims"]
        self._remember(options, -1)
        is_over = super()._act_together(options)
        lost = self._round.counters()["lost_claims"] - before
        if lost and len(self._said) < MOST_SAID:
            self._said.append(f"{lost} claims of jobs that another node was given")
        return is_over

    def _remember(self, options: ListedOptions, place: int) -> None:
        """Note what nodes want, and describe the option that is carried out; -1 where nodes act together."""
        together = self.rules.turn == "together"
        lesson = as_lesson(options, together)
        decisions = gather_decisions(lesson, Rows.of(lesson), np.arange(1))
        scores = self.network.scores(decisions) / (self.temperature or 1.0)
        shares = segment_log_softmax(scores, decisions.choice_of, len(lesson.chosen)).exp().double().numpy()
        if not self._decisions:
            self._look(options, shares, decisions)
        self._decisions += 1
        if len(self._said) < MOST_SAID and not together:
            self._said.append(self._describe(options, shares, place))

    def _look(self, options: ListedOptions, shares: FloatArray, decisions: Any) -> None:
        """Remember who wanted what, and who shared jobs with whom, in the first decision of a round."""
        has = np.zeros((len(options.jobs), self._num_nodes), np.int64)
        owned = (options.node_of >= 0) & (options.job_of >= 0)
        has[options.job_of[owned], options.node_of[owned]] = 1
        shared = has.T @ has
        one, other = np.nonzero(np.triu(shared, 1))
        self._edges, self._weights = np.stack([one, other], axis=1), shared[one, other].astype(np.float64)
        attention = getattr(self.network, "attention", None)
        weights = attention(decisions) if attention else None
        if weights is not None:
            self.attention = np.asarray(torch.as_tensor(weights)[0].double().numpy())
            self._weights = np.maximum(self.attention[one, other], self.attention[other, one])
        for n in range(self._num_nodes):
            own = np.flatnonzero(options.node_of == n)
            if not len(own):
                self._wants.append("")
                continue
            best = int(own[shares[own].argmax()])
            self._wants.append(f"{name_option(options, best)}, {shares[best]:.0%}")

    def _describe(self, options: ListedOptions, shares: FloatArray, place: int) -> str:
        """Say which option was carried out, what speaks for it, and what would have been next."""
        node = int(options.node_of[place])
        if node < 0:
            said = f"the round ends ({shares[place]:.0%})"
        else:
            said = f"node {node}: {name_option(options, place)} ({shares[place]:.0%}){self._faster(options, place)}"
        others = np.delete(np.arange(len(shares)), place)
        following = int(others[shares[others].argmax()])
        where = int(options.node_of[following])
        rival = f"node {where}: {name_option(options, following)}" if where >= 0 else "end the round"
        return f"{said}; next: {rival} ({shares[following]:.0%})"

    def _faster(self, options: ListedOptions, place: int) -> str:
        """Compare with the best of the other nodes of another GPU type that could give the job as many GPUs."""
        own = options.options[place]
        same = np.flatnonzero(
            (options.job_of == options.job_of[place])
            & (options.options[:, OPTION_GPUS] == own[OPTION_GPUS])
            & (options.options[:, OPTION_THROUGHPUT] > 0)
        )
        elsewhere = [k for k in same.tolist() if self._type_of(options, k) != self._type_of(options, place)]
        if not elsewhere or own[OPTION_THROUGHPUT] <= 0:
            return ""
        best = max(elsewhere, key=lambda k: float(options.options[k, OPTION_THROUGHPUT]))
        ratio = float(own[OPTION_THROUGHPUT] / options.options[best, OPTION_THROUGHPUT])
        where = f"than on {self._type_of(options, best)}"
        if ratio >= CLEARLY:
            return f", {ratio:.1f} x as fast there {where}"
        return f", {1 / ratio:.1f} x slower there {where}" if ratio <= 1 / CLEARLY else ""

    def _type_of(self, options: ListedOptions, place: int) -> str:
        return self._types[int(options.node_of[place])]


def name_option(options: ListedOptions, place: int) -> str:
    """Name an option in a few words, without its node."""
    action, row, _, amount = options.what[place].tolist()
    job = int(options.job_ids[row]) if row >= 0 else -1
    match action:
        case _ if action in (START, JOIN):
            return f"{ACTION_NAMES[action]} job {job} on {amount}"
        case _ if action == RESIZE:
            return f"resize job {job} to {amount}"
        case _ if action in (MOVE, EVICT, TUNE):
            return f"{ACTION_NAMES[action]} job {job}"
    return ACTION_NAMES[action]
