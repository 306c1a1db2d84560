"""Beliefs about throughputs in one episode: what has been seen of them, and the tables that views show instead."""

import weakref
from collections.abc import Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from envs.performance import PerformanceModel, counts_links, plain_model, without_draw
from envs.scheduling import ThroughputFit
from envs.simulation.compiled.jit import Records, leaf, part
from envs.simulation.known.pair_beliefs import PairBeliefs, PairPrior
from envs.simulation.scenario import Scenario
from envs.simulation.setup import Setup
from envs.simulation.world.arrays import World
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.throughput import ThroughputTable, find_pair_factors, level_nodes, node_level
from envs.types import (
    Belief,
    BoolArray,
    Configuration,
    EstimatedCurve,
    FloatArray,
    IntArray,
    JobId,
    KnownCurves,
    PerformanceError,
    Placement,
    ThroughputSamples,
)
from envs.workloads import Workload

Cell = tuple[int, int, int]  # GPU type, number of GPUs, level of nodes
MOST_BELIEFS = 2048  # that are kept for each prior
MOST_EPISODES = 4  # of which the first beliefs are kept


class Seen(NamedTuple):
    """A job that has made progress in a placement on GPUs of one type.

    Attributes:
        job: its id.
        gpu_type: index of the type.
        num_gpus: its GPUs.
        num_nodes: its nodes.
        beside: the job that shares its GPUs, if that one has made progress there too; -1 for none.
    """

    job: JobId
    gpu_type: int
    num_gpus: int
    num_nodes: int
    beside: JobId


@leaf
def only_type(world: World, job: Records) -> int:
    """Return the GPU type of a job's placement, -1 if it has several."""
    found = -1
    share = job.first_share
    while share >= 0:
        gpu_type = world.nodes[world.shares[share].node].gpu_type
        if found >= 0 and gpu_type != found:
            return -1
        found = gpu_type
        share = world.shares[share].next_of_job
    return int(found)


@part
def note_seen(world: World, sampled: FloatArray, seen: IntArray) -> int:
    """List the jobs that have begun to make progress, alone or beside another, on GPUs of one type since the last call.

    Args:
        world: the engine's arrays.
        sampled: float64[num_jobs], when each job, or the later of a pair, began what was seen last; overwritten.
        seen: int64[2 * num_gpus, 5], the fields of `Seen`; overwritten.

    Returns:
        How many rows of `seen` count, in ascending order of jobs.
    """
    time = world.episode[0].time
    count = 0
    j = next_member(world.running, len(world.jobs), 0)
    while j >= 0:
        job = world.jobs[j]
        since = job.segment
        beside = -1
        if job.partner >= 0 and world.jobs[job.partner].segment < time:
            beside = job.partner
            since = max(since, world.jobs[beside].segment)
        if job.segment < time and since != sampled[j]:
            sampled[j] = since
            gpu_type = only_type(world, job)
            if gpu_type >= 0:
                seen[count, 0] = j
                seen[count, 1] = gpu_type
                seen[count, 2] = job.gpus
                seen[count, 3] = job.num_shares
                seen[count, 4] = beside
                count += 1
        j = next_member(world.running, len(world.jobs), j + 1)
    return count


class Beliefs:
    """Samples of the throughputs in one episode, and what the setup's estimator makes of them.

    What views show is in `setup`, `workload`, `table` and `exact`; the last two are new objects whenever something was
    learnt. Samples have errors that depend on the seed, the job and the placement alone, so that all schedulers see the
    same. Jobs of one model share a curve, and views say which jobs have the same model.

    Known without samples are: which placements a model runs in and beside which others, its number of parameters and so
    its traffic between nodes, and what cores, memory and jobs on the same links do to it. A sample is therefore the
    throughput with ample cores and memory and without co-located jobs. What two jobs on the same GPUs keep of it must
    be found out as well (`PairBeliefs`).

    Args:
        setup: the setup.
        workload: the jobs.
        truth: throughputs of the workload's models, in the order of `workload.models`.
        seed: of the errors.

    Attributes:
        truth: the true throughputs, which no view shows.
        spread: float64[num_models, num_gpu_types, max_gpus + 1, NUM_LEVELS], standard deviation of the logarithm of
            each believed throughput; 0 for a model of which no job is submitted.
        num_samples: int64 of the same shape, measurements in each cell.
    """

    def __init__(self, setup: Setup, workload: Workload, truth: ThroughputTable, seed: np.random.SeedSequence) -> None:
        self.information = setup.scenario.information
        self.workload = replace(workload, models=tuple(without_draw(name) for name in workload.models))
        self.num_beliefs = 0
        self.setup = replace(setup, performance=HiddenModel(setup.performance))
        self.truth = truth
        self._rows: IntArray = np.array([truth.models.index(name) for name in workload.models], np.int64)
        entropy = seed.generate_state(2)
        self._key = tuple(int(word) for word in entropy)
        self._stated = np.random.default_rng(entropy).standard_normal(len(workload)) * self.information.stated_error
        self._prior = Prior.of(setup, truth.throughputs.shape[2] - 1)
        self._first = self._prior.first_beliefs(workload, truth, self._key)
        self._samples: dict[int, _Samples] = {}
        self._taken: set[tuple[JobId, Cell]] = set()
        self._num_stated = 0
        self.spread: FloatArray = np.zeros(truth.throughputs.shape)
        self.num_samples: IntArray = np.zeros(truth.throughputs.shape, np.int64)
        self._throughputs = np.where(truth.throughputs > 0, 1.0, 0.0)  # nothing is known: 1 sample/s
        self._base = replace(truth, models=tuple(without_draw(name) for name in truth.models))
        pairs = self._prior.pairs
        self._pairs = None if pairs is None else PairBeliefs(pairs, truth, self.information.sample_error)
        self._pairs_seen: set[tuple[JobId, JobId, int]] = set()
        self._table: ThroughputTable | None = None
        self._exact: BelievedThroughputs | None = None

    @property
    def table(self) -> ThroughputTable:
        """The throughputs that views show; 1 sample/s for a model of which no job is submitted."""
        if self._table is None:
            pair_factors = self._base.pair_factors if self._pairs is None else self._pairs.factors()
            self._table = replace(self._base, throughputs=self._throughputs.copy(), pair_factors=pair_factors)
        return self._table

    @property
    def exact(self) -> "BelievedThroughputs":
        """The same, by configuration."""
        if self._exact is None:
            self._exact = BelievedThroughputs(self.setup, self.table)
        return self._exact

    def copy(self) -> "Beliefs":
        """Return beliefs that equal these and learn on their own."""
        copied = copy(self)
        copied._samples = deepcopy(self._samples)
        copied._taken, copied._pairs_seen = set(self._taken), set(self._pairs_seen)
        copied._pairs = None if self._pairs is None else self._pairs.copy()
        for name in ("spread", "num_samples", "_throughputs"):
            setattr(copied, name, getattr(self, name).copy())
        return copied

    def rows(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return `table.throughputs` and `table.consolidated()` of some models, without building a new table."""
        return self._throughputs[rows], self._base.consolidate(self._throughputs[rows], rows)

    def look(self, num_submitted: int, seen: Iterable[Seen]) -> IntArray:
        """Take samples at the beginning of a round; return the rows of the models about which beliefs have changed.

        Args:
            num_submitted: jobs submitted so far.
            seen: jobs that have made progress in their present placement; samples that were taken before are passed
                over.
        """
        changed: set[int] = set()
        paired = False
        for job in range(self._num_stated, num_submitted):
            changed.add(self._take_statement(job))
        self._num_stated = max(self._num_stated, num_submitted)
        for each in seen:
            cell = each.gpu_type, each.num_gpus, node_level(each.num_nodes)
            if (each.job, cell) not in self._taken:
                self._taken.add((each.job, cell))
                row = int(self._rows[self.workload.jobs["model"][each.job]])
                self._add(row, cell, self._error(each.job, cell), self.information.sample_error)
                changed.add(row)
            paired |= each.beside >= 0 and self._see_beside(each)
        for row in sorted(changed):
            self._learn(row)
        if changed or paired:
            self.num_beliefs += 1
            self._table = self._exact = None
        return np.array(sorted(changed), np.int64)

    def belief(self, row: int, configuration: Configuration) -> Belief:
        """Return the belief about a configuration of a model.

        Args:
            row: index of the model in `table`.
            configuration: GPUs and nodes.
        """
        cell = (row, *self.exact.cell(configuration))
        return Belief(self.exact.of_row(row, configuration), float(self.spread[cell]), int(self.num_samples[cell]))

    def _see_beside(self, seen: Seen) -> bool:
        """Take the sample of what a job keeps beside another on GPUs of one type; return whether it is the first."""
        about = seen.job, seen.beside, seen.gpu_type
        if self._pairs is None or about in self._pairs_seen:
            return False
        self._pairs_seen.add(about)
        model, other = self._rows[self.workload.jobs["model"][[seen.job, seen.beside]]].tolist()
        self._pairs.add(seen.gpu_type, model, other, _draw((*self._key, *about)) * self.information.sample_error)
        return True

    def _take_statement(self, job: JobId) -> int:
        """Add what the user states of a job: the throughput on its GPUs of the fastest type. Return the model's row."""
        row = int(self._rows[self.workload.jobs["model"][job]])
        self._know(row)
        size = min(int(self.workload.jobs["num_gpus"][job]), self.truth.throughputs.shape[2] - 1)
        alone = self.truth.consolidated()[row, :, size]
        if alone.max() > 0:  # else it runs on several types only, and nobody can say how fast
            gpu_type = int(alone.argmax())
            cell = gpu_type, size, int(self.truth.levels_of(row)[gpu_type, size])
            self._add(row, cell, float(self._stated[job]), self.information.stated_error, stated=True)
        samples = self._samples[row]
        samples.at_first = samples.at_first or len(samples.cells)
        return row

    def _know(self, row: int) -> None:
        """Begin with a model, and take its profiles."""
        if row in self._samples:
            return
        self._samples[row] = _Samples()
        if self.information.throughput == "profiled":
            for cell in self._profiles(row):
                self._add(row, cell, self._error(-1 - row, cell), self.information.sample_error)

    def _profiles(self, row: int) -> Sequence[Cell]:
        """List the cells in which a model was measured: on each type the fewest GPUs, then the most of one node."""
        nodes = self.setup.cluster
        cells: list[Cell] = []
        for most in (False, True):
            for gpu_type in range(len(nodes.gpu_types)):
                widest = int(nodes.node_gpus[nodes.node_types == gpu_type].max())
                sizes = np.flatnonzero(self.truth.throughputs[row, gpu_type, : widest + 1, 0] > 0)
                if sizes.size and (cell := (gpu_type, int(sizes[-1 if most else 0]), 0)) not in cells:
                    cells.append(cell)
        return cells[: self.information.profiles]

    def _error(self, job: JobId, cell: Cell) -> float:
        """Return the error of a sample, as a logarithm: the same whenever this job is in this cell."""
        return _draw((*self._key, abs(job), int(job < 0), *cell)) * self.information.sample_error

    def _add(self, row: int, cell: Cell, error: float, spread: float, *, stated: bool = False) -> None:
        samples = self._samples[row]
        samples.cells.append(cell)
        samples.throughput.append(float(self.truth.throughputs[(row, *cell)]) * float(np.exp(error)))
        samples.error.append(spread)
        samples.stated.append(stated)
        self.num_samples[(row, *cell)] += not stated

    def _learn(self, row: int) -> None:
        """Ask the estimator about a model after new samples."""
        samples = self._samples[row]
        if not samples.cells:
            return
        found = self._first.get(row) if len(samples.cells) == samples.at_first else None
        if found is None:
            runs = self.truth.throughputs[row] > 0
            found = self._prior.believe(plain_model(self._base.models[row]), runs, samples.arrays())
            if len(samples.cells) == samples.at_first:
                self._first[row] = found
        self._throughputs[row], self.spread[row] = found.throughput, found.spread


class Prior:
    """The estimator's fits before any sample, by model; built once for the lifetime of a setup.

    Args:
        setup: its performance model gives the measured curves of all models that run on its cluster.
        max_gpus: the largest size of the tables.

    Attributes:
        pairs: what is believed of jobs on the same GPUs; None where none share.
    """

    def __init__(self, setup: Setup, max_gpus: int) -> None:
        names = tuple(name for name in setup.performance.models if name == without_draw(name))
        shares = setup.scenario.sharing == "pairs"
        self.pairs = PairPrior.of(find_pair_factors(setup, names)) if shares else None
        self._throughputs = ThroughputTable.build(replace(setup, scenario=Scenario()), names, max_gpus).throughputs
        self._names, self._estimator = names, setup.estimator
        self._fits: dict[str, ThroughputFit] = {}
        self._believed: dict[tuple[str, tuple[bytes, ...]], EstimatedCurve] = {}
        self._first: list[tuple[Workload, ThroughputTable, tuple[int, ...], dict[int, EstimatedCurve]]] = []

    @classmethod
    def of(cls, setup: Setup, max_gpus: int) -> "Prior":
        """Return the prior of a setup for tables of this size."""
        if id(setup) not in _PRIORS:
            _PRIORS[id(setup)] = {}
            weakref.finalize(setup, _PRIORS.pop, id(setup), None)
        known = _PRIORS[id(setup)]
        if max_gpus not in known:
            known[max_gpus] = cls(setup, max_gpus)
        return known[max_gpus]

    def fit(self, model: str) -> ThroughputFit:
        """Return the fit for a model, which has seen the curves of all others."""
        if model not in self._fits:
            runs = self._throughputs > 0
            others = [i for i, name in enumerate(self._names) if name != model and runs[i].any()]
            nodes = np.array([level_nodes(level) for level in range(runs.shape[3])])
            own: BoolArray = runs[self._names.index(model)] if model in self._names else np.ones(runs.shape[1:], bool)
            self._fits[model] = self._estimator.fit(KnownCurves(self._throughputs[others], own, nodes))
        return self._fits[model]

    def first_beliefs(
        self, workload: Workload, truth: ThroughputTable, key: tuple[int, ...]
    ) -> dict[int, EstimatedCurve]:
        """Return what is believed of each model after its first statement, by row; episodes add what they find.

        Training plays each workload many times in a row with equal errors, so that its first beliefs are kept.

        Args:
            workload, truth: of the episode.
            key: of its errors.
        """
        for known, table, seed, found in self._first:
            if known is workload and table is truth and seed == key:
                return found
        self._first = [*self._first[1 - MOST_EPISODES :], (workload, truth, key, {})]
        return self._first[-1][3]

    def believe(self, model: str, runs: BoolArray, samples: ThroughputSamples) -> EstimatedCurve:
        """Return what is believed of a model after some samples, as views show it.

        Episodes of one workload and seed begin with equal samples, so the latest answers are kept.

        Args:
            model: its name.
            runs: bool[num_gpu_types, max_gpus + 1, NUM_LEVELS], where it runs.
            samples: at least one.
        """
        key = (model, tuple(array.tobytes() for array in (runs, *samples)))
        if key not in self._believed:
            if len(self._believed) >= MOST_BELIEFS:
                del self._believed[next(iter(self._believed))]
            found = self.fit(model).estimate(samples)
            throughput = np.where(runs, np.clip(found.throughput, 1e-12, 1e15), 0.0)
            self._believed[key] = EstimatedCurve(throughput, np.where(runs, found.spread, 0.0))
        return self._believed[key]


_PRIORS: dict[int, dict[int, Prior]] = {}  # by the identity of a setup, and the largest size


class HiddenModel:
    """The performance model of a view that hides throughputs: it knows the names of models and tells nothing else.

    Args:
        performance: the world's.
    """

    def __init__(self, performance: PerformanceModel) -> None:
        self.models = tuple(without_draw(name) for name in performance.models)
        self.counts_links = counts_links(performance)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Refuse.

        Raises:
            PerformanceError: always.
        """
        raise PerformanceError(HIDDEN)


class BelievedThroughputs(ExactThroughputs):
    """Throughputs of a table by configuration, in place of those of the performance model.

    Args:
        setup: cluster and scenario.
        table: the throughputs.
    """

    def __init__(self, setup: Setup, table: ThroughputTable) -> None:
        super().__init__(setup)
        self._table = table

    def cell(self, configuration: Configuration) -> Cell:
        """Return the cell of the table for a configuration; more GPUs than the table has count as its most.

        Raises:
            PerformanceError: it names more than GPUs, or has an unknown GPU type.
        """
        named = (configuration.plan, configuration.batch_size, configuration.cpus_per_gpu, configuration.memory_per_gpu)
        if any(amount is not None for amount in named):
            raise PerformanceError(HIDDEN)
        types = self.cluster.gpu_types
        if configuration.gpu_type not in types:
            raise PerformanceError(f"GPU type {configuration.gpu_type!r} is unknown; known: {', '.join(types)}")
        size = min(configuration.num_gpus, self._table.throughputs.shape[2] - 1)
        nodes = min(configuration.num_nodes, size)
        return types.index(configuration.gpu_type), size, node_level(nodes)

    def of_row(self, row: int, configuration: Configuration) -> float:
        """Samples/s of the model in a row of the table, at most what links carry."""
        throughput = float(self._table.throughputs[(row, *self.cell(configuration))])
        gpu_type, size, nodes = configuration.gpu_type, configuration.num_gpus, configuration.num_nodes
        if gpu_type not in self.links.least or nodes < 2:
            return throughput
        return min(throughput, self.links.throughput(self._table.models[row], size, nodes, self.links.least[gpu_type]))

    def ask(self, model: str, configuration: Configuration) -> float:
        """See `ExactThroughputs.ask`."""
        return self.of_row(self._table.models.index(model), configuration)

    def throughput(self, model: str, placement: Placement) -> float:
        """Refuse: only placements that name more than GPUs are asked for here.

        Raises:
            PerformanceError: always.
        """
        raise PerformanceError(HIDDEN)


HIDDEN = (
    "throughputs are hidden (information.throughput), and beliefs are about numbers of GPUs alone; "
    "name neither plan nor batch size, cores or memory"
)


class _Samples:
    """Samples of one model as lists."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self.throughput: list[float] = []
        self.error: list[float] = []
        self.stated: list[bool] = []
        self.at_first = 0  # samples after the first statement

    def arrays(self) -> ThroughputSamples:
        """Return them as an estimator gets them."""
        cells = np.array(self.cells, np.int64).reshape(-1, 3)
        return ThroughputSamples(cells, np.array(self.throughput), np.array(self.error), np.array(self.stated, bool))


@lru_cache(maxsize=1 << 14)
def _draw(key: tuple[int, ...]) -> float:
    """Return the standard normal number of a key."""
    return float(np.random.default_rng(key).standard_normal())
