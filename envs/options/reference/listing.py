"""Reference implementation of `envs.options.listing` in plain Python."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from envs.options.columns import EVICT, JOIN, MOVE, RESIZE, SHARE, START, TUNE, WAIT
from envs.options.reference.changes import NOTHING, Option, RoundChanges
from envs.options.rules import OptionRules
from envs.simulation.reference import Job
from envs.simulation.world.throughput import EXACT_NODES
from envs.types import JobId, NodeId, Placement

WAITING = Option(WAIT, NOTHING, NOTHING, 0)


class Lister:
    """Lists the options of a draft.

    Args:
        draft: of the round.
        rules: which options there are.

    Attributes:
        refused: jobs whose gangs were given up in this round.
        rows: the jobs that the last list is about, in order.
        num_candidates: of these, the first ones: waiting jobs in queue order.
        beyond: jobs that the free GPUs could hold and that are no candidates.
        waited: nodes whose part of the round has ended.
        last_node: the node whose turn was last, -1 for none.
        turn: the node whose turn it is, -1 for none.
    """

    def __init__(self, draft: RoundChanges, rules: OptionRules) -> None:
        self.draft, self.rules = draft, rules
        self.shares, self.changes = rules.shares(draft.simulator.setup), rules.changes_in(draft.simulator.setup)
        self.num_heads = rules.candidates(draft.simulator.cluster)
        self.reference: list[list[float]] = draft.simulator.rules.table.reference().tolist()
        self.refused = set[JobId]()
        self.rows: list[JobId] = []
        self.num_candidates = self.beyond = 0
        self.waited = set[NodeId]()
        self.last_node, self.turn = NOTHING, NOTHING

    def begin(self) -> None:
        """Forget what nodes have decided in the round before."""
        self.refused.clear()
        self.waited.clear()
        self.last_node = NOTHING

    def options(self, gang: JobId) -> list[Option]:
        """Return all options, or where nodes take turns those of one node; while a gang is put together, its alone."""
        found, takes_turns = self._all_options(gang), self.rules.turn == "turns"
        if takes_turns:
            count = len(self.draft.nodes)
            able = {option.node for option in found} - self.waited
            self.turn = min(able, key=lambda node: (node - self.last_node - 1) % count, default=NOTHING)
            found = [option for option in found if option.node == self.turn]
        if self.rules.turn == "together":
            return list(self._by_node(found, gang))
        if gang != NOTHING and not takes_turns:
            return found
        if found and (self.draft.idle_but_for(gang) or not self._may_idle(found)):
            return [found[-1], *found[:-1]]  # the last one takes the place of waiting
        return [WAITING, *found]

    def _by_node(self, found: list[Option], gang: JobId) -> Iterator[Option]:
        """The options of each node, after its own waiting unless it must act."""
        may_wait = not self.draft.idle_but_for(gang) and self._may_idle(found)
        for node, own in groupby(sorted(found, key=lambda option: option.node), lambda option: option.node):
            options = list(own)
            if may_wait or (gang == NOTHING and all(option.change != START for option in options)):
                yield Option(WAIT, NOTHING, node, 0)
            yield from options

    def _may_idle(self, found: list[Option]) -> bool:
        """Whether GPUs may stay free beside these options."""
        if self.rules.idle == "allowed":
            return True
        able = [self.draft.job(option.job) for option in found if option.change == START]
        simulator, patience = self.draft.simulator, self.rules.patience
        if self.rules.idle == "never" or simulator.scenario.information.work == "none":
            return not able
        return all(
            simulator.time - job.spec.submit_time <= patience * self.estimated_time(job) and self.estimated_time(job)
            for job in able
        )

    def _all_options(self, gang: JobId) -> list[Option]:
        if gang != NOTHING:
            self.rows, self.num_candidates, self.beyond = [gang], 0, 0
            return list((self._best_fit if self.rules.placing == "best_fit" else self._joins_of_gang)(JOIN, gang))
        heads, found = self.candidates(), list[Option]()
        for count, job in enumerate(heads):
            if 1 + len(found) >= self.rules.max_starts:
                self.beyond, heads = self.beyond + len(heads) - count, heads[:count]
                break
            found += [*self._starts(job), *self._shares(job)]
        holders = self._holders() if self.changes != "start" or self.rules.tune else []
        self.rows, self.num_candidates = heads + holders, len(heads)
        return found + [option for job in holders for option in self._changes(job)]

    def candidates(self) -> list[JobId]:
        """Return the first waiting jobs that the free GPUs could hold, in queue order, ties by id.

        Jobs that may share GPUs need no free ones. Jobs that this round evicted from shared GPUs are left out.
        """
        waiting = [job for job in self.draft.waiting() if self.draft.job(job).partner is None]
        if not self.shares:
            waiting = [job for job in waiting if self.draft.job(job).spec.min_gpus <= self.draft.num_free]
        self.beyond = max(len(waiting) - self.num_heads, 0)
        return sorted(waiting, key=lambda job: (self._key(self.draft.job(job)), job))[: self.num_heads]

    def rank(self, row: int) -> float:
        """Return the fraction of the candidates that come before one in queue order, without those of equal keys."""
        keys = [self._key(self.draft.job(job)) for job in self.rows[: self.num_candidates]]
        return keys.index(keys[row]) / len(keys)

    def _key(self, job: Job) -> float:
        time = self.draft.simulator.time
        if self.rules.queue_order == "fifo":
            return job.spec.submit_time
        if self.rules.queue_order == "least_service" or self.draft.simulator.scenario.information.work == "none":
            return job.service_at(time)
        return self.estimated_time(job)

    def estimated_time(self, job: Job) -> float:
        """Remaining seconds on the requested GPUs of the fastest type, as schedulers estimate them."""
        throughputs = self.reference[job.model]
        throughput = throughputs[min(job.spec.num_gpus, len(throughputs) - 1)]
        return job.remaining_at(self.draft.simulator.time) * job.estimate / throughput if throughput > 0 else 0.0

    def _holders(self) -> list[JobId]:
        """Jobs that hold GPUs, by first node, then by id."""
        holders = [job.id for job in self.draft.simulator.active if self.draft.held(job.id)]
        return sorted(holders, key=lambda job: (min(self.draft.held(job)), job))

    def _shown(self) -> list[NodeId]:
        """Nodes that have not waited, except those that are empty and equal such an empty one of lower index."""
        shown, seen = [], set[object]()
        for node in self.draft.nodes:
            if node.id in self.waited:
                continue
            spec = node.spec
            hardware = spec.gpu_type, spec.num_gpus, node.cpus, node.memory, spec.inter_node_bandwidth
            is_empty = self.draft.free(node.id) == node.capacity > 0
            if not (is_empty and hardware in seen and self.rules.distinct_nodes):
                shown.append(node.id)
            if is_empty:
                seen.add(hardware)
        return shown

    def _starts(self, job: JobId) -> list[Option]:
        """Starts on one node; where no node can hold the job alone, first parts of a gang."""
        spec, draft = self.draft.job(job).spec, self.draft
        if self.rules.placing == "best_fit":
            return [] if job in self.refused else list(self._best_fit(START, job))
        alone = [
            Option(START, job, node, gpus)
            for node in self._shown()
            for gpus in range(spec.min_gpus, min(draft.room(job, node), spec.max_gpus) + 1)
            if draft.runs(job, {node: gpus})
        ]
        if alone or job in self.refused:
            return alone
        return list(self._joins_of_gang(START, job))

    def _best_fit(self, change: int, job: JobId) -> Iterator[Option]:
        """The one node by best fit, see `OptionRules.placing`."""
        draft, spec, held = self.draft, self.draft.job(job).spec, self.draft.held(job)
        rest = spec.min_gpus - draft.gpus(job)
        able = [node for node in draft.nodes if draft.could_run(job, node.id, spec.min_gpus)]
        is_gang = all(node.spec.num_gpus < spec.min_gpus for node in able)
        totals = Counter[str]()  # GPUs by type
        for node in able:
            totals[node.spec.gpu_type] += node.spec.num_gpus
        able = [node for node in able if node.id not in held and draft.room(job, node.id) > 0]
        if is_gang and sum(draft.room(job, node.id) for node in able) < rest:
            return
        found = []
        for node in able:
            free, gpu_type = draft.room(job, node.id), node.spec.gpu_type
            completes = free >= rest
            if not (is_gang or completes) or (completes and not draft.runs(job, {**held, node.id: rest})):
                continue
            of_type = [other.id for other in draft.nodes if other.spec.gpu_type == gpu_type and other.id not in held]
            room = sum(draft.room(job, other) for other in of_type)
            first = draft.nodes[min(held)].spec.gpu_type if held else None
            likes = (2 if gpu_type == first else int(room >= rest)) if is_gang else 0
            if is_gang and any(total >= spec.min_gpus for total in totals.values()) and likes < 1 + bool(held):
                continue
            found.append((likes, completes, -free if completes else free, -node.id))
        if found:
            best = -max(found)[3]
            yield Option(change, job, best, min(draft.free(best), rest))

    def _shares(self, job: JobId) -> Iterator[Option]:
        """The jobs whose GPUs it can share, by their first nodes."""
        spec, draft = self.draft.job(job).spec, self.draft
        for node in draft.nodes if self.shares else ():
            for owner in draft.jobs_on(node.id) if node.id not in self.waited else ():
                held = draft.held(owner)
                if min(held) != node.id or draft.partner(owner) is not None or draft.needs_gpus(owner):
                    continue
                if replace(draft.placement(owner), beside=None) != Placement(held):
                    continue
                sized = spec.min_gpus <= draft.gpus(owner) <= spec.max_gpus
                if (
                    sized
                    and not spec.constraints.demand_nodes(1)
                    and draft.runs(job, held)
                    and draft.kept(job, owner, held) > 0
                ):
                    yield Option(SHARE, job, node.id, owner)

    def _joins_of_gang(self, change: int, job: JobId) -> Iterator[Option]:
        """What further nodes can give: all that the job lacks, or a part if the other nodes can give the rest."""
        draft, spec, held = self.draft, self.draft.job(job).spec, self.draft.held(job)
        lacking = spec.min_gpus - draft.gpus(job)
        most = lacking if self.changes == "start" else spec.max_gpus - draft.gpus(job)
        nodes = {node.id for node in draft.nodes} - held.keys() - self.waited
        able = {node for node in nodes if draft.could_run(job, node, spec.min_gpus)}
        room = sum(draft.room(job, node) for node in able)
        for node in self._shown() if room >= lacking else []:
            for gpus in range(1, min(draft.room(job, node), most) + 1) if node in able else ():
                option = Option(change, job, node, gpus)
                is_complete = gpus >= lacking and draft.runs(job, draft.after(option))
                is_part = gpus < lacking and room - draft.room(job, node) >= lacking - gpus
                is_part = is_part and self._rest_fits(job, able - {node}, lacking - gpus)
                if (is_complete or is_part) and self._may_take_part(job, gpus, max(lacking - gpus, 0)):
                    yield option

    def _rest_fits(self, job: JobId, nodes: set[NodeId], rest: int) -> bool:
        """Whether nodes can give the rest in the division that constraints demand, if they demand one."""
        asked = self.draft.job(job).spec.constraints
        if not asked.demand_nodes(1):
            return True
        others = asked.num_nodes - len(self.draft.held(job)) - 1 if asked.num_nodes else asked.demand_nodes(rest)
        rooms = sorted((self.draft.room(job, node) for node in nodes), reverse=True)
        given = [asked.gpus_per_node or room for room in rooms[: max(others, 0)] if room >= max(asked.gpus_per_node, 1)]
        return len(given) == others and sum(given) >= rest

    def _may_take_part(self, job: JobId, gpus: int, rest: int) -> bool:
        """Whether constraints allow a further node so many GPUs, where others are to give the rest."""
        asked = self.draft.job(job).spec.constraints
        others = asked.num_nodes - len(self.draft.held(job)) - 1
        divides = not asked.num_nodes or (0 < others <= rest if rest else others == 0)
        return asked.gpus_per_node in (0, gpus) and divides

    def _changes(self, job: JobId) -> Iterator[Option]:
        """Other sizes, further nodes, other nodes, eviction, and tunings.

        For a job that was changed in this round only further nodes and tunings; for one that was tuned nothing.
        """
        is_changed, may_change = job in self.draft.changed, self.changes != "start"
        alone = self.draft.partner(job) is None
        if not is_changed and may_change and alone:
            yield from self._sizes(job)
        if job not in self.draft.tuned and may_change and alone:
            yield from self._joins(job)
        if not is_changed and self.changes == "move":
            yield Option(EVICT, job, min(self.draft.held(job)), 0)
            yield from self._moves(job)
        if self.rules.tune and alone and job not in self.draft.tuned and (is_changed or may_change):
            yield from self._tunings(job)

    def _tunings(self, job: JobId) -> Iterator[Option]:
        draft, now = self.draft, replace(self.draft.placement(job), beside=None)  # it may have lost a partner
        if now.num_gpus >= draft.tunings.batch_size.shape[2]:
            return
        plain = Placement(now.gpus)
        for tuning in range(len(draft.tunings.batch_size)):
            after = draft.with_tuning(job, tuning)
            if after == now or (tuning > 0 and (after == plain or len(after.gpus) > EXACT_NODES)):
                continue
            if tuning == 0 or draft.can_have(job, after):
                yield Option(TUNE, job, min(now.gpus), tuning)

    def _sizes(self, job: JobId) -> Iterator[Option]:
        spec = self.draft.job(job).spec
        asked = spec.constraints
        for node, here in self.draft.held(job).items():
            for gpus in range(self.draft.room(job, node) + 1):
                if asked.gpus_per_node if gpus else asked.num_nodes:
                    continue
                option = Option(RESIZE, job, node, gpus)
                after = self.draft.after(option)
                fits = spec.min_gpus <= sum(after.values()) <= spec.max_gpus
                if gpus != here and fits and self.draft.runs(job, after):
                    yield option

    def _joins(self, job: JobId) -> Iterator[Option]:
        most = self.draft.job(job).spec.max_gpus - self.draft.gpus(job)
        for node in self._shown():
            if node not in self.draft.held(job):
                for gpus in range(1, min(self.draft.room(job, node), most) + 1):
                    option = Option(JOIN, job, node, gpus)
                    if self._may_take_part(job, gpus, 0) and self.draft.runs(job, self.draft.after(option)):
                        yield option

    def _moves(self, job: JobId) -> Iterator[Option]:
        held, total = self.draft.held(job), self.draft.gpus(job)
        for node in self._shown():
            has_room = self.draft.room(job, node) >= total
            elsewhere = held.get(node) != total or job in self.draft.owners
            if elsewhere and has_room and self.draft.runs(job, {node: total}):
                yield Option(MOVE, job, node, total)
