"""Reference implementation of the options environment, in plain Python on the reference engine.

Tests compare the compiled environment with it, decision by decision. The rules are documented in `envs.options.rules`,
`columns` and `listing`, which this package repeats with dicts and lists.
"""

from envs.options.columns import WAIT
from envs.options.reference.changes import NOTHING, Option, RoundChanges
from envs.options.reference.features import Observer
from envs.options.reference.listing import Lister
from envs.options.rules import OptionRules
from envs.options.tuning import tunings_under
from envs.simulation.reference import ReferenceSimulator
from envs.simulation.world.throughput import ThroughputTable


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
        self.counters = dict.fromkeys(("decisions", "broken_gangs", "full_lists", "full_rounds"), 0)
        self.most = rules.decisions(simulator.cluster)

    def proceed(self) -> None:
        """End the round and advance time to the next round with an option besides waiting."""
        while True:
            self.draft.apply()
            self.ended = not self.simulator.advance()
            self.draft.begin()
            self.lister.begin()
            self.observer.begin()
            self.decision = 0
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
        if not self._list():
            self.counters["full_rounds"] += self.decision >= self.most and self._has_choice()
            self.proceed()

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
            self.draft.drop(self.gang)
            self.lister.refused.add(self.gang)
            self.gang = NOTHING
            self.counters["broken_gangs"] += 1
        if self.decision >= self.most:
            return False
        if self._has_choice():
            return True
        if not self.lister.waited or not self.draft.idle_but_for():
            return False
        self.lister.waited.clear()  # nothing runs: those that have waited are asked again
        return self._has_choice()

    def _has_choice(self) -> bool:
        self.options = self.lister.options(self.gang)
        return any(option.change != WAIT for option in self.options)
