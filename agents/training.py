"""Training: imitate the best heuristic, then improve with PPO; validate, save checkpoints, resume."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from agents.checkpoint import Checkpoint
from agents.imitation import ImitationSettings, imitate
from agents.networks import Blueprint, check_network, missing_protocols
from agents.pictures import picture_episode
from agents.rllib import PPOSettings, TrainingSetup
from agents.rllib.algorithm import LocalAlgorithm, PPOAlgorithm
from agents.saving import BEST, SavedStates, best_on_disk, read_state, refusing_writes
from agents.seeding import Phase, derive_seed
from agents.tensorboard import (
    BOUND_LINE,
    HEADLINE,
    IMITATION,
    PLANNER,
    TensorBoardWriter,
    choose_levels,
)
from agents.validation import (
    VALIDATION_SEED,
    ValidationFigures,
    audit_training_episode,
    best_of,
    mean_bound,
    outcome_of,
    validate_baselines,
    validate_scheduler,
    validation_workloads,
)
from envs.evaluation.files import write_whole
from envs.evaluation.outcome import Outcome
from envs.evaluation.playing import workload_seed
from envs.scheduling import Scheduler
from envs.simulation import Setup
from envs.types import CheckpointError, MurmurationError
from envs.types.units import HOUR
from envs.workloads import Workload


class Algorithm(Protocol):
    """A method of training on the discrete environment."""

    def network(self) -> torch.nn.Module:
        """Return a copy of the policy."""
        ...

    def set_network(self, network: torch.nn.Module) -> None:
        """Copy the weights of a policy."""
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


STATE, STATES = "state.json", "checkpoints/states"
POOR = 1.5  # an imitating policy with this multiple of its teacher's mean JCT has not learnt it


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Settings of a training run."""

    iterations: int = 30  # PPO iterations after imitation
    validate_every: int = 5  # iterations between validations; each writes checkpoints
    num_validation: int = 8  # distinct workloads of the validation split, each as long as a training episode
    teacher: str = "best"  # name of a baseline, "best" for the best in validation, or "none" to start from scratch
    imitation: ImitationSettings = field(default_factory=ImitationSettings)
    ppo: PPOSettings = field(default_factory=PPOSettings)
    num_threads: int = 2  # of torch
    picture_every: int = 10  # iterations between pictures of a validation episode for TensorBoard; 0 for none

    def __post_init__(self) -> None:
        if self.picture_every < 0:
            raise MurmurationError(f"trainer.picture_every is {self.picture_every}; it must not be negative")
        least = min(self.validate_every, self.num_validation, self.num_threads)
        if self.iterations < 0 or least < 1:
            raise MurmurationError(
                "trainer: iterations must not be negative; validate_every, num_validation and num_threads at least 1"
            )


class TrainingListener(Protocol):
    """Receives reports on the progress of training."""

    def phase(self, name: str, total: int) -> None:
        """Report that a new phase with `total` steps begins."""
        ...

    def step(self, done: int, figures: Mapping[str, float]) -> None:
        """Report that the phase has completed `done` steps."""
        ...

    def note(self, text: str) -> None:
        """Report a message of one line."""
        ...


def measure_baselines(
    baselines: Mapping[str, Callable[[], Scheduler]],
    setup: Setup,
    workloads: Sequence[Workload],
    listener: TrainingListener,
) -> dict[str, ValidationFigures]:
    """Return the figures of every baseline that can run in this scenario, by name, and report which cannot."""
    listener.phase("baselines", len(baselines))
    count = iter(range(1, len(baselines) + 1))

    def tell(name: str, refusal: str) -> None:
        listener.step(next(count), {})
        if refusal:
            listener.note(f"{name} is skipped: {refusal}")

    return validate_baselines(baselines, setup, workloads, tell)


@dataclass
class TrainingState:
    """Progress of a run, part of every saved state."""

    seed: int
    iteration: int = 0
    teacher: str = ""
    baselines: dict[str, ValidationFigures] = field(default_factory=dict)
    validation: dict[str, ValidationFigures] = field(default_factory=dict)  # of the policy, by iteration
    best_iteration: int = -1
    num_validation: int = 0  # distinct workloads over which all these figures are means

    @property
    def best(self) -> Outcome | None:
        """The policy's best validated outcome so far; None before the first."""
        return outcome_of(self.validation[str(self.best_iteration)]) if self.best_iteration >= 0 else None


class Trainer:
    """One training run in one folder.

    The folder receives `checkpoints/best` and `checkpoints/last` (weights and description), `checkpoints/states` (the
    last few iterations, to resume), `state.json` (progress, for readers) and `tensorboard/`.

    Args:
        training_setup: the setup of all episodes; validation uses its `setup`.
        blueprint: the network.
        settings: length and optimizer.
        baselines: makers of schedulers by name, as teachers and for comparison. They are arguments because `agents`
            does not import baselines.
        folder: folder of the run.
        seed: seed of all random draws. One seed gives one result, and a resumed run gives that of an uninterrupted
            one, to the bit, in this process and on Ray's workers.
        listener: receives reports on progress.
    """

    def __init__(
        self,
        training_setup: TrainingSetup,
        blueprint: Blueprint,
        settings: TrainingSettings,
        baselines: Mapping[str, Callable[[], Scheduler]],
        folder: Path,
        seed: int,
        listener: TrainingListener,
    ) -> None:
        if settings.teacher not in ("best", "none", *baselines):
            raise MurmurationError(
                f"trainer.teacher is {settings.teacher!r}; it must be best, none or one of {', '.join(baselines)}"
            )
        self.training_setup, self.blueprint, self.settings = training_setup, blueprint, settings
        self.baselines, self.folder, self.listener = baselines, folder, listener
        self._workloads = validation_workloads(training_setup.source, settings.num_validation)
        self.state = TrainingState(seed, num_validation=len(self._workloads))
        self.saved = SavedStates(folder / STATES)
        self.tensorboard = TensorBoardWriter(folder / "tensorboard", listener.note)

    def run(self) -> TrainingState:
        """Train to the end, or resume from the folder's newest undamaged state, which every iteration saves.

        Raises:
            NetworkError: the network breaks `PolicyNetwork`; nothing has been started.
            CheckpointError: the states of an earlier run are all damaged, or the disk is full; the run can be resumed
                from the states before.
            ImpossibleResultError: an audited episode contradicts its event log.
        """
        torch.set_num_threads(self.settings.num_threads)
        self._check_network()
        torch.manual_seed(self.state.seed)
        resumed = self._restore()
        algorithm = self._algorithm()
        try:
            if resumed:
                self._draw_levels()
                algorithm.restore(resumed)
                self.listener.note(f"resumed after iteration {self.state.iteration}")
            else:
                self._report_few_workloads()
                self._measure_baselines()
                algorithm.set_network(self._warm_start())
                self._validate(algorithm)
                self._save(algorithm)
            self._improve(algorithm)
        finally:
            self.tensorboard.close()
            algorithm.stop()
        return self.state

    def _check_network(self) -> None:
        """Check a network like the one to be trained; report optional protocols that it lacks, in one note."""
        network = self.blueprint.build(self.training_setup.spec)
        check_network(network, self.training_setup.spec)
        missing = missing_protocols(
            network,
            imitates=self.settings.teacher != "none" and self.settings.imitation.passes > 0,
            learns_values=self.settings.ppo.advantage != "group",
        )
        if missing:
            self.listener.note(f"network {self.blueprint.target} lacks {'; and '.join(missing)}")

    def _algorithm(self) -> Algorithm:
        ppo = self.settings.ppo
        alone = ppo.num_env_runners == 0 and ppo.num_learners == 0
        algorithm = LocalAlgorithm if alone else PPOAlgorithm
        return algorithm(self.training_setup, self.blueprint, ppo, self.state.seed)

    def _report_few_workloads(self) -> None:
        found, wanted = self.state.num_validation, self.settings.num_validation
        if found < wanted:
            self.listener.note(
                f"validation uses {found} distinct workload{'s' * (found > 1)}, not {wanted}: the validation split of "
                f"{self.training_setup.source.name} has no more episodes; a smaller workload.num_jobs gives more"
            )

    def _measure_baselines(self) -> None:
        setup = self.training_setup.setup
        self.state.baselines = measure_baselines(self.baselines, setup, self._workloads, self.listener)
        self._draw_levels()
        self.state.teacher = self.settings.teacher
        if not self.state.baselines and self.state.teacher == "none":
            return
        best = best_of(self.state.baselines)
        if self.state.teacher == "best":
            self.state.teacher = best
        figures, found = self.state.baselines[best], len(self._workloads)
        undone = f", {figures['num_starved']:.3g} jobs starved" if figures["num_starved"] else ""
        self.listener.note(
            f"best baseline on {found} validation workload{'s' * (found > 1)}: {best}, mean JCT "
            f"{figures['mean_jct']:,.0f} s{undone}; teacher: {self.state.teacher}"
        )

    @property
    def _gpu_types(self) -> tuple[str, ...]:
        return self.training_setup.setup.cluster.gpu_types

    def _draw_levels(self) -> None:
        """Draw the best baselines, the teacher, the planner and the lower bound as horizontal lines."""
        known = self.state.baselines
        for name in choose_levels(known, self.state.teacher, PLANNER):
            figures = _tagged("validation", known[name]) | {HEADLINE: known[name]["mean_jct"] / HOUR}
            self.tensorboard.draw_level(figures, self.settings.iterations, name)
        bound = mean_bound(self.training_setup.setup, self._workloads)
        self.tensorboard.draw_level({HEADLINE: bound / HOUR}, self.settings.iterations, BOUND_LINE)

    def _warm_start(self) -> torch.nn.Module:
        network = self.blueprint.build(self.training_setup.spec)
        imitation = self.settings.imitation
        if self.state.teacher == "none" or imitation.passes == 0:
            return network
        env = self.training_setup.vector_env(self.settings.ppo.num_envs, self.state.seed + 1)
        self.listener.phase("imitation", 1)

        def progress(_phase: str, done: int, total: int, figures: dict[str, float]) -> None:
            self.listener.step(done, {"total": total, **figures})
            self.tensorboard.write(_tagged("imitation", figures), done, IMITATION)

        imitate(network, env, self.baselines[self.state.teacher], imitation, self.state.seed, progress)
        return network

    def _improve(self, algorithm: Algorithm) -> None:
        settings = self.settings
        self.listener.phase("ppo", settings.iterations)
        while self.state.iteration < settings.iterations:
            began, cpu = time.perf_counter(), time.process_time()
            figures = algorithm.train()
            self.state.iteration += 1
            spent = time.perf_counter() - began
            figures["throughput/cpu_seconds"] = time.process_time() - cpu
            if "train/env_steps" in figures:
                figures["throughput/env_steps_per_second"] = figures["train/env_steps"] / spent
            self.tensorboard.write(figures, self.state.iteration)
            if self.state.iteration % settings.validate_every == 0 or self.state.iteration == settings.iterations:
                self._validate(algorithm)
            self._save(algorithm)
            self.listener.step(self.state.iteration, {**figures, **self._standing()})

    def _validate(self, algorithm: Algorithm) -> None:
        checkpoint = self._checkpoint(algorithm)
        setup, scheduler = self.training_setup.setup, checkpoint.scheduler()
        figures = validate_scheduler(scheduler, setup, self._workloads)
        sample = derive_seed(self.state.seed, Phase.AUDIT, self.state.iteration)
        audit_training_episode(scheduler, setup, self.training_setup.source, sample)
        if self.state.iteration == 0:
            self._compare_with_teacher(figures)
        best = self.state.best
        self.state.validation[str(self.state.iteration)] = figures
        curves = _tagged("validation", figures) | {HEADLINE: figures["mean_jct"] / HOUR}
        self.tensorboard.write(curves, self.state.iteration)
        self._picture(checkpoint)
        self.tensorboard.flush()
        if best is None or outcome_of(figures) < best:
            self.state.best_iteration = self.state.iteration
            with refusing_writes(self.folder):
                self._checkpoint(algorithm).save(self.folder / BEST)

    def _picture(self, checkpoint: Checkpoint) -> None:
        """Write pictures of the first validation workload, every `picture_every` iterations and at the end."""
        every, now = self.settings.picture_every, self.state.iteration
        if every == 0 or not (now % every == 0 or now == self.settings.iterations):
            return
        scheduler, setup = checkpoint.scheduler(), self.training_setup.setup
        self.tensorboard.show(
            picture_episode(scheduler, self._workloads[0], setup, workload_seed(VALIDATION_SEED, 0)), now
        )

    def _compare_with_teacher(self, student: ValidationFigures) -> None:
        """Report that imitation has not learnt its teacher: not every allocation follows from the observation."""
        teacher = self.state.baselines.get(self.state.teacher)
        if teacher and self.settings.imitation.passes and student["mean_jct"] > POOR * teacher["mean_jct"]:
            self.listener.note(
                f"imitation has not learnt {self.state.teacher}: the policy's mean JCT is "
                f"{student['mean_jct']:,.0f} s, the teacher's {teacher['mean_jct']:,.0f} s; try another "
                "trainer.teacher or more trainer.imitation.steps"
            )

    def _standing(self) -> ValidationFigures:
        """Return the policy's latest validated mean JCT, its unfinished jobs if any, and the best baseline's mean JCT.

        The baseline is included only if equally many jobs starve: otherwise the means are not comparable.
        """
        latest = self.state.validation[max(self.state.validation, key=int)]
        standing = {"validated": latest["mean_jct"]}
        if latest["num_unfinished"]:
            standing["unfinished"] = latest["num_unfinished"]
        if self.state.baselines:
            baseline = outcome_of(self.state.baselines[best_of(self.state.baselines)])
            if baseline.num_starved == outcome_of(latest).num_starved:
                standing["baseline"] = baseline.mean_jct
        return standing

    def _checkpoint(self, algorithm: Algorithm) -> Checkpoint:
        notes = {
            "seed": self.state.seed,
            "iteration": self.state.iteration,
            "teacher": self.state.teacher,
            "source": self.training_setup.source.name,
            "cluster": self.training_setup.setup.cluster.name,
            "validation": self.state.validation.get(str(self.state.iteration), {}),
            "num_validation": self.state.num_validation,
            "sampled": True,
        }
        spec, rules = self.training_setup.spec, self.training_setup.rules
        return Checkpoint(algorithm.network(), self.blueprint, spec, rules, self._gpu_types, notes)

    def _save(self, algorithm: Algorithm) -> None:
        """Save the resumable state."""
        text = json.dumps(asdict(self.state), indent=2) + "\n"

        def write(folder: Path) -> None:
            algorithm.save(folder)
            write_whole(folder / STATE, text)

        with refusing_writes(self.folder):
            self._checkpoint(algorithm).save(self.folder / "checkpoints" / "last")
            self.saved.save(self.state.iteration, write)
            write_whole(self.folder / STATE, text)

    def _restore(self) -> Path | None:
        """Read the progress of the newest undamaged state, and return its folder; None for a new run."""
        path = self.saved.intact(self.listener.note, self.folder / STATE)
        if path is None:
            return None
        self.state = read_state(path / STATE, TrainingState)
        if self.state.num_validation != len(self._workloads):
            raise CheckpointError(
                f"{path}: was validated on {self.state.num_validation} workloads, this run would use "
                f"{len(self._workloads)}; keep trainer.num_validation and the workload, or start a new run"
            )
        self.state.best_iteration = best_on_disk(self.state.best_iteration, self.folder / BEST, self.listener.note)
        self.tensorboard.continue_after(self.state.iteration)
        return path


def _tagged(group: str, figures: Mapping[str, float]) -> dict[str, float]:
    return {f"{group}/{name}": value for name, value in figures.items()}
