"""Reference implementation of `envs.options.features` in plain Python; its features must be equal as float32.

`envs.options.columns` names and explains every feature.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from envs.episodes.candidates import Features
from envs.episodes.reference import Coupling
from envs.episodes.reference.coupling import lacking
from envs.options.by_node import drawn_rank
from envs.options.columns import (
    ACTION_NAMES,
    CLUSTER_COLUMNS,
    EVICT,
    JOB_ROW_COLUMNS,
    MOVE,
    NODE_COLUMNS,
    OPTION_COLUMNS,
    RATIO_LIMIT,
    SHARE,
    TUNE,
    WAIT,
)
from envs.options.reference.changes import NOTHING, Option
from envs.options.reference.listing import Lister
from envs.performance import model_profile
from envs.simulation.reference import Job, Node
from envs.simulation.world.exact import PARTS
from envs.types import JobId, NodeId, Placement

FeatureRow = dict[str, float]


def _relative(value: float, unit: float) -> float:
    """Return the logarithm of a value in some unit, below a hundredth of it no more; 0 without a unit."""
    return math.log(max(value, 0.0) / unit + 0.01) / 5.0 if unit > 0 else 0.0


def _doublings(value: float, unit: float) -> float:
    """Return a quarter of the doublings from the unit to a value; 0 for nothing."""
    return math.log2(value / unit) / 4.0 if value > 0 and unit > 0 else 0.0


def _ratio(value: float, unit: float) -> float:
    """Return a quotient of at most RATIO_LIMIT; 0 where the unit is 0."""
    return min(value / unit, RATIO_LIMIT) if unit > 0 else 0.0


def _delay_share(delay: float, time: float) -> float:
    """Return a delay as a fraction of itself and a time."""
    return delay / (delay + time) if delay > 0 else 0.0


def array_of(rows: Sequence[FeatureRow], columns: Sequence[str]) -> Features:
    """float32[num_rows, num_columns]; a column that a row lacks is 0."""
    values = [[row.get(name, 0.0) for name in columns] for row in rows]
    return np.array(values, np.float32).reshape(-1, len(columns))


class Observer:
    """Feature rows of a draft.

    Args:
        lister: of the draft's options.
    """

    def __init__(self, lister: Lister) -> None:
        self.lister, self.draft, self.rules = lister, lister.draft, lister.rules
        self.engine = self.draft.simulator
        self.table = self.engine.rules.table
        self.coupling = Coupling(self.engine)
        self.knows_work = self.engine.scenario.information.work != "none"
        self.unit = max(node.spec.num_gpus for node in self.draft.nodes)

    def begin(self) -> None:
        """Measure the jobs in the system at the beginning of a round."""
        time, running = self.engine.time, self.engine.running()
        active = [job for job in self.engine.active if job not in running] + running
        self.num_active, self.units = len(active), dict.fromkeys(("time", "gpu_time", "age", "service"), 0.0)
        left = [(self.lister.estimated_time(job), job.spec.num_gpus) for job in active] if self.knows_work else []
        if known := [(estimate, gpus) for estimate, gpus in left if estimate > 0]:
            self.units["time"] = math.exp(sum(math.log(estimate) for estimate, _ in known) / len(known))
            self.units["gpu_time"] = math.exp(sum(math.log(estimate * gpus) for estimate, gpus in known) / len(known))
        if active:
            self.units["age"] = sum(time - job.spec.submit_time for job in active) / len(active)
            self.units["service"] = sum(job.service_at(time) for job in active) / len(active)

    def _by_type(self) -> list[float]:
        """Throughput of each type on one GPU, as a fraction of the fastest, mean over the jobs with options."""
        single, found = self.table.consolidated()[:, :, 1].tolist(), [0.0] * len(self.engine.cluster.gpu_types)
        for job in self.lister.rows:
            row = single[self.table.models.index(self.draft.job(job).spec.model)]
            for gpu_type, value in enumerate(row):
                found[gpu_type] += _ratio(value, max(row)) / len(self.lister.rows)
        return found

    def cluster(self, decision: int, gang: JobId) -> Features:
        """float32[NUM_CLUSTER_COLUMNS]; zeros where nodes see their own alone."""
        if self.rules.view == "own":
            return np.zeros(len(CLUSTER_COLUMNS), np.float32)
        total, waiting = self.engine.cluster.num_gpus, len(self.draft.waiting())
        row = {
            "waiting": waiting / max(self.num_active, 1),
            "running": _ratio(len(self.engine.running()), total),
            "free": self.draft.num_free / total,
            "waiting_per_gpu": _ratio(waiting, total),
            "decisions": min(decision / self.rules.decisions(self.engine.cluster), 1.0),
            "gang": float(gang != NOTHING),
            "age": _relative(self.units["age"], self.units["time"]),
        }
        found: Features = array_of([row], CLUSTER_COLUMNS)[0]
        return found

    def nodes(self, subround: int) -> Features:
        """float32[num_nodes, NUM_NODE_COLUMNS]."""
        types = self._by_type() if self.rules.view == "global" else [0.0] * len(self.engine.cluster.gpu_types)
        rows = [self._node(node, types[self.engine.rules.node_types[node.id]]) for node in self.draft.nodes]
        if self.rules.ranks and self.rules.turn == "together":
            for node, row in enumerate(rows):
                row["rank"] = drawn_rank(self.engine.num_rounds, subround, node)
        return array_of(rows, NODE_COLUMNS)

    def _node(self, node: Node, type_throughput: float) -> FeatureRow:
        jobs = [(self.draft.job(job), gpus) for job, gpus in self.draft.jobs_on(node.id).items()]
        return {
            "free": self.draft.free(node.id) / self.unit,
            "gpus": node.spec.num_gpus / self.unit,
            "jobs": len(jobs) / self.unit,
            "type_throughput": type_throughput,
            "cpu_demand": _ratio(self._wanted(jobs, node, "cpus"), node.cpus),
            "memory_demand": _ratio(self._wanted(jobs, node, "memory"), node.memory),
            "link_load": min(sum(self._loads(jobs, node)), RATIO_LIMIT),
            "down": float(not node.up),
        }

    def _wanted(self, jobs: Sequence[tuple[Job, int]], node: Node, resource: str) -> float:
        """Cores or GB that jobs can use on a node."""
        own_type, wanted = self.engine.rules.node_types[node.id], 0.0
        for job, gpus in jobs:
            wanted += self.coupling.wanted(job, own_type, gpus, resource)
        return wanted

    def _loads(self, jobs: Sequence[tuple[Job, int]], node: Node) -> list[float]:
        """Traffic of each job that has some, at most the link, as a fraction of the link."""
        link = node.spec.inter_node_bandwidth
        sent = [self._traffic(job) for job, _ in jobs]
        return [min(traffic, link) / link for traffic in sent if traffic > 0]

    def _traffic(self, job: Job) -> float:
        """GB/s between the nodes of a job: at present, or as the draft changes it."""
        if self.draft.is_running(job.id) and job.id not in self.draft.changed and job.traffic > 0:
            return job.traffic
        largest = len(self.coupling.reference[job.model]) - 1
        size = min(self.draft.gpus(job.id) or job.spec.num_gpus, largest)
        return self._spread_traffic(job, size, len(self.draft.held(job.id)))

    def _spread_traffic(self, job: Job, gpus: int, nodes: int) -> float:
        if nodes < 2 or self.engine.rules.contention == "off":
            return 0.0
        per_second = float(self.table.traffic[job.model, gpus]) * self.coupling.reference[job.model][gpus]
        return per_second * (nodes - 1) / nodes

    def jobs(self) -> Features:
        """float32[num_rows, NUM_JOB_COLUMNS]; nothing is hidden or predicted here."""
        rows = [self._job(self.draft.job(job), row) for row, job in enumerate(self.lister.rows)]
        return array_of(rows, JOB_ROW_COLUMNS)

    def _job(self, job: Job, row: int) -> FeatureRow:
        spec, time, is_running = job.spec, self.engine.time, self.draft.is_running(job.id)
        left, units = self.lister.estimated_time(job) if self.knows_work else 0.0, self.units
        waits, is_head = time - spec.submit_time, row < self.lister.num_candidates
        rank = self.lister.rank(row) if is_head else 0.0
        return {
            "waits": float(self.draft.needs_gpus(job.id)),
            "runs": float(is_running),
            "changed": float(job.id in self.draft.changed),
            "rank": rank,
            "first": float(is_head and rank == 0),
            "remaining_time": _relative(left, units["time"]),
            "gpu_time": _relative(left * spec.num_gpus, units["gpu_time"]),
            "age": _relative(waits, units["age"]),
            "attained_service": _relative(job.service_at(time), units["service"]),
            "requested_gpus": _ratio(spec.num_gpus, self.unit),
            "min_gpus": spec.min_gpus / spec.num_gpus,
            "max_gpus": _doublings(spec.max_gpus, spec.num_gpus),
            "gpus": _doublings(self.draft.gpus(job.id), spec.num_gpus),
            "spread": math.log2(1.0 + len(self.draft.held(job.id))) / 3.0,
            "restart_delay": _delay_share(job.restart_delay, left if self.knows_work else waits),
            "contention": 1.0 - job.throughput / job.alone if is_running and job.alone > 0 else 0.0,
            "lacks_cpus": 1.0 - job.cpu_factor if is_running else 0.0,
            "lacks_memory": 1.0 - job.memory_factor if is_running else 0.0,
            **self._scaling(job),
            **self._shared(job.id),
            **(self._named(job, self.draft.placement(job.id)) if self.rules.tune and self.draft.held(job.id) else {}),
        }

    def _shared(self, job: JobId) -> FeatureRow:
        """Whether a job shares its GPUs, and what it loses of its throughput."""
        partner = self.draft.partner(job)
        if partner is None:
            return {}
        return {"shares": 1.0, "loses": 1.0 - self.draft.kept(job, partner, self.draft.held(job))}

    def _sharing(self, option: Option, after: Mapping[NodeId, int]) -> FeatureRow:
        """The throughput that a job and its partner lose by an option, and that a present partner regains."""
        draft = self.draft
        partner = option.gpus if option.change == SHARE else draft.partner(option.job)
        if partner is None:
            return {}
        if option.change in (MOVE, EVICT):
            return {"partner_regains": 1.0 - draft.kept(partner, option.job, draft.held(partner))}
        left = self.lister.estimated_time(draft.job(partner))
        return {
            "loses": 1.0 - draft.kept(option.job, partner, after),
            "partner_loses": 1.0 - draft.kept(partner, option.job, after),
            "partner_time": _relative(left, self.units["time"]) if self.knows_work else 0.0,
        }

    def _named(self, job: Job, placement: Placement) -> FeatureRow:
        """Batch size, cores and memory that a placement names, as of columns of the job or of an option."""
        tunings, gpus = self.draft.tunings, min(placement.num_gpus, self.draft.tunings.usual.shape[1] - 1)
        usual, most = int(tunings.usual[job.model, gpus]), (tunings.saturating[job.model] / PARTS).tolist()
        first = min(placement.gpus)
        row = {"batch": _doublings(placement.batch_size or 0, usual)}
        for name, amounts, full in (("cpus", placement.cpus, most[0]), ("memory", placement.memory, most[1])):
            row[name] = amounts[first] / (placement.gpus[first] * full) if amounts is not None and full else 0.0
        return row

    def _scaling(self, job: Job) -> FeatureRow:
        """Throughput per GPU of the fastest type, as a fraction of that on the fewest GPUs on which the job runs."""
        best = self.coupling.reference[job.model]
        gpus = min(job.spec.num_gpus, len(best) - 1)
        by_type = self.table.consolidated()[job.model].tolist()
        fastest = max((i for i in range(len(by_type)) if by_type[i][gpus] == best[gpus]), default=0)
        per_gpu = self.coupling.per_gpu(job, fastest)
        single = next((each for each in per_gpu if each), 0.0)
        fractions = [each / single if single else 0.0 for each in per_gpu]
        return {f"efficiency_{1 << i}": fraction for i, fraction in enumerate(fractions)}

    def options(self, listed: Sequence[Option]) -> Features:
        """float32[num_options, NUM_OPTION_COLUMNS]."""
        return array_of([self._option(option) for option in listed], OPTION_COLUMNS)

    def _option(self, option: Option) -> FeatureRow:
        flag = {f"is_{ACTION_NAMES[option.change]}": 1.0}
        if option.change == WAIT:
            return flag
        job, draft, after = self.draft.job(option.job), self.draft, self.draft.after(option)
        total, before, held = sum(after.values()), draft.gpus(option.job), draft.held(option.job).get(option.node, 0)
        here = held if option.change == TUNE else option.gpus
        own, kept = (draft.keeps(option.job, option.node, gpus) for gpus in (held, here))
        free = draft.free(option.node) + (own - kept if draft.partner(option.job) is None else -here)
        if option.change == SHARE:
            here, free = after[option.node], draft.free(option.node)
        requested, fair_share = job.spec.num_gpus, self.engine.cluster.num_gpus / max(self.num_active, 1)
        row = (
            flag
            | self._sharing(option, after)
            | {
                "gpus": _ratio(total, self.unit),
                "gpus_here": here / self.unit,
                "gpus_change": max(_ratio(total - before, requested), -RATIO_LIMIT),
                "of_request": _doublings(total, requested),
                "spread": math.log2(1.0 + len(after)) / 3.0,
                "free_after": free / self.unit,
                "full": float(free == 0),
                "of_fair_share": total / (total + fair_share),
            }
        )
        if option.change == EVICT:
            return row
        count, missing = len(after), max(job.spec.min_gpus - total, 0)
        total, count = total + missing, count + -(-missing // self.unit)
        throughput = self._throughput(job, after, total, count)
        if option.change == SHARE:
            throughput = self.engine.rules.ample_throughput(job.model, Placement(after))
            throughput *= draft.kept(option.job, option.gpus, after)
        if option.change == TUNE:
            tuned = draft.with_tuning(option.job, option.gpus)
            row |= self._named(job, tuned)
            throughput = self._tuned_throughput(job, tuned) if option.gpus else throughput
        row |= self._times(job, option, throughput, total)
        return row | self._effects(job, option, here, total, count) if here else row

    def _tuned_throughput(self, job: Job, placement: Placement) -> float:
        """Useful samples/s of a placement that names more than GPUs, without contention."""
        rules, count = self.engine.rules, len(placement.gpus)
        throughput = rules.ample_throughput(job.model, placement)
        if count < 2 or rules.contention == "off" or rules.counts_links:
            return throughput
        per_sample = float(self.table.traffic[job.model, placement.num_gpus])
        if placement.batch_size is not None:
            name = self.table.models[job.model]
            per_sample = 2.0 * model_profile(name).gradient_gb / placement.batch_size
            per_sample /= rules.efficiency(name, placement.num_gpus, placement.batch_size)
        per_sample = per_sample * (count - 1) / count
        link = min(self.draft.nodes[node].spec.inter_node_bandwidth for node in placement.gpus)
        return min(throughput, link / per_sample) if per_sample > 0 else throughput

    def _throughput(self, job: Job, after: Mapping[NodeId, int], total: int, count: int) -> float:
        """Samples/s on the nodes of a placement with `total` GPUs over `count` nodes, without contention."""
        rules, held = self.engine.rules, sum(after.values())
        each = {node: self.draft.throughput(job.id, node, total, count) for node in after}
        throughput = min(each.values())
        if throughput > 0 and len(set(each.values())) > 1 and not rules.equal:
            throughput = 0.0
            for node, gpus in after.items():
                throughput += gpus * each[node]
            throughput /= held
        if count > 1 and rules.contention != "off" and not rules.counts_links:
            per_sample = float(self.table.traffic[job.model, total]) * (count - 1) / count
            link = min(self.draft.nodes[node].spec.inter_node_bandwidth for node in after)
            throughput = min(throughput, link / per_sample) if per_sample > 0 else throughput
        return throughput

    def _times(self, job: Job, option: Option, throughput: float, total: int) -> FeatureRow:
        """What an option means for a job's throughput, and for the time until it is done."""
        best, own_type = self.coupling.reference[job.model], self.engine.rules.node_types[option.node]
        requested = min(job.spec.num_gpus, len(best) - 1)
        on_type = float(self.table.consolidated()[job.model, own_type, total])
        row = {
            "throughput": _ratio(throughput, best[requested]),
            "efficiency": _ratio(throughput * requested, best[requested] * total),
            "type_loss": 1.0 - _ratio(on_type, best[total]),
        }
        if not self.knows_work or throughput <= 0:
            return row
        left = job.remaining_at(self.engine.time) * job.estimate
        delay = job.restart_delay if job.service_at(self.engine.time) > 0 else job.start_delay
        time = left / throughput
        units = self.units
        row |= {"run_time": _relative(time, units["time"]), "gpu_time": _relative(time * total, units["gpu_time"])}
        row["restart"] = _delay_share(delay, time)
        if self.draft.is_running(job.id) and job.id not in self.draft.changed and job.throughput > 0:
            # As the kernel does, subtract the feature as it is stored.
            now = _relative(left / job.throughput, units["time"])
            row["time_saved"] = now - float(np.float32(row["run_time"]))
        return row

    def _effects(self, job: Job, option: Option, here: int, total: int, count: int) -> FeatureRow:
        """What the job and the other jobs on the node would do to each other."""
        node = self.draft.nodes[option.node]
        others = [(self.draft.job(other), n) for other, n in self.draft.jobs_on(node.id).items() if other != job.id]
        row: dict[str, float] = {}
        for name, resource in (("cpu", "cpus"), ("memory", "memory")):
            theirs, amount = self._wanted(others, node, resource), getattr(node, resource)
            both = theirs + self._wanted([(job, here)], node, resource)
            row[f"{name}_shortage"] = lacking(both, amount)
            row[f"{name}_harm"] = lacking(both, amount) - lacking(theirs, amount)
        link = node.spec.inter_node_bandwidth
        own_load = min(self._spread_traffic(job, total, count), link) / link
        return (
            row | self._stages(job, [other for other, _ in others]) | self._links(own_load, self._loads(others, node))
        )

    def _stages(self, job: Job, others: Sequence[Job]) -> FeatureRow:
        if self.engine.rules.contention != "worst_case":
            return {}
        own, theirs = self.coupling.stage(job), 0.0
        for other in others:
            theirs += self.coupling.stage(other)
        suffered = 1.0 - 1.0 / (1.0 + min(own, 1.0) * (max(1.0, own + theirs) - 1.0))
        return {
            "stage_suffered": suffered,
            "stage_harm": 1.0 - max(1.0, theirs) / max(1.0, theirs + own) if theirs else 0.0,
        }

    def _links(self, own: float, loads: Sequence[float]) -> FeatureRow:
        if own == 0.0 or not loads:
            return {}
        theirs = 0.0
        for load in loads:
            theirs += load
        if self.engine.rules.contention == "worst_case":
            return {
                "link_suffered": 1.0 - 1.0 / (1.0 + own * len(loads)),
                "link_harm": 1.0 - 1.0 / (1.0 + theirs / len(loads)),
            }
        factor = 1.0 / (1.0 + own * theirs) if self.engine.rules.contention == "measured" else 1.0
        loss = 1.0 - (min(factor, 1.0 / (own + theirs)) if own + theirs > 1.0 else factor)
        return {"link_suffered": loss, "link_harm": loss}
