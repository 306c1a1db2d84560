"""The rules by which nodes choose options within a scheduling round."""

import math
from dataclasses import dataclass
from typing import Literal

from envs.episodes.candidates import QUEUE_ORDERS
from envs.simulation import Setup
from envs.types import ClusterSpec, MurmurationError

CHANGES = ("start", "resize", "move")
TURNS = ("auction", "turns", "together")
LOSERS = ("nothing", "next_best")
CONTESTED = ("highest", "drawn")
VIEWS = ("global", "own")
PLACINGS = ("chosen", "best_fit")
IDLE = ("allowed", "limited", "never")
PLAIN = ("start", "auction", False, False)  # changes, turn, tune and share under best fit


@dataclass(frozen=True, slots=True)
class OptionRules:
    """Which options nodes have, and in which order they choose.

    Args:
        changes: what may be changed. "start": waiting jobs are started. "resize": besides, running jobs grow, shrink
            and join further nodes. "move": besides, running jobs are moved and evicted.
        tune: whether a job can be given another batch size, or a level of cores or memory, where the task lets
            schedulers choose them, see `envs.options.tuning`. Jobs that ran before only where they may be changed.
        share: whether a waiting job can be placed beside another on the same GPUs, where the task lets jobs share them
            (`scenario.sharing`). A job that was evicted from GPUs that it shared waits for the next round.
        idle: whether GPUs may stay free though a waiting job could start on them, that is whether waiting is offered.
            "allowed": always. "never": not while a waiting job can start. "limited": not while one can start that was
            submitted longer ago than `patience` times its estimated run time; without an estimate, as "never". An idle
            cluster never waits.
        patience: see `idle`.
        num_candidates: waiting jobs that nodes can start, on a small cluster. Jobs that need more GPUs than are free
            take no place among them, so that the list is as long as the queue allows.
        candidates_per_node: the same per node of the cluster, which counts where it is more.
        max_starts: options after which no further candidate is listed, so that there is room for those of other jobs.
            With so many places, the first candidates can start anyway.
        queue_order: which waiting jobs these are; if work is unknown, "shortest" means the least service.
        max_decisions: options carried out in a round on a small cluster, at most; then the round ends.
        decisions_per_gpu: the same per GPU of the cluster, which counts where it is more. Each job is changed, tuned
            and started once at most, so that 4 suffice unless many gangs are given up.
        at_once_per_node: options per node of the cluster that a scheduler carries out after one scoring, at least 1:
            the likeliest, and others that touch different jobs and nodes (`envs.options.several`). Training takes one.
        distinct_nodes: whether a node is left out for a job that it does not run if a lower-indexed one is equal: of
            the same type, as many free GPUs, no jobs. Such options differ in nothing but the node's index.
        turn: "auction": one option of all is chosen, and waiting ends the round. "turns": nodes choose one after
            another, each one of its own options or waiting, by index and around again; a node without options is left
            out. Waiting ends a node's part of the round, and the round ends when no other node has options. While a
            gang is put together, the nodes that can join are asked in this order. If all have waited, the cluster is
            idle and a job fits, they are asked again. "together": in each of at most `subrounds` sub-rounds every node
            with options chooses one of them or waits, at the same time and from one listing
            (`envs.options.together`). The round ends when nobody claims anything.
        subrounds: of a round in which nodes act together, at most; a gang that is begun is finished or given up first.
        losers: what a node gets whose claim another one has won: "nothing", or its "next_best" option that scores
            higher than waiting and is about a job that nobody was given in this sub-round.
        contested: which claim of a job wins: the one with the "highest" margin over its node's waiting, or one that is
            "drawn" by chance, by a rank that each node gets in each sub-round.
        ranks: whether nodes that act together see a number that is drawn for each node in each sub-round, so that
            equal nodes can tell who gives way. It is their rank where contested jobs are drawn.
        view: "global": every node sees the row of the cluster. "own": it sees its own row and options and their jobs
            alone, and what a network tells it. Units (`envs.options.units`) are those of all jobs in the system.
        placing: "chosen": a job has options on all nodes and in all its sizes. "best_fit": a waiting job has one option
            at most, so that a choice of an option is a choice of a job. It gets the GPUs that it requests, on the node
            with the fewest free ones that suffice. Only a job that no node could ever hold alone gets several nodes,
            those with most free GPUs first, of one type unless every type is too small.

    Raises:
        MurmurationError: a value is out of range, or does not go with best fit.
    """

    changes: Literal["start", "resize", "move"] = "start"
    tune: bool = False
    share: bool = False
    idle: Literal["allowed", "limited", "never"] = "allowed"
    patience: float = 0.5
    num_candidates: int = 64
    candidates_per_node: float = 0.5
    max_starts: int = 8192
    queue_order: Literal["shortest", "fifo", "least_service"] = "shortest"
    max_decisions: int = 64
    decisions_per_gpu: float = 4.0
    at_once_per_node: float = 1 / 64
    distinct_nodes: bool = True
    turn: Literal["auction", "turns", "together"] = "auction"
    subrounds: int = 4
    losers: Literal["nothing", "next_best"] = "nothing"
    contested: Literal["highest", "drawn"] = "highest"
    ranks: bool = False
    view: Literal["global", "own"] = "global"
    placing: Literal["chosen", "best_fit"] = "chosen"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("changes", CHANGES),
            ("idle", IDLE),
            ("queue_order", QUEUE_ORDERS),
            ("turn", TURNS),
            ("losers", LOSERS),
            ("contested", CONTESTED),
            ("view", VIEWS),
            ("placing", PLACINGS),
        ):
            if getattr(self, name) not in allowed:
                raise MurmurationError(f"env.{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}")
        if self.placing == "best_fit" and (self.changes, self.turn, self.tune, self.share) != PLAIN:
            raise MurmurationError(
                f"env.placing is best_fit with changes={self.changes}, turn={self.turn}, tune={self.tune}, "
                f"share={self.share}; it only starts jobs: set changes=start, turn=auction, tune=false, share=false"
            )
        if self.turn == "together" and (self.tune or self.share):
            raise MurmurationError(
                f"env.turn is together with tune={self.tune}, share={self.share}; nodes that act together change GPUs "
                "of their own alone: set tune=false, share=false"
            )
        for name in ("num_candidates", "max_starts", "max_decisions", "subrounds"):
            if getattr(self, name) < 1:
                raise MurmurationError(f"env.{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("patience", "candidates_per_node", "decisions_per_gpu", "at_once_per_node"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"env.{name} is {getattr(self, name)}; it must be 0 or more")

    def changes_in(self, setup: Setup) -> Literal["start", "resize", "move"]:
        """What may be changed in this world: only starts where running jobs keep what they have."""
        return "start" if setup.scenario.preemption == "never" else self.changes

    def shares(self, setup: Setup) -> bool:
        """Whether waiting jobs can be placed beside others in this world."""
        return self.share and setup.scenario.sharing != "off"

    def candidates(self, cluster: ClusterSpec) -> int:
        """Return the waiting jobs that nodes can start on a cluster, at most."""
        return max(self.num_candidates, math.ceil(self.candidates_per_node * cluster.num_nodes))

    def decisions(self, cluster: ClusterSpec) -> int:
        """Return the options carried out in a round on a cluster, at most."""
        return max(self.max_decisions, math.ceil(self.decisions_per_gpu * cluster.num_gpus))

    def at_once(self, cluster: ClusterSpec) -> int:
        """Return the options that a scheduler carries out after one scoring on a cluster, at most."""
        return max(1, math.ceil(self.at_once_per_node * cluster.num_nodes))
