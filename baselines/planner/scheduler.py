"""The rollout planner: it plays Starling's allocation and many others ahead before it chooses one."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from baselines.hesrpt import HeSrpt
from baselines.optimus import Optimus
from baselines.planner.rollouts import Rest, Rollouts
from baselines.planner.search import Budget, Copies, Search
from baselines.starling import Starling
from baselines.starling.scheduler import KNOWN, OTHER_VARIANTS
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import SimulationView, Snapshot
from envs.simulation.seen.overriding import find_override
from envs.types import Allocation, ClusterSpec, FloatArray, MurmurationError


def default_proposers() -> list[Scheduler]:
    """Starling and its variants without forecast, and two heuristics that share out GPUs in other ways."""
    variants = [replace(KNOWN, gang=variant.gang, knee=variant.knee) for variant in OTHER_VARIANTS]
    starlings = [
        Starling(known=parameters, look_ahead=0, variants=(), batch="usual", exploration=None)
        for parameters in (KNOWN, *variants)
    ]
    return [*starlings, Optimus(), HeSrpt()]


def continue_as(base: Starling, look_ahead: int | None, restart_weight: float) -> Starling:
    """Return the scheduler of rollouts: the base at usual batch sizes.

    Args:
        base: the base.
        look_ahead: completions that it forecasts, and 0 leaves out its variants; None for those of the base.
        restart_weight: factor by which rollouts prolong restarts; its own factor is divided by it.

    Raises:
        MurmurationError: `restart_weight` is not positive, or the base overrides a method or an attribute of
            `Starling`, as which rollouts continue.
    """
    if overridden := find_override(base, Starling):
        raise MurmurationError(
            f"planner: base is {type(base).__name__}, which has its own `{overridden}`, but rollouts continue as "
            "Starling; pass it in proposers"
        )
    if not 0 < restart_weight < math.inf:
        raise MurmurationError(f"planner: restart_weight is {restart_weight}; it must be positive and finite")
    known, unknown = (
        replace(parameters, restart_weight=parameters.restart_weight / restart_weight)
        for parameters in (base.known, base.unknown)
    )
    depth = base.look_ahead if look_ahead is None else look_ahead
    hidden = base.hidden_look_ahead if look_ahead is None else look_ahead
    variants = base.variants if depth else ()
    starling = Starling(
        known,
        unknown,
        depth,
        variants,
        "usual",
        shared=base.shared,
        hidden_look_ahead=hidden,
        exploration=None,  # a copy of the cluster teaches nothing
    )
    starling.discount = base.discount
    return starling


class RolloutPlanner:
    """Starling's allocation and others, each played some rounds ahead on a copy of the cluster; the best is applied.

    In each round:

    1. The base, `Starling`, decides. Its allocation is applied to a snapshot of the round (`ClusterView.snapshot`).
       There, the base decides in the next `rounds` rounds too, at usual batch sizes. The time that this takes is the
       horizon of the decision. No further job arrives.
    2. Other proposals: to change nothing, what Starling's variants without forecast would allocate, and what Optimus
       and heSRPT would.
    3. Then local changes of the best candidate so far: a job moves, two jobs swap, one grows or shrinks, is evicted, or
       is squeezed in where others give way. A change that is better is the next candidate to be changed.
    4. The value of a candidate is the sum of the times that the jobs present spend in the system: up to the horizon by
       the rules of the world, with restarts and all that jobs share, and after it by an estimate (`rollouts.Rest`).
       Restarts take `restart_weight` times as long as in the world, since jobs that arrive end placements early and
       cause further restarts.
    5. A candidate takes the place of the best one so far if it is better by the share `margin`.

    A candidate is worth what the rounds after it make of it, so rollouts must continue with the scheduler that will
    decide: a candidate that is better when followed by a weaker scheduler is often worse when followed by the base.

    The effort is bounded in rollouts, which gives the same result on every machine, or also in milliseconds. Below two
    rollouts it is the base, to the bit, and so it is where work is hidden and the base does not
    forecast with its guesses (`Starling.hidden_look_ahead`), as rollouts would take guesses for facts. Jobs whose
    placements name batch sizes, cores, memory or execution plans are left to the schedulers that propose them.

    Sources: rollout of a heuristic, in scheduling first by Bertsekas and Castanon (Journal of Heuristics 1999);
    of several heuristics in parallel by Chang, Givan and Chong (Discrete Event Dynamic Systems 2004). Rolling out local
    changes of the candidate, and the common horizon with an estimated rest, are our own.

    Args:
        base: the scheduler that proposes first, and whose parameters the rollouts use.
        rollouts: most rollouts in a decision, each of one candidate in one future; those of the base's allocation
            count.
        milliseconds: most wall-clock time of a decision besides the base's; None for no limit. With a limit, results
            depend on the machine.
        rounds: rounds up to the horizon, without those that only an interval causes; None plays until the jobs present
            have ended.
        look_ahead: completions that Starling forecasts in the rounds of a rollout; 0 for no forecast and no variants;
            None for those of the base.
        share: the largest share of the rollouts that proposals use; local changes use the rest.
        margin: the share of the value of the base's allocation by which a candidate must be better than the best one
            so far.
        proposers: the schedulers of step 2; None for those named there.
        restart_weight: factor on restart delays in rollouts.

    Raises:
        MurmurationError: an argument is out of range.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(
        self,
        base: Starling | None = None,
        rollouts: int = 16,
        milliseconds: float | None = None,
        rounds: int | None = 20,
        look_ahead: int | None = None,
        share: float = 0.5,
        margin: float = 0.02,
        proposers: Sequence[Scheduler] | None = None,
        restart_weight: float = KNOWN.restart_weight,
    ) -> None:
        self.base = Starling() if base is None else base
        continuation = continue_as(self.base, look_ahead, restart_weight)
        others = default_proposers() if proposers is None else list(proposers)
        rest = Rest(self.base.known.knee, self.base.known.horizon)
        self._search = Search(
            others,
            Rollouts(continuation, rounds, rest, restart_weight),
            Budget(rollouts, milliseconds),
            share,
            margin,
        )
        self._copies: tuple[Snapshot, Snapshot] | None = None

    @property
    def counters(self) -> dict[str, int]:
        """Rollouts, and decisions for a proposal or a local change instead of the base's allocation."""
        return dict(self._search.counters)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the last episode."""
        self.base.reset(cluster, rng)
        self._search.reset(cluster, rng)
        self._copies = None

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the best allocation found; the base's unless a better one is.

        Raises:
            MurmurationError: the view is that of the reference engine, whose copies are too slow.
        """
        base = self.base.schedule(view)
        if not self._search.budget.compares:
            return base
        assumed = self.base.assumed_work(view)
        if assumed is not None and not self.base.hidden_look_ahead:
            return base
        return self._search.choose(view, base, self._copy(view, assumed))

    def decide(self, view: ClusterView, copies: Copies) -> Allocation:
        """Return the best allocation found on copies that the caller has made of this round."""
        base = self.base.schedule(view)
        return self._search.choose(view, base, copies) if self._search.budget.compares else base

    def _copy(self, view: ClusterView, assumed: FloatArray | None) -> tuple[Snapshot, Snapshot]:
        """Return a snapshot of the round, and another one to play on."""
        if not isinstance(view, SimulationView):
            raise MurmurationError(f"planner: needs a view of Simulator, not {type(view).__name__}; use that engine")
        if self._copies is None:
            self._copies = view.snapshot(assumed), view.snapshot(assumed)
        else:
            view.snapshot(assumed, into=self._copies[0])
        return self._copies
