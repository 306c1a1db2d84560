"""Beliefs about throughputs that schedulers of the reference engine must find out: `docs/world.md`.

All samples are kept in a list, in the order in which they were taken, and all beliefs follow from this list alone.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from envs.performance import plain_model, without_draw
from envs.scheduling import ThroughputFit
from envs.simulation.reference.pair_model import PairModel
from envs.simulation.reference.throughputs import NODE_COUNTS, ReferenceTable, ask_alone, ask_pairs, counted_as
from envs.simulation.setup import Setup
from envs.types import EstimatedCurve, FloatArray, JobId, KnownCurves, ThroughputSamples
from envs.workloads import Workload

BelievedCell = tuple[int, int, int]  # GPU type, number of GPUs, place in NODE_COUNTS
LEAST, MOST = 1e-12, 1e15  # samples/s of a belief


class Sighting(NamedTuple):
    """A running job as it is observed: its GPUs of one type, its nodes, and the observed job beside it."""

    job: JobId
    gpu_type: int
    gpus: int
    nodes: int
    beside: JobId | None


class ShownThroughput(NamedTuple):
    """One sample, with the standard deviation of its logarithm."""

    model: int
    cell: BelievedCell
    throughput: float
    spread: float
    stated: bool


class ReferenceBeliefs:
    """Samples of the throughputs of one episode, and what the setup's estimator makes of them.

    Args:
        setup: the setup.
        workload: the jobs.
        truth: the true throughputs.
        seed: of the errors of samples.

    Attributes:
        table: the throughputs that views show.
        num_beliefs: how often they have changed.
    """

    def __init__(self, setup: Setup, workload: Workload, truth: ReferenceTable, seed: np.random.SeedSequence) -> None:
        self.setup, self.workload, self.truth = setup, workload, truth
        self.information = setup.scenario.information
        self.names = tuple(without_draw(model) for model in truth.models)
        words = seed.generate_state(2)  # every error is drawn from these and from what it is an error of
        self.key = [int(word) for word in words]
        self.statements = np.random.default_rng(words).standard_normal(len(workload)).tolist()
        self.samples: list[ShownThroughput] = []
        self.shown: set[tuple[object, ...]] = set()
        self.num_submitted = self.num_beliefs = 0
        self.pairs = PairModel(*self._pair_factors()) if setup.scenario.sharing == "pairs" else None
        self.fits: dict[str, ThroughputFit] = {}
        self.curves: dict[int, tuple[int, EstimatedCurve]] = {}  # by model: samples of it, and what follows from them
        self.table = self._believe()

    def look(self, num_submitted: int, running: Iterable[Sighting]) -> None:
        """Take samples of the jobs submitted since the last look, and of those that have made progress."""
        before = len(self.shown)
        for job in range(self.num_submitted, num_submitted):
            self.shown.add(("submitted", job))
            self._profile(self._model(job))
            self._state(job)
        self.num_submitted = num_submitted
        for each in running:
            self._see(each)
        if len(self.shown) > before:
            self.num_beliefs += 1
            self.table = self._believe()

    def spread(self, model: int, cell: BelievedCell) -> float:
        """Standard deviation of the logarithm of a believed throughput; 0 where a model does not run."""
        runs = model in self.curves and self.truth.throughputs[(model, *cell)] > 0
        return float(self.curves[model][1].spread[cell]) if runs else 0.0

    def num_samples(self, model: int, cell: BelievedCell) -> int:
        """How often a throughput was measured."""
        return sum(sample[:2] == (model, cell) and not sample.stated for sample in self.samples)

    def _model(self, job: JobId) -> int:
        return int(self.workload.jobs["model"][job])

    def _draw(self, *about: int) -> float:
        """Error of a sample, as a logarithm: it depends on the seed and on what is sampled alone."""
        return float(np.random.default_rng((*self.key, *about)).standard_normal()) * self.information.sample_error

    def _add(self, model: int, cell: BelievedCell, error: float, spread: float, *, stated: bool = False) -> None:
        true = float(self.truth.throughputs[(model, *cell)])
        self.samples.append(ShownThroughput(model, cell, true * float(np.exp(error)), spread, stated))

    def _profile(self, model: int) -> None:
        """Measure a model of which a first job was submitted, on the fewest GPUs of each type, then on whole nodes."""
        if self.information.throughput != "profiled" or ("profiled", model) in self.shown:
            return
        self.shown.add(("profiled", model))
        smallest: list[BelievedCell] = []
        largest: list[BelievedCell] = []
        for gpu_type, name in enumerate(self.truth.types):
            node = max(node.num_gpus for node in self.setup.cluster.nodes if node.gpu_type == name)
            of_type = self.truth.throughputs[model, gpu_type, : node + 1, 0].tolist()
            runs = [gpus for gpus, throughput in enumerate(of_type) if throughput > 0]
            smallest += [(gpu_type, gpus, 0) for gpus in runs[:1]]
            largest += [(gpu_type, gpus, 0) for gpus in runs[1:][-1:]]
        for cell in (smallest + largest)[: self.information.profiles]:
            self._add(model, cell, self._draw(model + 1, 1, *cell), self.information.sample_error)

    def _state(self, job: JobId) -> None:
        """Take what the user states: the throughput on the requested GPUs of the fastest type, on the fewest nodes."""
        size = min(int(self.workload.jobs["num_gpus"][job]), self.truth.size)
        by_type = self.truth.consolidated()[self._model(job), :, size].tolist()
        if max(by_type) > 0:
            fastest = by_type.index(max(by_type))
            cell = fastest, size, counted_as(self.truth.allowed_nodes(self._model(job), fastest, size))
            spread = self.information.stated_error
            self._add(self._model(job), cell, self.statements[job] * spread, spread, stated=True)

    def _see(self, seen: Sighting) -> None:
        """Take the sample of a running job, once for each placement, and beside each other job."""
        cell = seen.gpu_type, seen.gpus, counted_as(seen.nodes)
        if (seen.job, cell) not in self.shown:
            self.shown.add((seen.job, cell))
            self._add(self._model(seen.job), cell, self._draw(seen.job, 0, *cell), self.information.sample_error)
        about = seen.job, seen.beside, seen.gpu_type
        if self.pairs is not None and seen.beside is not None and about not in self.shown:
            self.shown.add(about)
            one, other = (plain_model(self.names[self._model(job)]) for job in (seen.job, seen.beside))
            error = self._draw(seen.job, seen.beside, seen.gpu_type)
            self.pairs.see(seen.gpu_type, one, other, error, self.information.sample_error)

    def _pair_factors(self) -> tuple[list[str], FloatArray, FloatArray]:
        """The models of this episode without draws, what they keep beside each other, and the same of all models."""
        every, own = self._all_models(), sorted(set(map(plain_model, self.names)))
        return own, ask_pairs(self.setup, own), ask_pairs(self.setup, every)

    def _all_models(self) -> list[str]:
        return [name for name in self.setup.performance.models if name == without_draw(name)]

    def _fit(self, model: str) -> ThroughputFit:
        """The prior that the estimator forms from the curves of all other models."""
        if model not in self.fits:
            every = self._all_models()
            known = dict(zip(every, ask_alone(self.setup, every, self.truth.size), strict=True))
            own = known.pop(model, np.ones(self.truth.throughputs.shape[1:])) > 0
            others = [curve for curve in known.values() if curve.any()]
            curves = np.array(others).reshape(-1, *own.shape)
            self.fits[model] = self.setup.estimator.fit(KnownCurves(curves, own, np.array(NODE_COUNTS)))
        return self.fits[model]

    def _believe(self) -> ReferenceTable:
        """Form the beliefs that follow from all samples; of a model without samples, 1 sample/s where it runs."""
        runs = self.truth.throughputs > 0
        believed = np.where(runs, 1.0, 0.0)
        for model, name in enumerate(self.names):
            own = [sample for sample in self.samples if sample.model == model]
            if own and (model not in self.curves or self.curves[model][0] < len(own)):
                _, cells, throughputs, spreads, stated = zip(*own, strict=True)
                taken = ThroughputSamples(np.array(cells), *map(np.array, (throughputs, spreads, stated)))
                self.curves[model] = len(own), self._fit(plain_model(name)).estimate(taken)
            if own:
                believed[model] = np.where(runs[model], np.clip(self.curves[model][1].throughput, LEAST, MOST), 0.0)
        factors = self.truth.pair_factors
        if self.pairs is not None:
            plain = [plain_model(name) for name in self.names]
            rows = [sorted(set(plain)).index(name) for name in plain]
            factors = self.pairs.factors()[:, rows][:, :, rows]
        return replace(self.truth, models=self.names, throughputs=believed, pair_factors=factors)
