"""A training run of a policy that bids: improve, validate, save checkpoints, resume."""

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import nn

from agents.bidding import BiddingCheckpoint, BiddingScheduler
from agents.bidding.curves import LearningCurve, learning_curves
from agents.bidding.gain import ComparesScores, Gain, gain_of
from agents.evolution.playing import Game, Score, play
from agents.networks.bidding import BidNetwork
from agents.pictures import picture_episode
from agents.rllib.evolution import EvolutionSetup
from agents.saving import BEST, SavedStates, best_on_disk, read_state, refusing_writes
from agents.seeding import Phase, derive_seed
from agents.tensorboard import (
    BOUND_LINE,
    GAIN,
    HEADLINE,
    MARKET_LINE,
    PLANNER,
    TensorBoardWriter,
    choose_levels,
)
from agents.training import TrainingListener, measure_baselines
from agents.validation import (
    VALIDATION_SEED,
    ValidationFigures,
    audit_training_episode,
    mean_bound,
    validation_workloads,
)
from envs.evaluation.files import write_whole
from envs.evaluation.playing import workload_seed
from envs.scheduling import Scheduler
from envs.types import MurmurationError
from envs.types.units import HOUR

STATES = "checkpoints/states"


class ImprovesPolicy(Protocol):
    """A method of training, with or without Ray."""

    def network(self) -> nn.Module:
        """Return a copy of the policy to validate."""
        ...

    def train(self) -> dict[str, float]:
        """Run one iteration; return figures to log."""
        ...

    def save(self, folder: Path) -> None:
        """Write everything that `restore` needs."""
        ...

    def restore(self, folder: Path) -> None:
        """Continue from a saved state."""
        ...

    def stop(self) -> None:
        """Release all resources."""
        ...


@dataclass(frozen=True, slots=True)
class BidTrainingSettings:
    """Settings of a run that all methods share.

    Attributes:
        iterations: of the method.
        validate_every: iterations between validations; each writes checkpoints.
        num_validation: distinct workloads of each task's validation split on which checkpoints are compared; the best
            one is validated again on as many others.
        num_compared: the first of these workloads, of the first task, on which the baselines are played too. The chart
            of mean JCT in TensorBoard is about them.
        num_threads: of torch.
        picture_every: iterations between pictures of a validation episode for TensorBoard; 0 for none.
    """

    iterations: int = 60
    validate_every: int = 10
    num_validation: int = 24
    num_compared: int = 8
    num_threads: int = 1
    picture_every: int = 20

    def __post_init__(self) -> None:
        if self.picture_every < 0:
            raise MurmurationError(f"trainer.picture_every is {self.picture_every}; it must not be negative")
        if self.iterations < 0 or min(self.validate_every, self.num_validation, self.num_threads) < 1:
            raise MurmurationError(
                "trainer: iterations must not be negative; validate_every, num_validation and num_threads at least 1"
            )
        if self.num_compared < 1:
            raise MurmurationError(f"trainer.num_compared is {self.num_compared}; it must be at least 1")

    @property
    def method(self) -> ComparesScores:
        """Parameters of the method.

        Raises:
            NotImplementedError: these are settings of no method.
        """
        raise NotImplementedError("settings of a run need a method; see EvolutionTrainingSettings")


@dataclass
class BidTrainingState:
    """Progress of a run, part of every saved state."""

    seed: int
    iteration: int = 0
    baselines: dict[str, ValidationFigures] = field(default_factory=dict)  # on the compared workloads
    validation: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # iteration -> task -> Gain
    num_episodes: int = 0  # training episodes of an iteration
    cpu_time: list[float] = field(
        default_factory=list, compare=False
    )  # of each iteration without validation, in s; without workers
    best_iteration: int = -1
    fresh: dict[str, list[float]] = field(default_factory=dict)  # task -> Gain of the best on fresh workloads

    def merit(self, iteration: int) -> float:
        """Mean merit over tasks of a validated iteration."""
        return float(np.mean([Gain(*values).merit for values in self.validation[str(iteration)].values()]))


class BidTrainer:
    """One training run in one folder; derived classes name the method.

    The folder receives `checkpoints/best` and `checkpoints/last`, `checkpoints/states` (the last few
    iterations, to resume), `state_file` (progress, for readers) and `tensorboard/`.

    Args:
        setup: tasks, network, parameters and seed.
        settings: length of the run; its `method` must be the settings of `setup`.
        market: name and options of the market, for the manifest of checkpoints.
        folder: folder of the run.
        listener: receives reports on progress.
        baselines: makers of schedulers by name, for comparison in TensorBoard.
    """

    state_file: ClassVar[str]
    method_name: ClassVar[str]

    def __init__(
        self,
        setup: EvolutionSetup,
        settings: BidTrainingSettings,
        market: dict[str, Any],
        folder: Path,
        listener: TrainingListener,
        baselines: Mapping[str, Callable[[], Scheduler]] | None = None,
    ) -> None:
        self.setup, self.settings, self.market = setup, settings, market
        self.folder, self.listener, self.baselines = folder, listener, baselines or {}
        self.state = BidTrainingState(setup.seed)
        self.saved = SavedStates(folder / STATES)
        self.tensorboard = TensorBoardWriter(folder / "tensorboard", listener.note)
        count = settings.num_validation
        self._games: dict[str, list[Game]] = {}
        for task in setup.tasks:
            workloads = validation_workloads(task.source, 2 * count)
            self._games[task.name] = [
                Game(0, workload, workload_seed(VALIDATION_SEED, i)) for i, workload in enumerate(workloads)
            ]
        self._batches = {task.name: task.batch(settings.method.num_envs) for task in setup.tasks}
        self._compared = min(count, settings.num_compared)
        self._own: dict[str, list[Score]] = {}

    def run(self) -> BidTrainingState:
        """Train to the end, or resume from the folder's newest undamaged state, which every iteration saves."""
        torch.set_num_threads(self.settings.num_threads)
        resumed = self._restore()
        with closing(self.tensorboard):
            self._measure_own()
            self._compare(resumed is None)
            algorithm = self._make_algorithm()
            self.state.num_episodes = self._num_episodes
            try:
                if resumed:
                    algorithm.restore(resumed)
                    self.listener.note(f"resumed after iteration {self.state.iteration}")
                else:
                    self._validate(algorithm)
                    self._save(algorithm)
                self._improve(algorithm)
                self._validate_anew()
            finally:
                algorithm.stop()
        return self.state

    def _make_algorithm(self) -> ImprovesPolicy:
        """Make the method, which begins after `state.iteration` iterations.

        Raises:
            NotImplementedError: this class names no method.
        """
        raise NotImplementedError("a trainer needs a method; see EvolutionTrainer")

    @property
    def _num_episodes(self) -> int:
        """Training episodes of an iteration.

        Raises:
            NotImplementedError: this class names no method.
        """
        raise NotImplementedError("a trainer needs a method; see EvolutionTrainer")

    def _measure_own(self) -> None:
        """Play all validation workloads without bids."""
        silent = Silence(self.setup.tasks[0].spec.num_bids)
        self.listener.phase("market", len(self.setup.tasks))
        for done, task in enumerate(self.setup.tasks, 1):
            self._own[task.name] = play(silent, self._batches[task.name], self._games[task.name])
            jct = np.mean([score.mean_jct for score in self._own[task.name]])
            self.listener.step(done, {})
            self.listener.note(f"{task.name}: the market alone has a mean JCT of {jct:,.0f} s")

    def _compare(self, anew: bool) -> None:
        """Draw the market alone, the best baselines, the planner and the lower bound as horizontal lines."""
        task = self.setup.tasks[0]
        workloads = [game.workload for game in self._games[task.name][: self._compared]]
        if anew:
            self.state.baselines = measure_baselines(self.baselines, task.setup, workloads, self.listener)
        known = self.state.baselines
        levels = {name: known[name]["mean_jct"] for name in choose_levels(known, PLANNER)}
        levels[MARKET_LINE] = self._mean_jct(self._own[task.name])
        levels[BOUND_LINE] = mean_bound(task.setup, workloads)
        for name, jct in levels.items():
            self.tensorboard.draw_level({HEADLINE: jct / HOUR}, self.settings.iterations, name)

    def _mean_jct(self, scores: list[Score]) -> float:
        """Mean JCT of the first task, in s, over the workloads that baselines play too."""
        return float(np.mean([score.mean_jct for score in scores[: self._compared]]))

    def _improve(self, algorithm: ImprovesPolicy) -> None:
        settings = self.settings
        self.listener.phase(self.method_name, settings.iterations)
        while self.state.iteration < settings.iterations:
            began, cpu = time.perf_counter(), time.process_time()
            figures = algorithm.train()
            self.state.iteration += 1
            figures["throughput/episodes_per_second"] = self._num_episodes / (time.perf_counter() - began)
            figures["throughput/cpu_seconds"] = time.process_time() - cpu
            self.state.cpu_time.append(figures["throughput/cpu_seconds"])
            self.tensorboard.write(figures, self.state.iteration)
            if self.state.iteration % settings.validate_every == 0 or self.state.iteration == settings.iterations:
                self._validate(algorithm)
            self._save(algorithm)
            self.listener.step(self.state.iteration, {**figures, **self._standing()})

    def _validate(self, algorithm: ImprovesPolicy) -> None:
        network = algorithm.network()
        count = self.settings.num_validation
        scores = {task.name: self._scores(network, task.name, 0, count) for task in self.setup.tasks}
        gains = {name: self._gain(found, name, 0) for name, found in scores.items()}
        self._audit(network)
        best = self.state.merit(self.state.best_iteration) if self.state.best_iteration >= 0 else -math.inf
        self.state.validation[str(self.state.iteration)] = {name: list(gain) for name, gain in gains.items()}
        for name, gain in gains.items():
            scalars = {f"validation/{name}/{part}": value for part, value in gain._asdict().items()}
            self.tensorboard.write(scalars, self.state.iteration)
        mean_gain = float(np.mean([each.jct for each in gains.values()]))
        mean_jct = self._mean_jct(scores[self.setup.tasks[0].name])
        self.tensorboard.write({GAIN: 100.0 * mean_gain, HEADLINE: mean_jct / HOUR}, self.state.iteration)
        self._picture(network)
        curve = LearningCurve(self.state.validation, self.state.num_episodes, self.state.cpu_time)
        self.tensorboard.show({"learning_curve": learning_curves({f"seed {self.state.seed}": curve})}, 0)
        self.tensorboard.flush()
        if self.state.merit(self.state.iteration) > best:
            self.state.best_iteration = self.state.iteration
            with refusing_writes(self.folder):
                self._checkpoint(network).save(self.folder / BEST)

    def _audit(self, network: nn.Module) -> None:
        """Audit one training episode, of each task in turn."""
        task = self.setup.tasks[self.state.iteration % len(self.setup.tasks)]
        scheduler = BiddingScheduler(network, task.market, task.rules)  # type: ignore[arg-type]
        sample = derive_seed(self.state.seed, Phase.AUDIT, self.state.iteration)
        audit_training_episode(scheduler, task.setup, task.source, sample)

    def _picture(self, network: nn.Module) -> None:
        """Write pictures of the first validation workload of the first task."""
        every, now, task = self.settings.picture_every, self.state.iteration, self.setup.tasks[0]
        if every == 0 or not (now % every == 0 or now == self.settings.iterations):
            return
        game = self._games[task.name][0]
        scheduler = BiddingScheduler(network, task.market, task.rules)  # type: ignore[arg-type]
        self.tensorboard.show(picture_episode(scheduler, game.workload, task.setup, game.seed), now)

    def _validate_anew(self) -> None:
        """Validate the best checkpoint on workloads that did not choose it."""
        if self.state.best_iteration < 0:
            return  # removed, and nothing was validated since
        best = BiddingCheckpoint.load(self.folder / BEST, (self.setup.blueprint.target,)).network
        count = self.settings.num_validation
        for task in self.setup.tasks:
            fresh = len(self._games[task.name]) - count
            if fresh < 2:
                self.listener.note(
                    f"{task.name}: the validation split has no further workloads for a second validation"
                )
                continue
            gain = self._gain(self._scores(best, task.name, count, count + fresh), task.name, count)
            self.state.fresh[task.name] = list(gain)
            self.listener.note(
                f"{task.name}: best checkpoint (iteration {self.state.best_iteration}) on {fresh} fresh workloads, "
                f"against the market alone: {gain}"
            )
        with refusing_writes(self.folder):
            self._write_state(self.folder)

    def _scores(self, network: nn.Module, task: str, first: int, last: int) -> list[Score]:
        return play(network, self._batches[task], self._games[task][first:last])  # type: ignore[arg-type]

    def _gain(self, scores: list[Score], task: str, first: int) -> Gain:
        """Compare the scores of validation workloads, from the first on, with those of the market alone."""
        return gain_of(scores, self._own[task][first : first + len(scores)], self.settings.method.merit)

    def _standing(self) -> Mapping[str, float]:
        latest = self.state.validation[max(self.state.validation, key=int)]
        gains = [Gain(*values) for values in latest.values()]
        return {
            "gain": float(np.mean([gain.jct for gain in gains])),
            "gain_error": float(np.sqrt(np.sum([gain.jct_error**2 for gain in gains]))) / len(gains),
        }

    def _checkpoint(self, network: nn.Module) -> BiddingCheckpoint:
        notes = {
            "seed": self.state.seed,
            "iteration": self.state.iteration,
            "tasks": [task.name for task in self.setup.tasks],
            "validation": {
                name: Gain(*values)._asdict()
                for name, values in self.state.validation.get(str(self.state.iteration), {}).items()
            },
        }
        rules, num_bids = self.setup.tasks[0].rules, self.setup.spec.num_bids
        return BiddingCheckpoint(network, self.setup.blueprint, rules, self.market, notes, num_bids)

    def _save(self, algorithm: ImprovesPolicy) -> None:
        """Save the resumable state."""

        def write(folder: Path) -> None:
            algorithm.save(folder)
            self._write_state(folder)

        with refusing_writes(self.folder):
            self._checkpoint(algorithm.network()).save(self.folder / "checkpoints" / "last")
            self.saved.save(self.state.iteration, write)
            self._write_state(self.folder)

    def _write_state(self, folder: Path) -> None:
        write_whole(folder / self.state_file, json.dumps(asdict(self.state), indent=2) + "\n")

    def _restore(self) -> Path | None:
        """Read the progress of the newest undamaged state, and return its folder; None for a new run."""
        path = self.saved.intact(self.listener.note, self.folder / self.state_file)
        if path is not None:
            self.state = read_state(path / self.state_file, BidTrainingState)
            self.state.best_iteration = best_on_disk(self.state.best_iteration, self.folder / BEST, self.listener.note)
            self.tensorboard.continue_after(self.state.iteration)
        return path


class Silence:
    """A policy that bids nothing, so that the market decides by itself."""

    def __init__(self, num_bids: int) -> None:
        self._num_bids = num_bids

    def bids(self, observation: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return bids of 0."""
        return torch.zeros((*observation["pair_jobs"].shape, self._num_bids))


_: type[BidNetwork] = Silence  # checked by mypy
