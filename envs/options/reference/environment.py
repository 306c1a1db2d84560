"""Reference implementation of the options environment, in plain Python on the reference engine.

Tests compare the compiled environment with it, decision by decision. The rules are documented in `envs.options.rules`,
`columns` and `listing`, which this package repeats with dicts and lists.
"""

from collections.abc import Mapping, Sequence

from envs.options.arrays import COUNTERS
from envs.options.by_node import drawn_rank
from envs.options.columns import JOIN, START, WAIT
from envs.options.reference.changes import NOTHING, Option, RoundChanges
from envs.options.reference.features import Observer
from envs.options.reference.listing import Lister
from envs.options.rules import OptionRules
from envs.options.tuning import tunings_under
from envs.simulation.reference import ReferenceSimulator
from envs.simulation.world.throughput import ThroughputTable
from envs.types import JobId, NodeId

COUNTED = tuple(name for name in COUNTERS if name != "left_out")  # lists have room for all options here


class ReferenceOptions:
    """One episode in which options are carried out by the rules of `OptionBatch`.

    Args:
        simulator: the engine at t = 0; its scenario has the finite horizon that the environment sets.
        rules: see its class.

    Attributes:
        options: those of the present decision; empty at first.
        ended: whether the episode has ended.
        counters: decisions with two or more options, gangs that were given up, and how often limits were reached.
    """

    def __init__(self, simulator: ReferenceSimulator, rules: OptionRules) -> None:
        self.simulator, self.rules = simulator, rules
        table = ThroughputTable.of(simulator.setup, simulator.rules.table.models, simulator.rules.table.size)
        self.draft = RoundChanges(simulator, tunings_under(rules, simulator.setup, table))
        self.lister = Lister(self.draft, rules)
        self.observer = Observer(self.lister)
        self.options: list[Option] = []
        self.ended = False
        self.gang = NOTHING  # a job that has fewer GPUs in the draft than it needs
        self.decision = 0  # options carried out in this round
        self.counters = dict.fromkeys(COUNTED, 0)
        self.subround = 0
        self.most = rules.decisions(simulator.cluster)

    def proceed(self) -> None:
        """End the round and advance time to the next round with an option besides waiting."""
        while True:
            self.draft.apply()
            self.ended = not self.simulator.advance()
            self.draft.begin()
            self.lister.begin()
            self.observer.begin()
            self.decision = self.subround = 0
            if self.ended or self._list():
                return

    def step(self, chosen: int) -> None:
        """Carry out one of the options, by its place."""
        option = self.options[chosen]
        self.counters["decisions"] += len(self.options) > 1
        self.counters["full_lists"] += self.lister.beyond > 0
        self.lister.last_node = self.lister.turn
        if option.change != WAIT:
            self._take(option)
        elif self.rules.turn == "turns":
            self.lister.waited.add(self.lister.turn)
        else:
            self.proceed()
            return
        self._go_on()

    def _go_on(self) -> None:
        """List the next decision of the round, or end it."""
        if not self._list():
            self.counters["full_rounds"] += self.decision >= self.most and self._has_choice()
            self.proceed()

    def step_together(self, chosen: Sequence[int], scores: Sequence[float]) -> None:
        """Carry out what the nodes choose at the same time.

        Args:
            chosen: for each node the place of an option, -1 for a node without options.
            scores: of all options.
        """
        own = {
            node: [place for place, option in enumerate(self.options) if option.node == node]
            for node in range(len(chosen))
        }
        self.counters["decisions"] += len(self.options) > 1
        self.counters["full_lists"] += self.lister.beyond > 0
        margins: dict[NodeId, float] = {}
        for node, place in enumerate(chosen):
            if place >= 0 and self.options[place].change != WAIT:
                margins[node] = scores[place] - self._waiting(own[node], scores)
                if self.rules.contested == "drawn":
                    margins[node] = drawn_rank(self.simulator.num_rounds, self.subround, node)
        given: dict[JobId, int] = {}
        carried_out = 0
        for node in sorted(margins, key=lambda node: (-margins[node], node)):
            self.counters["claims"] += 1
            if self._grant(self.options[chosen[node]], given):
                carried_out += 1
                continue
            second = self._next_best(own[node], scores, given)
            if self.rules.losers == "next_best" and second is not None and self._grant(second, given):
                self.counters["second_choices"] += 1
                carried_out += 1
            else:
                self.counters["lost_claims"] += 1
        self.subround += 1
        if not carried_out and self.gang != NOTHING:
            self._give_up_gang()
            carried_out = 1
        if self.gang == NOTHING and (not carried_out or self.subround >= self.rules.subrounds):
            self.proceed()
            return
        self._go_on()

    def _waiting(self, own: Sequence[int], scores: Sequence[float]) -> float:
        """Return the score of a node's waiting, 0 where it must act."""
        return scores[own[0]] if self.options[own[0]].change == WAIT else 0.0

    def _next_best(self, own: Sequence[int], scores: Sequence[float], given: Mapping[JobId, int]) -> Option | None:
        """Return the option of a node that scores highest of those about jobs that nobody was given."""
        waits = self.options[own[0]].change == WAIT
        able = [place for place in own[waits:] if self.options[place].job not in given]
        able = [place for place in able if not waits or scores[place] > scores[own[0]]]
        return self.options[max(able, key=lambda place: (scores[place], -place))] if able else None

    def _grant(self, option: Option, given: dict[JobId, int]) -> bool:
        """Carry out a claim unless one before stands against it."""
        draft, job, gpus, gang = self.draft, option.job, option.gpus, self.gang
        spec, held = draft.job(job).spec, draft.held(job)
        if job == gang:
            lacking = spec.min_gpus - draft.gpus(job)
            if option.node in held:
                return False
            gpus = min(gpus, spec.max_gpus - draft.gpus(job))
            if gpus >= lacking and not draft.runs(job, {**held, option.node: gpus}):
                gpus = lacking
                if not draft.runs(job, {**held, option.node: gpus}):
                    return False
            given[job] = JOIN
            self._take(Option(JOIN, job, option.node, gpus))
            return True
        if option.change == START and gpus < spec.min_gpus and gang != NOTHING:
            return False
        if job in given:
            after = {**held, option.node: gpus}
            if option.change != JOIN or given[job] != JOIN or option.node in held:
                return False
            if sum(after.values()) > spec.max_gpus or not draft.runs(job, after):
                return False
        given[job] = option.change
        self._take(option)
        if gang != NOTHING:
            self.gang = gang
        return True

    def _take(self, option: Option) -> None:
        self.draft.take(option)
        self.decision += 1
        is_short = self.draft.held(option.job) and self.draft.needs_gpus(option.job)
        self.gang = option.job if is_short else NOTHING

    def _list(self) -> bool:
        """List the options of the present draft; return whether there are any besides waiting."""
        if self.gang != NOTHING:
            if self._has_choice():
                return True
            self._give_up_gang()
        if self.decision >= self.most:
            return False
        if self._has_choice():
            return True
        if not self.lister.waited or not self.draft.idle_but_for():
            return False
        self.lister.waited.clear()  # nothing runs: those that have waited are asked again
        return self._has_choice()

    def _give_up_gang(self) -> None:
        self.draft.drop(self.gang)
        self.lister.refused.add(self.gang)
        self.gang = NOTHING
        self.counters["broken_gangs"] += 1

    def _has_choice(self) -> bool:
        self.options = self.lister.options(self.gang)
        return any(option.change != WAIT for option in self.options)
