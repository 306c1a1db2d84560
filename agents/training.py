"""Training: imitate the best heuristic, then improve by PPO; validate, checkpoint, and go on where it was cut off."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from agents.checkpoint import Checkpoint
from agents.imitation import ImitationSettings, imitate
from agents.networks import Blueprint
from agents.rllib import PPOSettings, World
from agents.rllib.algorithm import LocalAlgorithm, PPOAlgorithm
from agents.tensorboard import Curves
from agents.validation import Figures, best_of, outcome_of, validate, validate_baselines, validation_workloads
from envs.evaluation.outcome import Outcome
from envs.scheduling import Scheduler
from envs.types import CheckpointError, MurmurationError

STATE, RLLIB = "state.json", "rllib"
POOR = 1.5  # times its teacher's mean JCT: that much worse a clone has not learnt it


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """What a training run consists of."""

    iterations: int = 30  # of PPO, after the imitation
    validate_every: int = 5  # iterations; checkpoints are written then
    num_validation: int = 8  # different workloads of the validation split, each as long as a training episode
    teacher: str = "best"  # name of a baseline, "best" on the validation workloads, or "none" to begin from scratch
    imitation: ImitationSettings = field(default_factory=ImitationSettings)
    ppo: PPOSettings = field(default_factory=PPOSettings)
    num_threads: int = 2  # of torch

    def __post_init__(self) -> None:
        least = min(self.validate_every, self.num_validation, self.num_threads)
        if self.iterations < 0 or least < 1:
            raise MurmurationError(
                "trainer: iterations must not be negative; validate_every, num_validation and num_threads at least 1"
            )


class Listener(Protocol):
    """Who is told how training goes."""

    def phase(self, name: str, total: int) -> None:
        """A new phase with so many steps begins."""
        ...

    def step(self, done: int, figures: Mapping[str, float]) -> None:
        """The phase has come so far."""
        ...

    def note(self, text: str) -> None:
        """Something worth a line."""
        ...


@dataclass
class TrainingState:
    """What a run has reached; kept in `state.json`, so that it can be resumed."""

    seed: int
    iteration: int = 0
    teacher: str = ""
    baselines: dict[str, Figures] = field(default_factory=dict)
    validation: dict[str, Figures] = field(default_factory=dict)  # of the policy, by iteration
    best_iteration: int = -1
    num_validation: int = 0  # different workloads that all these figures are means over

    @property
    def best(self) -> Outcome | None:
        """The policy's best validated outcome so far; None before the first."""
        return outcome_of(self.validation[str(self.best_iteration)]) if self.best_iteration >= 0 else None


class Trainer:
    """One training run in one folder.

    The folder receives `checkpoints/best` and `checkpoints/last` (weights and description), `checkpoints/rllib` (the
    optimizer's state, to resume), `state.json` and `tensorboard/`.

    Args:
        world: where episodes are played.
        blueprint: the network.
        settings: how long and how.
        baselines: makers of schedulers by name, to learn from and to be measured against; they come from outside, since
            agents do not know baselines.
        folder: of the run.
        seed: of everything random. One seed gives one result; a resumed run draws other episodes than an unbroken one.
        listener: is told how it goes.
    """

    def __init__(
        self,
        world: World,
        blueprint: Blueprint,
        settings: TrainingSettings,
        baselines: Mapping[str, Callable[[], Scheduler]],
        folder: Path,
        seed: int,
        listener: Listener,
    ) -> None:
        if settings.teacher not in ("best", "none", *baselines):
            raise MurmurationError(
                f"trainer.teacher is {settings.teacher!r}; it must be best, none or one of {', '.join(baselines)}"
            )
        self.world, self.blueprint, self.settings = world, blueprint, settings
        self.baselines, self.folder, self.listener = baselines, folder, listener
        self._workloads = validation_workloads(world.source, settings.num_validation)
        self.state = TrainingState(seed, num_validation=len(self._workloads))
        self.curves = Curves(folder / "tensorboard")

    def run(self) -> TrainingState:
        """Train to the end, or go on from what the folder holds. An interrupt leaves the run resumable."""
        torch.set_num_threads(self.settings.num_threads)
        torch.manual_seed(self.state.seed)
        resumed = self._restore()
        algorithm = self._algorithm()
        try:
            if resumed:
                algorithm.restore(self.folder / "checkpoints" / RLLIB)
                self.listener.note(f"resumed after iteration {self.state.iteration}")
            else:
                self._tell_of_few_workloads()
                self._measure_baselines()
                algorithm.set_network(self._warm_start())
                self._validate(algorithm)
            self._improve(algorithm)
        except KeyboardInterrupt:
            if self.state.validation:
                self._save(algorithm)
            raise
        finally:
            self.curves.close()
            algorithm.stop()
        return self.state

    def _algorithm(self) -> PPOAlgorithm | LocalAlgorithm:
        ppo = self.settings.ppo
        alone = ppo.num_env_runners == 0 and ppo.num_learners == 0
        kind = LocalAlgorithm if alone else PPOAlgorithm
        return kind(self.world, self.blueprint, ppo, self.state.seed, self.state.iteration)

    def _tell_of_few_workloads(self) -> None:
        found, wanted = self.state.num_validation, self.settings.num_validation
        if found < wanted:
            self.listener.note(
                f"validation rests on {found} different workload{'s' * (found > 1)}, not {wanted}: the validation "
                f"split of {self.world.source.name} has no more episodes; a smaller workload.num_jobs gives more"
            )

    def _measure_baselines(self) -> None:
        self.listener.phase("baselines", len(self.baselines))
        count = iter(range(1, len(self.baselines) + 1))

        def tell(name: str, refusal: str) -> None:
            self.listener.step(next(count), {})
            if refusal:
                self.listener.note(f"{name} is left out: {refusal}")

        self.state.baselines = validate_baselines(self.baselines, self.world, self._workloads, tell)
        for name, figures in self.state.baselines.items():
            for step in (0, self.settings.iterations):
                self.curves.write(_tagged("validation", figures), step, name)
        self.state.teacher = self.settings.teacher
        if not self.state.baselines and self.state.teacher == "none":
            return
        best = best_of(self.state.baselines)
        if self.state.teacher == "best":
            self.state.teacher = best
        figures, found = self.state.baselines[best], len(self._workloads)
        undone = f", {figures['num_abandoned']:.3g} jobs abandoned" if figures["num_abandoned"] else ""
        self.listener.note(
            f"best baseline on {found} validation workload{'s' * (found > 1)}: {best}, mean JCT "
            f"{figures['mean_jct']:,.0f} s{undone}; teacher: {self.state.teacher}"
        )

    def _warm_start(self) -> torch.nn.Module:
        network = self.blueprint.build(self.world.spec)
        imitation = self.settings.imitation
        if self.state.teacher == "none" or imitation.passes == 0:
            return network
        env = self.world.vector_env(self.settings.ppo.num_envs, self.state.seed + 1)
        self.listener.phase("imitation", 1)

        def progress(_phase: str, done: int, total: int, figures: dict[str, float]) -> None:
            self.listener.step(done, {"total": total, **figures})
            self.curves.write(_tagged("imitation", figures), done)

        imitate(network, env, self.baselines[self.state.teacher], imitation, self.state.seed, progress)
        return network

    def _improve(self, algorithm: PPOAlgorithm | LocalAlgorithm) -> None:
        settings = self.settings
        self.listener.phase("ppo", settings.iterations)
        while self.state.iteration < settings.iterations:
            began = time.perf_counter()
            figures = algorithm.train()
            self.state.iteration += 1
            spent = time.perf_counter() - began
            figures["throughput/env_steps_per_second"] = figures["train/env_steps"] / spent
            self.curves.write(figures, self.state.iteration)
            if self.state.iteration % settings.validate_every == 0 or self.state.iteration == settings.iterations:
                self._validate(algorithm)
            self.listener.step(self.state.iteration, {**figures, **self._standing()})

    def _validate(self, algorithm: PPOAlgorithm | LocalAlgorithm) -> None:
        checkpoint = self._checkpoint(algorithm)
        figures = validate(checkpoint.scheduler(), self.world, self._workloads)
        if self.state.iteration == 0:
            self._compare_with_teacher(figures)
        best = self.state.best
        self.state.validation[str(self.state.iteration)] = figures
        self.curves.write(_tagged("validation", figures), self.state.iteration)
        self.curves.flush()
        if best is None or outcome_of(figures) < best:
            self.state.best_iteration = self.state.iteration
            self._checkpoint(algorithm).save(self.folder / "checkpoints" / "best")
        self._save(algorithm)

    def _compare_with_teacher(self, clone: Figures) -> None:
        """Say so where imitation has not learnt its teacher: not every plan follows from what servers see."""
        teacher = self.state.baselines.get(self.state.teacher)
        if teacher and self.settings.imitation.passes and clone["mean_jct"] > POOR * teacher["mean_jct"]:
            self.listener.note(
                f"imitation has not learnt {self.state.teacher}: mean JCT {clone['mean_jct']:,.0f} s beside its "
                f"{teacher['mean_jct']:,.0f} s; try another trainer.teacher or more trainer.imitation.steps"
            )

    def _standing(self) -> Figures:
        """The policy's latest validated mean JCT and, if any, unfinished jobs; the best baseline's mean JCT.

        The latter only where as many jobs are abandoned: else the means do not compare.
        """
        latest = self.state.validation[max(self.state.validation, key=int)]
        standing = {"validated": latest["mean_jct"]}
        if latest["num_unfinished"]:
            standing["unfinished"] = latest["num_unfinished"]
        if self.state.baselines:
            baseline = outcome_of(self.state.baselines[best_of(self.state.baselines)])
            if baseline.num_abandoned == outcome_of(latest).num_abandoned:
                standing["baseline"] = baseline.mean_jct
        return standing

    def _checkpoint(self, algorithm: PPOAlgorithm | LocalAlgorithm) -> Checkpoint:
        notes = {
            "seed": self.state.seed,
            "iteration": self.state.iteration,
            "teacher": self.state.teacher,
            "source": self.world.source.name,
            "cluster": self.world.cluster.name,
            "validation": self.state.validation.get(str(self.state.iteration), {}),
            "num_validation": self.state.num_validation,
        }
        world = self.world
        return Checkpoint(algorithm.network(), self.blueprint, world.spec, world.rules, world.cluster.gpu_types, notes)

    def _save(self, algorithm: PPOAlgorithm | LocalAlgorithm) -> None:
        """The resumable state: RLlib's part first, so that `state.json` never promises more than there is."""
        self._checkpoint(algorithm).save(self.folder / "checkpoints" / "last")
        algorithm.save(self.folder / "checkpoints" / RLLIB)
        part = self.folder / f"{STATE}.part"
        part.write_text(json.dumps(asdict(self.state), indent=2) + "\n")
        part.replace(self.folder / STATE)

    def _restore(self) -> bool:
        path = self.folder / STATE
        if not path.exists():
            return False
        try:
            self.state = TrainingState(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:  # not text, not JSON, not these fields
            raise CheckpointError(f"{path} is not a training state ({error}); begin a new run") from error
        if self.state.num_validation != len(self._workloads):
            raise CheckpointError(
                f"{path}: was validated on {self.state.num_validation} workloads, this run would be on "
                f"{len(self._workloads)}; keep trainer.num_validation and the workload, or begin a new run"
            )
        return True


def _tagged(group: str, figures: Mapping[str, float]) -> dict[str, float]:
    return {f"{group}/{name}": value for name, value in figures.items()}
