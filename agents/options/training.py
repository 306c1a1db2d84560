"""A training run of a policy that chooses options: improve, validate, save checkpoints, resume."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from agents.options.checkpoint import OptionCheckpoint
from agents.options.group_ppo import GroupPPOOnRay, GroupSetup, LocalGroupPPO
from agents.options.settings import GroupPPOSettings
from agents.options.validation import MODES, Validation
from agents.saving import BEST, SavedStates, best_on_disk, read_state, refusing_writes
from agents.tensorboard import BOUND_LINE, HEADLINE, TensorBoardWriter
from agents.training import TrainingListener, measure_baselines
from agents.validation import ValidationFigures, mean_bound
from envs.evaluation.files import write_whole
from envs.scheduling import Scheduler
from envs.types import MurmurationError
from envs.types.units import HOUR

STATE, STATES = "options.json", "checkpoints/states"
LAST = Path("checkpoints") / "last"


@dataclass(frozen=True, slots=True)
class OptionTrainingSettings:
    """Settings of a run.

    Attributes:
        iterations: of the method.
        validate_every: iterations between validations; each writes checkpoints.
        save_every: iterations between states from which a run can be resumed.
        num_validation: distinct workloads of each task's validation split on which checkpoints are compared.
        num_compared: the first of these, of the first task, on which the baselines are played too.
        num_threads: of torch.
        group_ppo: parameters of the method.
    """

    iterations: int = 200
    validate_every: int = 20
    save_every: int = 10
    num_validation: int = 64
    num_compared: int = 64
    num_threads: int = 1
    group_ppo: GroupPPOSettings = field(default_factory=GroupPPOSettings)

    def __post_init__(self) -> None:
        if self.iterations < 0:
            raise MurmurationError(f"trainer.iterations is {self.iterations}; it must not be negative")
        for name in ("validate_every", "save_every", "num_validation", "num_compared", "num_threads"):
            if getattr(self, name) < 1:
                raise MurmurationError(f"trainer.{name} is {getattr(self, name)}; it must be at least 1")


@dataclass
class OptionTrainingState:
    """Progress of a run, part of every saved state."""

    seed: int
    iteration: int = 0
    baselines: dict[str, ValidationFigures] = field(default_factory=dict)  # on the compared workloads
    # iteration -> task -> figures of `Validation.figures`
    validation: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    num_episodes: int = 0  # training episodes of an iteration
    cpu_time: list[float] = field(default_factory=list, compare=False)  # of each iteration, in s, without validation
    best_iteration: int = -1

    def mean_jct(self, iteration: int, mode: str) -> float:
        """Return the mean JCT over the tasks of a validated iteration, in s."""
        tasks = self.validation[str(iteration)].values()
        return sum(figures[mode] for figures in tasks) / len(tasks)

    def best_mode(self, iteration: int) -> str:
        """Return the mode of `MODES` with the lower mean JCT."""
        return min(MODES, key=lambda mode: self.mean_jct(iteration, mode))

    def score(self, iteration: int) -> float:
        """Return what checkpoints are compared by: the mean JCT of the better mode, in s."""
        return self.mean_jct(iteration, self.best_mode(iteration))


class OptionTrainer:
    """One training run in one folder.

    The folder receives `checkpoints/best` and `checkpoints/last`, `checkpoints/states` (the last few, to resume),
    `options.json` (progress, for readers) and `tensorboard/`.

    Args:
        setup: tasks, network, parameters and seed.
        settings: length of the run.
        folder: folder of the run.
        listener: receives reports on progress.
        baselines: makers of schedulers by name, for comparison.
    """

    def __init__(
        self,
        setup: GroupSetup,
        settings: OptionTrainingSettings,
        folder: Path,
        listener: TrainingListener,
        baselines: Mapping[str, Callable[[], Scheduler]] | None = None,
    ) -> None:
        self.setup, self.settings = setup, settings
        self.folder, self.listener, self.baselines = folder, listener, baselines or {}
        self.state = OptionTrainingState(setup.seed, num_episodes=settings.group_ppo.num_episodes)
        self.saved = SavedStates(folder / STATES)
        self.tensorboard = TensorBoardWriter(folder / "tensorboard", listener.note)

    def run(self) -> OptionTrainingState:
        """Train to the end, or resume from the folder's newest undamaged state."""
        torch.set_num_threads(self.settings.num_threads)
        resumed = self._restore()
        self._validations = {task.name: Validation(task, self.settings.num_validation) for task in self.setup.tasks}
        with closing(self.tensorboard):
            self._compare(resumed is None)
            make = LocalGroupPPO if self.setup.num_env_runners == 0 else GroupPPOOnRay
            algorithm = make(self.setup, self.state.iteration)
            try:
                if resumed:
                    algorithm.restore(resumed)
                    self.listener.note(f"resumed after iteration {self.state.iteration}")
                else:
                    self._validate(algorithm)
                    self._save(algorithm)
                self._improve(algorithm)
            finally:
                algorithm.stop()
        return self.state

    def _compare(self, anew: bool) -> None:
        """Draw all baselines and the lower bound as horizontal lines."""
        task = self.setup.tasks[0]
        workloads = self._validations[task.name].workloads[: self.settings.num_compared]
        if anew:
            self.state.baselines = measure_baselines(self.baselines, task.setup, workloads, self.listener)
        levels = {name: figures["mean_jct"] for name, figures in self.state.baselines.items()}
        levels[BOUND_LINE] = mean_bound(task.setup, workloads)
        for name, jct in levels.items():
            self.tensorboard.draw_level({HEADLINE: jct / HOUR}, self.settings.iterations, name)

    def _improve(self, algorithm: LocalGroupPPO | GroupPPOOnRay) -> None:
        settings = self.settings
        self.listener.phase("training", settings.iterations)
        while self.state.iteration < settings.iterations:
            began, cpu = time.perf_counter(), time.process_time()
            figures = algorithm.train()
            self.state.iteration += 1
            figures["throughput/episodes_per_second"] = self.state.num_episodes / (time.perf_counter() - began)
            figures["throughput/cpu_seconds"] = time.process_time() - cpu
            self.state.cpu_time.append(figures["throughput/cpu_seconds"])
            self.tensorboard.write(figures, self.state.iteration)
            last = self.state.iteration == settings.iterations
            if last or self.state.iteration % settings.validate_every == 0:
                self._validate(algorithm)
            if last or self.state.iteration % settings.save_every == 0:
                self._save(algorithm)
            newest = max(map(int, self.state.validation))
            self.listener.step(self.state.iteration, {**figures, "validated": self.state.score(newest)})

    def _validate(self, algorithm: LocalGroupPPO | GroupPPOOnRay) -> None:
        network, iteration = algorithm.network(), self.state.iteration
        found = {name: validation.figures(network) for name, validation in self._validations.items()}
        self.state.validation[str(iteration)] = found
        score, mode = self.state.score(iteration), self.state.best_mode(iteration)
        scalars = {f"validation/{name}/{key}": value for name, own in found.items() for key, value in own.items()}
        first = found[self.setup.tasks[0].name][mode]
        self.tensorboard.write({**scalars, HEADLINE: first / HOUR}, iteration)
        self.tensorboard.flush()
        self.listener.note(self._describe(first, mode))
        notes = {
            "seed": self.setup.seed,
            "iteration": iteration,
            "tasks": [task.name for task in self.setup.tasks],
            "temperature": MODES[mode],
            "validation": found,
            "cpu_seconds": sum(self.state.cpu_time),
        }
        checkpoint = OptionCheckpoint(network, self.setup.blueprint, self.setup.tasks[0].rules, notes)
        with refusing_writes(self.folder / LAST):
            checkpoint.save(self.folder / LAST)
            best = self.state.best_iteration
            if best < 0 or score < self.state.score(best):
                self.state.best_iteration = iteration
                checkpoint.save(self.folder / BEST)

    def _describe(self, jct: float, mode: str) -> str:
        """Say how good the policy is in validation, and which baselines it has passed, the worst first."""
        known = {name: figures["mean_jct"] for name, figures in self.state.baselines.items()}
        passed = sorted((name for name in known if known[name] > jct), key=lambda name: -known[name])
        ahead = sorted((name for name in known if known[name] <= jct), key=lambda name: -known[name])
        text = f"{sum(self.state.cpu_time):,.0f} CPU-s: mean JCT {jct:,.0f} s ({mode})"
        if known:
            text += f"; passed: {', '.join(passed) or 'none'}"
        return f"{text}; next: {ahead[0]} ({known[ahead[0]]:,.0f} s)" if ahead else text

    def _save(self, algorithm: LocalGroupPPO | GroupPPOOnRay) -> None:
        def write(path: Path) -> None:
            algorithm.save(path)
            write_whole(path / STATE, json.dumps(asdict(self.state), indent=2) + "\n")

        self.saved.save(self.state.iteration, write)
        with refusing_writes(self.folder / STATE):
            write_whole(self.folder / STATE, json.dumps(asdict(self.state), indent=2) + "\n")

    def _restore(self) -> Path | None:
        path = self.saved.intact(self.listener.note, self.folder / STATE)
        if path is None:
            return None
        self.state = read_state(path / STATE, OptionTrainingState)
        self.state.best_iteration = best_on_disk(self.state.best_iteration, self.folder / BEST, self.listener.note)
        self.tensorboard.continue_after(self.state.iteration)
        return path
